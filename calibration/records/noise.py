"""The gate: reject disturbed runs by comparison with the quiet runs of the same series.

    server in the run queue / server on its CPU  < 0.05   else other programs ran on CPU 0
    client in the run queue / window             < 0.03   else other programs ran on CPU 1
    stolen by the hypervisor / window            < 0.02   else another guest had the core
    other programs' user time on CPU 0 / window  < 0.05   else they filled the server's idle time
    spin, memory / the quiet ones of the series  < limit  else a slow clock, a busy shared cache
    a system call / one in a calm moment        <= 1.15   else one of our CPUs shared its core
    median lateness of an open loop's starts     < 1 ms   else the loop was not open
    the load generator's load and lateness                generator_gate.py

An absolute limit would hold for one machine only, so both calibrations are ratios.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from ..points.point import Point
from ..points.points import FIT_POINTS
from .measured_runs import MeasuredRun, MicroResult, Noise

QUIET_QUANTILE = 0.25  # of the calibrations of a series; 0 is the quietest

FLOOR_RATIO_MOST = 1.15
"""The largest ratio of a cheap system call beside a run to one in a calm moment."""
CALM_QUANTILE = 0.1
"""The quantile of calls that counts as a calm moment. A rare boost of the clock is faster yet."""

QUIET = Noise(
    server_delay_share=0, client_delay_share=0, steal_share=0, spin_ratio=1, memory_ratio=1
)
"""The noise if nothing else runs, as in an emulated guest."""

SCANNING = ("select", "poll", "epoll_once")
"""Mechanisms whose waits check idle connections: epoll_once, because all are writable."""
SCAN_FILLS_CACHE = 500
"""Idle or kept connections; a scan reads some 2 KB of kernel memory for each."""


@dataclass(frozen=True)
class NoiseLimits:
    """The largest values that the gate accepts."""

    server_delay_share_max: float = 0.05
    client_delay_share_max: float = 0.03
    steal_share_max: float = 0.02
    foreign_share_max: float = 0.05
    spin_ratio_max: float = 1.10
    memory_ratio_max: float = 1.30
    lag_p50_ns_max: int = 1_000_000


@dataclass
class Series:
    """The calibrations so far; a run is judged against the quiet ones, its own included.

    A comparison with the quietest would let one rare calibration reject all others: on a shared
    machine a step of the walk through 16 MB took 20 to 155 ns within an hour, mostly over 100. So a
    run is compared with the lower quartile. A cache that is busy during the whole series is not
    detected, but `memory_ns` in the records shows it.
    """

    spin_ns: list[float] = field(default_factory=list)
    memory_ns: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[MeasuredRun[Any]]) -> Series:
        """Return the series of earlier runs, accepted or not."""
        series = cls()
        for record in records:
            series.include(record.noise.spin_ns, record.noise.memory_ns)
        return series

    def include(self, spin_ns: float, memory_ns: float) -> tuple[float, float]:
        """Add a pair of calibrations, and return their ratios to the quiet ones; 1 if unknown."""
        return _ratio(self.spin_ns, spin_ns), _ratio(self.memory_ns, memory_ns)


def _ratio(values_ns: list[float], new_ns: float) -> float:
    """Insert *new_ns* into the sorted *values_ns*, and return its ratio to the quartile."""
    if new_ns <= 0:
        return 1.0
    insort(values_ns, new_ns)
    return new_ns / values_ns[int((len(values_ns) - 1) * QUIET_QUANTILE)]


def floor_fault(floor_ratio: float) -> str:
    """Return why a run is rejected whose calls took *floor_ratio* times as long."""
    if floor_ratio <= FLOOR_RATIO_MOST:
        return ""
    return f"floor_ratio must be at most {FLOOR_RATIO_MOST}, got {floor_ratio:.2f}"


def calm_level(sorted_ns: Sequence[float]) -> float:
    """Return the time of a call in a calm moment, from at least one measured call.

    >>> calm_level([180.0, *[200.0] * 10, *[300.0] * 10])
    200.0
    """
    return sorted_ns[int((len(sorted_ns) - 1) * CALM_QUANTILE)]


class WithFloor(Protocol):
    """A measurement with a cheap system call beside it; 0 if not measured."""

    @property
    def floor_ns(self) -> float:
        """The call, in ns."""

    @property
    def floor_ratio(self) -> float:
        """The ratio of the call to one in a calm moment, of those measured by then."""


def floor_ratios(rows: Sequence[WithFloor]) -> list[float]:
    """Return the ratio of the call beside each of *rows* to one in a calm moment.

    It is the larger of the stored ratio and the ratio to the calls beside all *rows* of the file.
    The first rows of a campaign may have been compared with a core that was busy from the start.
    """
    seen_ns = sorted(row.floor_ns for row in rows if row.floor_ns > 0)
    if not seen_ns:
        return [row.floor_ratio for row in rows]
    return [max(row.floor_ratio, row.floor_ns / calm_level(seen_ns)) for row in rows]


AnyRun = TypeVar("AnyRun", bound=MeasuredRun[Any])


def judged_by_file(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """Return the *runs* of a file; runs with too large `floor_ratios` are rejected."""
    ratios = floor_ratios([run.noise for run in runs])
    faults = map(floor_fault, ratios)
    return [run.rejected(fault) if fault else run for run, fault in zip(runs, faults, strict=True)]


def in_calm(rows: Sequence[MicroResult]) -> list[bool]:
    """Return for each row whether its core was calm, judged by all *rows* of its file."""
    return [not floor_fault(ratio) for ratio in floor_ratios(rows)]


def never_calm_text(rows: Sequence[MicroResult]) -> str:
    """Return a sentence on benches without a calm round; empty if all have one.

    >>> never_calm_text([])
    ''
    """
    commands = {row.command for row in rows}
    calm = {row.command for row, was_calm in zip(rows, in_calm(rows), strict=True) if was_calm}
    if commands <= calm:
        return ""
    return (
        f"{len(commands - calm)} of {len(commands)} benches were only measured while another guest "
        "used the core, so their costs are too high: `dispatchsim measure machine micro` measures "
        "them again"
    )


def delay_share(delay_ns: int, run_ns: int) -> float:
    """Return the time in the run queue over the time on the CPU; 0 if the process never ran.

    A wake-up by an interrupt waits 1 to 2 us for the interrupt's end. Even at 2000 connections/s
    this stays below the limit, so it is not subtracted.

    >>> delay_share(delay_ns=3_000_000, run_ns=20_000_000)
    0.15
    """
    return delay_ns / run_ns if run_ns > 0 else 0.0


def limits_for(point: Point) -> NoiseLimits:
    """Return the limits for a run of *point*.

    A busy shared cache matters most if a scan exceeds the CPU's own cache: at 6000 idle connections
    it halved the throughput of select and poll. Without idle connections, or with epoll, the loss
    was some 4%, equal to the scatter of repeats (raw runs of both kinds are kept). Fit points must
    be quiet anyway, because the microbenchmarks are medians of a quiet machine.

    The time in the run queue is that of the first thread. With threads on demand it waits for
    threads that it has begun, and in a pool it sleeps. So this time is not meaningful for blocking
    threads.
    """
    n_watched = point.idle.connections + (point.load.connections or 0)
    scans = n_watched >= SCAN_FILLS_CACHE and point.server.mechanism in SCANNING
    limits = NoiseLimits()
    if not scans and point not in FIT_POINTS:
        limits = replace(limits, memory_ratio_max=math.inf)
    if point.blocks:
        limits = replace(limits, server_delay_share_max=math.inf)
    return limits


def judge(noise: Noise, *, lag_p50_ns: int, limits: NoiseLimits | None = None) -> tuple[bool, str]:
    """Return whether a run may be used, and the first reason if not."""
    limits = limits or NoiseLimits()
    checks = (
        ("server_delay_share", noise.server_delay_share, limits.server_delay_share_max),
        ("client_delay_share", noise.client_delay_share, limits.client_delay_share_max),
        ("steal_share", noise.steal_share, limits.steal_share_max),
        ("foreign_share", noise.foreign_share, limits.foreign_share_max),
        ("spin_ratio", noise.spin_ratio, limits.spin_ratio_max),
        ("memory_ratio", noise.memory_ratio, limits.memory_ratio_max),
        ("lag_p50_ns", lag_p50_ns, limits.lag_p50_ns_max),
    )
    for name, value, most in checks:
        if value >= most:
            shown = f"{value:.3f}" if isinstance(value, float) else str(value)
            return False, f"{name} must be below {most}, got {shown}"
    return True, ""
