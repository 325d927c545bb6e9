"""The data of a paper: conditions to run, claims to check, open questions.

    Condition ─ scenario file x servers x axis ─► runs ─► metrics ─► Claim.expects ─► holds or not
        └─ Unstated: a range for a setting that the paper omits

The constants below give each word of a claim a number. Words of a single paper ("small", "slowly")
get theirs where they occur. Tolerances of a paper's numbers: CPU and rates 10%, counts 20%, profile
shares 2 points.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .quantities import Comparison, Curve, Figures

Values = Mapping[str, Any]
"""Values of scenario keys with a dot, as in "load.rate"."""


class Choice(NamedTuple):
    """A scenario key that the paper leaves open, and its possible values."""

    key: str
    options: tuple[str | int | bool, ...]
    why: str

    def value(self, drawn: float) -> str | int | bool:
        """Return the option at *drawn*, from -1 (the first) to 1 (the last)."""
        n = len(self.options)
        return self.options[min(n - 1, int((drawn + 1) / 2 * n))]


class Unstated(NamedTuple):
    """A scenario key that the paper leaves open, and the range of its samples.

    Attributes
    ----------
    key:
        As in "load.timeout".
    low, high:
        The ends of the range; samples are uniform on a logarithmic scale.
    unit:
        The unit of both ends in a scenario file; empty for a count.
    why:
        The reason for the range.
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
    """An experiment: a scenario, its servers, and the varied key.

    Attributes
    ----------
    name:
        The name that claims use.
    scenario:
        The name of a shipped example scenario.
    servers:
        Scenario keys that each server sets, by the paper's name for it.
    axis:
        The varied key; its values are numbers followed by `unit`.
    at:
        Values on the axis.
    unit:
        The unit of the axis in a scenario file; empty for a count.
    few_at:
        The values in a fast setting.
    also:
        Returns further scenario keys of a point from its value on the axis.
    free:
        Patterns of costs that are 0 for a server, by server.
    unstated:
        The settings that the paper omits.
    seconds, warm_up_s:
        Length and warm-up of a run.
    few_seconds:
        Length of a run in a fast setting.
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
        """Return a metric of a server along the whole axis.

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
        Its name in the register, as in "CM01-10".
    kind:
        V: a measured result; M: a counter or profile from inside; S: a rule.
    condition:
        The condition in the paper's or the register's words.
    quantity:
        The compared metric.
    says:
        The claim as a sentence.
    expects:
        The comparisons that must all hold.
    band:
        The tolerance, and its origin.
    source:
        The place in the paper.
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
        """Return whether all its comparisons hold in the metrics of one sample."""
        return all(comparison.holds(figures) for comparison in self.expects)


class Hypothesis(NamedTuple):
    """One answer to an open question, and the results that it predicts."""

    name: str
    says: str
    expects: tuple[Comparison, ...]


class Question(NamedTuple):
    """A question that papers leave open or disagree on, and the conditions that decide it."""

    name: str
    asks: str
    conditions: tuple[Condition, ...]
    hypotheses: tuple[Hypothesis, ...]


class Plot(NamedTuple):
    """A chart of the paper: its axes and curves.

    `scale` converts the values to the unit of `y_label`; `logarithmic` concerns the y axis. A chart
    of the reply rate `over_time` shows the mean, deviation, minimum and maximum of a run's
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
    """A paper, its machine, conditions, claims and questions.

    `revised` are claims that depend on a choice made after first results; `assumed` lists the
    choices. The register of claims was drawn up before any run; claims `beyond` it are counted
    separately.
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
        """The open settings of its conditions, each key once."""
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
    """Return the paper *name* with its entries in papers.toml."""
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
"""Tolerance of CPU and rates, and of "similar", "comparable", "tracks", "independent of"."""
COUNT = 0.20
"""Tolerance of counts of calls and events."""
POINTS = 0.02
"""Tolerance of profile shares, and of errors that a paper reports as none."""
SAME = 0.05
"""Tolerance of "identical", "very similar", "very close"."""
MUCH = 2 / 3
"""At most this share of the other is "much less", "dramatically lower"; at least its inverse "much
more"."""
LESS = 0.95
"""At most this share of the other is "less" or "affected"."""
ALL = 0.97
"""At least this share of a CPU is "100%", "saturated"."""
KEPT = 0.95
"""Least share of requests with a reply if a server "keeps up"."""
LOST = 0.90
"""Largest share of requests with a reply if it "loses load", "drops", "breaks down"."""
DROP = 0.70
"""Share of its peak: at most this if a server "drops sharply", at least if it "declines slowly"."""
LINEAR = 0.98
"""At least this R squared is "linear"."""


TIMEOUT = Unstated("load.timeout", 1, 10, "s", "httperf's, as set in other papers of that time")


def arrivals(otherwise: str) -> Choice:
    """Return the choice of arrivals; *otherwise* is the reason for uneven spacing."""
    why = f"one httperf spaces its requests evenly; {otherwise}"
    return Choice("load.arrivals", ("constant", "poisson"), why)
