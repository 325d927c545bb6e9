"""A guest as a target: our own Linux on a CPU that takes 1 ns for each instruction.

    task ─► a free CPU of the host ─► guest ─┬─► result
                                    guest ─┴─► the same bytes, or the run is rejected

Every run of a point is made twice. A result does not depend on the host's other work, so as many
guests run at a time as there are CPUs, each on a CPU of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from ..points.point import FDS_MAX, Point, Steering
from ..points.points import EMULATED, EMULATED_FIT_POINTS, FIT_POINTS_OF
from ..records.gap_records import GapsRecord
from ..records.measured_runs import MicroResult, RunRecord
from ..records.neighbour_records import NeighbourRecord
from ..records.noise import QUIET
from ..testbed.machine_facts import Fact, now_text, version_of
from ..testbed.processes import RunError
from .guest_image import counter_names, guest_code, init_program, server_program
from .guest_run import (
    KERNEL_OPTIONS,
    MEMORY_MIB,
    QEMU,
    Frames,
    Job,
    check_emulator,
    first_difference,
    macro_frames,
    run_guest,
)
from .kernel_build import WIRE_FOLDER, Kernel, build_module, kernel, silent
from .kernel_source import GuestError, ProgressCallback
from .macro_run import job_of, result_of_frames
from .microbenchmarks import MERGED, bench_arguments, bench_commands, micro_program, micro_results
from .run_lengths import DELAY_NS, lengths_of

ID = "counted-linux-6.1"


class Guests(Protocol):
    """Runs jobs in guests; tests use one without an emulator."""

    def run(self, job: Job, cpu: int) -> Frames:
        """Return the frames of a guest on the host's CPU *cpu*, or raise `RunError`."""

    def stop(self) -> None:
        """End all guests that run, and start no more."""


@dataclass(frozen=True)
class Parts:
    """The parts of a guest."""

    server: Path
    micro: Path
    modules: tuple[Path, ...]
    counters: tuple[str, ...]  # names of the server's counters, in the order of their file
    code: str  # the name of the C sources' version
    facts: dict[str, Fact]


class EmulatedTarget:
    """Guests made of *parts*, run by *guests* on the host's CPUs *cpus*."""

    steering: Steering = "emulated"
    identity: Sequence[str] = ("id", "kernel", "kernel_build", "qemu", "gcc", "network_delay_ns")
    notices: Sequence[str] = ()
    rounds = 5
    fit_points: Sequence[Point] = EMULATED_FIT_POINTS
    mechanisms: Sequence[str] = MERGED
    capacity_repeats = 1

    def __init__(self, parts: Parts, guests: Guests, cpus: Sequence[int]) -> None:
        self.n_at_once = len(cpus)
        self._parts = parts
        self._guests = guests
        self._cpus: queue.SimpleQueue[int] = queue.SimpleQueue()
        for cpu in cpus:
            self._cpus.put(cpu)

    def facts(self) -> dict[str, Fact]:
        """Return all facts that determine the results of this target."""
        return self._parts.facts

    def fit_repeats(self, index: int, *, alone: bool) -> Sequence[int]:
        """Return the only repeat, in a campaign of fit points alone."""
        return [0] if alone and index == 0 else []

    def benches(self, index: int, *, quick: bool) -> Sequence[str]:
        """Return the benches for the first round only: a second would give the same results."""
        return bench_commands(self.mechanisms) if index == 0 else []

    def held_out(
        self, _index: int, capacity_per_s: float, *, kept_per_s: float | None = None, quick: bool
    ) -> Sequence[Point]:
        """Return the same points for each round; *quick* keeps about one in ten."""
        points = [
            point
            for point in EMULATED.points(
                "rounds", capacity_per_s=capacity_per_s, kept_per_s=kept_per_s
            )
            if point not in FIT_POINTS_OF[self.steering]
        ]
        return points[::10] if quick else points

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        """Return none: the guest's time stops while the host does other work."""
        return []

    def neighbours(self, *, quick: bool) -> list[NeighbourRecord]:
        """Return none: the target has a machine of its own."""
        return []

    def offers(self, point: Point) -> float:
        """Return 1: the guest's time stops while its clients work."""
        return 1.0

    def recall(self, runs: Iterable[RunRecord], micro: Iterable[MicroResult]) -> None:
        """Ignore them: no run depends on earlier runs."""

    def run_bench(self, command: str, round_number: int) -> list[MicroResult]:
        """Run microbenchmarks in a guest, twice."""
        job = Job("exec", self._parts.micro, bench_arguments(command), modules=self._parts.modules)
        frames, difference = self._twice(job)
        if difference:
            raise RunError(f"repeat differs in {difference}")
        stamp = {
            "date": now_text(),
            "code": self._parts.code,
            "round": round_number,
            "steering": self.steering,
        }
        return micro_results(command, frames["stdout"].decode(), stamp)

    def seed_of(self, point: Point, repeat: int) -> int:
        """Return the seed of the arrivals of a run."""
        return point.seed(repeat)

    def run_point(self, point: Point, repeat: int) -> RunRecord:
        """Run a point in a guest, twice; the record is rejected if the two differ."""
        seed, lengths = self.seed_of(point, repeat), lengths_of(point)
        job = job_of(point, seed, lengths, server=self._parts.server, modules=self._parts.modules)
        frames, difference = self._twice(job)
        window, result = result_of_frames(
            macro_frames(frames, self._parts.counters),
            point,
            records_max=job.settings["records_max"],
        )
        return RunRecord(
            date=now_text(),
            code=self._parts.code,
            steering=self.steering,
            point=point,
            repeat=repeat,
            seed=seed,
            warm_up_ns=window.begin_ns,
            window_ns=window.length_ns,
            result=result,
            noise=QUIET,
            accepted=not difference,
            reason=f"repeat differs in {difference}" if difference else "",
        )

    def stop(self) -> None:
        """End all guests."""
        self._guests.stop()

    def _twice(self, job: Job) -> tuple[Frames, str]:
        """Return the frames of *job*, and the first difference in a second run's frames."""
        cpu = self._cpus.get()
        try:
            first, second = (self._guests.run(job, cpu) for _ in range(2))
        finally:
            self._cpus.put(cpu)
        return first, first_difference(first, second, self._parts.counters)


