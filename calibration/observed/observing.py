"""One run against a server that is a black box: what its clients see, and what its CPU does.

    idle holder ──► load ──warm-up──┬──window──┬─► records, replies ─► ObservedRun
                                 snapshot   snapshot

Latencies run from when a request was due. How many idle connections a server has accepted only it
knows; the kernel tells how many still wait for it, and a run begins when none does.
"""

from __future__ import annotations

import contextlib
import datetime
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..c_build import Programs
from ..macro import (
    IDLE_SECONDS_MAX,
    Setup,
    Timing,
    calibrate,
    idle_holder,
    load_generator,
    start_of,
)
from ..measured_runs import Noise
from ..noise import Series, delay_share, judge
from ..point_runs import trace_for
from ..points import Point
from ..processes import (
    Child,
    CpuTicks,
    RunError,
    ScheduleTimes,
    cpu_ticks,
    punctual,
    schedule_times,
    sleep_until,
)
from ..run_result import (
    DESCRIPTORS,
    REFUSED,
    RESET,
    STILL_OPEN,
    TIMEOUT,
    Records,
    Window,
    read_records,
)
from ..testbed import Testbed
from .observed_run import ErrorName, ObservedRun, observed_run
from .printed import share_name
from .server_process import BlackBox, n_unaccepted

PROTOCOLS = ("http/1.0", "http/1.1", "memcached", "resp")
_LOOK_S = 0.01
_PERCENTS = (50.0, 90.0, 99.0, 99.9)
_STATUSES: dict[int, ErrorName] = {
    TIMEOUT: "timeout",
    REFUSED: "refused",
    RESET: "reset",
    DESCRIPTORS: "descriptors",
}
LATE = "this process woke so late that the load had ended within the window"
_LATE_NS = 1_000_000


@dataclass(frozen=True)
class Asking:
    """What clients say to the server, as options of the load generator.

    Attributes
    ----------
    protocol:
        One of PROTOCOLS.
    path, host:
        Of http.
    key_prefix, keys:
        Of memcached and resp: PREFIX0, PREFIX1, ... so many.
    """

    protocol: str = "http/1.1"
    path: str = "/"
    host: str = "localhost"
    key_prefix: str = "dispatchsim:"
    keys: int = 1

    def options(self) -> list[str]:
        """Return the options of the load generator."""
        return [
            "--protocol", self.protocol, "--path", self.path, "--host", self.host,
            "--key-prefix", self.key_prefix, "--keys", str(self.keys),
        ]  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """Where runs are made, and with what: the same for all runs of a series."""

    testbed: Testbed
    programs: Programs
    series: Series
    timing: Timing = field(default_factory=Timing)
    machine: str = ""


@dataclass(frozen=True)
class _Snapshot:
    at_ns: int
    server: dict[int, ScheduleTimes]
    client: ScheduleTimes
    ticks: CpuTicks


