"""All runs of a server, in rounds over its cases, each on disk as soon as it has ended.

    round 1  fit, fit, held out, held out, ...        every case once a round, so that a machine
    round 2  fit, fit, held out, held out, ...        that drifts does not favour one of them
    ...      what was disturbed, again

    FOLDER/NAME/   fit.jsonl   heldout.jsonl   calls.jsonl, of traced runs

A run begins its server anew. What is on disk is not measured again.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...calibration.observed.observed_run import ObservedRun, read_observed
from ...calibration.observed.observing import Bench, observe
from ...calibration.observed.server_process import started
from ...calibration.observed.stored_keys import store_keys
from ...calibration.records.measured_runs import append, drop_torn_line
from ...calibration.records.noise import judge, limits_for
from ...calibration.testbed.processes import RunError
from ...calibration.testbed.testbed import Testbed
from .description import RealServer
from .plan import Case

FIT_FILE, HELD_OUT_FILE, CALLS_FILE = "fit.jsonl", "heldout.jsonl", "calls.jsonl"
EXTRA_ROUNDS = 3
"""Rounds in which disturbed runs are made again; then a case has to do with fewer."""

Say = Callable[[str], None]
Trace = Callable[[Case, Bench], ObservedRun]


@dataclass(frozen=True)
class Campaign:
    """What is to be measured of one server.

    Attributes
    ----------
    folder:
        Of this server's files.
    cases:
        In the order of a round.
    repeats:
        Accepted runs that each case is to have.
    """

    folder: Path
    cases: Sequence[Case]
    repeats: int

    def file_of(self, case: Case) -> Path:
        """Return where runs of *case* are."""
        return self.folder / (FIT_FILE if case.is_fitted else HELD_OUT_FILE)

    def runs_of(self, case: Case) -> list[ObservedRun]:
        """Return the runs of *case* that are on disk."""
        return [run for run in read_observed(self.file_of(case)).rows if case.is_of(run)]

    def wants(self, case: Case, round_number: int) -> bool:
        """Return whether *case* is to be run in a round; rounds count from 0."""
        runs = self.runs_of(case)
        n_accepted = sum(run.accepted for run in runs)
        return n_accepted < self.repeats and len(runs) <= round_number

    def measure(self, bench: Bench, trace: Trace, say: Say) -> None:
        """Measure what is missing, traced runs first.

        Raises
        ------
        RunError
            If the server cannot be started or ends, or is not what its configuration says.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (FIT_FILE, HELD_OUT_FILE, CALLS_FILE):
            if torn := drop_torn_line(self.folder / name):
                say(torn)
        self._trace_all(bench, trace, say)
        for number in range(self.repeats + EXTRA_ROUNDS):
            for case in self.cases:
                if self.wants(case, number):
                    run = measured(case, bench, seed=case.load.seed(number))
                    append(self.file_of(case), run)
                    why = "" if run.accepted else f", not to be used: {run.reason}"
                    say(f"{case.label}: {run.throughput_per_s:.0f}/s{why}")

    def _trace_all(self, bench: Bench, trace: Trace, say: Say) -> None:
        path = self.folder / CALLS_FILE
        done = read_observed(path).rows
        for case in self.cases:
            # What idle connections change are lengths of calls, not their number.
            if case.idle == 0 and not any(case.is_of(run) for run in done):
                append(path, trace(case, bench))
                say(f"{case.label}: calls counted")


def measured(case: Case, bench: Bench, *, seed: int) -> ObservedRun:
    """Return one run of *case*, whose server is started for it.

    Raises
    ------
    RunError
        If the server cannot be started, ends, or does not take what is asked of it.
    """
    server, variant = case.server, case.variant
    # Of many that connect at once most wait for longer if they are accepted one by one.
    load = dataclasses.replace(case.load, accept_limit=variant.habits.accept_limit)
    with tempfile.TemporaryDirectory(prefix="dispatchsim-server-") as name:
        command = variant.prepared(Path(name), bench.testbed)
        with started(
            command,
            server.port,
            testbed=bench.testbed,
            programs=bench.programs,
            environment=variant.environment,
        ) as box:
            with_keys(server, bench.testbed)
            run = observe(box, load, server.asking, bench, seed=seed)
    if failed := run.errors.get("status"):
        raise RunError(f"{case.label}: {failed} of {run.replied} replies were errors")
    return judged(run, case)


def judged(run: ObservedRun, case: Case) -> ObservedRun:
    """Return *run* of *case*, judged by the limits of its load as runs of our own server are.

    What was wrong with a run besides noise, as that its server ended, stays wrong.
    """
    accepted, reason = run.accepted, run.reason
    if run.noise is not None and (accepted, reason) == judge(run.noise, lag_p50_ns=0):
        accepted, reason = judge(run.noise, lag_p50_ns=0, limits=limits_for(case.load))
    return run.model_copy(update={"server": case.said, "accepted": accepted, "reason": reason})


def with_keys(server: RealServer, testbed: Testbed) -> None:
    """Store what clients will ask for, if *server* has keys.

    Raises
    ------
    RunError
        If the server does not take it.
    """
    if server.value_bytes:
        store_keys(server.name, server.port, server.asking, server.value_bytes, testbed)


def why_absent(server: RealServer) -> str:
    """Return a sentence if *server* is not installed, else an empty string."""
    if shutil.which(server.program) is None:
        return f"there is no program {server.program}: apt-get install {server.package}"
    return ""
