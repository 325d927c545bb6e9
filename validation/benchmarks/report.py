"""The report of the benchmark: every metric, the targets with their bounds, instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from . import processes as p
from .contestants import BY_HAND, FOLDED, GENERAL
from .results import UNITS, Metric, Results
from .scenarios import CLOSED, OPEN, Case
from .speed import ALONE, PROCESSES, THREADS, WHOLE

_MANY_IDLE, _MOST_IDLE = 1_000_000, 10_000_000
_GB, _MB = 1e9, 1e6
_ENVIRONMENT_BEFORE_MB = 897
"""A fresh environment at commit 0fc57bd, the last without the C engine, measured in the same way:
pip of Python 3.11, Linux x86-64, November 2026."""


class Target(NamedTuple):
    """A bound on the sum of some metrics, or on that sum over another metric.

    Attributes
    ----------
    name, of, over:
        Its name and the metrics; over None: a limit instead of a ratio.
    bound, at_least, aim:
        The bound, on which side of it values must be, and a better value that was hoped for.
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


def _as_fast(what: str) -> Target:
    threads, processes = (
        Metric("threads", f"{GENERAL}, {what}", name) for name in (THREADS, PROCESSES)
    )
    return Target(f"{THREADS} / {PROCESSES}, {what}", (threads,), processes, 0.95, at_least=True)


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
    _as_fast(ALONE),
    _as_fast(WHOLE),
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
    _seconds("start", f"{p.WHEEL_RUN}, wall", 2.0),
    _seconds("start", f"{p.WARM_RUN}, wall", 0.7),
    _seconds("start", f"{p.HELP}, wall", 0.3),
    Target(
        "fresh environment, MB (200 less than at 0fc57bd)",
        (Metric("environment", "site-packages", p.HERE),),
        None,
        _ENVIRONMENT_BEFORE_MB - 200,
        scale=_MB,
    ),
)
"""Everything that the benchmark must reach."""


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
    "threads": "Two at once, million connections per second of wall time",
    "call": "Whole call with drawing and summary, million connections per second of CPU time",
    "memory": "Memory of a process, MB",
    "compile": "Compiling into an empty cache, seconds of CPU time",
    "start": "Command line, seconds",
    "study": "Comparison of the README, seconds",
    "instructions": "Instructions per connection (callgrind)",
    "environment": "Fresh environment, MB",
}
_SCALES = {"/s": 1e-6, "B": 1e-6, "s": 1.0, "instructions": 1.0}
_THOUSANDS = 1e-3
_LARGE = 100


def metric_tables(results: Results) -> list[Table]:
    """Return a table for each group that has metrics."""
    tables = []
    for group in UNITS:
        table = _table(_TITLES[group], ("", ""), ("median", "best", "runs"))
        case = ""
        for metric in (metric for metric in results if metric.group == group):
            scale = _THOUSANDS if group == "queue" else _SCALES[metric.unit]
            table.add_row(
                "" if metric.case == case else metric.case,
                metric.subject,
                *(_number(f(metric) * scale) for f in (results.median, results.best)),
                str(len(results[metric])),
            )
            case = metric.case
        if table.row_count:
            tables.append(table)
    return tables


def target_table(verdicts: Sequence[Verdict]) -> Table:
    """Return a row for each target, measured or not."""
    table = _table("Targets", ("",), ("median", "best", "bound", "aim"))
    table.add_column("", no_wrap=True)
    found = {verdict.target: verdict for verdict in verdicts}
    for target in TARGETS:
        verdict = found.get(target)
        values = (verdict.median, verdict.best) if verdict else (None, None)
        sign = "≥" if target.at_least else "≤"
        table.add_row(
            target.name + (" (by best)" if target.by_best else ""),
            *(_number(value) for value in values),
            f"{sign} {_number(target.bound)}",
            _number(target.aim),
            "not measured" if verdict is None else "reached" if verdict.reached else "missed",
        )
    return table


def function_table(name: str, functions: Sequence[tuple[str, float]]) -> Table:
    """Return the functions of a contestant by their instructions per connection."""
    table = _table(f"{name}: instructions per connection by function", ("",), ("",))
    for function, n in functions:
        table.add_row(function, _number(n))
    return table


def _table(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for text in texts:
        table.add_column(text, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.3g}"
