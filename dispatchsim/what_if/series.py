"""The content of an answer: the numbers of each chart, the same as a table, and two sentences.

Answer ─┬─ curve   a metric against load, with its interval       one line per mechanism
        ├─ stack   shares at the chosen load                      one bar per mechanism
        └─ queue   a length over time, in the first run           one line per mechanism

All are plain numbers, without any drawing.

The sentences give the load that each mechanism keeps up with, and how long clients wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..scenario.formats import listed, number_text, rate_text, share_text, time_text
from ..sim.figures.tally import FAILURES
from .answers import Answer, Row


class Part(NamedTuple):
    """A part of a bar: its colour, and the metrics summed in it.

    Colours are from Paul Tol's scheme "muted", for people with any colour vision.
    """

    colour: str
    of: tuple[str, ...]


CPU_PARTS: Mapping[str, Part] = {
    "waiting call": Part("#332288", ("wait",)),
    "accept": Part("#88CCEE", ("accept",)),
    "read": Part("#44AA99", ("read",)),
    "write": Part("#117733", ("write",)),
    "close": Part("#999933", ("close",)),
    "changing the watched set": Part("#DDCC77", ("watch", "rewatch", "unwatch")),
    "own code": Part("#CC6677", ("user",)),
    "falling asleep, waking up": Part("#882255", ("sleep", "wake")),
    "packets (interrupts)": Part(
        "#AA4499", ("interrupt", "interrupt_idle", "interrupt_other", "ksoftirqd")
    ),
    "threads and others": Part("#BBBBBB", ("spawn", "connect", "other")),
    "the host": Part("#7A0019", ("host", "host_other")),
}
"""Uses of a processor's time, by the activities that are counted."""
FATE_PARTS: Mapping[str, Part] = {
    "reply received": Part("#C3CED6", ("replied",)),  # the normal case, so pale
    "still waiting at the end": Part("#88CCEE", ("open",)),
    "gave up": Part("#882255", ("timeout",)),
    "refused": Part("#CC6677", ("refused",)),
    "reset by the server": Part("#332288", ("reset",)),
    "never accepted": Part("#117733", ("dropped",)),
    "stranded (server not notified)": Part("#DDCC77", ("stranded",)),
    "client out of descriptors": Part("#999933", ("descriptors",)),
    "client out of ports": Part("#44AA99", ("ports",)),
}
"""Fates of clients, by `Fate`."""
FATES = {fate: name for name, part in FATE_PARTS.items() for fate in part.of}
"""The name of each fate on the page."""


class Curve(NamedTuple):
    """A metric against load: `x` in connections per second; all lists have the same length.

    `low` and `high` bound the 95% interval over replications; with a single run both are the mean.
    `falls_behind` marks loads that the server does not keep up with.
    """

    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    falls_behind: list[bool]


class Table(NamedTuple):
    """A table of texts: column heads and rows."""

    headings: list[str]
    rows: list[list[str]]


def curve(answer: Answer, mechanism: str, figure: str, scale: float = 1.0) -> Curve:
    """Return *figure* over *scale* of *mechanism*, without loads where it has no value."""
    found = Curve([], [], [], [], [])
    for row in answer.rows(mechanism):
        known = row.estimate(figure)
        if not math.isfinite(known.mean):
            continue
        half = known.half_width if math.isfinite(known.half_width) else 0.0
        found.x.append(float(row.rate))
        found.y.append(known.mean / scale)
        # On a logarithmic axis nothing is at 0 or below.
        found.low.append(max(known.mean - half, known.mean / 100) / scale)
        found.high.append((known.mean + half) / scale)
        found.falls_behind.append(not row.keeps_up)
    return found


def curve_table(answer: Answer, figure: str, scale: float, unit: str) -> Table:
    """Return the same for all mechanisms: a row per load, a column per mechanism."""
    loads = sorted({row.rate for name in answer.mechanisms for row in answer.rows(name)})
    rows = []
    for load in loads:
        texts = [_cell(answer.row(name, load), figure, scale) for name in answer.mechanisms]
        rows.append([rate_text(load), *texts])
    return Table(["offered", *(f"{name} ({unit})" for name in answer.mechanisms)], rows)


def _cell(row: Row | None, figure: str, scale: float) -> str:
    if row is None:
        return "not yet"
    known = row.estimate(figure)
    if math.isinf(known.mean):
        return "1% or more fail"
    if math.isnan(known.mean):
        return "none"
    text = number_text(known.mean / scale, trim=True)
    if math.isfinite(known.half_width):
        text += f" ± {number_text(known.half_width / scale, trim=True)}"
    return text if row.keeps_up else f"{text}, does not keep up"


def stack(
    answer: Answer, parts: Mapping[str, Part], share: Callable[[Row, str], float]
) -> dict[str, list[float]]:
    """Return the shares of *parts* at the chosen load, by name, one number per mechanism.

    *share* returns the share of one metric in a row.
    """
    return {
        name: [sum(share(row, figure) for figure in part.of) for row in answer.chosen]
        for name, part in parts.items()
    }


def cpu_share(row: Row, activity: str) -> float:
    """Return the share of the processor's time that goes to *activity*."""
    return row.estimate(f"cpu_{activity}").mean


