"""One run against a server that is a black box: the results of its clients and the CPU's use.

    idle holder ──► load ──warm-up──┬──window──┬─► records, replies ─► ObservedRun
                                 snapshot   snapshot

    snapshot ──► httperf | wrk on the clients' CPU ──► what it prints ──► snapshot ──► ObservedRun

A `Driver` makes the load: our load generator (`own_load`), httperf or wrk. Latencies of ours begin
when a request is due. The output of a tool is read like an imported file. CPU time, idle
connections and noise are measured besides. Both tools stop after a number of connections or after
a time. How many idle connections a server has accepted cannot be seen from outside. The kernel
shows how many still wait in its queue, and a run begins when none does.

A run in which the server ended, or sent no replies, or only error replies, is not accepted. It is
kept with the results up to then.

Source: httperf(1); wrk 4.1, README.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...sim.load.workload import Trace
from ...sim.state.units import SECOND_NS
from ..measure.macro import UNTIMED_NS, Setup, Timing, calibrate, idle_holder, load_generator
from ..points.point import Point, trace_to_replay
from ..records.generator_gate import generator_fault
from ..records.measured_runs import DataError
from ..records.noise import Series, judge
from ..records.run_result import (
    DESCRIPTORS,
    REFUSED,
    RESET,
    STILL_OPEN,
    TIMEOUT,
    Records,
    Window,
    read_gaps,
    read_records,
)
from ..testbed.c_build import Programs
from ..testbed.machine_facts import now_text
from ..testbed.processes import PRIORITY_HIGHEST, Child, RunError, punctual, sleep_until
from ..testbed.testbed import Testbed
from .observed_run import ErrorName, ObservedRun, ObservedServer, observed_run
from .operating_point import KEPT
from .printed import read_httperf, read_wrk, share_name
from .server_process import BlackBox, Watched, await_idle, snapshot

PROTOCOLS = ("http/1.0", "http/1.1", "memcached", "resp")
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
    """The requests of clients, as options of the load generator.

    Attributes
    ----------
    protocol:
        One of PROTOCOLS.
    path, host:
        The path and the host's name in http requests.
    key_prefix, keys:
        The keys in memcached and resp requests: PREFIX0, PREFIX1, ... up to `keys` of them.
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
    """The place and the programs of runs: the same for all runs of a series."""

    testbed: Testbed
    programs: Programs
    series: Series
    timing: Timing = field(default_factory=Timing)
    machine: str = ""


@dataclass(frozen=True)
class Driven:
    """The results of one load.

    Attributes
    ----------
    seen:
        The results of clients, as fields of an observed run.
    watched:
        The clocks at both ends of the window.
    lag_p50_ns:
        The median delay with which an open loop's connections began.
    late:
        Why the load generator made another load than requested, or an empty string.
    fault:
        Why these results must not be used, or an empty string.
    """

    seen: dict[str, Any]
    watched: Watched
    lag_p50_ns: int = 0
    late: str = ""
    fault: str = ""


@dataclass(frozen=True)
class RunSetup:
    """The inputs of a driver; *seed* is the seed of the arrivals."""

    box: BlackBox
    load: Point
    asking: Asking
    bench: Bench
    scratch: Path
    seed: int

    def setup(self, *options: str) -> Setup:
        """Return the setup for the programs of a run, with *options* of the load generator."""
        bench = self.bench
        return Setup(self.load, bench.testbed, bench.programs, bench.timing, self.scratch, options)


Driver = Callable[[RunSetup], Driven]
"""Makes a load on a server, with its files in a scratch folder."""


