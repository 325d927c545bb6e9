"""The tasks of a campaign: each done once, and all that is finished on disk.

    round r:  micro ─► fit points ─► held-out points       every task once, order shuffled
                                                   └─► what was rejected, at most twice more

Tasks are interleaved in rounds because a real machine drifts: two points are compared within a
round. Where a target allows several tasks at once they run in threads; only this thread writes.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ...sim.files.parallel import run_all
from ..points.points import Point
from ..records.measured_runs import (
    MicroResult,
    RunRecord,
    append,
    drop_torn_line,
    read_micro,
    read_runs,
)
from ..testbed.processes import RunError
from .measuring_target import Stage, Target

RETRIES_MAX = 2
_FAILURES_IN_SUCCESSION_MAX = 4


class CampaignError(RuntimeError):
    """The campaign cannot go on; what is on disk stays valid."""


@dataclass(frozen=True)
class CampaignProgress:
    """Where a campaign stands, for a progress bar; *done* and *total* are those of the part."""

    part: str
    label: str
    done: int
    total: int
    rejected: int
    seconds_left: float
    note: str = ""


@dataclass
class CampaignSummary:
    """What a campaign did: tasks measured and already there, runs rejected and given up."""

    measured: int = 0
    skipped: int = 0
    rejected: int = 0
    given_up: int = 0
    failed: int = 0
    interrupted: bool = False
    seconds: float = 0.0
    capacity_per_s: float = 0.0
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Task:
    """One bench (a command line) or one point, in one round."""

    stage: Stage
    round: int
    what: str | Point

    @property
    def label(self) -> str:
        """A short name for people."""
        return self.what if isinstance(self.what, str) else self.what.label


ProgressCallback = Callable[[CampaignProgress], None]
_Outcome = list[MicroResult] | RunRecord | RunError


class Failures:
    """Those in succession: so many end a campaign, as what they have in common will not pass.

    Parameters
    ----------
    what:
        What fails, in the plural.
    """

    def __init__(self, what: str = "runs") -> None:
        self._what = what
        self._in_succession = 0

    def success(self) -> None:
        """Note that something was measured."""
        self._in_succession = 0

    def failure(self, label: str, error: RunError) -> str:
        """Note that what is called *label* failed; return what to say of it.

        Raises
        ------
        CampaignError
            If it is one too many.
        """
        self._in_succession += 1
        if self._in_succession >= _FAILURES_IN_SUCCESSION_MAX:
            raise CampaignError(
                f"{self._in_succession} {self._what} failed in succession, "
                f"the last one ({label}): {error}"
            ) from error
        return f"failed: {error}"


class Campaign:
    """The state of a campaign: what is on disk, the summary, the clock."""

    def __init__(self, output: Path, target: Target, progress: ProgressCallback | None) -> None:
        self.target = target
        self.summary = CampaignSummary(notices=list(target.notices))
        self._progress = progress
        self._failures = Failures()
        self._files: dict[Stage, Path] = {
            "micro": output / "micro.jsonl",
            "fit": output / "fit.jsonl",
            "heldout": output / "heldout.jsonl",
        }
        for path in self._files.values():
            torn = drop_torn_line(path)
            self.summary.notices += [torn] if torn else []
        self._fit_runs = read_runs(self._files["fit"]).rows
        held_out_runs = read_runs(self._files["heldout"]).rows
        self._check_steering([*self._fit_runs, *held_out_runs])
        target.recall([*self._fit_runs, *held_out_runs])
        self._done: set[Task] = {
            *(
                Task("micro", row.round, row.command)
                for row in read_micro(self._files["micro"]).rows
            ),
            *(Task("fit", run.repeat, run.point) for run in self._fit_runs if run.accepted),
            *(Task("heldout", run.repeat, run.point) for run in held_out_runs if run.accepted),
        }

    def _check_steering(self, runs: Sequence[RunRecord]) -> None:
        """Refuse to mix runs on loopback with runs in namespaces: they differ by a factor."""
        for run in runs:
            if run.steering != self.target.steering:
                raise CampaignError(
                    f"the folder holds runs with steering {run.steering}, this one would be "
                    f"{self.target.steering}: choose another folder"
                )

    def capacity_per_s(self) -> float | None:
        """Return the reply rate of the first accepted runs of the first fit point.

        None if there are too few. Later runs do not change it: open-loop rates are fractions of
        it, and would be other points.
        """
        point, n = self.target.fit_points[0], self.target.capacity_repeats
        rates = [
            run.result.reply_rate_per_s.mean
            for run in self._fit_runs
            if run.accepted and run.point == point
        ]
        return statistics.median(rates[:n]) if len(rates) >= n else None

    def run_rounds(self, rounds: Sequence[Sequence[Task]], part: str) -> None:
        """Run the tasks of each round that are not done, then its rejected ones again.

        *part* is what these rounds are to the campaign, for people.
        """
        missing = [[task for task in tasks if task not in self._done] for tasks in rounds]
        total = sum(len(tasks) for tasks in missing)
        self.summary.skipped += sum(len(tasks) for tasks in rounds) - total
        began_s, n_over, n_attempts = time.monotonic(), 0, 0
        with self._executor() as executor:
            for tasks in missing:
                waiting = list(tasks)
                for n_retries_left in reversed(range(RETRIES_MAX + 1)):
                    rejected = []
                    for index, outcome in run_all(self._attempt, waiting, executor):
                        task = waiting[index]
                        note = self._keep(task, outcome)
                        n_attempts += 1
                        if note and n_retries_left:
                            rejected.append(task)
                        else:
                            n_over += 1
                            self.summary.measured += not note
                            self.summary.given_up += bool(note)
                        seconds_each = (time.monotonic() - began_s) / n_attempts
                        self._report(
                            CampaignProgress(
                                part=part,
                                label=f"round {task.round} {task.label}",
                                done=n_over,
                                total=total,
                                rejected=self.summary.rejected,
                                seconds_left=(total - n_over) * seconds_each,
                                note=note,
                            )
                        )
                    waiting = rejected

    @contextlib.contextmanager
    def _executor(self) -> Iterator[Executor | None]:
        """Yield threads where several tasks may run at once; one task runs in this thread.

        However this is left, what still runs is ended first: nobody would read its result.
        """
        if self.target.n_at_once == 1:
            yield None
            return
        with ThreadPoolExecutor(self.target.n_at_once) as executor:
            try:
                yield executor
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                self.target.stop()
                raise

    def _attempt(self, task: Task) -> _Outcome:
        """Run one task, in whatever thread; a run that failed is an outcome, too."""
        try:
            if isinstance(task.what, str):
                return self.target.run_bench(task.what, task.round)
            return self.target.run_point(task.what, task.round)
        except RunError as error:
            return error

    def _keep(self, task: Task, outcome: _Outcome) -> str:
        """Append the rows of a task; return why it does not count, or an empty string."""
        if isinstance(outcome, RunError):
            self.summary.failed += 1
            return self._failures.failure(task.label, outcome)
        self._failures.success()
        if isinstance(outcome, list):
            append(self._files[task.stage], *outcome)
            self._done.add(task)
            return ""
        append(self._files[task.stage], outcome)
        if task.stage == "fit":
            self._fit_runs.append(outcome)
        if outcome.accepted:
            self._done.add(task)
        else:
            self.summary.rejected += 1
        return outcome.reason

    def _report(self, progress: CampaignProgress) -> None:
        if self._progress is not None:
            self._progress(progress)
