"""Run one operating point on the real machine and return its record.

    spin, memory ─► server ─► idle holder ─► load ──warm-up──┬──window──┬─► records ─► result
       CPU 0         CPU 0       CPU 1       CPU 1        snapshot   snapshot

Both snapshots hold the server's counters and the times of scheduler and CPU. The window is the time
between them, so rates are right even if the harness wakes late.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...sim.load.workload import Trace
from ..points.point import CLIENT_FDS_MAX, Point, server_options, trace_to_replay
from ..records.generator_gate import judged
from ..records.measured_runs import CpuTimes, Gaps, Noise, RunRecord, RunResult
from ..records.noise import NoiseLimits, Series, delay_share, judge, limits_for
from ..records.run_result import (
    LEVELS,
    Records,
    Window,
    difference,
    n_failed,
    read_gaps,
    read_records,
    result_of,
)
from ..testbed.c_build import Programs
from ..testbed.processes import (
    PRIORITY_HIGHEST,
    Child,
    CpuTicks,
    RunError,
    ScheduleTimes,
    cpu_ticks,
    punctual,
    read_counters,
    schedule_times,
    sleep_until,
)
from ..testbed.resolved import limits_in_force
from ..testbed.testbed import Testbed

UNTIMED_NS = 5_000_000
"""The time for which reading counters at the start of a window may disturb its clients."""
_FDS_SPARE = 64  # a program needs some descriptors that are not connections
IDLE_SECONDS_MAX = 60
_PORT = 8080


@dataclass(frozen=True)
class Timing:
    """The lengths of the parts of a run, in seconds."""

    warm_up_s: float = 0.5
    warm_up_accept_limited_s: float = 1.5
    window_s: float = 1.5
    after_s: float = 0.05
    calibration_ms: int = 100

    def warm_up_of(self, point: Point) -> float:
        """Return the warm-up: longer if accepting the first connections takes long."""
        return self.warm_up_accept_limited_s if point.server.accept_limit else self.warm_up_s

    def run_seconds(self, point: Point) -> float:
        """Return the length of the load of a run."""
        return self.warm_up_of(point) + self.window_s + self.after_s


@dataclass(frozen=True)
class Setup:
    """The parameters of one run; *load_options* are options that no point has."""

    point: Point
    testbed: Testbed
    programs: Programs
    timing: Timing
    scratch: Path
    load_options: tuple[str, ...] = ()

    @property
    def counters(self) -> Path:
        """The file of the server's counters."""
        return self.scratch / "counters"


@dataclass(frozen=True)
class Snapshot:
    """All counters at one end of the window."""

    at_ns: int
    counters: dict[str, int]
    server: ScheduleTimes
    client: ScheduleTimes
    ticks: CpuTicks

    def since(self, earlier: Snapshot) -> Snapshot:
        """Return the differences since *earlier*."""
        return Snapshot(
            at_ns=self.at_ns - earlier.at_ns,
            counters=difference(earlier.counters, self.counters, levels=LEVELS),
            server=self.server.since(earlier.server),
            client=self.client.since(earlier.client),
            ticks=self.ticks.since(earlier.ticks),
        )


def run_point(
    point: Point,
    repeat: int,
    *,
    testbed: Testbed,
    programs: Programs,
    series: Series,
    timing: Timing | None = None,
    limits: NoiseLimits | None = None,
) -> RunRecord:
    """Measure one repeat of one point and judge its noise.

    Raises
    ------
    RunError
        If a process of the run ends early or does not answer in time.
    """
    timing = timing or Timing()
    seed = point.seed(repeat)
    trace = trace_to_replay(point, seed, timing.run_seconds(point))
    replayed = run_trace(
        point, trace, testbed=testbed, programs=programs, series=series, timing=timing
    )
    window, result, noise = replayed.window, replayed.result, replayed.noise
    lag_p50_ns = result.client.lag_p50_ns if point.load.loop == "open" else 0
    accepted, reason = judge(noise, lag_p50_ns=lag_p50_ns, limits=limits or limits_for(point))
    run = RunRecord(
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        code=programs.code,
        steering=testbed.steering,
        point=point,
        repeat=repeat,
        seed=seed,
        warm_up_ns=window.begin_ns,
        window_ns=window.length_ns,
        untimed_ns=window.untimed_ns,
        result=result,
        noise=noise,
        accepted=accepted,
        reason=reason,
        client_gaps=replayed.gaps,
        resolved=replayed.resolved,
    )
    if n_dropped := replayed.packets.get("dropped", 0):
        run = run.rejected(f"packets_dropped must be 0, got {n_dropped}")
    return judged(run)


