"""Run one operating point again and again on a busy host, and count the distinct answers.

    busy loops ──┐
                 ▼
    one job ─► run 1 ... run N ─► frames ─► how many distinct; by how much; what differs first

    python -m dispatchsim.calibration.emulated.determinism --runs 12 --load 2
    python -m dispatchsim.calibration.emulated.determinism --runs 6 --late 100
    python -m dispatchsim.calibration.emulated.determinism --runs 6 --late 100 --unordered

The second command has the emulator's threads meet as badly as they can (late_main_loop.c); the
third also leaves out what keeps them apart, and shows what that is for. Ends with status 0 if
all runs were the same to the bit, with 1 if not, with 2 if they could not be made.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..points.points import Point
from ..records.run_result import difference
from .errors import TargetError, TargetMissingError
from .grid import RunLengths
from .guest_frames import Frames, MacroFrames, first_difference, macro_frames
from .guest_programs import counter_names, init_program, server_program
from .guest_run import ICOUNT, GuestOutput, Job, run_guest
from .kernel_build import WIRE_FOLDER, build_module, kernel
from .macro_run import job_of

POINT = Point(mechanism="epoll_level", loop="open", rate_per_s=5_000)
"""Half idle: the guest falls asleep some 3,000 times a second, which is when things go wrong."""

LENGTHS = RunLengths(warm_up_ns=100_000_000, window_ns=200_000_000)
SEED = 1
SPREAD_MAX = 1e-4
"""Of the server's CPU time a request, largest over smallest less one; counts must be equal."""

_UNORDERED = "shift=0,sleep=off"
_BUSY_LOOP = "while True: pass"
_LATE_SOURCE = Path(__file__).resolve().parent / "late_main_loop.c"
_LATE_OPTIONS = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC")


@dataclass(frozen=True)
class Seen:
    """What one run came to; `cpu_ns` is the CPU's busy time in the window."""

    digest: str
    cpu_ns: int
    counts: dict[str, int]
    wall_s: float

    @property
    def cpu_ns_per_request(self) -> float:
        """The server's CPU time a reply; its error is that of `cpu_ns`, 1 us in the window."""
        return self.cpu_ns / self.counts["replies"]


@dataclass(frozen=True)
class Verdict:
    """How much runs differ: the number of distinct outputs, and the spread of CPU a request."""

    n_runs: int
    n_distinct: int
    n_largest: int
    spread: float
    same_counts: bool

    @property
    def identical(self) -> bool:
        """All outputs are the same to the bit."""
        return self.n_distinct == 1

    @property
    def within_limits(self) -> bool:
        """The counts are equal and the CPU time a request agrees, whatever the latencies do."""
        return self.same_counts and self.spread <= SPREAD_MAX

    def __str__(self) -> str:
        """Say it in one line."""
        counts = "equal" if self.same_counts else "different"
        outputs = "1 distinct output" if self.identical else f"{self.n_distinct} distinct outputs"
        return (
            f"{self.n_runs} runs, {outputs}, {self.n_largest} like the most "
            f"frequent; CPU a request agrees within {self.spread:.1e}, counts are {counts}"
        )


