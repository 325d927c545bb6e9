"""The share of time in which a CPU shared its core, in neighbour.jsonl of a machine.

A core has two hardware threads. A guest cannot see which program uses the other one. `micro calm`
watches a cheap system call, which takes longer while the other thread is busy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from .gap_records import CpuRecord

NEIGHBOUR_FILE = "neighbour.jsonl"
BUSY_SHARE_MOST = 0.5
"""The largest share of time in which a CPU shares its core, with the other CPU busy, as in a run.
Above it most runs find no calm moment within 10 s and are rejected."""


class NeighbourRecord(CpuRecord):
    """The time of a cheap system call on one CPU, in parts of a millisecond.

    `calm_ns` is the call in the calmest tenth of the parts. In a `busy_share` of the parts it took
    more than 1.15 times as long, with a median of `busy_ratio` times as long.
    """

    format: Literal["dispatchsim-neighbour/1"] = "dispatchsim-neighbour/1"
    calm_ns: float
    busy_share: float
    busy_ratio: float


def neighbour_text(records: Iterable[NeighbourRecord]) -> str:
    """Return a sentence on the share of time on a shared core, and the longer calls then.

    >>> neighbour_text([])
    ''
    """
    return "; ".join(
        f"{_shared(record)}, most likely on a shared core"
        for record in records
        if record.busy_share
    )


def busy_problem(records: Iterable[NeighbourRecord]) -> str:
    """Return a sentence if the cores are too busy to measure, else an empty string.

    >>> busy_problem([])
    ''
    """
    busy = [record for record in records if record.beside == "spinning"]
    worst = max(busy, key=lambda record: record.busy_share, default=None)
    if worst is None or worst.busy_share <= BUSY_SHARE_MOST:
        return ""
    return (
        f"the machine's cores are too busy to measure: {_shared(worst)}; the limit is "
        f"{BUSY_SHARE_MOST:.0%} of the time, because such runs are rejected: end other "
        "guests of the host, reserve whole cores, or measure at another time"
    )


def _shared(record: NeighbourRecord) -> str:
    other = "busy" if record.beside == "spinning" else "idle"
    return (
        f"{record.cpu}'s CPU, with the other CPU {other}: for {record.busy_share:.0%} of the time "
        f"calls take {record.busy_ratio:.1f} times as long"
    )
