"""The page of one viewer without its widgets: a view, the answer, and the words for both.

    query ─► choose ─► View ─► ask ─► simulations
                                 collect ◄── found
    controls_state, answer_state: plain values for the browser

It does not use Panel, so it can be tested without a browser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs

from ..models.catalogue import CATALOGUE
from ..scenario.formats import listed
from ..validation.drawing.looks import look_of
from . import series
from .answers import Answer
from .charts import bokeh_dash
from .choices import MECHANISMS_MAX, SELECTS, SLIDERS, machines, prices_in, profiles
from .simulating import Simulations
from .view import View, cautions, hindrances

QUERY_MAX = 2_000
"""Most characters of an address: all settings together take some three hundred."""


def read_query(query: str) -> tuple[View, list[str]]:
    """Return the view of a query string, and the errors in it."""
    if len(query) > QUERY_MAX:
        view, _ = View.read({})
        return view, [
            f"the address: must have at most {QUERY_MAX:,} characters of settings, "
            f"got {len(query):,}; all are ignored"
        ]
    try:
        said_keys = parse_qs(query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        view, _ = View.read({})
        return view, ["the address: must have at most 100 settings, got more; all are ignored"]
    return View.read(said_keys)


class Session:
    """One viewer.

    Parameters
    ----------
    simulations:
        Shared with all others.
    told:
        Called, from any thread, when there is something to `collect`.
    view, notices:
        The first view, and the errors in the address.
    """

    def __init__(
        self,
        simulations: Simulations,
        told: Callable[[], None],
        view: View,
        notices: Sequence[str] = (),
    ) -> None:
        self._simulations = simulations
        self._viewer = simulations.join(told)
        self.turn = 0
        self.view, self.notices = view, list(notices)
        self.hindrances: dict[str, str] = {}
        self._cautions: list[str] = []
        self.answer = Answer(view, ())
        self.show(view, notices)

    def choose(self, query: str, turn: int = 0) -> None:
        """Show the view of *query*; *turn* is the browser's number of the choice."""
        view, notices = read_query(query)
        self.turn = turn
        self.show(view, notices)

    def show(self, view: View, notices: Sequence[str] = ()) -> None:
        """Show *view* and ask its questions."""
        self.view, self.notices = view, list(notices)
        self.hindrances, self._cautions = hindrances(view), cautions(view)
        names = [name for name in view.mechanisms if name not in self.hindrances]
        self.answer = Answer(view, names)
        self._viewer.ask(self.answer.asked)

    def collect(self) -> bool:
        """Add new replies to the answer; return whether there were any."""
        n_before = self.answer.n_known
        for question, reply in self._viewer.take():
            self.answer.add(question, reply)
        return self.answer.n_known > n_before

    def leave(self) -> None:
        """Stop all work for this viewer."""
        self._viewer.leave()

    def controls_state(self) -> dict[str, Any]:
        """Return the state of the controls, and the notes beside mechanisms."""
        kinds = prices_in(self.view.profile)
        profile = profiles()[self.view.profile]
        lent = {
            name: "some borrowed costs" if profile.table(name) else "borrowed costs"
            for name, kind in kinds.items()
            if kind == "lent"
        }
        return {
            "turn": self.turn,
            "values": self.view.texts(),
            "notes": {**lent, **self.hindrances},
            "priced": [name for name, kind in kinds.items() if kind != "none"],
            "measured": [name for name, kind in kinds.items() if kind == "measured"],
        }

    def answer_state(self) -> dict[str, Any]:
        """Return the texts about the view, shown as plain text."""
        answer = self.answer
        n_all = len(answer.asked)
        run = answer.run
        done = answer.n_known / n_all if n_all else 1.0
        compiling = self._simulations.is_compiling(answer.mechanisms)
        left_out = [f"{name} is not simulated: {why}." for name, why in self.hindrances.items()]
        if compiling:
            left_out.append(
                f"The fast engine for {listed(compiling)} is being compiled (once, about "
                "2 seconds each); answers are coarse until then."
            )
        runs = "1 run" if run.replications == 1 else f"{run.replications} runs"
        progress = f"{runs} of {run.duration_ms / 1000:g} s at each load"
        return {
            "turn": self.turn,
            "sentence": series.said(answer),
            "notices": [f"{notice}." for notice in self.notices],
            "cautions": [*left_out, *self._cautions],
            "legend": [{"name": name, "look": look(name)} for name in answer.mechanisms],
            "share": done,
            "is_first_known": answer.is_first_known,
            "progress": ("All runs done: " if answer.is_finished else "Refining: ") + progress,
        }


def look(mechanism: str) -> dict[str, Any]:
    """Return the style of *mechanism*, for the browser."""
    return {"colour": look_of(mechanism).colour, "dashes": bokeh_dash(mechanism)}


def controls_spec() -> dict[str, Any]:
    """Return the settings to choose from, for the browser."""
    return {
        "most": MECHANISMS_MAX,
        "sliders": [each._asdict() for each in SLIDERS],
        "selects": [
            {
                "key": each.key,
                "label": each.label,
                "about": each.about,
                "options": [{"name": n, "label": o.label} for n, o in each.options.items()],
            }
            for each in (machines(), *SELECTS)
        ],
        "mechanisms": [
            {"name": name, "about": entry.about, "look": look(name)}
            for name, entry in CATALOGUE.items()
        ],
    }
