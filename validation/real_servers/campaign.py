"""All runs of a server, in rounds over its cases, each written to disk when it ends.

    round 1  fit, fit, held out, held out, ...        every case once a round, so that a drifting
    round 2  fit, fit, held out, held out, ...        machine does not favour one of them

    FOLDER/NAME/   fit.jsonl   heldout.jsonl   calls.jsonl, of traced runs

Each run starts its server again. Runs on disk are not measured again.

    shipped runs of the machine ─┐
    runs of this campaign ───────┴─► Series ─► a run's noise is judged against its quiet ones

Shipped runs are needed because a campaign of half an hour may have a busy neighbour throughout,
which doubles the time of scans over thousands of connections.

    each variant once ─► strace ─► recognise ─► as its configuration? ─► calls.jsonl

A traced server is several times slower, so its counts are used and its rates are not. Unlike the
counts of `calibration.observed.counting` they come from the load that is also timed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ... import calibration
from ...calibration.measure.campaign import Campaign, CampaignSummary, ProgressCallback, Task
from ...calibration.measure.macro import Timing
from ...calibration.observed.measuring_server import store_keys
from ...calibration.observed.observed_run import Habits, ObservedRun, read_observed
from ...calibration.observed.observing import Bench, observe
from ...calibration.observed.recognising import Recognised, n_replies, recognise
from ...calibration.observed.server_process import BlackBox, started
from ...calibration.observed.tracers import TRACERS, Call, tracing
from ...calibration.points.point import point_at
from ...calibration.records.measured_runs import RunRecord, append, read_rows
from ...calibration.records.noise import Series, judge, limits_for
from ...calibration.testbed.processes import RunError
from .plan import Case, RealServer

FIT_FILE, HELD_OUT_FILE, CALLS_FILE = "fit.jsonl", "heldout.jsonl", "calls.jsonl"

Trace = Callable[[Case, Bench], ObservedRun]


def file_of(folder: Path, case: Case) -> Path:
    """Return the file of the runs of *case* in the *folder* of its server."""
    return folder / (FIT_FILE if case.is_fitted else HELD_OUT_FILE)


def runs_of(folder: Path, case: Case) -> list[ObservedRun]:
    """Return the runs of *case* in the *folder* of its server."""
    return [run for run in read_observed(file_of(folder, case)).rows if case.is_of(run)]


def measure_cases(
    folder: Path,
    cases: Sequence[Case],
    repeats: int,
    bench: Bench,
    *,
    trace: Trace,
    progress: ProgressCallback | None = None,
) -> CampaignSummary:
    """Measure each case until *folder* has *repeats* accepted runs of it, traced runs first.

    Raises
    ------
    RunError
        If the traced server cannot be started, ends, or contradicts its configuration.
    CampaignError
        If several runs fail in succession.
    """
    of_label = {case.label: case for case in cases}

    def measure(task: Task) -> list[ObservedRun]:
        case = of_label[task.label]
        return [measured(case, bench, seed=case.load.seed(len(runs_of(folder, case))))]

    folder.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(measure, progress)
    campaign.drop_torn_lines(*(folder / name for name in (FIT_FILE, HELD_OUT_FILE, CALLS_FILE)))
    with campaign.working():
        _trace_all(folder / CALLS_FILE, cases, bench, trace)
        rounds = [
            [Task(file_of(folder, case), n, case.label) for case in cases] for n in range(repeats)
        ]
        n_accepted = {
            case.label: sum(run.accepted for run in runs_of(folder, case)) for case in cases
        }
        campaign.done |= {t for tasks in rounds for t in tasks if t.round < n_accepted[t.label]}
        campaign.run(rounds, folder.name)
    return campaign.summary


def _trace_all(path: Path, cases: Sequence[Case], bench: Bench, trace: Trace) -> None:
    done = read_observed(path).rows
    for case in cases:
        # Idle connections change the length of calls, not their number.
        if case.idle == 0 and not any(case.is_of(run) for run in done):
            append(path, trace(case, bench))


def measured(case: Case, bench: Bench, *, seed: int) -> ObservedRun:
    """Return one run of *case*, with its own server process.

    Raises
    ------
    RunError
        If the server cannot be started, ends, or rejects requests.
    """
    # Many simultaneous connections wait longer if the server accepts them one by one.
    load = point_at(case.load, accept_limit=case.variant.habits.accept_limit)
    with serving(case, bench) as box:
        run = observe(box, load, case.server.asking, bench, seed=seed)
    if failed := run.errors.get("status"):
        raise RunError(f"{case.label}: {failed} of {run.replied} replies were errors")
    return judged(run, case)


def judged(run: ObservedRun, case: Case) -> ObservedRun:
    """Return *run* of *case*, judged by the limits of its load like runs of the project's server.

    Defects other than noise, such as a server that ended, remain.
    """
    accepted, reason = run.accepted, run.reason
    if run.noise is not None and (accepted, reason) == judge(run.noise, lag_p50_ns=0):
        accepted, reason = judge(run.noise, lag_p50_ns=0, limits=limits_for(case.load))
    return run.model_copy(update={"server": case.said, "accepted": accepted, "reason": reason})


@contextlib.contextmanager
def serving(case: Case, bench: Bench) -> Iterator[BlackBox]:
    """Yield the server of *case*, in its own folder, with the requested keys stored.

    Raises
    ------
    RunError
        If it cannot be started, or rejects the keys.
    """
    server, variant, testbed = case.server, case.variant, bench.testbed
    with (
        tempfile.TemporaryDirectory(prefix="dispatchsim-server-") as folder,
        started(
            variant.prepared(Path(folder), testbed),
            server.port,
            testbed=testbed,
            programs=bench.programs,
            environment=variant.environment,
        ) as box,
    ):
        if server.value_bytes:
            store_keys(server.name, server.port, server.asking, server.value_bytes, testbed)
        yield box


def why_absent(server: RealServer) -> str:
    """Return a sentence if *server* is not installed, else an empty string."""
    if shutil.which(server.program) is None:
        return f"there is no program {server.program}: apt-get install {server.package}"
    return ""


def series_of(machine: str, folder: Path) -> Series:
    """Return the shipped calibrations of *machine*, and those of the runs in *folder*."""
    shipped = Path(calibration.__file__).parent / "measured" / machine
    names = ("fit.jsonl", "heldout.jsonl")
    series = Series.of(run for name in names for run in read_rows(shipped / name, RunRecord).rows)
    for path in sorted(folder.glob("*/*.jsonl")):
        for run in read_observed(path).rows:
            if run.noise is not None:
                series.include(run.noise.spin_ns, run.noise.memory_ns)
    return series


STRACE = TRACERS["strace"]
_TIMING = Timing(warm_up_s=0, warm_up_accept_limited_s=0, window_s=0.5, calibration_ms=20)
TRACED = "slowed down by counting its calls: never to be used for rates"


def traced(case: Case, bench: Bench) -> ObservedRun:
    """Return a run of *case* with its system calls, checked against its configuration.

    Raises
    ------
    RunError
        If strace is missing, or the server contradicts its configuration.
    """
    bench = dataclasses.replace(bench, timing=_TIMING)
    # The output of the tracer is out of reach of the server and of other processes of its user.
    with tempfile.TemporaryDirectory(prefix="dispatchsim-calls-") as folder:
        output = Path(folder) / "calls"
        with (
            serving(case, bench) as box,
            tracing(STRACE, box, output, programs=bench.programs, cpu=bench.testbed.server_cpu),
        ):
            run = observe(box, case.load, case.server.asking, bench, seed=1)
        calls = STRACE.read(output.read_text(), case.label)
    n_replied = n_replies(calls)
    if n_replied == 0:
        raise RunError(f"{case.label}: no reply was seen among its system calls")
    if case.requests == 1:
        _check(case, recognise(calls, n_replied))
    return run.model_copy(
        update={
            "server": case.said,
            # Over the whole run, like the calls.
            "replied": n_replied,
            "calls": counted(calls),
            "accepted": False,
            "reason": TRACED,
        }
    )


def counted(calls: list[Call]) -> dict[str, int]:
    """Return the number of calls by name: `NAME`, `NAME ERROR`, or `epoll_ctl OPERATION`.

    >>> counted([Call(7, "epoll_ctl", "5, EPOLL_CTL_DEL, 8, NULL", 0), Call(7, "close", "8", 0)])
    {'epoll_ctl EPOLL_CTL_DEL': 1, 'close': 1}
    """

    def name(call: Call) -> str:
        operation = re.search(r"EPOLL_CTL_[A-Z]+", call.arguments)
        return " ".join(filter(None, (call.name, operation and operation[0], call.error)))

    return dict(Counter(map(name, calls)).most_common())


def _check(case: Case, seen: Recognised) -> None:
    """Raise an error if *seen* contradicts the configuration; unseen behaviour does not."""
    habits: Habits = case.variant.habits
    pairs = {
        "mechanism": (seen.mechanism, habits.mechanism),
        "accept_limit": (seen.accept_limit, habits.accept_limit),
        "hands_over": (seen.hands_over, habits.share == "handed over"),
        "reads_after_accept": (seen.reads_after_accept, habits.reads_after_accept),
        # A worker without work makes no calls, so only a higher number contradicts.
        "workers": (max(seen.threads, habits.workers), habits.workers),
    }
    for name, (found, said) in pairs.items():
        if found is not None and found != said:
            raise RunError(
                f"{case.server.name} {case.variant.name}: {name}: must be {said} by its "
                f"configuration, but its system calls show {found}"
            )
