"""The answer to an exercise, folded away until the student opens it.

    answer(text, figures ...) ──► <details>  ► Answer        one click, by mouse or by keyboard

Numbers in a text are not written but filled in from runs: an answer cannot contradict the
simulator that the student has at hand.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Protocol

from .prediction import number


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
