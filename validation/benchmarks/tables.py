"""The benchmark as tables: every metric, the targets, instructions by function."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from .results import UNITS, Results
from .targets import TARGETS, Verdict

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