def own_load(run: RunSetup) -> Driven:
    """Make the load with our load generator; the window begins after the warm-up."""
    load, bench, box = run.load, run.bench, run.box
    timing, testbed = bench.timing, bench.testbed
    trace = trace_to_replay(load, run.seed, timing.run_seconds(load))
    trace.write(run.scratch / "trace")
    setup = run.setup("--replies", str(run.scratch / "replies"), *run.asking.options())
    with load_generator(setup, box.port) as generator:
        start_ns = generator.read_number("start", timeout_s=10)
        begin_ns = start_ns + round(timing.warm_up_of(load) * 1e9)
        with punctual(testbed.client_cpu):
            sleep_until(begin_ns)
            before = snapshot(box, testbed.server_cpu, generator.pid)
            # Since its begin: after a late wake-up of this process little of the window is left.
            sleep_until(before.at_ns + round(timing.window_s * 1e9))
            after = snapshot(box, testbed.server_cpu, generator.pid)
        summary = json.loads(generator.read_all(timeout_s=timing.after_s + 10)[-1])
    window = Window(before.at_ns - start_ns, after.at_ns - start_ns, UNTIMED_NS)
    records = read_records(run.scratch / "records")
    seen = seen_by_clients(records, read_replies(run.scratch / "replies"), window, load)
    is_open = load.load.loop == "open"
    lags_ns = _lags_ns(records, window) if is_open else np.empty(0, np.int64)
    fault = ""
    if window.end_ns > timing.run_seconds(load) * 1e9:
        fault = LATE
    elif summary["protocol"]:
        fault = f"{summary['protocol']} replies break the protocol {run.asking.protocol}"
    return Driven(
        {
            **seen,
            "source": {"tool": "dispatchsim"},
            "warm_up_ns": window.begin_ns,
            "seed": run.seed,
            "lag_p99_ns": int(np.quantile(lags_ns, 0.99)) if lags_ns.size else None,
            "client_gaps": read_gaps(run.scratch / "gaps", summary["gaps"]).model_dump(),
        },
        Watched(before, after),
        lag_p50_ns=int(np.median(lags_ns)) if lags_ns.size else 0,
        late=_late(trace, records, window, seen["latency_ns"]) if is_open else "",
        fault=fault,
    )


def _late(trace: Trace, records: Records, window: Window, latency: dict[str, Any] | None) -> str:
    """Return why the load generator missed its load, by the rule for runs of our own servers."""
    n_asked = int(window.contains(trace.at_ns).sum())
    begun = window.contains(records.intended_ns) & (records.status != DESCRIPTORS)
    lags_ns = _lags_ns(records, window)
    return generator_fault(
        n_asked,
        int(begun.sum()),
        lag_p99_ns=int(np.quantile(lags_ns, 0.99)) if lags_ns.size else None,
        p99_ns=latency["quantiles"][share_name(99.0)] if latency else None,
    )


def observe(
    box: BlackBox,
    load: Point,
    asking: Asking,
    bench: Bench,
    *,
    seed: int,
    known: ObservedServer | None = None,
    driver: Driver = own_load,
) -> ObservedRun:
    """Return the observed run of *box* under *load*.

    Parameters
    ----------
    load:
        Its loop, rate or users, requests of a connection, idle connections, pauses and time-out;
        its description of a server is ignored.
    asking:
        The requests of clients.
    seed:
        The seed of the arrivals.
    known:
        Known facts of the server, for the record.
    driver:
        The program that makes the load.

    Raises
    ------
    RunError
        If a program of the run fails, or the server does not accept the idle connections.
    """
    testbed, timing = bench.testbed, bench.timing
    calibrations = (
        calibrate(bench.programs, "spin", testbed, timing),
        calibrate(bench.programs, "memory", testbed, timing),
    )
    with (
        tempfile.TemporaryDirectory(prefix="dispatchsim-run-") as scratch_name,
        contextlib.ExitStack() as stack,
    ):
        run = RunSetup(box, load, asking, bench, Path(scratch_name), seed)
        if load.idle.connections:
            await_idle(box, stack.enter_context(idle_holder(run.setup(), box.port)))
        driven = driver(run)
    watched = driven.watched
    ratios = bench.series.include(*calibrations)
    known = known or ObservedServer()
    # A thread for one connection may begin and end within the window, and be seen at neither end.
    has_threads = (known.workers or 1) > 1 or known.share == "handed over"
    noise = watched.noise(
        ratios,
        calibrations,
        is_pinned=box.is_pinned,
        is_one_thread=watched.is_one_thread and not has_threads,
    )
    fault = _fault(box, driven) or driven.late
    accepted, reason = judge(noise, lag_p50_ns=driven.lag_p50_ns)
    doubts = list(driven.seen.get("doubts", ()))
    if watched.lost_processes and not watched.has_ended:
        doubts.append("processes of the server ended during the run: their CPU time is missing")
    server = known.model_copy(update={"name": box.name, "protocol": asking.protocol})
    content = {
        **driven.seen,
        "source": {**driven.seen["source"], "date": now_text(), "machine": bench.machine},
        "server": server.model_dump(),
        "process_ns": None if watched.has_ended else watched.process_ns,
        "busy_share": watched.busy_share if box.is_pinned else None,
        "noise": noise.model_dump(),
        "accepted": accepted and not fault,
        "reason": fault or reason,
        "doubts": tuple(doubts),
    }
    return observed_run("run", content)


