"""Results for people: tables in a terminal; machines are given `to_dict` as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..calibration.running.preparation import Replication, StoppedJob
from ..scenario.formats import time_text
from ..scenario.metrics import MAIN, METRICS
from ..scenario.scenario import Scenario
from ..studies.comparison import Comparison
from ..studies.result import Result
from ..studies.rows import Estimate

P999_REPLIES_MIN = 2000
"""Replies of a run from which on its 99.9 % quantile is more than the worst of them."""


def rows_shown(scenario: Scenario, replications: Sequence[Replication]) -> list[str]:
    """Return the metrics that a table of these runs shows; JSON has all of them."""
    # With one request a connection both latencies are the same.
    one_request = scenario.load.requests == 1 and scenario.load.trace is None
    summaries = [r.summary for r in replications]
    few = any(s.replied < P999_REPLIES_MIN for s in summaries)
    # Where none failed, quantiles of those answered are those of all.
    none_failed = not any(sum(s.errors.values()) for s in summaries)
    return [
        name
        for name in MAIN
        if not (one_request and name.startswith("request_"))
        and not (few and name.startswith("p999_"))
        and not (none_failed and re.fullmatch(r"p\d+_answered_ns", name))
    ]


def _label(name: str, scenario: Scenario) -> str:
    """Return the name of a row, where the machine has that role."""
    return METRICS[name].label.replace("server", scenario.machine.role)


def print_result(console: Console, result: Result) -> None:
    """Print the figures of a scenario, with both kinds of interval where there are."""
    role = result.scenario.machine.role
    side = "" if role == "server" else f" {role}"
    table = Table(title=f"{result.scenario.server.mechanism}{side}: {result.verdict}")
    table.add_column("")
    table.add_column("mean", justify="right")
    if len(result.replications) > 1:
        table.add_column(f"± ({len(result.replications)} replications)", justify="right")
    if result.drawn:
        table.add_column(f"{len(result.drawn)} draws of the costs", justify="right")
    for name in rows_shown(result.scenario, result.replications):
        figure, text = result.estimates[name], METRICS[name].text
        row = [_label(name, result.scenario), text(figure.mean)]
        if len(result.replications) > 1:
            row.append(text(figure.half_width))
        if result.drawn:
            row.append(f"{text(figure.low)} ... {text(figure.high)}")
        table.add_row(*row)
    console.print(table)
    if len(result.replications) > 1 or result.drawn:
        console.print(
            "95% intervals: ± of the mean over replications, draws of one run at uncertain costs."
        )
    _print_paths(console, result)
    _print_errors(console, result.replications)
    _print_losses(console, result.replications)
    print_warnings(console, result.warnings)


def _print_paths(console: Console, result: Result) -> None:
    """Print the figures of each class of clients, if there are several ways to the link."""
    if not result.paths:
        return
    table = Table(title="by path, means of a run")
    table.add_column("path")
    for heading in (
        "offered",
        "replied",
        "failed",
        "median of the answered",
        "p99 of the answered",
    ):
        table.add_column(heading, justify="right")
    for name, figures in result.paths.items():
        counts = (f"{figures[key].mean:.0f}" for key in ("offered", "replied", "failed"))
        times = (time_text(figures[f"{key}_answered_ns"].mean) for key in ("p50", "p99"))
        table.add_row(Text(name), *counts, *times)
    console.print(table)


def print_part(console: Console, stop: StoppedJob) -> None:
    """Print the figures of a run that was stopped, and how far it came."""
    scenario = stop.job.scenario
    came = f"stopped at {time_text(stop.stopped_ns)} of {time_text(scenario.run.duration)}"
    if stop.part is None:
        why = "before anything was measured"
        if stop.stopped_ns > scenario.run.warm_up:
            why = "without figures: a run so long keeps no records to make them of in part"
        console.print(f"{came} of simulated time, {why}", style="yellow", markup=False)
        return
    table = Table(title=f"{scenario.server.mechanism}: PARTIAL, seed {stop.job.seed}")
    table.add_column("")
    table.add_column("until then", justify="right")
    for name in rows_shown(scenario, [stop.part]):
        value = METRICS[name].of(stop.part.summary)
        table.add_row(_label(name, scenario), METRICS[name].text(value))
    console.print(table)
    console.print(
        f"{came} of simulated time: the figures are of that part, of one run",
        style="yellow",
        markup=False,
    )


_LABEL_WIDTH = 24
_DIFFERENCE_WIDTH = 24  # "-1.23 ms ± 1.23 ms *" and the rules around it


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print mechanisms beside each other, and their paired differences: as many as fit a line."""
    results, differences = comparison.results, comparison.differences
    replications = [r for result in results.values() for r in result.replications]
    scenario = results[comparison.baseline].scenario
    figures = rows_shown(scenario, replications)
    widest = max(map(len, results)) + 3
    for names in _blocks(list(results), console.width, max(widest, 12)):
        table = _beside(names, "one scenario, the same arrivals")
        table.add_row("verdict", *(str(results[name].verdict) for name in names))
        for figure in figures:
            label, text = _label(figure, scenario), METRICS[figure].text
            table.add_row(label, *(text(results[name].estimates[figure].mean) for name in names))
        console.print(table)
    for names in _blocks(list(differences), console.width, max(widest, _DIFFERENCE_WIDTH)):
        table = _beside(names, f"differences from {comparison.baseline}")
        for figure in figures:
            label, text = _label(figure, scenario), METRICS[figure].text
            cells = (_difference(differences[name][figure], text) for name in names)
            table.add_row(label, *cells)
        console.print(table)
    if differences:
        console.print("± is a 95% interval of the paired difference; * where it excludes zero.")
    print_warnings(
        console, dict.fromkeys(w for result in results.values() for w in result.warnings)
    )


