"""The report of the benchmark: every metric, and the targets with their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...sim.files.tables import Column, Row, Table
from . import processes as p
from .contestants import BY_HAND, FOLDED, GENERAL
from .results import UNITS, Metric, Results
from .scenarios import CLOSED, OPEN, Case

_MANY_IDLE, _MOST_IDLE = 1_000_000, 10_000_000
_GB = 1e9


class Target(NamedTuple):
    """A bound on the sum of some metrics, or on that sum over another metric.

    Attributes
    ----------
    name, of, over:
        Its name and the metrics; over None: a limit instead of a ratio.
    bound, at_least, aim:
        The bound, whether values must be at least the bound, and a better value as the aim.
    by_best:
        Whether the best repetitions decide instead of the medians.
    scale:
        The unit of the bound in units of the metrics.
    """

    name: str
    of: tuple[Metric, ...]
    over: Metric | None
    bound: float
    at_least: bool = False
    aim: float | None = None
    by_best: bool = False
    scale: float = 1.0


class Verdict(NamedTuple):
    """A target with its value by medians and by the best repetitions."""

    target: Target
    median: float
    best: float

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        value = self.best if self.target.by_best else self.median
        return value >= self.target.bound if self.target.at_least else value <= self.target.bound


def _speed(case: Case, subject: str) -> Metric:
    return Metric("workers" if case.workers > 1 else "speed", str(case), subject)


def _faster(case: Case, one: str, other: str, bound: float, aim: float | None = None) -> Target:
    name = f"{one} / {other}, {case}"
    return Target(name, (_speed(case, one),), _speed(case, other), bound, at_least=True, aim=aim)


def _idle_costs(users: int) -> Target:
    none, many = (_speed(Case(users, idle), FOLDED) for idle in (0, _MANY_IDLE))
    name = f"time per request, {Case(users, _MANY_IDLE)} / none, {FOLDED}"
    return Target(name, (none,), many, 1.25, by_best=True)


def _call(how: str) -> Target:
    here, before = (Metric("call", how, subject) for subject in (p.HERE, p.AGAINST))
    name = f"whole call, {how}: here / other checkout"
    return Target(name, (here,), before, 1.4, at_least=True, aim=1.8)


def _seconds(group: str, case: str, bound: float, subject: str = p.HERE) -> Target:
    name = f"{group}: {case}" + (f", {subject}" if subject != p.HERE else "")
    return Target(name, (Metric(group, case, subject),), None, bound)


_ALL = tuple(Metric("compile", "all, CPU", name) for name in (GENERAL, FOLDED))
TARGETS = (
    _seconds("compile", "one, CPU", 2.5, GENERAL),
    _seconds("compile", "one, CPU", 2.5, FOLDED),
    _seconds("compile", "all, CPU", 60.0, GENERAL),
    Target("compile: all, CPU, general and folded", _ALL, None, 120.0),
    _faster(Case(CLOSED), FOLDED, BY_HAND, 0.4, aim=0.5),
    _faster(Case(OPEN), FOLDED, BY_HAND, 0.4, aim=0.5),
    *(_call(how) for how in p.CALLS.values()),
    _idle_costs(CLOSED),
    _idle_costs(OPEN),
    Target(
        f"memory, GB: {p.peak_case(_MOST_IDLE)}",
        (Metric("memory", p.peak_case(_MOST_IDLE), GENERAL),),
        None,
        2.0,
        scale=_GB,
    ),
    _seconds("study", f"{p.STUDY}, wall", 35.0),
    _seconds("start", f"{p.FIRST_RUN}, wall", 5.0),
    _seconds("start", f"{p.WARM_RUN}, wall", 0.7),
    _seconds("start", f"{p.HELP}, wall", 0.3),
)
"""The targets of the benchmark."""


def verdicts(results: Results) -> list[Verdict]:
    """Return a verdict on each target whose metrics were measured."""
    found = []
    for target in TARGETS:
        if all(metric in results for metric in (*target.of, target.over or target.of[0])):
            values = []
            for statistic in (results.median, results.best):
                over = statistic(target.over) if target.over else target.scale
                values.append(sum(statistic(metric) for metric in target.of) / over)
            found.append(Verdict(target, *values))
    return found


_TITLES = {
    "speed": "One worker, million connections per second of CPU time",
    "workers": "Several workers, million connections per second of CPU time",
    "queue": "M/M/1 at 70%, thousand customers per second of CPU time",
    "call": "Whole call with arrivals and summary, million connections per second of CPU time",
    "memory": "Memory of a process, MB",
    "compile": "Compiling into an empty cache, seconds of CPU time",
    "start": "Command line, seconds",
    "study": "Comparison of the README, seconds",
}
_SCALES = {"/s": 1e-6, "B": 1e-6, "s": 1.0}
_THOUSANDS = 1e-3
_LARGE = 100


def metric_tables(results: Results) -> list[Table]:
    """Return a table for each group that has metrics."""
    tables = []
    for group in UNITS:
        own = [metric for metric in results if metric.group == group]
        scale = _THOUSANDS if group == "queue" else _SCALES[UNITS[group]]
        rows: list[Row] = []
        case = ""
        for metric in own:
            values = (_number(of(metric) * scale) for of in (results.median, results.best))
            first = "" if metric.case == case else metric.case
            rows.append((first, metric.subject, *values, str(len(results[metric]))))
            case = metric.case
        if rows:
            headings = ("", "", "median", "best", "runs")
            tables.append(Table.of_cells(_TITLES[group], headings, rows, n_words=2))
    return tables


def target_table(verdicts: Sequence[Verdict]) -> Table:
    """Return a row for each target, measured or not."""
    found = {verdict.target: verdict for verdict in verdicts}

    def verdict(target: Target) -> str:
        if target not in found:
            return "not measured"
        return "reached" if found[target].reached else "missed"

    columns: list[Column[Target]] = [
        Column("", lambda t: t.name + (" (by best)" if t.by_best else ""), words=True),
        Column("median", lambda t: found[t].median if t in found else None, _number),
        Column("best", lambda t: found[t].best if t in found else None, _number),
        Column("bound", lambda t: f"{'≥' if t.at_least else '≤'} {_number(t.bound)}"),
        Column("aim", lambda t: t.aim, _number),
        Column("", verdict, words=True),
    ]
    return Table.of("Targets", TARGETS, columns)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.3g}"
