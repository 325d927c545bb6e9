"""Wait until each of our two CPUs has a core to itself; reject a run after which one has not.

    calm? ─► run ─► calm?       both times a cheap system call must take at most 1.15 times its
                                time in a calm moment; otherwise the run does not count

A core has two hardware threads. On a shared host another guest may use the other thread for
seconds, or the host may place both our CPUs on one core. Calls then take half as long again, an
interrupt twice as long. No counter of stolen time or of gaps shows it. A median over both states
describes neither.

Each check takes 50 ms, right before and right after a run; changes between them are not detected.
The reference call is a low quantile of all calls, so a permanently shared core is not detected
either. Runs accepted before any calm moment are judged again by the calls beside all runs of their
file (`noise.judged_by_file`).
"""

from __future__ import annotations

import json
import time
from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from ..records.gap_records import Beside, Side
from ..records.measured_runs import MicroResult, Noise
from ..records.neighbour_records import NeighbourRecord
from ..records.noise import FLOOR_RATIO_MOST, calm_level, floor_fault
from ..testbed.c_build import Programs
from ..testbed.machine_facts import machine_id, now_text
from ..testbed.processes import PRIORITY_HIGHEST, Child, RunError
from ..testbed.testbed import Testbed

PATIENCE_S = 10.0
"""The longest wait for a calm moment. The run is made and judged in any case."""
PATIENCE_BESIDE_S = 2.0
"""The same for the short benches beside a run."""
RECORDED_S = 10.0
"""How long each CPU is watched for a record."""
_FIELDS = ("p10", "last_ns", "beside_last_ns", "waited_ns", "busy_share", "busy_ratio")
_TRIES = 3
_BENCH_PATIENCE_S = 5.0
_BRIEF_PATIENCE_S = 0.3
_BRIEF_PATIENCE_IN_ALL_S = 10.0
_CHECK_S = 0.05  # the bench's calm must last this long
_FIRST_CHECKS = 40  # 2 s; a busy core is sometimes calm


