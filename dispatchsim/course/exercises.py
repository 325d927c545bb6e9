"""The exercises: a prediction beside the run, and a folded answer.

    predict(question, value) ──► experiment ──► prediction.beside(measured)
      what I expect               what happens     both, and the factor between them

A student who has committed to a number is surprised by another one, and remembers the reason.
Notebooks hold None in place of the number: they run, but show no measured value beside it.
Nothing here judges: a wrong prediction shows which idea of the machine needs to be replaced.

Source: Crouch, Fagen, Callan and Mazur 2004, "Classroom demonstrations: Learning tools or
entertainment?", American Journal of Physics 72(6) (students who predicted learned more).

An answer stays folded until the student opens it:

    answer(text, numbers ...) ──► <details>  ► Answer        one click, by mouse or by keyboard

Numbers in a text are filled in from runs, so an answer cannot contradict the student's simulator.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Protocol

from ..scenario.errors import UserError
from ..scenario.formats import number_text

_NEAR = 1.25
"""The factor within which a guess from first principles counts as close."""
_FIRST = "Write your prediction first: replace None by a number."


@dataclass(frozen=True)
class Beside:
    """A prediction and the measured value, in the same unit.

    Without a prediction the measured value is not shown.
    """

    question: str
    predicted: float | None
    measured: float
    unit: str
    source: str = "the run"

    @property
    def factor(self) -> float:
        """The larger of the two over the smaller; infinite if only one is 0; NaN if unpredicted."""
        if self.predicted is None:
            return math.nan
        low, high = sorted((abs(self.predicted), abs(self.measured)))
        if low == high:
            return 1.0
        opposite = self.predicted * self.measured < 0
        return math.inf if low == 0 or opposite else high / low

    @property
    def remark(self) -> str:
        """A remark on the difference."""
        if self.predicted is None:
            return _FIRST
        if math.isnan(self.measured):
            return "The run has no such value, as it has no reply."
        if self.factor <= _NEAR:
            return "Close. Can you explain why, in one sentence, before you read on?"
        given = f"{self.source[0].upper()}{self.source[1:]} gives"
        way = "more" if self.measured > self.predicted else "less"
        if math.isinf(self.factor):
            return f"{given} {way}. What did you leave out?"
        return f"{given} {way}, by a factor of {number(self.factor)}. What did you leave out?"

    def _repr_html_(self) -> str:
        if self.predicted is None:
            return _paragraph(self.question, self.remark)
        both = [("your prediction", self.predicted), (self.source, self.measured)]
        rows = [(name, number(value, self.unit)) for name, value in both]
        cells = "".join(
            f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>"
            for name, text in rows
        )
        caption = f"<caption style='white-space: nowrap'>{html.escape(self.question)}</caption>"
        return f"<table>{caption}{cells}</table><p>{self.remark}</p>"

    def __repr__(self) -> str:
        """Return both in one line."""
        if self.predicted is None:
            return self.remark
        predicted, measured = (number(v, self.unit) for v in (self.predicted, self.measured))
        both = f"predicted {predicted}, {self.source} {measured}"
        return f"{both}: {self.remark}"


@dataclass(frozen=True)
class Prediction:
    """The student's answer before the experiment; None until it is written."""

    question: str
    value: float | None
    unit: str

    def beside(self, measured: float, *, source: str = "the run") -> Beside:
        """Return the prediction beside the value *measured* by *source*, in its unit."""
        return Beside(self.question, self.value, float(measured), self.unit, source)

    def _repr_html_(self) -> str:
        said = _FIRST if self.value is None else number(self.value, self.unit)
        return _paragraph(self.question, said)


def _paragraph(question: str, said: str) -> str:
    return f"<p>{html.escape(question)}<br><strong>{html.escape(said)}</strong></p>"


def predict(question: str, value: float | None, *, unit: str = "") -> Prediction:
    """Record a prediction.

    Parameters
    ----------
    question:
        The quantity to predict.
    value:
        The answer, a number; notebooks hold None for the student to replace.
    unit:
        Unit of the answer.

    Raises
    ------
    UserError
        If the answer is neither None nor a finite number.

    >>> predict("how many times longer?", 2.0, unit="times").beside(40.0).factor
    20.0
    """
    if value is None:
        return Prediction(question, None, unit)
    # A notebook may pass anything.
    is_bool = isinstance(value, bool)
    if is_bool or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"value: must be a finite number, got {value!r}")
    return Prediction(question, float(value), unit)


def number(value: float, unit: str = "") -> str:
    """Return *value* as everywhere (scenario/formats.py), with its unit.

    >>> number(12345.6, "µs"), number(0.01234), number(41.2, "%")
    ('12,300 µs', '0.0123', '41.2%')
    """
    return f"{number_text(value, trim=True)}{'' if unit in ('', '%') else ' '}{unit}"


class Shown(Protocol):
    """A value that a notebook can show."""

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True)
class HiddenAnswer:
    """Text with numbers from runs, and perhaps the runs."""

    text: str
    shows: Shown | None = None

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in self.text.split("\n\n"))
        shown = "" if self.shows is None else self.shows._repr_html_()
        return f"<details><summary>Answer</summary>{paragraphs}{shown}</details>"

    def __repr__(self) -> str:
        """Return where to find the answer, but not the answer."""
        return "<a folded answer: show it in a notebook, or read its .text>"


def answer(text: str, /, *, shows: Shown | None = None, **figures: float) -> HiddenAnswer:
    """Return a hidden answer; `{name}` in *text* becomes the number of that name.

    Parameters
    ----------
    text:
        Paragraphs, with an empty line between two of them.
    shows:
        An experiment or a picture below the text.
    figures:
        Numbers, each shown with three digits.

    >>> answer("{times} times.", times=41.23).text
    '41.2 times.'
    """
    return HiddenAnswer(
        text.format(**{name: number(float(value)) for name, value in figures.items()}), shows
    )
