"""Timing in turns, so that a burst next door falls on all cases alike; memory in new processes."""

from __future__ import annotations

import gc
import math
import multiprocessing
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_KIB = 1024


class Measured(NamedTuple):
    """One repetition of one case: *n* connections or customers, wall times, memory."""

    n: int
    run_s: float
    set_up_s: float = 0.0
    bytes_per_connection: float = math.nan


class Spread(NamedTuple):
    """The repetitions of one case: connections or customers a second of wall time, and the rest.

    set_up_s and bytes_per_connection are medians; NaN where the bytes are unknown.
    """

    median_per_s: float
    lowest_per_s: float
    highest_per_s: float
    set_up_s: float
    bytes_per_connection: float


def interleave(
    cases: Mapping[str, Callable[[], Measured]], repetitions: int
) -> dict[str, list[Measured]]:
    """Return *repetitions* of every case, measured in turns: all cases once, then all again.

    Raises
    ------
    ValueError
        If there is to be no repetition.
    """
    if repetitions < 1:
        raise ValueError(f"repetitions must be at least 1, got {repetitions}")
    measured: dict[str, list[Measured]] = {name: [] for name in cases}
    for _ in range(repetitions):
        for name, case in cases.items():
            gc.collect()
            measured[name].append(case())
    return measured


def spread(measured: Sequence[Measured]) -> Spread:
    """Return median and extremes of the repetitions of one case."""
    rates = [m.n / m.run_s for m in measured]
    return Spread(
        statistics.median(rates),
        min(rates),
        max(rates),
        statistics.median(m.set_up_s for m in measured),
        statistics.median(m.bytes_per_connection for m in measured),
    )


def resident_growth(function: Callable[[], Any]) -> int:
    """Return by how many bytes the resident memory of a fresh process grows at its peak.

    The process is spawned, so *function* must be one that can be pickled (`functools.partial` of
    a function of a module); what it imports should be imported by its module, or it counts, too.
    Source: proc_pid_status(5), VmRSS and VmHWM; proc_pid_clear_refs(5).
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_growth, (function,))


def _growth(function: Callable[[], Any]) -> int:
    """Return the growth in this process, from now to its highest."""
    gc.collect()
    # The imports may have left a peak above the present; five resets it.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_bytes("VmRSS")
    kept = function()
    after = _status_bytes("VmHWM")
    del kept
    return max(0, after - before)


def _status_bytes(field: str) -> int:
    """Return a field of /proc/self/status, which the kernel gives in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * _KIB
    raise RuntimeError(f"/proc/self/status has no {field}")