def _fault(box: BlackBox, driven: Driven) -> str:
    """Return why the server's run shows nothing of its capacity, or an empty string."""
    if driven.watched.has_ended:
        return f"{box.name} ended during the run: {box.last_words()}"
    if driven.fault:
        return driven.fault
    replied, errors = driven.seen["replied"], driven.seen["errors"]
    failed = sum(errors.values())
    if not replied:
        said = f"{failed} connections failed" if failed else "all waited until the run ended"
        return f"{box.name} sent no replies: {said}"
    if errors.get("status", 0) >= replied:
        return f"{box.name} replied to every request with an error"
    return ""


def read_replies(path: Path) -> NDArray[np.int64]:
    """Return a row for each reply: when it was due, when it came, and whether it was an error."""
    table = np.frombuffer(path.read_bytes(), dtype="<i8")
    return table.reshape(-1, 3).astype(np.int64)


def load_fields(load: Point) -> dict[str, Any]:
    """Return *load* in the form of an observed run's field."""
    return {
        "loop": load.load.loop,
        "rate_per_s": load.rate_per_s if load.load.loop == "open" else None,
        "users": load.users or None,
        "requests": load.load.requests,
        "idle": load.idle.connections,
        "think_ns": load.load.think_time,
        "timeout_ns": load.load.timeout,
    }