class WithNoise(Protocol):
    """A run with its noise, of our own server or of another."""

    @property
    def noise(self) -> Noise | None:
        """The disturbances of the run."""

    def rejected(self, reason: str) -> Self:
        """Return the run as one that does not count."""

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return the run with other fields."""


Run = TypeVar("Run", bound=WithNoise)


class Floor(NamedTuple):
    """The time of a system call beside a run (the longer of two), and its ratio to a calm one."""

    floor_ns: float
    floor_ratio: float


class CalmCore:
    """Whether each CPU of *testbed* has a core to itself."""

    def __init__(self, testbed: Testbed, programs: Programs) -> None:
        self._testbed = testbed
        self._programs = programs
        self._seen_ns: list[float] = []
        self._brief_patience_s = _BRIEF_PATIENCE_IN_ALL_S

    @property
    def calm_ns(self) -> float:
        """A call in a calm moment: a low quantile, as a rare boost of the clock is faster yet."""
        return calm_level(self._seen_ns)

    def recall(self, rows: Iterable[WithNoise | MicroResult]) -> None:
        """Add the calls beside earlier runs to the known calls."""
        for row in rows:
            source = row if isinstance(row, MicroResult) else row.noise
            if source is not None and source.floor_ns > 0:
                insort(self._seen_ns, source.floor_ns)

    def judged(self, measure: Callable[[], Run]) -> Run:
        """Return the run of *measure* in a calm moment, rejected if the calm did not last.

        Raises
        ------
        RunError
            If the bench fails, or *measure* does.
        """
        before_ns = self.wait()
        run = measure()
        floor = self.since(before_ns)
        if run.noise is not None:
            noise = run.noise.model_copy(update=floor._asdict())
            run = run.model_copy(update={"noise": noise})
        fault = floor_fault(floor.floor_ratio)
        return run.rejected(fault) if fault else run

    def bench(self, measure: Callable[[], list[MicroResult]]) -> list[MicroResult]:
        """Return the rows of a bench in a calm moment; errors as of `judged`.

        Without a calm moment the bench is repeated twice; the rows of the calmest are kept.
        """
        tries: list[tuple[Floor, list[MicroResult]]] = []
        for _ in range(_TRIES):
            before_ns = self.wait(_BENCH_PATIENCE_S)
            rows = measure()
            floor = self.since(before_ns)
            tries.append((floor, rows))
            if not floor_fault(floor.floor_ratio):
                break
        floor, rows = min(tries, key=lambda each: each[0].floor_ratio)
        return [row.model_copy(update=floor._asdict()) for row in rows]

    def brief(self, measure: Callable[[], list[MicroResult]]) -> list[MicroResult]:
        """Return the rows of a brief bench after waiting 0.3 s at most; errors as of `judged`.

        All brief benches together wait 10 s at most.
        """
        began_s = time.monotonic()
        ns = self.wait(min(_BRIEF_PATIENCE_S, self._brief_patience_s))
        self._brief_patience_s -= max(0.0, time.monotonic() - began_s - _CHECK_S)
        floor = Floor(ns, ns / self.calm_ns)
        return [row.model_copy(update=floor._asdict()) for row in measure()]

    def wait(self, patience_s: float | None = None) -> float:
        """Wait for a calm moment, at most *patience_s*; return the time of a call then, in ns.

        Raises
        ------
        RunError
            If the bench fails.
        """
        patience_s = PATIENCE_S if patience_s is None else patience_s
        if not self._seen_ns:
            for _ in range(_FIRST_CHECKS):
                self._check(_CHECK_S, limit_ns=0)
        return self._check(max(patience_s, _CHECK_S), self.calm_ns * FLOOR_RATIO_MOST)

    def is_calm(self, call_ns: float) -> bool:
        """Return whether *call_ns* is the time of a call in a calm moment."""
        return not floor_fault(call_ns / self.calm_ns)

    def since(self, before_ns: float) -> Floor:
        """Return the longer call of now and *before_ns*, and its ratio; errors as of `wait`."""
        ns = max(before_ns, self._check(_CHECK_S, limit_ns=0))
        return Floor(ns, ns / self.calm_ns)

    def _check(self, seconds: float, limit_ns: float) -> float:
        """Return the time of a call in the last 50 ms, on the CPU where it was longer."""
        testbed = self._testbed
        cpus = testbed.server_cpu, testbed.client_cpu
        printed = _watch(self._programs, cpus, seconds, limit_ns)
        ns = max(printed["last_ns"], printed["beside_last_ns"])
        insort(self._seen_ns, ns)
        return ns


def measure_neighbours(
    testbed: Testbed, programs: Programs, *, seconds: float = RECORDED_S
) -> list[NeighbourRecord]:
    """Return the share of time in which each CPU shares its core, alone and beside the other.

    Each case takes *seconds*.

    Raises
    ------
    RunError
        If the bench fails.
    """
    cpus: dict[Side, int] = {"server": testbed.server_cpu, "client": testbed.client_cpu}
    cases: list[tuple[Side, Beside, tuple[int, int]]] = [
        ("server", "nothing", (cpus["server"], cpus["server"])),
        ("client", "nothing", (cpus["client"], cpus["client"])),
        ("server", "spinning", (cpus["server"], cpus["client"])),
        ("client", "spinning", (cpus["client"], cpus["server"])),
    ]
    found = []
    for side, beside, pair in cases:
        printed = _watch(programs, pair, seconds, limit_ns=0)
        found.append(
            NeighbourRecord(
                date=now_text(),
                code=programs.code,
                machine=machine_id(),
                cpu=side,
                beside=beside,
                elapsed_ns=round(printed["waited_ns"]),
                calm_ns=printed["p10"],
                busy_share=printed["busy_share"],
                busy_ratio=printed["busy_ratio"],
            )
        )
    return found


def _watch(
    programs: Programs, cpus: tuple[int, int], seconds: float, limit_ns: float
) -> dict[str, float]:
    """Return the numbers in a line of `micro calm` while both CPUs work."""
    cpu, beside = cpus
    command = [
        programs.path("micro"), "calm", "--cpu", str(cpu), "--peer-cpu", str(beside),
        "--milliseconds", str(round(seconds * 1000)), "--limit-ps", str(round(limit_ns * 1000)),
    ]  # fmt: skip
    with Child("micro calm", command, cpu=cpus, priority=PRIORITY_HIGHEST) as child:
        line = child.read_line(timeout_s=10 + seconds)
    try:
        printed = json.loads(line)
        return {name: float(printed[name]) for name in _FIELDS}
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"micro calm must print {', '.join(_FIELDS)}, got {line}") from error
