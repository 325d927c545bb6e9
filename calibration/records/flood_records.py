"""Raw results of floods on disk: `flood.jsonl`, one FloodRecord a line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..points.flood_points import FloodPoint
from .measured_runs import Loaded, Noise, read_rows

FLOOD_FORMAT = "dispatchsim-flood/1"
FLOOD_FILE = "flood.jsonl"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Quantiles(_Frozen):
    """Three quantiles and the mean of *n* values, in ns; 0 where there is none."""

    n: int
    p10: float
    p50: float
    p90: float
    mean: float


class Sender(_Frozen):
    """What the sender did: how many, how late, and how long its calls took.

    `elapsed_ns` runs from the start to the end of the last call.
    """

    due: int
    sent: int
    refused: int
    elapsed_ns: int
    lag_ns: Quantiles
    call_ns: Quantiles


class Victim(_Frozen):
    """What the process got: chunks of work, per second, in the window and without a flood.

    `progress` is the ratio of the two, `cpu_share` its CPU time by its own clock over the window.
    `taken_ns` are the times for which its CPU was taken away within the window (chunks that took
    longer by a microsecond and more), `taken_quiet_ns` those without a flood: timer ticks.
    """

    quiet_per_s: float
    quiet_after_per_s: float
    flood_per_s: float
    progress: float
    cpu_share: float
    taken_ns: Quantiles
    taken_quiet_ns: Quantiles


class Train(_Frozen):
    """What a train that comes alone takes from the process, all its interrupts together.

    `delay_ns` runs from the begin of the call that sent its first datagram to the begin of the
    chunk of work that took long: it is up to one chunk too short.
    """

    taken_ns: Quantiles
    delay_ns: Quantiles


class Kernel(_Frozen):
    """What the kernel counted on the process's CPU over the whole run.

    The times of `/proc/stat` are sampled at its ticks. `processed`, `dropped` and `squeezed` are of
    `/proc/net/softnet_stat`, `socket_drops` of the socket that nobody reads, `calls` interrupts by
    which another CPU called this one, `ksoftirqd_ns` the time that its thread ran.
    """

    softirq_ns: int
    steal_ns: int
    calls: int
    processed: int
    dropped: int
    squeezed: int
    socket_drops: int
    ksoftirqd_ns: int


class FloodRecord(_Frozen):
    """One flood: which, what was measured, and whether the gate let it through."""

    format: Literal["dispatchsim-flood/1"] = "dispatchsim-flood/1"
    date: str
    code: str
    point: FloodPoint
    repeat: int
    seed: int
    window_ns: int
    sender: Sender
    victim: Victim
    train: Train | None
    kernel: Kernel
    noise: Noise
    accepted: bool
    reason: str


def read_floods(path: Path) -> Loaded[FloodRecord]:
    """Return the floods of *path*; a missing file holds none."""
    return read_rows(path, FloodRecord, FLOOD_FORMAT)
