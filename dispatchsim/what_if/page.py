"""The page: controls at the left, what is known at the right, kept up to date while one looks.

    browser ─ chosen ─► choose ─► Session ─► simulations
    browser ◄─ state, numbers ─ draw ◄─ told, at most every DRAW_S

The first answer is drawn at once, finer ones now and then: a drawing takes some milliseconds of
the one thread that serves all viewers.

Its parts are made of native elements (browser/*.js):

    Controls     sliders, selects, boxes      chosen ─► a query string and its number
    AnswerText   what the view says           wish   ─► what to download; file ─► it
    Charts       drawn by Bokeh, and their numbers as tables

A canvas and the sliders of widget libraries say nothing to readers of screens; these do. All that
is read of what a browser changes are the two values `chosen` and `wish`, by `page`, with suspicion.
What goes there is JSON, as texts: Panel and Bokeh would walk through every number of a mapping.
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


QUESTION = "How many connections, at what rate, before clients wait too long?"
ABOUT = (
    "One server, one processor. Move a slider: the server is simulated down to each system call, "
    "at the costs of the machine that is chosen."
)
FOOT = (
    "Every mechanism meets the same clients. A server keeps up where it does not fall behind and "
    "less than 1% of the clients fail. Whiskers are 95% intervals over runs that differ in "
    "when clients come; they shrink while you look. What the costs themselves leave open is not "
    "in them: dispatchsim run says it."
)
DRAW_S = 0.5
DRAW_OF_EACH_S = 0.15
"""Between two drawings of a finer answer: the more so the more viewers there are."""
SILENT_S = 0.3
"""After a choice: who has an answer sooner need not be told that it is being looked for."""
CHOOSE_S = 0.06
"""Between two choices of one viewer that are looked at; of those between, the last one counts."""


class _Whole(pn.Template):
    """The page around the parts."""

    def __repr__(self) -> str:
        """Return a name: Panel asks with each part that is added, and would write out all."""
        return "<page>"


class Page:
    """What one viewer sees.

    Parameters
    ----------
    simulations:
        Shared with all others.
    view, notices:
        What to begin with, and what could not be read of the address.
    on_loop:
        Has a function called where the page may be changed, from any thread.
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
        """Cost nothing any more."""
        self._gone = True
        self.session.leave()

    def draw(self) -> None:
        """Show all that is known."""
        self._is_due = False
        self._forget_later()
        if self._gone:
            return
        self.session.collect()
        answer = self.session.answer
        self._drawn_s = time.monotonic()
        self._drawn = (self.session.turn, answer.is_first_known)
        with hold(self._document):  # one message for all
            self.answer.answer = json.dumps(self.session.answer_state())
            if answer.is_first_known:
                contents = {each.key: each.content(answer) for each in PANELS}
                self.charts.contents = json.dumps(contents)

    def _told(self) -> None:
        """Have what was found looked at, soon; this is called from any thread."""
        if not self._gone:
            self._loop.call_soon_threadsafe(self._consider)

    def _consider(self) -> None:
        """Draw now what somebody waits for, and later what is only finer."""
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
        """Take what the browser has chosen; too many at a time, and only the last counts."""
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
        """Send what the browser wants to download: one thing at a time."""
        what = event.new.get("what") if isinstance(event.new, dict) else None
        maker = _FILES.get(what) if isinstance(what, str) else None
        if maker is None or self._is_wishing:
            return
        number = event.new.get("n")
        self.session.collect()
        if not self.session.answer.chosen:
            self.answer.file = {"n": number, "error": "There is nothing to take along yet."}
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
    """Return the page as Panel's templates have it: of a text it would make one a viewer."""
    return pn.Template(PAGE.read_text(encoding="utf-8")).template


@functools.cache
def _spec() -> str:
    return json.dumps(controls_spec())


@functools.cache
def charts_spec() -> str:
    """Return the charts before they show anything, for the browser."""
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
