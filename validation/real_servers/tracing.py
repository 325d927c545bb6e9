"""Each variant once under strace: what it calls, and whether its configuration says as much.

    strace ─► few requests, many requests a connection ─► recognise ─► == habits? ─► counted run

A traced server is several times as slow, so its rates are nothing to go by; its counts are. Unlike
those of `calibration.observed.counting` they are of the very load that is timed.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections import Counter
from pathlib import Path

from ...calibration.measure.macro import Timing
from ...calibration.observed.observed_run import Habits, ObservedRun
from ...calibration.observed.observing import Bench, observe
from ...calibration.observed.recognising import Recognised, n_replies, recognise
from ...calibration.observed.server_process import started
from ...calibration.observed.tracers import TRACERS, Call, tracing
from ...calibration.testbed.processes import RunError
from .campaign import with_keys
from .plan import Case

STRACE = TRACERS["strace"]
_TIMING = Timing(warm_up_s=0, warm_up_accept_limited_s=0, window_s=0.5, calibration_ms=20)
TRACED = "slowed down by counting its calls: never to be used for rates"


def traced(case: Case, bench: Bench) -> ObservedRun:
    """Return a run of *case* with its system calls, once they are what its habits say.

    Raises
    ------
    RunError
        If strace is not there, or the server does something else than its configuration says.
    """
    variant, server = case.variant, case.server
    bench = dataclasses.replace(bench, timing=_TIMING)
    with (
        tempfile.TemporaryDirectory(prefix="dispatchsim-server-") as folder,
        # What the tracer writes is nowhere that the server, or whoever else is its user, reaches.
        tempfile.TemporaryDirectory(prefix="dispatchsim-calls-") as calls_folder,
    ):
        output = Path(calls_folder) / "calls"
        with started(
            variant.prepared(Path(folder), bench.testbed),
            server.port,
            testbed=bench.testbed,
            programs=bench.programs,
            environment=variant.environment,
        ) as box:
            with_keys(server, bench.testbed)
            cpu = bench.testbed.server_cpu
            with tracing(STRACE, box, output, programs=bench.programs, cpu=cpu):
                run = observe(box, case.load, server.asking, bench, seed=1)
        calls = STRACE.read(output.read_text(), case.label)
    n_replied = n_replies(calls)
    if n_replied == 0:
        raise RunError(f"{case.label}: no reply was seen among its system calls")
    if case.requests == 1:
        _check(case, recognise(calls, n_replied))
    return run.model_copy(
        update={
            "server": case.said,
            # Of the whole of the run, as the calls are.
            "replied": n_replied,
            "calls": counted(calls),
            "accepted": False,
            "reason": TRACED,
        }
    )


def counted(calls: list[Call]) -> dict[str, int]:
    """Return how often each call was made: `NAME`, `NAME ERROR`, or `epoll_ctl OPERATION`.

    >>> counted([Call(7, "epoll_ctl", "5, EPOLL_CTL_DEL, 8, NULL", 0), Call(7, "close", "8", 0)])
    {'epoll_ctl EPOLL_CTL_DEL': 1, 'close': 1}
    """

    def name(call: Call) -> str:
        operation = re.search(r"EPOLL_CTL_[A-Z]+", call.arguments)
        return " ".join(filter(None, (call.name, operation and operation[0], call.error)))

    return dict(Counter(map(name, calls)).most_common())


def _check(case: Case, seen: Recognised) -> None:
    """Raise where what was *seen* contradicts the habits; what could not be seen does not."""
    habits: Habits = case.variant.habits
    pairs = {
        "mechanism": (seen.mechanism, habits.mechanism),
        "accept_limit": (seen.accept_limit, habits.accept_limit),
        "hands_over": (seen.hands_over, habits.share == "handed over"),
        "reads_after_accept": (seen.reads_after_accept, habits.reads_after_accept),
        # A worker that another one outruns makes no calls: only more of them contradict.
        "workers": (max(seen.threads, habits.workers), habits.workers),
    }
    for name, (found, said) in pairs.items():
        if found is not None and found != said:
            raise RunError(
                f"{case.server.name} {case.variant.name}: {name}: must be {said} by its "
                f"configuration, but its system calls show {found}"
            )
