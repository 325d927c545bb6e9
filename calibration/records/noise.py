"""The gate: which runs others disturbed, judged against the quiet ones of the same series.

    server in the run queue / server on its CPU  < 0.05   somebody else ran on CPU 0
    client in the run queue / window             < 0.03   somebody else ran on CPU 1
    stolen by the hypervisor / window            < 0.02   somebody else had the core
    other programs' user time on CPU 0 / window  < 0.05   they fill what the server leaves idle
    spin, memory / the quiet ones of the series  < limit  a slow clock, a busy shared cache
    a system call / one in a calm moment        <= 1.15   one of our CPUs had no core to itself
    median lateness of an open loop's starts     < 1 ms   the open loop was open
    what the load generator offered, and when             generator_gate.py

An absolute calibration limit would belong to one machine, so both calibrations are ratios.
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

QUIET_QUANTILE = 0.25  # of the calibrations of a series; 0 is the quietest ever seen

FLOOR_RATIO_MOST = 1.15
"""Of a cheap system call beside a run over one in a calm moment."""
CALM_QUANTILE = 0.1
"""Of the calls seen: one of a calm moment. A rare clock is faster yet."""

QUIET = Noise(
    server_delay_share=0, client_delay_share=0, steal_share=0, spin_ratio=1, memory_ratio=1
)
"""Where nobody else runs, as in a guest that is emulated."""

SCANNING = ("select", "poll", "epoll_once")
"""Of each wait, what idle connections there are: epoll_once, as all of them can be written."""
SCAN_FILLS_CACHE = 500
"""Idle or kept connections; each has some 2 KB of the kernel's to be looked at in a scan."""


@dataclass(frozen=True)
class NoiseLimits:
    """The largest values that the gate lets through."""

    server_delay_share_max: float = 0.05
    client_delay_share_max: float = 0.03
    steal_share_max: float = 0.02
    foreign_share_max: float = 0.05
    spin_ratio_max: float = 1.10
    memory_ratio_max: float = 1.30
    lag_p50_ns_max: int = 1_000_000


@dataclass
class Series:
    """The calibrations seen so far; a run is judged against the quiet ones, itself included.

    A gate against the very quietest lets one rare calibration condemn all the others: on a
    shared machine a step of the walk through 16 MB took between 20 and 155 ns within an hour,
    mostly over 100. So a run is compared with the lower quartile. What this cannot see is a
    cache that was busy during the whole series; `memory_ns` in the records tells.
    """

    spin_ns: list[float] = field(default_factory=list)
    memory_ns: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[MeasuredRun[Any]]) -> Series:
        """Return the series that earlier runs, accepted or not, belong to."""
        series = cls()
        for record in records:
            series.include(record.noise.spin_ns, record.noise.memory_ns)
        return series

    def include(self, spin_ns: float, memory_ns: float) -> tuple[float, float]:
        """Add a pair of calibrations and return their ratios to the quiet ones; 1 if unknown."""
        return _ratio(self.spin_ns, spin_ns), _ratio(self.memory_ns, memory_ns)


def _ratio(values_ns: list[float], new_ns: float) -> float:
    """Put *new_ns* into its place in the sorted *values_ns*, return its ratio to the quartile."""
    if new_ns <= 0:
        return 1.0
    insort(values_ns, new_ns)
    return new_ns / values_ns[int((len(values_ns) - 1) * QUIET_QUANTILE)]


def floor_fault(floor_ratio: float) -> str:
    """Return the reason to reject a run beside which calls took *floor_ratio* times as long."""
    if floor_ratio <= FLOOR_RATIO_MOST:
        return ""
    return f"floor_ratio must be at most {FLOOR_RATIO_MOST}, got {floor_ratio:.2f}"


def calm_level(sorted_ns: Sequence[float]) -> float:
    """Return what a call takes in a calm moment, by those that were seen: at least one.

    >>> calm_level([180.0, *[200.0] * 10, *[300.0] * 10])
    200.0
    """
    return sorted_ns[int((len(sorted_ns) - 1) * CALM_QUANTILE)]


class WithFloor(Protocol):
    """What was measured, and a cheap system call beside it; 0 where nobody has looked."""

    @property
    def floor_ns(self) -> float:
        """The call, in ns."""

    @property
    def floor_ratio(self) -> float:
        """That over a call of a calm moment, as far as one had been seen then."""


def floor_ratios(rows: Sequence[WithFloor]) -> list[float]:
    """Return the call beside each of the *rows* of a file over one in a calm moment.

    It is the larger of what was stored and the ratio to the calls beside all *rows*: the first of
    a campaign may have been compared with a core that was busy from the beginning.
    """
    seen_ns = sorted(row.floor_ns for row in rows if row.floor_ns > 0)
    if not seen_ns:
        return [row.floor_ratio for row in rows]
    return [max(row.floor_ratio, row.floor_ns / calm_level(seen_ns)) for row in rows]


AnyRun = TypeVar("AnyRun", bound=MeasuredRun[Any])


def judged_by_file(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """Return the *runs* of a file, those rejected beside which `floor_ratios` is too large."""
    ratios = floor_ratios([run.noise for run in runs])
    faults = map(floor_fault, ratios)
    return [run.rejected(fault) if fault else run for run, fault in zip(runs, faults, strict=True)]


def in_calm(rows: Sequence[MicroResult]) -> list[bool]:
    """Return of each row whether nobody else used the core beside it, by all *rows* of its file."""
    return [not floor_fault(ratio) for ratio in floor_ratios(rows)]


def never_calm_text(rows: Sequence[MicroResult]) -> str:
    """Return the sentence about benches without a calm round; empty if all have one.

    >>> never_calm_text([])
    ''
    """
    commands = {row.command for row in rows}
    calm = {row.command for row, was_calm in zip(rows, in_calm(rows), strict=True) if was_calm}
    if commands <= calm:
        return ""
    return (
        f"{len(commands - calm)} of {len(commands)} benches were only measured while another guest "
        "used the core: their costs are too high; the same `dispatchsim measure` command measures "
        "them again"
    )


def delay_share(delay_ns: int, run_ns: int) -> float:
    """Return the time in the run queue over the time on the CPU; 0 for a process that never ran.

    A wake-up by an interrupt waits 1 to 2 us for it to end. Even at 2000 connections a second
    that stays below the limit, so nothing is granted for it.

    >>> delay_share(delay_ns=3_000_000, run_ns=20_000_000)
    0.15
    """
    return delay_ns / run_ns if run_ns > 0 else 0.0


def limits_for(point: Point) -> NoiseLimits:
    """Return the limits for a run of *point*.

    A busy shared cache shows most where more is scanned than the CPU's own cache holds: at 6000
    idle connections it halved the throughput of select and poll; at none or with epoll it took
    some 4%, as much as repeats scatter (raw runs of both kinds are kept). Fit points must be
    quiet all the same, as the microbenchmarks beside them are medians of a quiet machine.

    The run queue's time is that of the thread that began first. On demand it waits for the threads
    it has begun, and of a pool it sleeps: so of threads that block that time says nothing.
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
    """Return whether a run may be used, and if not the first reason why."""
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
