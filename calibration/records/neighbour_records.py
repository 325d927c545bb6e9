"""How often a CPU shared its core, in neighbour.jsonl of a machine.

A core has two hardware threads, and a guest is not told who has the other one. `micro calm` watches
a cheap system call: while the other thread is busy, it and all else takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .gap_records import CpuRecord

NEIGHBOUR_FILE = "neighbour.jsonl"
BUSY_SHARE_MOST = 0.5
"""Share of the time in which a CPU has no core to itself, with the other CPU busy, as in a run.

Above it most runs find no calm moment: they wait for one, 10 s at most, and are rejected."""


class NeighbourRecord(CpuRecord):
    """The time of a cheap system call on one CPU, in parts of a millisecond.

    `calm_ns` is the call in the calmest tenth of the parts. In a `busy_share` of them it took more
    than 1.15 times as long, and `busy_ratio` times as long in their median.
    """

    format: Literal["dispatchsim-neighbour/1"] = "dispatchsim-neighbour/1"
    calm_ns: float
    busy_share: float
    busy_ratio: float


def neighbour_text(records: Iterable[NeighbourRecord]) -> str:
    """Return in words how often the CPUs shared a core, and how much longer calls then took.

    >>> neighbour_text([])
    ''
    """
    return "; ".join(
        f"{_shared(record)}, as it then most likely shares a core"
        for record in records
        if record.busy_share
    )


def busy_problem(records: Iterable[NeighbourRecord]) -> str:
    """Return the sentence about cores too busy to measure; empty if they are calm enough.

    >>> busy_problem([])
    ''
    """
    busy = [record for record in records if record.beside == "spinning"]
    worst = max(busy, key=lambda record: record.busy_share, default=None)
    if worst is None or worst.busy_share <= BUSY_SHARE_MOST:
        return ""
    return (
        f"the machine's cores are too busy to measure: {_shared(worst)}, and at most "
        f"{BUSY_SHARE_MOST:.0%} of the time may be such, as runs in it are rejected: end other "
        "guests of the host, ask for cores of your own, or measure at another hour"
    )


def _shared(record: NeighbourRecord) -> str:
    other = "busy" if record.beside == "spinning" else "idle"
    return (
        f"{record.cpu}'s CPU, with the other CPU {other}: for {record.busy_share:.0%} of the time "
        f"calls take {record.busy_ratio:.1f} times as long"
    )
