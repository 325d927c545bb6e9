"""Floods on disk, `flood.jsonl`, one FloodRecord a line; and the arithmetic of their costs.

samples ──── quiet ──┬──── window ────┬── quiet ──      chunks of work by time
records              └ send send send ┘                 calls of the sender, from its start
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...sim.state.units import SECOND_NS
from ..points.flood_points import FloodPoint
from ..testbed.processes import RunError
from .measured_runs import Frozen, MeasuredRun

FLOOD_FILE = "flood.jsonl"

Times = NDArray[np.int64]
ROW_BYTES, RECORD_BYTES = 32, 16
EDGE_NS = 5_000_000
"""Omitted at both ends of each part, where the flood and other programs begin and end."""

SETTLED_NS = 100_000
"""Time after sending by which a datagram is handled, unless others were before it."""


class Quantiles(Frozen):
    """Three quantiles and the mean of *n* values, in ns; 0 if there are no values."""

    n: int
    p10: float
    p50: float
    p90: float
    mean: float


class Sender(Frozen):
    """The sender's packets, their lateness, and the length of its calls.

    `elapsed_ns` runs from the start to the end of the last call.
    """

    due: int
    sent: int
    refused: int
    elapsed_ns: int
    lag_ns: Quantiles
    call_ns: Quantiles


class Victim(Frozen):
    """The process's progress: chunks of work per second, in the window and without a flood.

    `progress` is the ratio of the two, `cpu_share` the process's CPU time over the window.
    `taken_ns` are interruptions within the window (chunks longer by a microsecond or more),
    `taken_quiet_ns` interruptions without a flood: timer ticks.
    """

    quiet_per_s: float
    quiet_after_per_s: float
    flood_per_s: float
    progress: float
    cpu_share: float
    taken_ns: Quantiles
    taken_quiet_ns: Quantiles


class Train(Frozen):
    """The time that a train that comes alone takes from the process, all its interrupts together.

    `delay_ns` is the time from the start of the call that sent the first datagram to the start of
    the long chunk of work: it is too short by up to one chunk.
    """

    taken_ns: Quantiles
    delay_ns: Quantiles


class Kernel(Frozen):
    """The kernel's counts on the process's CPU over the whole run.

    The times of `/proc/stat` are sampled at its ticks. `processed`, `dropped` and `squeezed` are
    from `/proc/net/softnet_stat`, `socket_drops` from the socket that no program reads. `calls`
    counts interrupts from other CPUs, `ksoftirqd_ns` is the CPU time of the thread.
    """

    softirq_ns: int
    steal_ns: int
    calls: int
    processed: int
    dropped: int
    squeezed: int
    socket_drops: int
    ksoftirqd_ns: int


class FloodRecord(MeasuredRun[FloodPoint]):
    """One flood: its point, its measurements, and whether it was accepted."""

    format: Literal["dispatchsim-flood/1"] = "dispatchsim-flood/1"
    sender: Sender
    victim: Victim
    train: Train | None
    kernel: Kernel


@dataclass(frozen=True)
class Samples:
    """The rows of `progress`: long chunks of work, and one every 5 ms."""

    at_ns: Times
    length_ns: Times
    n_chunks: Times
    cpu_ns: Times

    def chunks_by(self, time_ns: float) -> float:
        """Return the number of chunks done by *time_ns*, interpolated between rows."""
        # Work is even until a long chunk begins: its row gives its start and its end.
        times = np.column_stack((self.at_ns, self.at_ns + self.length_ns)).ravel()
        chunks = np.column_stack((self.n_chunks - 1, self.n_chunks)).ravel()
        return float(np.interp(time_ns, times, chunks))

    def per_s(self, begin_ns: int, end_ns: int) -> float:
        """Return the chunks per second between two times."""
        done = self.chunks_by(end_ns) - self.chunks_by(begin_ns)
        return done * SECOND_NS / (end_ns - begin_ns)

    def cpu_share(self, begin_ns: int, end_ns: int) -> float:
        """Return the process's share of CPU time between two times."""
        regular = self.cpu_ns > 0
        ends_ns = (self.at_ns + self.length_ns)[regular]
        at_begin, at_end = np.interp((begin_ns, end_ns), ends_ns, self.cpu_ns[regular])
        return float(at_end - at_begin) / (end_ns - begin_ns)


@dataclass(frozen=True)
class Gaps:
    """Interruptions of the process: start and length of each."""

    at_ns: Times
    taken_ns: Times

    def between(self, begin_ns: int, end_ns: int) -> Gaps:
        """Return the gaps that began between two times."""
        chosen = (self.at_ns >= begin_ns) & (self.at_ns < end_ns)
        return Gaps(self.at_ns[chosen], self.taken_ns[chosen])


def read_samples(path: Path) -> Samples:
    """Return the samples that `progress` wrote, or raise `RunError` if they are not whole."""
    table = _table(path, "progress", "samples", ROW_BYTES)
    return Samples(*(table[:, column] for column in range(4)))


