"""A picture that a notebook shows as it is: SVG, with a sentence for who cannot see it.

    Figure ──► Picture ──► <figure role="img" aria-label="..."> <svg>

Colours, markers and dashes are those of all pictures of the project (validation/drawing/looks.py).
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from matplotlib.figure import Figure

from ..validation.drawing.figures import to_svg
from ..validation.drawing.looks import Look, look_of, nth_look

# On a narrow page a picture is moved sideways rather than made too small to read.
_STYLE = "margin: 0; overflow-x: auto"
_SVG_STYLE = "max-width: 100%; min-width: 30em; height: auto"
_N_LOOKS = 35  # that differ
_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.S)


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, and what it shows in a sentence."""

    figure: Figure
    says: str

    def _repr_html_(self) -> str:
        svg = _PROLOGUE.sub("", to_svg(self.figure, self.says))
        svg = svg.replace("<svg ", f'<svg style="{_SVG_STYLE}" ', 1)
        label = html.escape(self.says, quote=True)
        return f'<figure role="img" aria-label="{label}" style="{_STYLE}">{svg}</figure>'

    def __repr__(self) -> str:
        """Return the sentence."""
        return f"<Picture: {self.says}>"


def looks_of(names: list[str]) -> dict[str, Look]:
    """Return how each series looks: mechanisms as everywhere, others by number, as none of them."""
    known = {name: look_of(name) for name in names if look_of(name) != look_of("")}
    taken = {look.colour for look in known.values()}
    left = [look for look in map(nth_look, range(_N_LOOKS)) if look not in known.values()]
    others = iter(sorted(left, key=lambda look: look.colour in taken))  # keeps their order
    return {name: known[name] if name in known else next(others) for name in names}