def _blocks(names: list[str], width: int, column: int) -> list[list[str]]:
    """Return *names* in as many blocks as it takes for columns of that width to fit."""
    n = max(1, (width - _LABEL_WIDTH) // column)
    return [names[i : i + n] for i in range(0, len(names), n)]


def _beside(names: list[str], title: str) -> Table:
    """Return a table without rows: figures down, *names* across."""
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def print_warnings(console: Console, warnings: Iterable[str]) -> None:
    """Print each of *warnings* on a line of its own."""
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)


def _print_errors(console: Console, replications: tuple[Replication, ...]) -> None:
    kinds: dict[str, int] = {}
    for replication in replications:
        for kind, n in replication.summary.fates.items():
            kinds[kind] = kinds.get(kind, 0) + n
    del kinds["replied"]
    n_open = {kind: kinds.pop(kind) for kind in ("open", "stranded")}
    for what, numbers in (("failed", kinds), ("without an end", n_open)):
        found = ", ".join(f"{n} {kind}" for kind, n in numbers.items() if n)
        if found:
            console.print(f"{what}, over all replications: {found}", highlight=False)


_LOSSES = {
    "packet_drops": "packets lost",
    "syn_drops": "SYNs dropped",
    "no_memory": "of these for want of memory",
    "late": "closed, whose request had not come in time",
    "accept_no_file": "accepts without a file",
    "retries": "connections tried again",
}


def _print_losses(console: Console, replications: tuple[Replication, ...]) -> None:
    """Print what was lost before the server saw it, if anything was, and the lowest rate."""
    summaries = [replication.summary for replication in replications]
    numbers = {key: sum(s.calls[key] for s in summaries) for key in _LOSSES}
    found = ", ".join(f"{n} {_LOSSES[key]}" for key, n in numbers.items() if n)
    if found:
        lowest = min(s.reply_rate_per_s.min for s in summaries)
        console.print(
            f"on the way, over all replications: {found}; "
            f"lowest rate of a tenth of a second: {lowest:.0f}/s",
            highlight=False,
        )


def _difference(difference: Estimate, text: Callable[[float], str]) -> str:
    if math.isinf(difference.mean):
        return "for ever longer" if difference.mean > 0 else "for ever shorter"
    if math.isnan(difference.half_width):
        return text(difference.mean)
    sign = " *" if abs(difference.mean) > difference.half_width else ""
    return f"{text(difference.mean)} ± {text(difference.half_width)}{sign}"