def read_calls(path: Path) -> tuple[Times, Times]:
    """Return begin and length of each call of `flood`, or raise `RunError`."""
    table = _table(path, "flood", "records", RECORD_BYTES)
    return table[:, 0], table[:, 1]


def _table(path: Path, program: str, what: str, row_bytes: int) -> NDArray[np.int64]:
    if not path.is_file():
        raise RunError(f"{program} wrote no {what}")
    content = path.read_bytes()
    if not content or len(content) % row_bytes:
        raise RunError(f"the {what} are {len(content)} bytes, not rows of {row_bytes}")
    return np.frombuffer(content, dtype="<i8").reshape(-1, row_bytes // 8).astype(np.int64)


def gaps_of(samples: Samples, chunk_ns: float) -> Gaps:
    """Return the time beyond *chunk_ns* of the chunks recorded as long."""
    long = samples.length_ns >= chunk_ns + 1000
    taken_ns = np.maximum(samples.length_ns[long] - round(chunk_ns), 0)
    return Gaps(samples.at_ns[long], taken_ns)


def sender_of(due_ns: Times, calls: tuple[Times, Times], counted: dict[str, int]) -> Sender:
    """Return the sender's record from its schedule, its calls and its own counts."""
    at_ns, took_ns = calls
    return Sender(
        due=counted["due"],
        sent=counted["sent"],
        refused=counted["refused"],
        elapsed_ns=counted["elapsed_ns"],
        lag_ns=quantiles_of(at_ns - due_ns[: len(at_ns)]),
        call_ns=quantiles_of(took_ns),
    )


def victim_of(samples: Samples, start_ns: int, end_ns: int, quiet_ns: int) -> Victim:
    """Return the process's progress in a flood between two times, and in *quiet_ns* around it."""
    window = start_ns + EDGE_NS, end_ns - EDGE_NS
    before = start_ns - quiet_ns + EDGE_NS, start_ns - EDGE_NS
    after = end_ns + 2 * EDGE_NS, end_ns + quiet_ns - EDGE_NS
    if samples.at_ns[0] > before[0] or samples.at_ns[-1] < after[1]:
        raise RunError("the samples of progress do not cover the whole flood")
    quiet, quiet_after = samples.per_s(*before), samples.per_s(*after)
    flood = samples.per_s(*window)
    gaps = gaps_of(samples, SECOND_NS / quiet)
    return Victim(
        quiet_per_s=quiet,
        quiet_after_per_s=quiet_after,
        flood_per_s=flood,
        progress=2 * flood / (quiet + quiet_after),
        cpu_share=samples.cpu_share(*window),
        taken_ns=quantiles_of(gaps.between(*window).taken_ns),
        taken_quiet_ns=quantiles_of(gaps.between(*before).taken_ns),
    )


def train_of(
    point: FloodPoint, samples: Samples, sent_ns: Times, quiet_per_s: float
) -> Train | None:
    """Return the time that a train of *point* takes if trains come alone; *sent_ns* by datagram.

    Interruptions from the start of the train's first call until SETTLED_NS after the start of its
    last call belong to the train. Later ones are timer ticks and other programs' interrupts.
    """
    if point.use != "calibration" or not point.steered:
        return None
    chunk_ns = round(SECOND_NS / quiet_per_s)
    gaps = gaps_of(samples, chunk_ns)
    n_trains = len(sent_ns) // point.train
    trains_ns = sent_ns[: n_trains * point.train].reshape(n_trains, point.train)
    # An interrupted chunk began at most one chunk before the datagram was sent.
    begins_ns, ends_ns = trains_ns[:, 0] - chunk_ns, trains_ns[:, -1] + SETTLED_NS
    owner = np.searchsorted(begins_ns, gaps.at_ns, side="right") - 1
    ours = (owner >= 0) & (gaps.at_ns < ends_ns[owner])
    owner = owner[ours]
    taken_ns = np.bincount(owner, weights=gaps.taken_ns[ours], minlength=n_trains)
    first, index = np.unique(owner, return_index=True)
    delay_ns = gaps.at_ns[ours][index] - trains_ns[first, 0]
    return Train(taken_ns=quantiles_of(taken_ns), delay_ns=quantiles_of(delay_ns))


def quantiles_of(values: NDArray[np.int64] | NDArray[np.float64]) -> Quantiles:
    """Return the quantiles and the mean of *values*."""
    if not len(values):
        return Quantiles(n=0, p10=0, p50=0, p90=0, mean=0)
    p10, p50, p90 = np.quantile(values, (0.1, 0.5, 0.9))
    return Quantiles(
        n=len(values),
        p10=round(float(p10), 1),
        p50=round(float(p50), 1),
        p90=round(float(p90), 1),
        mean=round(float(np.mean(values)), 1),
    )
