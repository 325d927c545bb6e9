"""Results as tables in a terminal; `to_dict` has them as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from rich.console import Console

from ..calibration.running.preparation import Replication, StoppedJob
from ..models.catalogue import MECHANISMS
from ..scenario.formats import rate_text, share_text, time_text
from ..scenario.metrics import MAIN, METRICS, metric_text
from ..scenario.scenario import Scenario
from ..sim.files.tables import Column, Table, rich_table
from ..sim.state.mechanism import Trait
from ..studies.comparison import Comparison
from ..studies.result import Result
from ..studies.rows import Estimate

P999_REPLIES_MIN = 2000
"""With fewer replies in a run its 99.9th percentile is the slowest of them."""


_OF_LIMIT = ("backend_full", "backend_waiting")


def rows_shown(
    scenario: Scenario, replications: Sequence[Replication], mechanisms: Iterable[str] = ()
) -> list[str]:
    """Return the metrics that a table of these runs shows; JSON has all of them.

    Runs are of the scenario's mechanism, or of *mechanisms*, if there are several.
    """
    # A connection with one request ends with its reply.
    one_request = scenario.has_one_request
    summaries = [r.summary for r in replications]
    none_came = not any(s.connections.offered for s in summaries)
    few = any(s.replied < P999_REPLIES_MIN for s in summaries)
    # If no request failed, percentiles of replies are those of all requests.
    none_failed = not any(sum(s.errors.values()) for s in summaries)
    none_dropped = not any(sum(s.dropped.values()) for s in summaries)
    names = tuple(mechanisms) or (scenario.server.mechanism,)
    no_signals = not any(Trait.BY_SIGNALS in MECHANISMS[name].traits for name in names)
    return [
        name
        for name in MAIN
        if not (one_request and (name.startswith("lifetime_") or name == "connections_per_s"))
        and not (none_came and re.match(r"connect|lifetime", name))
        and not (few and name.startswith("p99_9_"))
        and not (none_failed and re.fullmatch(r"p[\d_]+_answered_ns", name))
        and not (scenario.machine.cpus == 1 and name == "cpu_busiest")
        and not (none_dropped and name == "packets_dropped")
        and not (no_signals and name.startswith("signal"))
        and not (scenario.backend.connections is None and name.startswith("backend_"))
        and not (scenario.backend.limit is None and name in _OF_LIMIT)
    ]


def print_result(console: Console, result: Result) -> None:
    """Print the metrics of a scenario, with both kinds of interval if it has them."""
    scenario, known = result.scenario, result.estimates
    n = len(result.replications)
    columns = [
        _metric_column(scenario),
        Column[str]("mean", lambda name: METRICS[name].text(known[name].mean)),
    ]
    if n > 1:
        heading = f"± ({n} replications)"
        columns.append(Column(heading, lambda name: METRICS[name].text(known[name].half_width)))
    if result.drawn:
        heading = f"{len(result.drawn)} cost samples"
        columns.append(Column(heading, lambda name: between(name, known[name])))
    side = "" if scenario.machine.role == "server" else f" {scenario.machine.role}"
    print_answer(console, result.sentence)
    title = f"{scenario.server.mechanism}{side}: {result.verdict}"
    rows = rows_shown(scenario, result.replications)
    console.print(rich_table(Table.of(title, rows, columns)))
    if n > 1:
        console.print("±: 95% interval of the mean over replications.")
    if result.drawn:
        console.print(
            "Cost samples: range that holds 95% of runs, each with costs from their intervals.",
        )
    _print_host(console, result.replications)
    _print_workers(console, result.worker_shares)
    _print_groups(console, result)
    _print_errors(console, result.replications)
    _print_losses(console, result.replications)


def between(name: str, known: Estimate) -> str:
    """Return the range of a metric over runs at resampled costs."""
    return f"{metric_text(name, known.low)} ... {metric_text(name, known.high)}"


def _metric_column(scenario: Scenario) -> Column[str]:
    """Return the column of the names of metrics, with the machine's role in them."""
    role = scenario.machine.role
    return Column("", lambda name: METRICS[name].label.replace("server", role), words=True)


def _print_host(console: Console, replications: Sequence[Replication]) -> None:
    """Print which share of the server's CPUs the host took, if it took any."""
    times = [replication.summary.cpu for replication in replications]
    taken_ns = sum(cpu.by_activity_ns[name] for cpu in times for name in ("host", "host_other"))
    if taken_ns:
        share = taken_ns / sum(cpu.busy_ns + cpu.idle_ns for cpu in times)
        console.print(f"time the host took from the server's CPUs: {share_text(share)}")


