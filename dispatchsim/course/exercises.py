"""The exercises: a prediction with the run beside it, and the answer, folded away.

    predict(question, value) ──► experiment ──► prediction.beside(measured)
      what I think                what is        both, and the factor between them

Whoever has committed to a number is surprised by another one, and remembers why. Nothing here
judges: a prediction that is far off shows which idea of the machine is to be replaced.

Source: Crouch, Fagen, Callan and Mazur 2004, "Classroom demonstrations: Learning tools or
entertainment?", American Journal of Physics 72(6) (students who predicted learned more).

An answer stays folded until the student opens it:

    answer(text, figures ...) ──► <details>  ► Answer        one click, by mouse or by keyboard

Numbers in a text are not written but filled in from runs: an answer cannot contradict the
simulator that the student has at hand.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Protocol

from ..scenario.errors import UserError
from ..scenario.formats import number_text

_NEAR = 1.25
"""A factor within which a guess from first principles is as good as it can be."""


@dataclass(frozen=True)
class Beside:
    """A prediction and what was measured, in the same unit."""

    question: str
    predicted: float
    measured: float
    unit: str
    source: str = "the run"

    @property
    def factor(self) -> float:
        """How many times the larger of the two is the smaller; infinite where only one is 0."""
        low, high = sorted((abs(self.predicted), abs(self.measured)))
        if low == high:
            return 1.0
        opposite = self.predicted * self.measured < 0
        return math.inf if low == 0 or opposite else high / low

    @property
    def remark(self) -> str:
        """What to do with the difference."""
        if math.isnan(self.measured):
            return "The run has no such figure: nobody was answered."
        if self.factor <= _NEAR:
            return "Close. Can you say why, in one sentence, before you read on?"
        said = f"{self.source[0].upper()}{self.source[1:]} says"
        way = "more" if self.measured > self.predicted else "less"
        if math.isinf(self.factor):
            return f"{said} {way}. What did you leave out?"
        return f"{said} {way}, by a factor of {number(self.factor)}. What did you leave out?"

    def _repr_html_(self) -> str:
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
        predicted, measured = (number(v, self.unit) for v in (self.predicted, self.measured))
        both = f"predicted {predicted}, {self.source} {measured}"
        return f"{both}: {self.remark}"


@dataclass(frozen=True)
class Prediction:
    """An answer that was given before the experiment."""

    question: str
    value: float
    unit: str

    def beside(self, measured: float, *, source: str = "the run") -> Beside:
        """Return the prediction beside what was *measured*, in its unit, and who says so."""
        return Beside(self.question, self.value, float(measured), self.unit, source)

    def _repr_html_(self) -> str:
        said = html.escape(number(self.value, self.unit))
        return f"<p>{html.escape(self.question)}<br><strong>{said}</strong></p>"


def predict(question: str, value: float, *, unit: str = "") -> Prediction:
    """Write a prediction down.

    Parameters
    ----------
    question:
        What is to be predicted.
    value:
        The answer, a number: in a notebook there is one to be replaced.
    unit:
        Of the answer.

    Raises
    ------
    UserError
        If the answer is no finite number.

    >>> predict("how many times longer?", 2.0, unit="times").beside(40.0).factor
    20.0
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"value: must be a finite number, got {value!r}")
    return Prediction(question, float(value), unit)


def number(value: float, unit: str = "") -> str:
    """Return *value* as everywhere (scenario/formats.py), with its unit.

    >>> number(12345.6, "µs"), number(0.01234), number(41.2, "%")
    ('12,300 µs', '0.0123', '41.2%')
    """
    return f"{number_text(value, trim=True)}{'' if unit in ('', '%') else ' '}{unit}"


class Shown(Protocol):
    """What a notebook can show."""

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True)
class HiddenAnswer:
    """Text with the figures of runs in it, and perhaps the runs."""

    text: str
    shows: Shown | None = None

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{html.escape(part)}</p>" for part in self.text.split("\n\n"))
        shown = "" if self.shows is None else self.shows._repr_html_()
        return f"<details><summary>Answer</summary>{paragraphs}{shown}</details>"

    def __repr__(self) -> str:
        """Return where to look: whoever prints it has not asked for the answer yet."""
        return "<the answer is folded away: show it in a notebook, or read its .text>"


def answer(text: str, /, *, shows: Shown | None = None, **figures: float) -> HiddenAnswer:
    """Return a hidden answer; `{name}` in *text* becomes the figure of that name.

    Parameters
    ----------
    text:
        Paragraphs, with an empty line between two of them.
    shows:
        What stands below the text: an experiment, or a picture.
    figures:
        Numbers, each shown with three digits.

    >>> answer("{times} times.", times=41.23).text
    '41.2 times.'
    """
    return HiddenAnswer(
        text.format(**{name: number(float(value)) for name, value in figures.items()}), shows
    )
