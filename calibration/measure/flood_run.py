"""Run one flood on the real machine and return its record.

    progress (CPU 0) ──► counters ──► flood (CPU 1): quiet ─ flood ─ quiet ──► counters ──► record

Between the two readings of the counters only the two programs run: the harness sleeps until the
sender has ended.
"""

from __future__ import annotations

import datetime
import json
import operator
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...sim.state.units import SECOND_NS
from ..points.flood_points import FloodPoint
from ..records.flood_records import (
    FloodRecord,
    Kernel,
    Victim,
    read_calls,
    read_samples,
    sender_of,
    train_of,
    victim_of,
)
from ..records.measured_runs import Noise
from ..records.noise import NoiseLimits, Series, judge
from ..testbed.c_build import Programs
from ..testbed.processes import (
    PRIORITY_HIGHEST,
    Child,
    CpuTicks,
    RunError,
    ScheduleTimes,
    cpu_ticks,
    schedule_times,
)
from ..testbed.testbed import Testbed

_PORT = 9
_STARTING_S = 0.25
"""Time for the sender to start; the process computes meanwhile."""
FLOOD_LIMITS = NoiseLimits(
    # The flood itself delays the process. The process's data fit the smallest cache.
    server_delay_share_max=float("inf"),
    memory_ratio_max=float("inf"),
    # A sender at full speed is late by intent.
    lag_p50_ns_max=int(SECOND_NS * 60),
)


@dataclass(frozen=True)
class FloodTiming:
    """The lengths of the parts of a run, in ns."""

    quiet_ns: int = 200_000_000
    flood_ns: int = 600_000_000


@dataclass(frozen=True)
class _Counters:
    """The kernel's counters of one CPU."""

    ticks: CpuTicks
    softnet: tuple[int, ...]
    ksoftirqd_ns: int

    def since(self, earlier: _Counters) -> _Counters:
        return _Counters(
            self.ticks.since(earlier.ticks),
            tuple(map(operator.sub, self.softnet, earlier.softnet)),
            self.ksoftirqd_ns - earlier.ksoftirqd_ns,
        )


def run_flood(
    point: FloodPoint,
    repeat: int,
    *,
    testbed: Testbed,
    programs: Programs,
    series: Series,
    timing: FloodTiming | None = None,
) -> FloodRecord:
    """Measure one repeat of one flood and judge its noise.

    Raises
    ------
    RunError
        If a program of the run ends early, does not answer, or writes an unreadable result.
    """
    timing = timing or FloodTiming()
    due_ns = point.due_ns(repeat, timing.flood_ns)
    with tempfile.TemporaryDirectory(prefix="dispatchsim-flood-") as scratch_name:
        scratch = Path(scratch_name)
        (scratch / "schedule").write_bytes(due_ns.astype("<i8").tobytes())
        _steer(testbed, steered=point.steered)
        run = _measure(point, testbed, programs, timing, scratch)
        samples = read_samples(scratch / "samples")
        calls = read_calls(scratch / "records")
    if run.progress["rows_lost"]:
        raise RunError(f"progress lost {run.progress['rows_lost']} rows: its buffer is full")
    end_ns = run.start_ns + run.sent["elapsed_ns"]
    victim = victim_of(samples, run.start_ns, end_ns, timing.quiet_ns)
    noise = _noise(run, victim, series)
    accepted, reason = judge(noise, lag_p50_ns=0, limits=FLOOD_LIMITS)
    return FloodRecord(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        code=programs.code,
        point=point,
        repeat=repeat,
        seed=point.seed(repeat),
        window_ns=run.sent["elapsed_ns"],
        sender=sender_of(due_ns, calls, run.sent),
        victim=victim,
        train=train_of(point, samples, run.start_ns + calls[0], victim.quiet_per_s),
        kernel=_kernel(run),
        noise=noise,
        accepted=accepted,
        reason=reason,
    )


@dataclass(frozen=True)
class _Run:
    """The output of the programs and the kernel's counters."""

    start_ns: int
    sent: dict[str, int]
    progress: dict[str, int]
    counted: _Counters
    victim: ScheduleTimes
    elapsed_ns: int