def observe(
    box: BlackBox,
    load: Point,
    asking: Asking,
    bench: Bench,
    *,
    seed: int,
    command: Sequence[str] = (),
) -> ObservedRun:
    """Return what is seen of *box* under *load*.

    Parameters
    ----------
    load:
        Its loop, rate or users, requests of a connection, idle connections, pauses and patience;
        what it says of a server is nobody's concern here.
    asking:
        What clients say.
    seed:
        Of the arrivals.
    command:
        How the server was started, for the record.

    Raises
    ------
    RunError
        If the server ends, or does not answer in its protocol, or a program of the run fails.
    """
    testbed, timing = bench.testbed, bench.timing
    calibrations = (
        calibrate(bench.programs, "spin", testbed, timing),
        calibrate(bench.programs, "memory", testbed, timing),
    )
    trace = trace_for(load, seed, timing.run_seconds(load))
    with tempfile.TemporaryDirectory(prefix="dispatchsim-run-") as scratch_name:
        scratch = Path(scratch_name)
        trace.write(scratch / "trace")
        window, before, after = _measure(box, load, asking, bench, scratch)
        records = read_records(scratch / "records")
        replies = _read_replies(scratch / "replies")
    content = _seen(records, replies, window, load)
    busy_ns = window.length_ns - (after.ticks.idle_ns - before.ticks.idle_ns)
    steal_ns = after.ticks.steal_ns - before.ticks.steal_ns
    noise = _noise(before, after, window, bench.series.include(*calibrations), calibrations)
    if not box.has_one_thread:
        # Its threads wait for each other: that time does not say that others were there.
        noise = noise.model_copy(update={"server_delay_share": 0.0})
    if set(before.server) - set(after.server):
        content["doubts"] += ("processes of the server ended meanwhile: their CPU time is missing",)
    lags_ns = _lags_ns(records, window)
    lag_p50_ns = int(np.median(lags_ns)) if load.loop == "open" and lags_ns.size else 0
    accepted, reason = judge(noise, lag_p50_ns=lag_p50_ns)
    if window.end_ns > timing.run_seconds(load) * 1e9:
        accepted, reason = False, LATE
    content |= {
        "source": {
            "tool": "dispatchsim",
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": bench.machine,
        },
        "server": {"name": box.name, "command": shlex.join(command), "protocol": asking.protocol},
        "warm_up_ns": window.begin_ns,
        "seed": seed,
        "process_ns": sum(_run_ns(before, after)),
        "busy_share": min(1.0, max(0.0, (busy_ns - steal_ns) / window.length_ns))
        if box.is_pinned
        else None,
        "noise": noise.model_dump(),
        "accepted": accepted,
        "reason": reason,
    }
    return observed_run("run", content)


def _measure(
    box: BlackBox, load: Point, asking: Asking, bench: Bench, scratch: Path
) -> tuple[Window, _Snapshot, _Snapshot]:
    """Do the run; return its window on the clock of the records, and what was at its ends."""
    timing, testbed = bench.timing, bench.testbed
    options = ("--replies", str(scratch / "replies"), *asking.options())
    setup = Setup(load, testbed, bench.programs, timing, scratch, options)
    with contextlib.ExitStack() as stack:
        if load.idle:
            _await_idle(box, stack.enter_context(idle_holder(setup, box.port)))
        generator = stack.enter_context(load_generator(setup, box.port))

        def snapshot() -> _Snapshot:
            return _Snapshot(
                at_ns=time.monotonic_ns(),
                server=box.times(),
                client=schedule_times(generator.pid),
                ticks=cpu_ticks(testbed.server_cpu),
            )

        start_ns = start_of(generator.read_line(timeout_s=10))
        begin_ns = start_ns + round(timing.warm_up_of(load) * 1e9)
        with punctual(testbed.client_cpu):
            sleep_until(begin_ns)
            before = snapshot()
            # From when it has begun: whoever woke late would have next to no window left.
            sleep_until(before.at_ns + round(timing.window_s * 1e9))
            after = snapshot()
        if not after.server:
            raise RunError(f"{box.name} ended during the run: {box.last_words()}")
        generator.read_all(timeout_s=timing.after_s + 10)
    return Window(before.at_ns - start_ns, after.at_ns - start_ns), before, after


def _await_idle(box: BlackBox, holder: Child) -> None:
    """Wait until all idle connections are established, and the server has accepted them."""
    try:
        holder.read_line(timeout_s=IDLE_SECONDS_MAX)
    except RunError as error:
        raise RunError(f"{box.name} does not take the idle connections: {error}") from error
    deadline = time.monotonic() + IDLE_SECONDS_MAX
    while n_waiting := sum(n_unaccepted(pid, box.port) for pid in box.processes()[:1]):
        if time.monotonic() > deadline:
            raise RunError(f"{box.name} has not accepted {n_waiting} idle connections in a minute")
        time.sleep(_LOOK_S)


