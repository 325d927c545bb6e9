"""How often a CPU shared its core, in neighbour.jsonl of a machine.

A core has two hardware threads, and a guest is not told who has the other one. `micro calm` watches
a cheap system call: while the other thread is busy, it and all else takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .gap_records import CpuRecord

NEIGHBOUR_FILE = "neighbour.jsonl"


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
        f"calls on the CPU of the {record.name} take "
        f"{record.busy_ratio:.1f} times as long for {record.busy_share:.0%} of the time: most "
        "likely it has no core to itself then"
        for record in records
        if record.busy_share
    )
