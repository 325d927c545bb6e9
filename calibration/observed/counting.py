"""Runs in which a server's system calls are counted, and how much the counting slows it.

    crowd ──► rate of the server alone
    tracer ──► bursts of connections ──► crowd ──► its rate when traced ──► calls ──► habits

These runs are separate from all timed runs, because tracing slows a server; the slow-down is part
of the record. Bursts form a queue at the listener, which shows how many connections the server
accepts for one event. Between bursts the server waits, and the trace shows how.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...sim.state.units import SECOND_NS
from ..measure.macro import Setup, Timing, load_generator
from ..points.point import Point, point_at, trace_to_replay
from ..records.measured_runs import DataError
from ..testbed.machine_facts import now_text
from ..testbed.processes import RunError
from .observed_run import ObservedRun, observed_run
from .observing import Asking, Bench, load_fields, read_replies
from .recognising import ACCEPTS, Recognised, recognise
from .server_process import BlackBox
from .tracers import TRACERS, Call, Tracer, tracing

_MECHANISM = "epoll_level"  # of our own server, which does not run here
_BURSTS = point_at(
    mechanism=_MECHANISM, loop="open", rate_per_s=400, burst=40, requests=2,
    timeout_ns=10 * SECOND_NS,
)  # fmt: skip
_BURSTS_S = 0.5
_CROWD = point_at(mechanism=_MECHANISM, users=8, requests=2, timeout_ns=10 * SECOND_NS)
_CROWD_CONNECTIONS = 150
_LOAD_S = 10.0
_ALONE_REPEATS = 3
GREET_SECONDS_MAX = 5.0
_SEEN_MIN = 0.97


@dataclass(frozen=True)
class Counted:
    """A run whose calls were counted, the habits recognised in it, and the tracer's name."""

    run: ObservedRun
    recognised: Recognised


@dataclass(frozen=True)
class Answers:
    """The result of a bounded load: replies, error replies among them, and its duration.

    `served` counts connections that received all their replies, `protocol` replies that break
    the protocol.
    """

    offered: int
    served: int
    replied: int
    errors: int
    failed: dict[str, int]
    protocol: int
    length_ns: int

    @property
    def rate_per_s(self) -> float:
        """Replies a second."""
        return self.replied * SECOND_NS / self.length_ns


def ask(
    box: BlackBox, load: Point, asking: Asking, bench: Bench, *, trace_s: float, most: int = 0,
    seconds: float = _LOAD_S,
) -> Answers:  # fmt: skip
    """Return the replies to at most *most* connections (0: all of the trace) within *seconds*.

    Raises
    ------
    RunError
        If the load generator fails.
    """
    timing = Timing(warm_up_s=0, warm_up_accept_limited_s=0, window_s=seconds, after_s=0)
    with tempfile.TemporaryDirectory(prefix="dispatchsim-run-") as scratch_name:
        scratch = Path(scratch_name)
        trace_to_replay(load, load.seed(0), trace_s).write(scratch / "trace")
        options = ["--replies", str(scratch / "replies"), *asking.options()]
        if most:
            options += ["--connections-max", str(most)]
        setup = Setup(load, bench.testbed, bench.programs, timing, scratch, tuple(options))
        with load_generator(setup, box.port) as generator:
            generator.read_number("start", timeout_s=10)
            summary = json.loads(generator.read_all(timeout_s=seconds + 10)[-1])
        due_ns, done_ns, is_error = read_replies(scratch / "replies").T
    return Answers(
        offered=summary["offered"],
        served=summary["replied"],
        replied=due_ns.size,
        errors=int(is_error.sum()),
        failed={name: count for name, count in summary["errors"].items() if count},
        protocol=summary["protocol"],
        length_ns=max(1, int(np.max(done_ns) - np.min(due_ns))) if due_ns.size else 1,
    )


def greet(box: BlackBox, asking: Asking, bench: Bench) -> None:
    """Send the server one request before anything is measured.

    Raises
    ------
    RunError
        If its reply is not as expected, with what it did instead.
    """
    once = point_at(mechanism=_MECHANISM, users=1)
    seen = ask(box, once, asking, bench, trace_s=1, most=1, seconds=GREET_SECONDS_MAX)
    if seen.replied and not seen.errors:
        return
    where = f"{bench.testbed.address} port {box.port}"
    if seen.errors:
        is_http = asking.protocol.startswith("http")
        wish = f"GET {asking.path} with an error (--path)" if is_http else "GET with an error"
        raise RunError(f"{box.name} answers {wish}")
    if seen.protocol:
        raise RunError(f"the reply of {box.name} is not of --protocol {asking.protocol}")
    if "refused" in seen.failed:
        raise RunError(f"{box.name} refuses connections to {where}: is this its address and port?")
    if "reset" in seen.failed:
        raise RunError(f"{box.name} closes connections without an answer in {asking.protocol}")
    raise RunError(
        f"{box.name} accepts a connection and does not answer within {GREET_SECONDS_MAX:g} s: "
        f"does it speak {asking.protocol}?"
    )