@dataclass(frozen=True)
class Replayed:
    """The results of a replay; records are of connections, or of requests over kept ones."""

    records: Records
    window: Window
    result: RunResult
    noise: Noise
    gaps: Gaps
    resolved: dict[str, int | str]
    packets: dict[str, int]
    """The packet counts of `far_end`; empty if clients have sockets."""


def run_trace(
    point: Point,
    trace: Trace,
    *,
    testbed: Testbed,
    programs: Programs,
    series: Series,
    timing: Timing,
    load_options: tuple[str, ...] = (),
) -> Replayed:
    """Replay *trace* against the server of *point*, and return the results.

    Raises
    ------
    RunError
        If a process of the run ends early or does not answer in time.
    """
    calibrations = (
        calibrate(programs, "spin", testbed, timing),
        calibrate(programs, "memory", testbed, timing),
    )
    with tempfile.TemporaryDirectory(prefix="dispatchsim-run-") as scratch_name:
        setup = Setup(point, testbed, programs, timing, Path(scratch_name), load_options)
        trace.write(setup.scratch / "trace")
        seen = _measure(setup)
        window = seen.window
        gaps = read_gaps(setup.scratch / "gaps", seen.summary["gaps"])
        records = connections = read_records(setup.scratch / "records")
        if point.keeps:
            records = read_records(setup.scratch / "requests")
    spent = seen.after.since(seen.before)
    noise = _noise(spent, window, calibrations, series)
    result = result_of(
        records,
        window,
        calls=spent.counters,
        cpu=CpuTimes(
            process_ns=spent.server.run_ns,
            busy_ns=max(window.length_ns - spent.ticks.idle_ns - spent.ticks.steal_ns, 0),
            softirq_ns=spent.ticks.softirq_ns,
            n_calls=spent.ticks.n_calls,
        ),
        client_cpu_ns=spent.client.run_ns,
        requests=point.replies_each,
        connections_failed=n_failed(connections) if point.keeps else None,
    )
    packets = seen.summary.get("packets", {})
    return Replayed(records, window, result, noise, gaps, seen.resolved, packets)


def _noise(
    spent: Snapshot, window: Window, calibrations: tuple[float, float], series: Series
) -> Noise:
    """Return the disturbances of a run, and add its calibrations to the series."""
    spin_ratio, memory_ratio = series.include(*calibrations)
    return Noise(
        server_delay_share=delay_share(spent.server.delay_ns, spent.server.run_ns),
        client_delay_share=spent.client.delay_ns / window.length_ns,
        steal_share=spent.ticks.steal_ns / window.length_ns,
        foreign_share=max(spent.ticks.user_ns - spent.server.user_ns, 0) / window.length_ns,
        spin_ratio=spin_ratio,
        memory_ratio=memory_ratio,
        spin_ns=calibrations[0],
        memory_ns=calibrations[1],
    )


@dataclass(frozen=True)
class _Seen:
    """The window on the records' clock, the counters at its ends, and the output of load."""

    window: Window
    before: Snapshot
    after: Snapshot
    resolved: dict[str, int | str]
    summary: dict[str, Any]


def _measure(setup: Setup) -> _Seen:
    """Measure the run."""
    timing, testbed = setup.timing, setup.testbed
    names = setup.programs.list_output("server", "--counters-layout")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_server(setup))
        port = server.read_number("ready", timeout_s=10)
        resolved = limits_in_force(testbed, server.pid, port)
        if setup.point.idle.connections and not testbed.far_end:
            stack.enter_context(idle_holder(setup, port)).read_line(timeout_s=IDLE_SECONDS_MAX)
            _await_open(setup, names, setup.point.idle.connections)
        load = stack.enter_context(load_generator(setup, port))
        if _is_held(setup):
            load.read_number("opened", timeout_s=IDLE_SECONDS_MAX)
            _await_open(setup, names, setup.point.n_open)
            load.write_line()

        def snapshot() -> Snapshot:
            return Snapshot(
                at_ns=time.monotonic_ns(),
                counters=read_counters(setup.counters, names),
                server=schedule_times(server.pid),
                client=schedule_times(load.pid),
                ticks=cpu_ticks(testbed.server_cpu),
            )

        start_ns = load.read_number("start", timeout_s=10)
        begin_ns = start_ns + round(timing.warm_up_of(setup.point) * 1e9)
        with punctual(testbed.client_cpu):
            sleep_until(begin_ns)
            before = snapshot()
            sleep_until(begin_ns + round(timing.window_s * 1e9))
            after = snapshot()
        summary = _summary(load.read_all(timeout_s=timing.after_s + 10))
        window = Window(before.at_ns - start_ns, after.at_ns - start_ns, UNTIMED_NS)
        return _Seen(window, before, after, resolved, summary)