_WORKERS_SHOWN = 16


def _print_workers(console: Console, shares: Sequence[float]) -> None:
    """Print each worker's share of the connections, of many workers the least and the largest."""
    if not shares:
        return
    each = ", ".join(map(share_text, shares))
    if len(shares) > _WORKERS_SHOWN:
        each = f"{share_text(min(shares))} to {share_text(max(shares))} each"
    console.print(f"connections of the {len(shares)} workers: {each}", highlight=False)


_OF_PATHS = ("offered", "replied", "failed", "p50_answered_ns", "p99_answered_ns")
_OF_CLASSES = ("offered", "replied", "failed", "p50_ns", "p99_ns")


def _print_groups(console: Console, result: Result) -> None:
    """Print the metrics of each class of clients and of each path, if there are any."""
    groups = (
        ("clients", "by class of clients, means of a run", result.clients, _OF_CLASSES),
        ("path", "by path, means of a run", result.paths, _OF_PATHS),
    )
    for noun, title, figures, metrics in groups:
        if not figures:
            continue
        columns = [_mean_column(metric, figures) for metric in metrics]
        names = Column[str](noun, str, words=True)
        console.print(rich_table(Table.of(title, figures, [names, *columns])))


def _mean_column(metric: str, figures: Mapping[str, Mapping[str, Estimate]]) -> Column[str]:
    """Return the column of the means of *metric* of each path or class."""

    def text(name: str) -> str:
        mean = figures[name][metric].mean
        return METRICS[metric].text(mean) if metric.endswith("_ns") else f"{mean:.0f}"

    return Column(METRICS[metric].heading, text)


def print_part(console: Console, stop: StoppedJob) -> None:
    """Print the metrics of a run that was stopped, and how far it got."""
    scenario = stop.job.scenario
    came = f"stopped at {time_text(stop.stopped_ns)} of {time_text(scenario.run.duration)}"
    if stop.part is None:
        why = "before anything was measured"
        if stop.stopped_ns > scenario.run.warm_up:
            why = "without metrics: a run of this length keeps no records of its first part"
        console.print(f"{came} of simulated time, {why}", style="yellow", markup=False)
        return
    summary = stop.part.summary
    columns = [
        _metric_column(scenario),
        Column[str]("so far", lambda name: METRICS[name].text(METRICS[name].of(summary))),
    ]
    title = f"{scenario.server.mechanism}: PARTIAL, seed {stop.job.seed}"
    console.print(rich_table(Table.of(title, rows_shown(scenario, [stop.part]), columns)))
    console.print(
        f"{came} of simulated time: the metrics are of this part of one run",
        style="yellow",
        markup=False,
    )