def seen_by_clients(
    records: Records, replies: NDArray[np.int64], window: Window, load: Point
) -> dict[str, Any]:
    """Return the clients' results in the window, as fields of an observed run."""
    due_ns, done_ns, is_error = replies.T
    n_replied = int(window.contains(done_ns).sum())
    latency_ns = (done_ns - due_ns)[window.times(due_ns)]
    in_window = window.contains(records.intended_ns)
    status = records.status[in_window]
    errors = {name: int((status == code).sum()) for code, name in _STATUSES.items()}
    errors["status"] = int(is_error[window.contains(done_ns)].sum())
    n_open = int((status == STILL_OPEN).sum())
    doubts = []
    if load.load.loop == "open" and n_open:
        doubts.append(f"{n_open} connections of the window were still open when the run ended")
    lags_ns = _lags_ns(records, window)
    if lags_ns.size and np.quantile(lags_ns, 0.99) > _LATE_NS:
        doubts.append(
            f"1% of the connections began at least {np.quantile(lags_ns, 0.99) / 1e6:.1f} ms late: "
            "the load generator could not keep up"
        )
    return {
        "load": load_fields(load),
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
    """Return how late the window's connections began, where that is known."""
    begun = window.times(records.intended_ns) & (records.started_ns >= 0)
    return (records.started_ns - records.intended_ns)[begun]


_GRACE_S = 15.0
_TOLD = {
    *("load", "window_ns", "offered", "replied", "errors", "latency_ns"),
    *("overrun_ns", "concurrent", "doubts"),
}
"""Reads the output of a tool into fields of a run."""


def httperf_load(run: RunSetup) -> Driven:
    """Make the load with httperf: an open loop of connections at equal distances."""
    load, asking, testbed = run.load, run.asking, run.bench.testbed
    seconds = run.bench.timing.window_s
    timeout_s = load.load.timeout / SECOND_NS
    command = [
        "httperf", "--hog", "--server", testbed.address, "--port", str(run.box.port),
        "--server-name", asking.host, "--uri", asking.path,
        f"--http-version={asking.protocol.removeprefix('http/')}",
        f"--rate={load.rate_per_s:.12g}", f"--num-conns={max(1, round(load.rate_per_s * seconds))}",
        f"--num-calls={load.load.requests}", f"--timeout={timeout_s:g}",
    ]  # fmt: skip
    return _tool_driven(run, command, seconds + load.load.requests * timeout_s, read_httperf)


def wrk_load(run: RunSetup) -> Driven:
    """Make the load with wrk: a closed loop of connections."""
    load, asking, testbed = run.load, run.asking, run.bench.testbed
    # wrk only accepts whole seconds, and cannot leave out a warm-up.
    seconds = math.ceil(run.bench.timing.window_s) + 1
    command = [
        "wrk", "--threads", "1", "--connections", str(load.users), "--duration", f"{seconds}s",
        "--timeout", f"{max(1, load.load.timeout // SECOND_NS)}s", "--latency",
        "--header", f"Host: {asking.host}",
        *(["--header", "Connection: close"] if load.load.requests == 1 else []),
        f"http://{testbed.address}:{run.box.port}{asking.path}",
    ]  # fmt: skip
    return _tool_driven(run, command, seconds, read_wrk)


TOOLS: dict[str, Driver] = {"httperf": httperf_load, "wrk": wrk_load}


def why_not(tool: str, load: Point, protocol: str) -> str:
    """Return why *tool* cannot make *load*, or an empty string."""
    if not protocol.startswith("http/"):
        return f"{tool} supports http only, got --protocol {protocol}"
    if shutil.which(tool) is None:
        return f"{tool} is not installed: apt-get install {tool}"
    if tool == "httperf" and load.load.loop == "closed":
        return "httperf has no closed loop of users: it needs a --rate and no --users"
    return _why_not_wrk(load, protocol) if tool == "wrk" else ""


def _why_not_wrk(load: Point, protocol: str) -> str:
    if load.load.loop == "open":
        return "wrk makes a closed loop and has no --rate"
    if protocol != "http/1.1":
        return f"wrk supports http/1.1 only, got --protocol {protocol}"
    if load.load.requests not in (1, KEPT):
        return (
            f"wrk makes 1 request a connection or as many as fit the run ({KEPT}), "
            f"got --requests {load.load.requests}"
        )
    return ""


def _tool_driven(
    run: RunSetup, command: list[str], seconds: float, read: Callable[[str, str], ObservedRun]
) -> Driven:
    """Run *command*, which takes *seconds*, and return the results that it prints."""
    box, testbed, tool = run.box, run.bench.testbed, command[0]
    before = snapshot(box, testbed.server_cpu)
    with Child(
        tool, testbed.on_client(*command), cpu=testbed.client_cpu, priority=PRIORITY_HIGHEST
    ) as child:
        lines = child.read_all(timeout_s=seconds + _GRACE_S)
    after = snapshot(box, testbed.server_cpu)
    try:
        told = read("\n".join(lines) + "\n", tool)
    except DataError as error:
        raise RunError(str(error)) from error
    seen = told.model_dump(include=_TOLD) | {"source": {"tool": tool}}
    seen["load"]["idle"] = run.load.idle.connections
    if tool == "wrk":
        seen["load"]["requests"] = 1 if run.load.load.requests == 1 else 0
    return Driven(seen, Watched(before, after))