def _is_held(setup: Setup) -> bool:
    """Return whether the load waits for a line of input after its connections are accepted."""
    return setup.point.keeps or bool(setup.testbed.far_end and setup.point.idle.connections)


def _summary(lines: list[str]) -> dict[str, Any]:
    """Return the result that a load generator printed at its end.

    Raises
    ------
    RunError
        If idle connections of `far_end` were lost: the run then had another point.
    """
    try:
        summary: dict[str, Any] = json.loads(lines[-1])
    except (ValueError, IndexError) as error:
        raise RunError(f"load must print a result, got {lines[-1:]}") from error
    if n_lost := summary.get("packets", {}).get("idle_lost", 0):
        raise RunError(f"the server closed {n_lost} idle connections")
    return summary


def _server(setup: Setup) -> Child:
    """Start the server of a run."""
    point, testbed = setup.point, setup.testbed
    seconds_max = 2 * IDLE_SECONDS_MAX + setup.timing.run_seconds(point) + 30
    command = testbed.on_server(
        setup.programs.path("server"), "--address", testbed.address,
        "--port", str(0 if testbed.steering == "loopback" else _PORT),
        *server_options(point), "--fd-limit", str(_fd_limit(point.server.descriptors)),
        "--counters", str(setup.counters),
        "--seconds-max", f"{seconds_max:.0f}",
    )  # fmt: skip
    return Child("server", command, cpu=testbed.server_cpu, priority=PRIORITY_HIGHEST)


def load_generator(setup: Setup, port: int) -> Child:
    """Start the load generator; with kept connections it waits for a line of input."""
    testbed = setup.testbed
    idle = str(setup.point.idle.connections)
    # Connections that are packets need no descriptors.
    n_open_max = CLIENT_FDS_MAX if testbed.far_end else _fd_limit(CLIENT_FDS_MAX)
    command = testbed.on_client(
        setup.programs.path("far_end" if testbed.far_end else "load"),
        "--address", testbed.address, "--port", str(port),
        "--trace", str(setup.scratch / "trace"),
        "--seconds", f"{setup.timing.run_seconds(setup.point):.3f}",
        "--timeout-ms", str(setup.point.load.timeout // 1_000_000),
        "--fd-limit", str(n_open_max), "--records", str(setup.scratch / "records"),
        "--gaps", str(setup.scratch / "gaps"),
        *([*testbed.far_end, "--idle", idle] if testbed.far_end else []),
        *(["--held"] if _is_held(setup) else []),
        *(["--requests", str(setup.scratch / "requests")] if setup.point.keeps else []),
        *setup.load_options,
    )  # fmt: skip
    return Child("load", command, cpu=testbed.client_cpu, priority=PRIORITY_HIGHEST)


def idle_holder(setup: Setup, port: int) -> Child:
    """Start the holder of the idle connections."""
    command = setup.testbed.on_client(
        setup.programs.path("idle"), "--address", setup.testbed.address, "--port", str(port),
        "--connections", str(setup.point.idle.connections),
        "--seconds-max", f"{2 * IDLE_SECONDS_MAX + setup.timing.run_seconds(setup.point):.0f}",
    )  # fmt: skip
    return Child("idle", command, cpu=setup.testbed.client_cpu, priority=0)


def _await_open(setup: Setup, names: list[str], n_wanted: int) -> None:
    """Wait until the server has accepted *n_wanted* connections; clients see only their side."""
    deadline_s = time.monotonic() + IDLE_SECONDS_MAX
    while True:
        n_open = read_counters(setup.counters, names)["connections_open"]
        if n_open >= n_wanted:
            return
        if time.monotonic() > deadline_s:
            raise RunError(f"the server has accepted {n_open} of {n_wanted} lasting connections")
        time.sleep(0.01)


def calibrate(programs: Programs, bench: str, testbed: Testbed, timing: Timing) -> float:
    """Return the median time of the calibration *bench* on the server's CPU, in ns."""
    command = [
        programs.path("micro"), bench, "--cpu", str(testbed.server_cpu),
        "--milliseconds", str(timing.calibration_ms),
    ]  # fmt: skip
    with Child(
        f"micro {bench}", command, cpu=testbed.server_cpu, priority=PRIORITY_HIGHEST
    ) as child:
        line = child.read_line(timeout_s=10 + timing.calibration_ms / 1000)
    try:
        return float(json.loads(line)["median"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"micro {bench} must print a result with a median, got {line}") from error


def _fd_limit(n_wanted: int) -> int:
    """Return the number of descriptors that a process requests, within its hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return n_wanted if hard == resource.RLIM_INFINITY else min(n_wanted, hard - _FDS_SPARE)
