"""Guests without an emulator: the frames of a run in which every connection takes 80 us."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from dispatchsim.calibration.emulated.guest_run import (
    RECORD_FIELDS,
    STATUS_FIELDS,
    TIMES_FIELDS,
    USAGE_FIELDS,
    Frames,
    Job,
)
from dispatchsim.calibration.emulated.target import EmulatedTarget, Parts
from dispatchsim.calibration.points.points import FIT_POINT
from dispatchsim.calibration.testbed.processes import RunError

COUNTERS = ("waits", "events", "accepts", "replies", "connections_open")
LATENCY_NS = 80_000
BEGIN_NS = 1_000_000_000
CLOSED_PER_S = 20_000

Spoil = Callable[[int, dict[str, bytes]], None]
"""Called with the number of a run and its frames, which it may change."""


class FakeGuests:
    """Answers jobs at once, or after *seconds*; *spoil* may change what a run gives."""

    def __init__(self, spoil: Spoil | None = None, seconds: float = 0.0) -> None:
        self.cpus_at_once: list[tuple[int, ...]] = []
        self.n_runs = 0
        self._spoil = spoil
        self.seconds = seconds
        self.running: list[int] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def run(self, job: Job, cpu: int) -> Frames:
        with self._lock:
            number, self.n_runs = self.n_runs, self.n_runs + 1
            self.running.append(cpu)
            self.cpus_at_once.append(tuple(self.running))
        try:
            if self._stopping.wait(self.seconds):
                raise RunError("the guest was stopped")
        finally:
            with self._lock:
                self.running.remove(cpu)
        frames = frames_of(job)
        if self._spoil:
            self._spoil(number, frames)
        return frames

    def stop(self) -> None:
        self._stopping.set()


def fake_target(guests: FakeGuests, n_cpus: int = 2) -> EmulatedTarget:
    facts = {
        name: f"a {name}" for name in ("id", "kernel", "kernel_build", "qemu", "gcc", "date")
    } | {"network_delay_ns": 50_000}
    parts = Parts(
        server=Path("server"),
        micro=Path("micro"),
        modules=(),
        counters=COUNTERS,
        code="guest-0",
        facts={**facts},
    )
    return OneFitPoint(parts, guests, range(n_cpus))


class OneFitPoint(EmulatedTarget):
    """A target of few tasks: no microbenchmarks, and one point for the fit."""

    fit_points = (FIT_POINT,)

    def benches(self, index: int, *, quick: bool) -> Sequence[str]:
        """Return none: what a fake guest prints is a macro run's."""
        return []


def frames_of(job: Job) -> dict[str, bytes]:
    """Return what the guest prints; an open loop starts as its trace says."""
    warm_up_ns, window_ns = (job.settings[name] for name in ("warm_up_ns", "window_ns"))
    begin_ns, end_ns = BEGIN_NS + warm_up_ns + 5_000, BEGIN_NS + warm_up_ns + window_ns + 7_000
    rows = [line.split() for line in job.trace.decode().splitlines() if line[0].isdigit()]
    at_ns = np.array([int(row[0]) for row in rows])
    if b"loop closed" in job.trace:
        at_ns = np.arange(0, warm_up_ns + window_ns, 1_000_000_000 // CLOSED_PER_S)
    n = at_ns.size
    records = np.column_stack([at_ns, at_ns, at_ns + 40_000, at_ns + LATENCY_NS, np.zeros(n, int)])
    return {
        "counters_before": _row(COUNTERS, waits=10),
        "counters_after": _row(COUNTERS, waits=30, events=50, accepts=25, replies=25),
        "wire_before": _row(STATUS_FIELDS, now_ns=begin_ns, idle_ns=BEGIN_NS, n_interrupts=5),
        "wire_after": _row(
            STATUS_FIELDS, now_ns=end_ns, idle_ns=BEGIN_NS + window_ns // 4, n_interrupts=95
        ),
        "usage_before": _row(USAGE_FIELDS),
        "usage_after": _row(USAGE_FIELDS, run_ns=window_ns // 2, n_switches_voluntary=17),
        "wire_end": _row(STATUS_FIELDS, n_started=n),
        "times": _row(TIMES_FIELDS, begin_ns=BEGIN_NS),
        "records": records.astype("<i8").tobytes(),
        "end": b"0",
    }


def changed(content: bytes, fields: Iterable[str], name: str, add: int) -> bytes:
    """Return the numbers in *content*, *add* more in the first row's field *name*."""
    numbers = np.frombuffer(content, "<i8").copy()
    numbers[list(fields).index(name)] += add
    return numbers.tobytes()


def spoil_records(number: int, frames: dict[str, bytes]) -> None:
    """Let the second run of each pair end its first connection later."""
    if number % 2:
        frames["records"] = changed(frames["records"], RECORD_FIELDS, "done_ns", 1)


def _row(fields: Iterable[str], **values: int) -> bytes:
    row = [values.get(name, 0) for name in fields]
    assert sum(row) == sum(values.values())
    return np.array(row, "<i8").tobytes()


def wait_for(condition: Callable[[], bool]) -> None:
    """Let time pass until *condition* holds."""
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