def _measure(
    point: FloodPoint, testbed: Testbed, programs: Programs, timing: FloodTiming, scratch: Path
) -> _Run:
    """Run the two programs at the same time."""
    seconds = _STARTING_S + (2 * timing.quiet_ns + timing.flood_ns) / SECOND_NS
    victim = testbed.on_server(
        programs.path("progress"), "--address", testbed.address, "--port", str(_PORT),
        "--samples", str(scratch / "samples"), "--seconds", f"{seconds:.3f}",
    )  # fmt: skip
    sender = testbed.on_client(
        programs.path("flood"), "--address", testbed.address, "--port", str(_PORT),
        "--schedule", str(scratch / "schedule"), "--records", str(scratch / "records"),
        "--segments", str(point.segments),
        # A sender slower than its schedule ends by its time limit.
        "--quiet-ms", str(timing.quiet_ns // 1_000_000),
        "--seconds-max", f"{timing.flood_ns / SECOND_NS:.3f}",
    )  # fmt: skip
    cpu = testbed.server_cpu
    with Child("progress", victim, cpu=cpu, priority=point.nice) as process:
        process.read_number("ready", timeout_s=10)
        victim_before = schedule_times(process.pid)
        before = _counters(cpu)
        with Child("flood", sender, cpu=testbed.client_cpu, priority=PRIORITY_HIGHEST) as flood:
            start_ns = flood.read_number("start", timeout_s=10)
            sent = _counts(flood.read_line(timeout_s=seconds + 10), "flood", _SENT)
        after = _counters(cpu)
        victim_after = schedule_times(process.pid)
        progress = _counts(process.read_line(timeout_s=seconds + 20), "progress", _PROGRESS)
    return _Run(
        start_ns=start_ns,
        sent=sent,
        progress=progress,
        counted=after.since(before),
        victim=victim_after.since(victim_before),
        elapsed_ns=sent["elapsed_ns"] + 2 * timing.quiet_ns,
    )


_SENT = ("due", "sent", "refused", "elapsed_ns")
_PROGRESS = ("chunks", "rows", "rows_lost", "drops")


def _counts(line: str, program: str, names: tuple[str, ...]) -> dict[str, int]:
    """Return the counts in the last line of *program*."""
    try:
        content = json.loads(line)
        counts = {name: int(content[name]) for name in names}
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{program} must print {', '.join(names)} as JSON, got {line}") from error
    return counts


def _counters(cpu: int) -> _Counters:
    return _Counters(cpu_ticks(cpu), softnet_of(cpu), _ksoftirqd_ns(cpu))


def softnet_of(cpu: int, path: Path = Path("/proc/net/softnet_stat")) -> tuple[int, int, int]:
    """Return the packets processed and dropped and the softirqs cut short on *cpu*.

    A row belongs to an online CPU; its 13th column is the CPU's number (Linux 5.10 and later).
    """
    for line in path.read_text().splitlines():
        columns = [int(column, 16) for column in line.split()]
        if len(columns) > 12 and columns[12] == cpu:
            return columns[0], columns[1], columns[2]
    raise RunError(f"{path} has no line for CPU {cpu}")


def _ksoftirqd_ns(cpu: int) -> int:
    """Return the CPU time of ksoftirqd on *cpu*; 0 if it is not visible."""
    found = subprocess.run(
        ["pgrep", "-x", f"ksoftirqd/{cpu}"], capture_output=True, text=True, check=False
    )
    if not found.stdout.strip().isdigit():
        return 0
    return int(Path(f"/proc/{found.stdout.strip()}/schedstat").read_text().split()[0])


def _kernel(run: _Run) -> Kernel:
    ticks = run.counted.ticks
    processed, dropped, squeezed = run.counted.softnet
    return Kernel(
        softirq_ns=ticks.softirq_ns,
        steal_ns=ticks.steal_ns,
        calls=ticks.n_calls,
        processed=processed,
        dropped=dropped,
        squeezed=squeezed,
        socket_drops=run.progress["drops"],
        ksoftirqd_ns=run.counted.ksoftirqd_ns,
    )


def _noise(run: _Run, victim: Victim, series: Series) -> Noise:
    """Return the disturbances of a run, relative to the process's speed before the flood."""
    spin_ns = SECOND_NS / victim.quiet_per_s
    spin_ratio, _ = series.include(spin_ns, 0)
    ticks = run.counted.ticks
    return Noise(
        server_delay_share=run.victim.delay_ns / run.elapsed_ns,
        client_delay_share=0,
        steal_share=ticks.steal_ns / run.elapsed_ns,
        foreign_share=max(ticks.user_ns - run.victim.user_ns, 0) / run.elapsed_ns,
        spin_ratio=max(spin_ratio, victim.quiet_per_s / victim.quiet_after_per_s),
        memory_ratio=1,
        spin_ns=spin_ns,
    )


def _steer(testbed: Testbed, *, steered: bool) -> None:
    """Let the process's CPU receive its packets, or else the sending CPU."""
    mask = 1 << testbed.server_cpu if steered else 0
    files = "/sys/class/net/ds*/queues/rx-*/rps_cpus"
    command = testbed.on_server("sh", "-ec", f"for file in {files}; do echo {mask:x} > $file; done")
    finished = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    if finished.returncode != 0:
        raise RunError(f"packets cannot be steered: {finished.stderr.strip()}")
