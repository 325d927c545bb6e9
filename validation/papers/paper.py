"""What is known of a paper: conditions that can be run, claims that can be checked, questions.

    Condition ─ scenario file x servers x axis ─► runs ─► figures ─► Claim.expects ─► holds or not
        └─ Unstated: a range for what the paper does not say

Words of a claim are read as one number each, below. Words that only one paper has ("small",
"slowly") are read where they stand. Numbers that a paper gives are held to: CPU and rates 10%,
counts 20%, profile shares 2 points.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .quantities import Comparison, Curve, Figures

Values = Mapping[str, Any]
"""Keys of a scenario with a dot, as in "load.rate", and what they are."""


class Choice(NamedTuple):
    """A key of a scenario that the paper leaves open, and what it may have been."""

    key: str
    options: tuple[str | int | bool, ...]
    why: str

    def value(self, drawn: float) -> str | int | bool:
        """Return the option at *drawn*, from -1 (the first) to 1 (the last)."""
        n = len(self.options)
        return self.options[min(n - 1, int((drawn + 1) / 2 * n))]


class Unstated(NamedTuple):
    """A key of a scenario that the paper leaves open, and the range in which it is drawn.

    Attributes
    ----------
    key:
        As in "load.timeout".
    low, high:
        The ends; drawn on a logarithmic scale.
    unit:
        Of both, as a scenario file writes it; empty for a count.
    why:
        Where the range comes from.
    """

    key: str
    low: float
    high: float
    unit: str
    why: str

    def value(self, drawn: float) -> str | int:
        """Return the value at *drawn*, from -1 (low) to 1 (high)."""
        found = self.low * (self.high / self.low) ** ((1 + drawn) / 2)
        return f"{found:.3g} {self.unit}" if self.unit else round(found)


class Condition(NamedTuple):
    """What was run: a scenario, the servers that took part, and the axis of the figure.

    Attributes
    ----------
    name:
        By which claims speak of it.
    scenario:
        An example scenario of that name, which anybody can run.
    servers:
        By the paper's name, what each sets of the scenario.
    axis:
        The key that varies; its values are numbers, with `unit` behind them.
    at:
        Values on the axis.
    unit:
        Of the axis, as a scenario file writes it; empty for a count.
    few_at:
        Those of a fast setting.
    also:
        What a point sets besides: from the value on the axis to keys of the scenario.
    free:
        By server, patterns of costs that are nothing to it: what it would be without.
    unstated:
        What the paper does not say.
    seconds, warm_up_s:
        Of a run.
    few_seconds:
        Of a run in a fast setting.
    """

    name: str
    scenario: str
    servers: Mapping[str, Values]
    axis: str
    at: tuple[float, ...]
    unit: str = ""
    few_at: tuple[float, ...] = ()
    also: Mapping[float, Values] = {}
    free: Mapping[str, tuple[str, ...]] = {}
    unstated: tuple[Unstated | Choice, ...] = ()
    seconds: float = 10.0
    warm_up_s: float = 2.0
    few_seconds: float = 5.0

    def curve(self, figure: str, server: str) -> Curve:
        """Return a figure of a server along the whole axis.

        Raises
        ------
        KeyError
            If no server of that name takes part.
        """
        self.servers[server]
        return Curve(figure, self.name, server, self.at)


class Claim(NamedTuple):
    """One result of a paper.

    Attributes
    ----------
    name:
        In the register, as in "CM01-10".
    kind:
        V: a measured result; M: a counter or profile from inside; S: a rule.
    condition:
        Under which it was found, in the paper's or the register's words.
    quantity:
        What is compared.
    says:
        The claim.
    expects:
        What must hold, all of it.
    band:
        How exactly, and where that comes from.
    source:
        Section, figure or table of the paper.
    """

    name: str
    kind: Literal["V", "M", "S"]
    condition: str
    quantity: str
    says: str
    expects: tuple[Comparison, ...]
    band: str
    source: str

    def holds(self, figures: Figures) -> bool:
        """Return whether all that it expects holds in the figures of one draw."""
        return all(comparison.holds(figures) for comparison in self.expects)


class Hypothesis(NamedTuple):
    """One answer to an open question, and what would be seen if it were true."""

    name: str
    says: str
    expects: tuple[Comparison, ...]


class Question(NamedTuple):
    """What papers leave open or disagree on, and the conditions that tell the answers apart."""

    name: str
    asks: str
    conditions: tuple[Condition, ...]
    hypotheses: tuple[Hypothesis, ...]


class Plot(NamedTuple):
    """A figure of the paper: what it had on its axes, and which curves.

    `scale` multiplies the values to the unit of `y_label`; a `logarithmic` axis is of y. One of the
    reply rate `over_time` has beside its mean the deviation, minimum and maximum of a run's
    intervals (`quantities.OVER_TIME`).
    """

    title: str
    condition: str
    figure: str
    x_label: str
    y_label: str
    scale: float = 1.0
    servers: Sequence[str] = ()
    logarithmic: bool = False
    over_time: bool = False


class Omitted(NamedTuple):
    """A claim of the register that is not checked, and why."""

    name: str
    why: str


class Paper(NamedTuple):
    """A paper, the machine that it was measured on, and all of the above.

    `revised` are claims that rest on a choice that was made after first results, `assumed` says on
    which. The register of claims was drawn up before any run; those `beyond` it count apart.
    """

    name: str
    title: str
    machine: str
    conditions: tuple[Condition, ...]
    claims: tuple[Claim, ...]
    questions: tuple[Question, ...] = ()
    plots: tuple[Plot, ...] = ()
    omitted: tuple[Omitted, ...] = ()
    assumed: tuple[str, ...] = ()
    revised: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    why_not: Mapping[str, str] = {}

    @property
    def unstated(self) -> tuple[Unstated | Choice, ...]:
        """What its conditions leave open, each key once."""
        found = {u.key: u for condition in self.all_conditions for u in condition.unstated}
        return tuple(found.values())

    @property
    def all_conditions(self) -> Sequence[Condition]:
        """Its conditions and those of its questions."""
        return (*self.conditions, *(c for q in self.questions for c in q.conditions))


def described(
    name: str,
    conditions: tuple[Condition, ...],
    claims: tuple[Claim, ...],
    questions: tuple[Question, ...] = (),
) -> Paper:
    """Return the paper *name*, with what papers.toml has of it beside claims and conditions."""
    said = _SAID[name]
    return Paper(
        name=name,
        title=said["title"],
        machine=said["machine"],
        conditions=conditions,
        claims=claims,
        questions=questions,
        plots=tuple(Plot(**plot) for plot in said["plots"]),
        omitted=tuple(Omitted(*each) for each in said.get("omitted", {}).items()),
        assumed=tuple(said["assumed"]),
        revised=tuple(said.get("revised", ())),
        beyond=tuple(said.get("beyond", ())),
        why_not=said.get("why_not", {}),
    )


_SAID = tomllib.loads(Path(__file__).with_name("papers.toml").read_text(encoding="utf-8"))

RATE = 0.10
"""CPU and rates; "similar", "comparable", "tracks", "independent of"."""
COUNT = 0.20
"""Counts of calls and events."""
POINTS = 0.02
"""Shares of a profile, and errors that are said to be none."""
SAME = 0.05
"""Of "identical", "very similar", "very close"."""
MUCH = 2 / 3
"""At most this share of the other is "much less", "dramatically lower"; at least its inverse "much
more"."""
LESS = 0.95
"""At most this share of the other is "less" or "affected"."""
ALL = 0.97
"""At least this share of a CPU is "100%", "saturated"."""
KEPT = 0.95
"""At least this share of what was asked for is answered where a server "keeps up"."""
LOST = 0.90
"""At most this share is answered where it "loses load", "drops", "breaks down"."""
DROP = 0.70
"""At most this share of its peak is left where a server "drops sharply"; at least as much, where it
"declines slowly"."""
LINEAR = 0.98
"""At least this R squared is "linear"."""


TIMEOUT = Unstated("load.timeout", 1, 10, "s", "httperf's, as others of that time set it")


def arrivals(otherwise: str) -> Choice:
    """Return how requests are spaced; *otherwise* says why it may not be evenly."""
    why = f"one httperf spaces its requests evenly; {otherwise}"
    return Choice("load.arrivals", ("constant", "poisson"), why)