class QemuGuests:
    """Guests in QEMU, with one kernel and one first program."""

    def __init__(self, kernel: Kernel, init: Path) -> None:
        self._kernel = kernel
        self._init = init
        self._stopping = threading.Event()

    def run(self, job: Job, cpu: int) -> Frames:
        """Return the frames of a guest on the host's CPU *cpu*."""
        try:
            output = run_guest(
                job, kernel=self._kernel, init=self._init, cpu=cpu, stopping=self._stopping
            )
        except GuestError as error:
            raise RunError(str(error)) from error
        return output.frames

    def stop(self) -> None:
        """End all guests that run, and start no more."""
        self._stopping.set()


def emulated_target(progress: ProgressCallback = silent) -> EmulatedTarget:
    """Return the emulated target; *progress* and errors are those of `target_of`."""
    return target_of(EmulatedTarget, ID, progress=progress)


AnyTarget = TypeVar("AnyTarget", bound=EmulatedTarget)


def target_of(
    kind: type[AnyTarget],
    identity: str,
    *,
    patches: Sequence[Path] = (),
    modules: Sequence[Path] = (),
    progress: ProgressCallback = silent,
) -> AnyTarget:
    """Return a target of *kind*; a missing version is built first (minutes).

    Parameters
    ----------
    kind, identity
        The class, and the name of the machine.
    patches
        The insertions into its kernel.
    modules
        The folders of each guest's modules besides the network's.
    progress
        Called with the current activity, the steps done and the number of steps.

    Raises
    ------
    TargetMissingError
        If QEMU, the sources of Linux or a tool to build them are not installed.
    TargetError
        If a part does not build.
    """
    check_emulator()
    built = kernel(patches=patches, progress=progress)
    server = server_program()
    parts = Parts(
        server=server,
        micro=micro_program(),
        modules=tuple(build_module(folder, built) for folder in (WIRE_FOLDER, *modules)),
        counters=counter_names(server),
        code=guest_code(),
        facts=_facts(identity, built),
    )
    cpus = sorted(os.sched_getaffinity(0))
    return kind(parts, QemuGuests(built, init_program()), cpus)


def _facts(identity: str, built: Kernel) -> dict[str, Fact]:
    """Return all facts that determine a result, except the C sources, which each record names."""
    made_from = json.loads((built.image.parent / "target.json").read_text())
    config = built.config.read_text()
    release = re.search(r"^# Linux/\S+ (\S+) Kernel Configuration$", config, re.MULTILINE)
    hz = re.search(r"^CONFIG_HZ=(\d+)$", config, re.MULTILINE)
    return {
        "format": "dispatchsim-machine/1",
        "id": identity,
        "date": now_text(),
        "cpu_model": "counted: 1 instruction = 1 ns, no caches",
        "cpu_count": 1,
        "memory_bytes": MEMORY_MIB << 20,
        "kernel": release[1] if release else "",
        "kernel_build": built.id,
        "kernel_config": hashlib.sha256(config.encode()).hexdigest()[:12],
        "kernel_options": KERNEL_OPTIONS,
        "linux_source": made_from["linux_source"],
        **({"kernel_patches": made_from["patches"]} if made_from["patches"] else {}),
        "timer_hz": int(hz[1]) if hz else None,
        "qemu": version_of(QEMU),
        "gcc": version_of("gcc"),
        "fd_limit": FDS_MAX,
        "network_delay_ns": DELAY_NS,
    }
