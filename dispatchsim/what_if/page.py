"""The page: controls at the left, the answer at the right, updated while it is open.

    browser ─ chosen ─► choose ─► Session ─► simulations
    browser ◄─ state, numbers ─ draw ◄─ notified, at most every DRAW_S

The first answer is drawn at once, finer ones at intervals: a drawing takes some milliseconds of the
one thread that serves all viewers.

Its parts are made of native elements (browser/*.js):

    Controls     sliders, selects, boxes      chosen ─► a query string and its number
    AnswerText   the answer in words          wish   ─► what to download; file ─► it
    Charts       drawn by Bokeh, and their numbers as tables

Screen readers can read native elements, but not a canvas or the sliders of widget libraries. From
the browser only the two values `chosen` and `wish` are read, and both are checked. Data go to the
browser as JSON texts: Panel and Bokeh would walk through every number of a mapping.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import panel as pn
import param
from panel.custom import JSComponent
from panel.io import hold

from .charts import PANELS
from .downloads import data_csv, figure_png, scenario_toml
from .session import QUERY_MAX, Session, controls_spec
from .simulating import Simulations
from .view import View

_FOLDER = Path(__file__).parent / "browser"
STYLE = (_FOLDER / "parts.css").read_text(encoding="utf-8")
PAGE = _FOLDER / "page.html"


def _script(name: str) -> str:
    """Return the script of a part. A part loads no other file, so the shared one is prepended."""
    return "".join((_FOLDER / each).read_text(encoding="utf-8") for each in ("elements.js", name))


class Part(JSComponent):
    """A part of the page, as wide as its place."""

    __abstract = True

    def __init__(self, **values: Any) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            sizing_mode="stretch_width", stylesheets=[STYLE], margin=0, **values
        )


class Controls(Part):
    """The settings."""

    spec = param.String(default="{}")
    state = param.String(default="{}")
    live = param.Boolean(default=True, doc="Whether the address of the page is updated.")
    chosen = param.Dict(default={})
    _esm = _script("controls.js")


class AnswerText(Part):
    """The answer in words."""

    answer = param.String(default="{}")
    live = param.Boolean(default=True)
    wish = param.Dict(default={})
    file = param.Dict(default={})
    _esm = _script("answer.js")


class Charts(Part):
    """All charts: empty ones for Bokeh, their data, and the same as tables.

    They are one part, as the time Panel takes for a part does not depend on its content.
    """

    panels = param.String(default="[]")
    contents = param.String(default="{}")
    heading = param.String(default="h2", doc="Level of headings: a notebook has its own headings.")
    _esm = _script("charts.js")


QUESTION = "How many connections, at what rate, before clients wait too long?"
ABOUT = (
    "One server, one processor. Move a slider: the server is simulated down to each system call, "
    "with the costs of the chosen machine."
)
FOOT = (
    "All mechanisms serve the same clients. A server keeps up if it does not fall behind and less "
    "than 1% of the clients fail. Whiskers are 95% intervals over runs with different arrival "
    "times; they shrink as more runs finish. They exclude the uncertainty of the costs, which "
    "dispatchsim run reports."
)
DRAW_S = 0.5
DRAW_OF_EACH_S = 0.15
"""Pause between drawings of a finer answer; it grows with the number of viewers."""
SILENT_S = 0.3
"""After a choice: a view with an answer by then does not show "Simulating."."""
CHOOSE_S = 0.06
"""Least time between two choices of one viewer; of those between, the last one counts."""


class _Whole(pn.Template):
    """The page around the parts."""

    def __repr__(self) -> str:
        """Return a name: Panel prints the page with each added part, by default in full."""
        return "<page>"


class Page:
    """The page of one viewer.

    Parameters
    ----------
    simulations:
        Shared with all others.
    view, notices:
        The first view, and the errors in the address.
    on_loop:
        Schedules, from any thread, a function where the page may be changed.
    live:
        Whether the page has an address of its own.
    """

    def __init__(
        self,
        simulations: Simulations,
        view: View,
        notices: list[str],
        on_loop: Callable[[Callable[[], None]], None],
        *,
        live: bool = True,
    ) -> None:
        self._on_loop = on_loop
        self._simulations = simulations
        self._document = pn.state.curdoc if live else None
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self._later: asyncio.TimerHandle | None = None
        self._drawn_s = 0.0
        self._chosen_s = 0.0
        self._drawn: tuple[int, bool] | None = None
        self._latest: dict[str, Any] = {}
        self._is_wishing = False
        self._gone = False
        self.session = Session(simulations, self._told, view, notices)
        self.controls = Controls(
            spec=_spec(), state=json.dumps(self.session.controls_state()), live=live
        )
        self.answer = AnswerText(answer=json.dumps(self.session.answer_state()), live=live)
        self.charts = Charts(panels=charts_spec(), heading="h2" if live else "h3")
        self.controls.param.watch(self._choose, "chosen")
        self.answer.param.watch(self._wish, "wish")
        self.draw()

    def template(self) -> Any:
        """Return the page for a server: landmarks and headings are plain HTML."""
        page = _Whole(_html())
        page.add_variable("question", QUESTION)
        page.add_variable("about", ABOUT)
        page.add_variable("foot", FOOT)
        page.add_panel("controls", self.controls)
        page.add_panel("answer", self.answer)
        page.add_panel("charts", self.charts)
        return page

    def leave(self) -> None:
        """Stop all work for this page."""
        self._gone = True
        self.session.leave()

    def draw(self) -> None:
        """Show the answer so far."""
        self._is_due = False
        self._forget_later()
        if self._gone:
            return
        self.session.collect()
        answer = self.session.answer
        self._drawn_s = time.monotonic()
        self._drawn = (self.session.turn, answer.is_first_known)
        with hold(self._document):  # one message for all changes
            self.answer.answer = json.dumps(self.session.answer_state())
            if answer.is_first_known:
                contents = {each.key: each.content(answer) for each in PANELS}
                self.charts.contents = json.dumps(contents)

    def _told(self) -> None:
        """Schedule `_consider`, from any thread."""
        if not self._gone:
            self._loop.call_soon_threadsafe(self._consider)

    def _consider(self) -> None:
        """Draw a first answer now, and a finer one later."""
        if self._gone or self._is_due:
            return
        self.session.collect()
        answer, now_s = self.session.answer, time.monotonic()
        if not answer.is_first_known:
            due_s = max(self._drawn_s + self._pause_s, self._chosen_s + SILENT_S)
        elif self._drawn != (self.session.turn, True):
            due_s = now_s
        else:
            due_s = self._drawn_s + self._pause_s
        if due_s <= now_s:
            self._is_due = True
            self._on_loop(self.draw)
        elif self._later is None or due_s < self._later.when() - self._loop.time() + now_s:
            self._forget_later()
            self._later = self._loop.call_later(due_s - now_s, self._reconsider)

    def _reconsider(self) -> None:
        self._later = None
        self._consider()

    def _forget_later(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None

    @property
    def _pause_s(self) -> float:
        return max(DRAW_S, DRAW_OF_EACH_S * self._simulations.n_viewers)

    def _choose(self, event: Any) -> None:
        """Take the browser's choice; of several in a short time only the last counts."""
        self._latest = event.new if isinstance(event.new, dict) else {}
        wait_s = self._chosen_s + CHOOSE_S - time.monotonic()
        if wait_s <= 0:
            self._choose_latest()
        else:
            self._chosen_s += CHOOSE_S
            self._loop.call_later(wait_s, self._on_loop, self._choose_latest)

    def _choose_latest(self) -> None:
        if self._gone or not self._latest:
            return
        latest, self._latest = self._latest, {}
        self._chosen_s = time.monotonic()
        query, turn = latest.get("query"), latest.get("turn")
        if not isinstance(query, str) or not isinstance(turn, int):
            return
        self.session.choose(query[: QUERY_MAX + 1], turn)
        self.controls.state = json.dumps(self.session.controls_state())
        self._forget_later()
        self._consider()

    async def _wish(self, event: Any) -> None:
        """Send the download that the browser asks for, one at a time."""
        what = event.new.get("what") if isinstance(event.new, dict) else None
        maker = _FILES.get(what) if isinstance(what, str) else None
        if maker is None or self._is_wishing:
            return
        number = event.new.get("n")
        self.session.collect()
        if not self.session.answer.chosen:
            self.answer.file = {"n": number, "error": "There is nothing to download yet."}
            return
        self._is_wishing = True
        try:
            name, kind, make = maker
            content = await asyncio.to_thread(make, self.session.answer)
            self.answer.file = {
                "n": number,
                "name": name,
                "kind": kind,
                "content": base64.b64encode(content).decode(),
            }
        finally:
            self._is_wishing = False


@functools.cache
def _html() -> Any:
    """Return the page as a template made once: from a text Panel makes one for each viewer."""
    return pn.Template(PAGE.read_text(encoding="utf-8")).template


@functools.cache
def _spec() -> str:
    return json.dumps(controls_spec())


@functools.cache
def charts_spec() -> str:
    """Return the empty charts for the browser."""
    names = ("key", "title", "about", "item")
    return json.dumps([{name: getattr(each, name) for name in names} for each in PANELS])


_FILES: dict[str, tuple[str, str, Callable[[Any], bytes]]] = {
    "scenario": (
        "dispatchsim.toml",
        "application/toml",
        lambda answer: scenario_toml(answer).encode(),
    ),
    "data": ("dispatchsim.csv", "text/csv", lambda answer: data_csv(answer).encode()),
    "figure": ("dispatchsim.png", "image/png", figure_png),
}