def fate_share(row: Row, fate: str) -> float:
    """Return the share of clients with this *fate*."""
    return row.fates.get(fate, 0.0)


def stack_table(answer: Answer, shares: Mapping[str, Sequence[float]], what: str) -> Table:
    """Return a stack as a table: a row per part, a column per mechanism."""
    rows = [
        [name, *(share_text(value) for value in values)]
        for name, values in shares.items()
        if any(value > 0 for value in values)
    ]
    return Table([what, *(row.mechanism for row in answer.chosen)], rows)


def queue(answer: Answer, mechanism: str, column: int) -> tuple[list[float], list[float]]:
    """Return times in ms and lengths in the first run at the chosen load.

    Parameters
    ----------
    answer, mechanism:
        The answer and one of its mechanisms.
    column:
        Column of `Reply.queues`: 1 the accept queue, 2 the ready list.
    """
    row = answer.row(mechanism, answer.view.rate)
    samples = row.replies[0].queues if row else ()
    return [float(each[0]) for each in samples], [float(each[column]) for each in samples]


def queue_table(answer: Answer, column: int) -> Table:
    """Return mean and largest length of a queue, one row per mechanism."""
    rows = []
    for name in answer.mechanisms:
        _, lengths = queue(answer, name, column)
        if lengths:
            shown = (sum(lengths) / len(lengths), max(lengths), lengths[-1])
            rows.append([name, *(number_text(length, trim=True) for length in shown)])
    return Table(["mechanism", "mean", "longest", "at the end"], rows)


_FAILED = frozenset(status.name.lower() for status in FAILURES)
_ALIKE = 1.1
"""Latencies that differ by a tenth or less count as about the same."""


def said(answer: Answer) -> str:
    """Return the answer so far in two sentences, or the reason why there is none."""
    if not answer.mechanisms:
        return "None of the chosen mechanisms can be simulated here."
    if not answer.is_first_known:
        return "Simulating."
    if not answer.chosen:
        return f"There is no answer for {listed(answer.mechanisms)}: the runs failed."
    return f"{_capacities(answer)} {_latencies(answer)}"


def bounds(answer: Answer, mechanism: str) -> tuple[int | None, int | None]:
    """Return the highest load that *mechanism* keeps up with, and the next load, which is too high.

    None if there is none among the simulated loads.
    """
    kept = None
    for row in answer.rows(mechanism):
        if not row.keeps_up:
            return kept, row.rate
        kept = row.rate
    return kept, None


def _capacities(answer: Answer) -> str:
    who: dict[tuple[int | None, int | None], list[str]] = {}
    for name in answer.mechanisms:
        who.setdefault(bounds(answer, name), []).append(name)
    # The best first, equal ones together.
    ordered = sorted(who.items(), key=lambda each: -(each[0][0] or 0) - (each[0][1] is None))
    parts = []
    for (kept, lost), names in ordered:
        verb = "keeps" if len(names) == 1 else "keep"
        if kept is None:
            parts.append(f"{listed(names)} {verb} up with none of these loads")
        elif lost is None:
            parts.append(f"{listed(names)} {verb} up with all loads to {rate_text(kept)}")
        else:
            parts.append(
                f"{listed(names)} {verb} up to {rate_text(kept)}, but not at {rate_text(lost)}"
            )
    return "; ".join(parts) + "."


def _latencies(answer: Answer) -> str:
    found = []
    for row in answer.chosen:
        p99_ns = row.estimate("p99_ns").mean  # failed clients count as slowest
        if row.keeps_up and math.isfinite(p99_ns):
            found.append((p99_ns, row.mechanism))
    at = f"At {rate_text(answer.view.rate)}"
    if not found:
        return _troubles(answer, at)
    found.sort()
    (best_ns, best), (worst_ns, worst) = found[0], found[-1]
    fast, slow = (time_text(ns, trim=True) for ns in (best_ns, worst_ns))
    first = f"{at}, 99% of the clients have their reply within {fast} with {best}"
    if len(found) == 1:
        return f"{first}."
    if worst_ns < _ALIKE * best_ns:
        others = listed([name for _, name in found[1:]])
        return f"{first}, and about the same with {others}."
    times = number_text(round(worst_ns / best_ns, 1), trim=True)
    return f"{first}; with {worst} it takes {times} times as long ({slow})."


def _troubles(answer: Answer, at: str) -> str:
    """Return the fate of clients if no mechanism keeps up."""
    who: dict[str, list[str]] = {}
    for row in answer.chosen:
        who.setdefault(_trouble(row), []).append(row.mechanism)
    if len(who) == 1:
        return f"{at} {next(iter(who))}."
    return f"{at} {'; '.join(f'{what} with {listed(names)}' for what, names in who.items())}."


def _trouble(row: Row) -> str:
    failed = {name: share for name, share in row.fates.items() if name in _FAILED}
    waiting = row.fates.get("open", 0.0)
    if sum(failed.values()) > waiting:
        most = max(failed, key=failed.__getitem__)
        return f"{sum(failed.values()):.0%} of the clients fail (mostly: {FATES[most]})"
    if not row.fates:
        return "no client arrived in the measured time"
    if row.fates.get("stranded", 0.0) > waiting:
        return "the server is never notified of some clients"
    return "clients wait longer and longer"