_LABEL_WIDTH = 24
_DIFFERENCE_WIDTH = 24  # "-1.23 ms ± 1.23 ms *" and the rules around it


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print mechanisms side by side, and their paired differences, as many as fit a line."""
    results, differences = comparison.results, comparison.differences
    replications = [r for result in results.values() for r in result.replications]
    scenario = results[comparison.baseline].scenario
    mechanisms = [result.scenario.server.mechanism for result in results.values()]
    figures = rows_shown(scenario, replications, mechanisms)
    widest = max(map(len, results)) + 3
    label = _metric_column(scenario)

    def mean(name: str) -> Column[str]:
        return Column(name, lambda f: METRICS[f].text(results[name].estimates[f].mean))

    def difference(name: str) -> Column[str]:
        return Column(name, lambda f: _difference(differences[name][f], METRICS[f].text))

    for names in _blocks(list(results), console.width, max(widest, 12)):
        verdicts = ("verdict", *(str(results[name].verdict) for name in names))
        table = Table.of("one scenario, the same arrivals", figures, [label, *map(mean, names)])
        console.print(rich_table(replace(table, rows=[verdicts, *table.rows])))
    for names in _blocks(list(differences), console.width, max(widest, _DIFFERENCE_WIDTH)):
        title = f"differences from {comparison.baseline}"
        console.print(rich_table(Table.of(title, figures, [label, *map(difference, names)])))
    if differences:
        console.print("± is a 95% interval of the paired difference; * where it excludes zero.")


def _blocks(names: list[str], width: int, column: int) -> list[list[str]]:
    """Return *names* in as many blocks as it takes for columns of that width to fit."""
    n = max(1, (width - _LABEL_WIDTH) // column)
    return [names[i : i + n] for i in range(0, len(names), n)]


def print_answer(console: Console, sentence: str) -> None:
    """Print the sentence that answers what was asked."""
    console.print(sentence, style="bold", highlight=False, markup=False)


def print_warnings(console: Console, warnings: Iterable[str], *, verbose: bool) -> bool:
    """Print each of *warnings* on at most two lines; return whether one had to be cut.

    With *verbose* they are whole.
    """
    is_cut = False
    for warning in warnings:
        text = f"warning: {warning}"
        line = text if verbose else cut_short(text, _WARNING_LINES * console.width)
        is_cut |= line != text
        console.print(line, style="yellow", markup=False, highlight=False)
    return is_cut


_WARNING_LINES = 2
_CLAUSE_ENDS = re.compile(r"(?=; |: |\. | \()")


def cut_short(text: str, length: int) -> str:
    """Return all of *text* if it has at most this *length*, else whole clauses from its beginning.

    >>> cut_short("warning: runs are short: latencies depend on it", 30)
    'warning: runs are short ...'
    """
    if len(text) <= length:
        return text
    room = length - len(" ...")
    ends = [found.start() for found in _CLAUSE_ENDS.finditer(text) if found.start() <= room]
    # The word that begins a warning is no clause.
    end = ends[-1] if ends and ends[-1] > text.find(": ") else text.rfind(" ", 0, room + 1)
    return f"{text[:end]} ..."


def _print_errors(console: Console, replications: tuple[Replication, ...]) -> None:
    kinds: dict[str, int] = {}
    for replication in replications:
        for kind, n in replication.summary.fates.items():
            kinds[kind] = kinds.get(kind, 0) + n
    del kinds["replied"]
    n_open = {kind: kinds.pop(kind) for kind in _UNFINISHED}
    failed = [f"{n:,} {kind}" for kind, n in kinds.items() if n]
    unfinished = [_UNFINISHED[kind].format(_requests(n)) for kind, n in n_open.items() if n]
    for what, found in (("failed requests", failed), ("unfinished at the end", unfinished)):
        if found:
            console.print(f"{what}, {_TOGETHER}: {', '.join(found)}", highlight=False)


_TOGETHER = "in all replications together"
_UNFINISHED = {"open": "{}", "stranded": "{} that the server is never notified of"}
"""Fates of unfinished requests, in words."""


def _requests(n: int) -> str:
    return "1 request" if n == 1 else f"{n:,} requests"


_DROPS = {
    "accept_queue": "SYNs at a full accept queue",
    "half_open": "SYNs beyond the limit of half-open connections",
    "drop_above": "SYNs above server.drop_above",
    "memory": "SYNs for lack of memory",
    "last_ack": "last packets of handshakes at a full accept queue",
    "receive_queue": "at a full receive queue",
    "paths": "on network paths",
}
"""Causes of `Summary.dropped` in words."""


_LOSSES = {
    "late": "the server closed {:,} connections with an incomplete request",
    "accept_no_file": "{:,} calls of accept failed at the limit of open files",
    "retries": "clients opened {:,} connections again",
}
"""Other reasons why clients got no reply, in words."""


def _print_losses(console: Console, replications: tuple[Replication, ...]) -> None:
    """Print dropped packets, other reasons for missing replies, and the lowest rate."""
    summaries = [replication.summary for replication in replications]
    dropped = {cause: sum(s.dropped[cause] for s in summaries) for cause in _DROPS}
    others = {name: sum(s.calls[name] for s in summaries) for name in _LOSSES}
    packets = ", ".join(f"{n:,} {_DROPS[cause]}" for cause, n in dropped.items() if n)
    if packets:
        console.print(f"packets dropped, {_TOGETHER}: {packets}", highlight=False)
    also = ", and ".join(_LOSSES[name].format(n) for name, n in others.items() if n)
    if also:
        console.print(f"{_TOGETHER}, {also}", highlight=False)
    if packets or also:
        lowest = min(s.reply_rate_per_s.min for s in summaries)
        console.print(f"lowest reply rate in any 100 ms: {rate_text(lowest)}", highlight=False)


def _difference(difference: Estimate, text: Callable[[float], str]) -> str:
    if math.isinf(difference.mean):
        return "infinitely longer" if difference.mean > 0 else "infinitely shorter"
    if math.isnan(difference.half_width):
        return text(difference.mean)
    sign = " *" if abs(difference.mean) > difference.half_width else ""
    return f"{text(difference.mean)} ± {text(difference.half_width)}{sign}"
