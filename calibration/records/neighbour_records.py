"""How often somebody else used the core of a CPU, in neighbour.jsonl of a machine.

A core has two hardware threads, and a guest is not told who has the other one. `micro calm` watches
a cheap system call: while the other thread is busy, it and all else takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ..profiles.gap_recordings import recording_name
from .gap_records import Beside, Side
from .measured_runs import Unjudged

NEIGHBOUR_FILE = "neighbour.jsonl"


class NeighbourRecord(Unjudged):
    """A CPU watched for `elapsed_ns`, in parts of a millisecond.

    `calm_ns` is what a call took in the calmest tenth of them. In a `busy_share` of them it took
    more than 1.15 times as long, and `busy_ratio` times as long in their median. `machine` is the
    id of its machine.json, `cpu` whose CPU of the testbed it was, and `beside` what the other CPU
    did meanwhile: nothing, or the same.
    """

    format: Literal["dispatchsim-neighbour/1"] = "dispatchsim-neighbour/1"
    date: str
    code: str
    machine: str
    cpu: Side
    beside: Beside
    elapsed_ns: int
    calm_ns: float
    busy_share: float
    busy_ratio: float

    @property
    def of_task(self) -> tuple[int, str]:
        """One record each: of which CPU."""
        return 0, recording_name(self.cpu, self.beside)


def neighbour_text(records: Iterable[NeighbourRecord]) -> str:
    """Return in words how often cores were used by somebody else, and what that costs.

    >>> neighbour_text([])
    ''
    """
    return "; ".join(
        f"calls on the CPU of the {recording_name(record.cpu, record.beside)} take "
        f"{record.busy_ratio:.1f} times as long for {record.busy_share:.0%} of the time: most "
        "likely it has no core to itself then"
        for record in records
        if record.busy_share
    )