def count_calls(box: BlackBox, asking: Asking, bench: Bench, *, tracer: Tracer) -> Counted:
    """Return the calls of *box* under a few hundred requests, as *tracer* saw them.

    Raises
    ------
    RunError
        If the tracer has no permission, or the server sent no reply.
    """

    def crowd() -> Answers:
        return ask(box, _CROWD, asking, bench, trace_s=1, most=_CROWD_CONNECTIONS)

    alone_per_s = statistics.median(crowd().rate_per_s for _ in range(_ALONE_REPEATS))
    with tempfile.TemporaryDirectory(prefix="dispatchsim-trace-") as scratch_name:
        output = Path(scratch_name) / "calls"
        # Beside a load generator that spins, the tracer would delay every call.
        cpu = bench.testbed.server_cpu
        with tracing(tracer, box, output, programs=bench.programs, cpu=cpu):
            bursts = ask(box, _BURSTS, asking, bench, trace_s=_BURSTS_S)
            traced = crowd()
        text = output.read_text(errors="replace") if output.is_file() else ""
    if not box.times():
        raise _ended(box)
    n_replied = bursts.replied + traced.replied
    if not traced.replied:
        raise RunError(f"{box.name} sends no replies while {tracer.name} traces it")
    try:
        calls = tracer.read(text, tracer.name)
    except DataError as error:
        raise RunError(str(error)) from error
    _check_whole(calls, bursts.served + traced.served, tracer)
    found = recognise(calls, n_replied)
    failed = Counter(bursts.failed) + Counter(traced.failed)
    content = {
        "source": {"tool": "dispatchsim", "date": now_text(), "machine": bench.machine},
        "server": {
            **_known(found),
            "name": box.name,
            "protocol": asking.protocol,
        },
        "load": {**load_fields(_CROWD), "idle": 0},
        "window_ns": bursts.length_ns + traced.length_ns,
        "offered": bursts.offered + traced.offered,
        "replied": n_replied,
        "errors": {name: n for name, n in failed.items() if name != "open"},
        "calls": Counter(call.name for call in calls),
        "counted_by": tracer.name,
        "slow_down": alone_per_s / traced.rate_per_s,
        "doubts": found.unknown,
    }
    return Counted(observed_run("calls", content), found)


def _check_whole(calls: Sequence[Call], n_connections: int, tracer: Tracer) -> None:
    """Refuse *calls* that lack calls which every connection needs: tracers lose calls silently."""
    accepted = [call.result for call in calls if call.name in ACCEPTS and call.result >= 0]
    connections = set(accepted)
    closed = [call for call in calls if call.name == "close" and call.fd in connections]
    # Some servers leave closing to others: then there is nothing to compare.
    for n_seen, what in ((len(accepted), "accepted"), (len(closed) or n_connections, "closed")):
        if n_seen < _SEEN_MIN * n_connections:
            raise RunError(
                f"{tracer.name} lost calls: it saw {n_seen} of {n_connections} connections {what}"
            )


def choose_and_count(
    box: BlackBox, asking: Asking, bench: Bench, *, asked: str = ""
) -> tuple[Counted, list[str]]:
    """Return the counts of the first tracer that works, and why the others failed.

    Parameters
    ----------
    asked:
        The tracer of TRACERS to use; if empty, the first that works.

    Raises
    ------
    RunError
        If all failed, or the server ended.
    """
    failures: list[str] = []
    for tracer in [TRACERS[asked]] if asked else TRACERS.values():
        try:
            return count_calls(box, asking, bench, tracer=tracer), failures
        except RunError as error:
            # When the server has ended, a tracer reports only that it cannot attach.
            if not box.times():
                raise _ended(box) from error
            failures.append(str(error))
    raise RunError(f"no tracer could count its system calls: {'; '.join(failures)}")


def _ended(box: BlackBox) -> RunError:
    return RunError(f"{box.name} ended while its calls were counted: {box.last_words()}")


def _known(found: Recognised) -> dict[str, object]:
    """Return the recognised habits of a server, as fields of its record."""
    return {
        "mechanism": found.mechanism,
        "accept_limit": found.accept_limit,
        "reads_after_accept": found.reads_after_accept,
        "closes_first": found.closes_first,
        "workers": found.threads or None,
        "share": "handed over" if found.hands_over else None,
    }
