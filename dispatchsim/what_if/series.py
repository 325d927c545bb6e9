"""The numbers of each chart, and the same as a table for those who cannot see it.

Answer ─┬─ curve   a figure against load, with its interval       a line a mechanism
        ├─ stack   shares at the chosen load                      a bar a mechanism
        └─ queue   a length over time, in the first of the runs   a line a mechanism

All are plain numbers: nothing here draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..scenario.formats import number_text, rate_text, share_text
from .answers import Answer, Row

CPU_GROUPS: Mapping[str, tuple[str, ...]] = {
    "waiting call": ("wait",),
    "accept": ("accept",),
    "read": ("read",),
    "write": ("write",),
    "close": ("close",),
    "changing what is watched": ("watch", "rewatch", "unwatch"),
    "own code": ("user",),
    "falling asleep, waking up": ("sleep", "wake"),
    "packets (interrupts)": ("interrupt", "interrupt_idle", "interrupt_other", "ksoftirqd"),
    "threads and others": ("spawn", "connect", "other"),
}
"""What a processor's time goes to, by the activities that are counted."""
FATES: Mapping[str, str] = {
    "replied": "answered",
    "open": "still waiting at the end",
    "timeout": "gave up",
    "refused": "refused",
    "reset": "reset by the server",
    "dropped": "never let in",
    "stranded": "stranded: never noticed",
    "descriptors": "without a descriptor of their own",
    "ports": "without a port of their own",
}
"""What becomes of clients, by `Fate`, and what it is called here."""


class Curve(NamedTuple):
    """A figure against load: `x` connections a second; all of the same length.

    `low` and `high` bound the 95% interval over replications, both the mean itself where there is
    only one; `falls_behind` says where the server did not keep up.
    """

    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    falls_behind: list[bool]


class Table(NamedTuple):
    """A table of texts: what each column is, and the rows."""

    headings: list[str]
    rows: list[list[str]]


def curve(answer: Answer, mechanism: str, figure: str, scale: float = 1.0) -> Curve:
    """Return *figure* over *scale* of *mechanism*; loads at which it has none are left out."""
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
    """Return the same of all mechanisms: a row a load, a column a mechanism."""
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


def cpu_stack(answer: Answer) -> dict[str, list[float]]:
    """Return the share of the processor's time by group, a number a mechanism."""
    return {
        group: [
            sum(row.estimate(f"cpu_{name}").mean for name in activities) for row in answer.chosen
        ]
        for group, activities in CPU_GROUPS.items()
    }


def fate_stack(answer: Answer) -> dict[str, list[float]]:
    """Return the share of the clients by what became of them, a number a mechanism."""
    shares = [row.fates for row in answer.chosen]
    return {name: [each.get(fate, 0.0) for each in shares] for fate, name in FATES.items()}


def stack_table(answer: Answer, stack: Mapping[str, Sequence[float]], what: str) -> Table:
    """Return a stack as a table: a row a group, a column a mechanism."""
    rows = [
        [group, *(share_text(value) for value in values)]
        for group, values in stack.items()
        if any(value > 0 for value in values)
    ]
    return Table([what, *(row.mechanism for row in answer.chosen)], rows)


def queue(answer: Answer, mechanism: str, column: int) -> tuple[list[float], list[float]]:
    """Return times in ms and lengths in the first run at the chosen load.

    Parameters
    ----------
    answer, mechanism:
        What is known, and of whom.
    column:
        Of `Reply.queues`: 1 the accept queue, 2 the ready list.
    """
    row = answer.row(mechanism, answer.view.rate)
    samples = row.replies[0].queues if row else ()
    return [float(each[0]) for each in samples], [float(each[column]) for each in samples]


def queue_table(answer: Answer, column: int) -> Table:
    """Return mean and greatest length of a queue, a row a mechanism."""
    rows = []
    for name in answer.mechanisms:
        _, lengths = queue(answer, name, column)
        if lengths:
            shown = (sum(lengths) / len(lengths), max(lengths), lengths[-1])
            rows.append([name, *(number_text(length, trim=True) for length in shown)])
    return Table(["mechanism", "mean", "longest", "at the end"], rows)