def _read_replies(path: Path) -> NDArray[np.int64]:
    """Return rows of when each reply was due, when it came, and whether it was an error."""
    table = np.frombuffer(path.read_bytes(), dtype="<i8")
    return table.reshape(-1, 3).astype(np.int64)


def _seen(
    records: Records, replies: NDArray[np.int64], window: Window, load: Point
) -> dict[str, Any]:
    """Return what clients saw in the window, as fields of an observed run."""
    due_ns, done_ns, is_error = replies.T
    n_replied = int(window.contains(done_ns).sum())
    latency_ns = (done_ns - due_ns)[window.contains(due_ns)]
    in_window = window.contains(records.intended_ns)
    status = records.status[in_window]
    errors = {name: int((status == code).sum()) for code, name in _STATUSES.items()}
    errors["status"] = int(is_error[window.contains(done_ns)].sum())
    n_open = int((status == STILL_OPEN).sum())
    doubts = []
    if load.loop == "open" and n_open:
        doubts.append(f"{n_open} connections of the window were still open when the run ended")
    lags_ns = _lags_ns(records, window)
    if lags_ns.size and np.quantile(lags_ns, 0.99) > _LATE_NS:
        doubts.append(
            f"one in a hundred connections began {np.quantile(lags_ns, 0.99) / 1e6:.1f} ms late or "
            "later: the load generator could not keep up"
        )
    return {
        "load": {
            "loop": load.loop,
            "rate_per_s": load.rate_per_s if load.loop == "open" else None,
            "users": load.users or None,
            "requests": load.requests,
            "idle": load.idle,
            "think_ns": load.think_ns,
            "timeout_ns": load.timeout_ns,
        },
        "window_ns": window.length_ns,
        "offered": int(in_window.sum()),
        "replied": n_replied,
        "errors": {name: count for name, count in errors.items() if count},
        "latency_ns": _latency(latency_ns) if latency_ns.size else None,
        "doubts": tuple(doubts),
    }


def _latency(latency_ns: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "since": "intended",
        "quantiles": {
            share_name(percent): float(np.percentile(latency_ns, percent)) for percent in _PERCENTS
        },
        "mean": float(latency_ns.mean()),
        "max": float(latency_ns.max()),
    }


def _lags_ns(records: Records, window: Window) -> NDArray[np.int64]:
    """Return how late connections of the window began."""
    begun = window.contains(records.intended_ns) & (records.started_ns >= 0)
    return (records.started_ns - records.intended_ns)[begun]


def _run_ns(before: _Snapshot, after: _Snapshot) -> list[int]:
    """Return the CPU time of each process of the server; one that came later began at 0."""
    began = {pid: times.run_ns for pid, times in before.server.items()}
    return [times.run_ns - began.get(pid, 0) for pid, times in after.server.items()]


def _noise(
    before: _Snapshot,
    after: _Snapshot,
    window: Window,
    ratios: tuple[float, float],
    calibrations: tuple[float, float],
) -> Noise:
    """Return what others took from the run."""
    run_ns = sum(_run_ns(before, after))
    pairs = [
        (times, before.server[pid]) for pid, times in after.server.items() if pid in before.server
    ]
    delay_ns = sum(late.delay_ns - early.delay_ns for late, early in pairs)
    user_ns = sum(late.user_ns - early.user_ns for late, early in pairs)
    foreign_ns = after.ticks.user_ns - before.ticks.user_ns - user_ns
    return Noise(
        server_delay_share=delay_share(delay_ns, run_ns),
        client_delay_share=(after.client.delay_ns - before.client.delay_ns) / window.length_ns,
        steal_share=(after.ticks.steal_ns - before.ticks.steal_ns) / window.length_ns,
        foreign_share=max(foreign_ns, 0) / window.length_ns,
        spin_ratio=ratios[0],
        memory_ratio=ratios[1],
        spin_ns=calibrations[0],
        memory_ns=calibrations[1],
    )
