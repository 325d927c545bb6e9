"""Timing in turns, so that a burst next door falls on all cases alike; memory in new processes."""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import signal
import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_KIB = 1024
_PRELOADED = "dispatchsim.validation.benchmarks.contestants"

Name = TypeVar("Name")


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
    cases: Mapping[Name, Callable[[], Measured]],
    repetitions: int,
    *,
    once: Collection[Name] = (),
    told: Callable[[], None] = lambda: None,
) -> dict[Name, list[Measured]]:
    """Return *repetitions* of every case, measured in turns: all cases once, then all again.

    Parameters
    ----------
    cases, repetitions:
        What is measured, and how often.
    once:
        Cases that are measured in the first turn only.
    told:
        Called after each measurement.

    Raises
    ------
    ValueError
        If there is to be no repetition.
    """
    if repetitions < 1:
        raise ValueError(f"repetitions must be at least 1, got {repetitions}")
    measured: dict[Name, list[Measured]] = {name: [] for name in cases}
    for turn in range(repetitions):
        for name, case in cases.items():
            if turn == 0 or name not in once:
                with no_collection():
                    measured[name].append(case())
                told()
    return measured


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from what is timed, after it has done its work."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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


def resident_growth(function: Callable[[], Any], warm_up: Callable[[], Any] = tuple) -> int:
    """Return by how many bytes the resident memory of a fresh process grows at its peak.

    The process is forked off one that has imported this package and done nothing. Both functions
    must be such that can be pickled (`functools.partial` of a function of a module); what
    *warm_up* needs, compiled code above all, is not counted.
    Source: proc_pid_status(5), VmRSS and VmHWM; proc_pid_clear_refs(5); malloc_trim(3).
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    # Ctrl-C goes to all processes of a terminal; this one ends with its parent's pool.
    ignore = signal.SIGINT, signal.SIG_IGN
    with context.Pool(1, initializer=signal.signal, initargs=ignore) as pool:
        return pool.apply(_growth, (function, warm_up))


def _growth(function: Callable[[], Any], warm_up: Callable[[], Any]) -> int:
    """Return the growth in this process, from after the warm-up to its highest."""
    warm_up()
    gc.collect()
    # What the warm-up freed stays with the allocator, and would hold the first run for nothing.
    ctypes.CDLL(None).malloc_trim(0)
    # The imports may have left a peak above the present; five resets it.
    Path("/proc/self/clear_refs").write_text("5")
    before = status_bytes("VmRSS")
    kept = function()
    after = status_bytes("VmHWM")
    del kept
    return max(0, after - before)


def status_bytes(field: str) -> int:
    """Return a field of /proc/self/status, which the kernel gives in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * _KIB
    raise RuntimeError(f"/proc/self/status has no {field}")
