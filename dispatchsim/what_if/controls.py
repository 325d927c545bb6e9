"""The parts of the page that are not charts, made of native elements (browser/*.js).

    Controls     sliders, selects, boxes      chosen ─► a query string and its number
    AnswerText   what the view says           wish   ─► what to download; file ─► it
    Charts       drawn by Bokeh, and their numbers as tables

A canvas and the sliders of widget libraries say nothing to readers of screens; these do. All that
is read of what a browser changes are the two values `chosen` and `wish`, by `page`, with suspicion.
What goes there is JSON, as texts: Panel and Bokeh would walk through every number of a mapping.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import param
from panel.custom import JSComponent

_FOLDER = Path(__file__).parent / "browser"
STYLE = (_FOLDER / "parts.css").read_text(encoding="utf-8")
PAGE = _FOLDER / "page.html"


def _script(name: str) -> str:
    """Return the script of a part: a part loads no other file, so what all share is put before."""
    return "".join((_FOLDER / each).read_text(encoding="utf-8") for each in ("elements.js", name))


class Part(JSComponent):
    """What all have in common: they are as wide as there is room."""

    __abstract = True

    def __init__(self, **values: Any) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            sizing_mode="stretch_width", stylesheets=[STYLE], margin=0, **values
        )


class Controls(Part):
    """What is chosen."""

    spec = param.String(default="{}")
    state = param.String(default="{}")
    live = param.Boolean(default=True, doc="Whether the address of the page follows.")
    chosen = param.Dict(default={})
    _esm = _script("controls.js")


class AnswerText(Part):
    """What the view says."""

    answer = param.String(default="{}")
    live = param.Boolean(default=True)
    wish = param.Dict(default={})
    file = param.Dict(default={})
    _esm = _script("answer.js")


class Charts(Part):
    """All charts: empty ones for Bokeh, what they show, and the same as tables.

    One part and not one for each: Panel takes as long for a part as for all that is in it.
    """

    panels = param.String(default="[]")
    contents = param.String(default="{}")
    heading = param.String(default="h2", doc="Of what level: a notebook has its own.")
    _esm = _script("charts.js")