def digest_of(frames: Frames) -> str:
    """Return twelve hexadecimal digits that change with any bit of any frame."""
    digest = hashlib.sha256()
    for name, content in sorted(frames.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def seen_of(frames: Frames, content: MacroFrames, wall_s: float) -> Seen:
    """Return what a run came to."""
    on_wire = difference(content.wire_before, content.wire_after)
    wire = {name: on_wire[name] for name in _WIRE_COUNTS}
    calls = difference(content.counters_before, content.counters_after)
    busy_ns = wire.pop("now_ns") - wire.pop("idle_ns")
    return Seen(digest_of(frames), busy_ns, {**calls, **wire}, wall_s)


_WIRE_COUNTS = (
    "now_ns", "idle_ns", "n_interrupts", "n_polls", "n_packets_to_server", "n_packets_from_server",
    "n_started", "n_finished",
)  # fmt: skip


def verdict_of(runs: Sequence[Seen]) -> Verdict:
    """Return how much *runs* differ."""
    outputs = Counter(run.digest for run in runs)
    costs = [run.cpu_ns_per_request for run in runs]
    return Verdict(
        n_runs=len(runs),
        n_distinct=len(outputs),
        n_largest=max(outputs.values()),
        spread=max(costs) / min(costs) - 1,
        same_counts=all(run.counts == runs[0].counts for run in runs),
    )


@contextlib.contextmanager
def busy_host(n_loops: int) -> Iterator[None]:
    """Keep *n_loops* of the host's CPUs busy meanwhile."""
    command = [sys.executable, "-c", _BUSY_LOOP]
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(n_loops):
            loops.append(subprocess.Popen(command))
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def late_main_loop(late_us: int) -> Iterator[tuple[str, ...]]:
    """Yield the beginning of a command that makes the emulator's main loop late; () if 0."""
    if late_us == 0:
        yield ()
        return
    with tempfile.TemporaryDirectory(prefix="dispatchsim-late-") as folder:
        library = Path(folder, "late_main_loop.so")
        _compile(library)
        yield ("env", f"LD_PRELOAD={library}", f"LATE_US={late_us}")


def _compile(library: Path) -> None:
    command = ["gcc", *_LATE_OPTIONS, str(_LATE_SOURCE), "-o", str(library)]
    try:
        subprocess.run(command, capture_output=True, timeout=60, check=True)
    except FileNotFoundError as error:
        raise TargetMissingError("gcc is not installed: apt-get install gcc libc6-dev") from error
    except subprocess.CalledProcessError as error:
        raise TargetError(f"{_LATE_SOURCE.name} does not build: {error.stderr!r}") from error


class Experiment:
    """The same job in one guest after the other; what it needs is built first."""

    def __init__(
        self, *, icount: str = ICOUNT, cpu: int | None = None, starter: tuple[str, ...] = ()
    ) -> None:
        self.kernel = kernel()
        self.init = init_program()
        server = server_program()
        self.counters = counter_names(server)
        self.job: Job = job_of(
            POINT, SEED, LENGTHS, server=server,
            modules=(build_module(WIRE_FOLDER, self.kernel),),
        )  # fmt: skip
        self._icount, self._cpu, self._starter = icount, cpu, starter

    def run(self) -> GuestOutput:
        """Return what one more guest prints."""
        return run_guest(
            self.job, kernel=self.kernel, init=self.init,
            cpu=self._cpu, icount=self._icount, starter=self._starter,
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment of the command line; return the status to end with."""
    options = _options(arguments)
    try:
        with late_main_loop(options.late) as starter:
            icount = _UNORDERED if options.unordered else ICOUNT
            experiment = Experiment(icount=icount, cpu=options.cpu, starter=starter)
            with busy_host(options.load):
                verdict = _run(experiment, options)
    except TargetError as error:
        print(f"determinism: {error}", file=sys.stderr)
        return 2
    print(verdict)
    return 0 if verdict.identical else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m dispatchsim.calibration.emulated.determinism",
        description="Run one point of the emulated target again and again, and compare.",
    )
    parser.add_argument("--runs", type=int, default=12, help="how many (default: 12)")
    parser.add_argument("--load", type=int, default=2, help="busy loops beside it (default: 2)")
    parser.add_argument("--cpu", type=int, help="the one CPU of the host to use (default: any)")
    parser.add_argument(
        "--late", type=int, default=0, metavar="US",
        help="have the emulator's main loop sleep so long each time it woke (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--unordered", action="store_true",
        help="let the main loop run beside the guest, as QEMU does by itself",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    for name, least, most in (("runs", 2, 10_000), ("load", 0, 1_000), ("late", 0, 100_000)):
        if not least <= getattr(options, name) <= most:
            given = getattr(options, name)
            parser.error(f"--{name} must be {least} to {most}, got {given}")
    return options


def _run(experiment: Experiment, options: argparse.Namespace) -> Verdict:
    runs: list[Seen] = []
    first: Frames = {}
    print(f"{POINT.label}, seed {SEED}, {LENGTHS}, {vars(options)}")
    print("run  output        CPU ns/request  waits  events  host s  differs from the first run in")
    for number in range(1, options.runs + 1):
        output = experiment.run()
        frames = output.frames
        first = first or frames
        seen = seen_of(frames, macro_frames(frames, experiment.counters), output.wall_s)
        runs.append(seen)
        print(
            f"{number:3}  {seen.digest}  {seen.cpu_ns_per_request:14.3f}  "
            f"{seen.counts['waits']:5}  {seen.counts['events']:6}  {seen.wall_s:6.1f}  "
            f"{first_difference(first, frames, experiment.counters)}",
            flush=True,
        )
    return verdict_of(runs)


if __name__ == "__main__":
    sys.exit(main())
