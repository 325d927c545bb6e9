"""A campaign: every task measured until a run of it is accepted, and all that is finished on disk.

    round r:  tasks, order shuffled ─► rows on disk ─► what was rejected, at most twice more

Tasks are interleaved in rounds because a real machine drifts: two points are compared within a
round. A round may depend on what the ones before have found: what is known well enough is not
measured again. A campaign may have a budget of time, after which it ends in the midst of a round.
Where a target allows several tasks at once they run in threads; only this thread writes.

A killed campaign leaves at most one torn line. The same campaign goes on where it was: tasks whose
accepted rows are on disk are skipped.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from ...sim.files.parallel import run_all
from ...sim.files.whole_files import write_whole
from ..records.measured_runs import (
    DataError,
    Measured,
    MeasuredRun,
    MicroResult,
    append,
    drop_torn_line,
)
from ..testbed.c_build import cache_folder
from ..testbed.machine_facts import Fact
from ..testbed.processes import RunError

RETRIES_MAX = 2
_FAILURES_IN_SUCCESSION_MAX = 4
"""This many failed runs in succession end a campaign: their common cause is permanent."""


OTHER_REASONS = "other reasons"


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
    """What a campaign did: tasks measured and already there, runs rejected and given up.

    `reasons` counts rejected runs by the figure that was out of bounds, and under OTHER_REASONS
    those with another reason; `out_of_time` is whether the budget ended before the work did.
    """

    measured: int = 0
    skipped: int = 0
    rejected: int = 0
    given_up: int = 0
    failed: int = 0
    interrupted: bool = False
    out_of_time: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    capacity_per_s: float = 0.0
    notices: list[str] = field(default_factory=list)


class Labelled(Hashable, Protocol):
    """What can be measured: a point, a case, a load."""

    @property
    def label(self) -> str:
        """A short name for people."""


@dataclass(frozen=True)
class Task:
    """One thing to measure in one round: a bench (a command line) or a point.

    Its rows are appended to the file *path*.
    """

    path: Path
    round: int
    what: str | Labelled

    @property
    def label(self) -> str:
        """A short name for people."""
        return self.what if isinstance(self.what, str) else self.what.label


@dataclass
class _Tally:
    """How far a part of a campaign has come."""

    total: int = 0
    n_over: int = 0
    n_attempts: int = 0
    began_s: float = 0.0

    def seconds_left(self, now_s: float) -> float:
        """Return how long the rest takes if its tasks take as long as those so far."""
        seconds_each = (now_s - self.began_s) / max(1, self.n_attempts)
        return (self.total - self.n_over) * seconds_each


ProgressCallback = Callable[[CampaignProgress], None]
Measure = Callable[[Task], Sequence[Measured]]
"""Measures a task and returns its rows, at least one; raises `RunError` if it fails."""


class Campaign:
    """What is on disk, the summary, the clock.

    Parameters
    ----------
    measure:
        What is done for each task, in threads if *n_at_once* is above 1.
    progress:
        Called after each attempt.
    things:
        What is measured, in the plural, for people.
    n_at_once:
        Tasks that may run at a time without changing each other's results.
    stop:
        Ends what runs in other threads, soon.
    budget_s:
        No task begins later than this after `working` has begun.
    """

    def __init__(
        self,
        measure: Measure,
        progress: ProgressCallback | None = None,
        *,
        things: str = "runs",
        n_at_once: int = 1,
        stop: Callable[[], None] = lambda: None,
        budget_s: float = math.inf,
    ) -> None:
        self.summary = CampaignSummary()
        self.done: set[Task] = set()
        self._measure = measure
        self._progress = progress
        self._things = things
        self._n_at_once = n_at_once
        self._stop = stop
        self._budget_s = budget_s
        self._ends_s = math.inf
        self._tally = _Tally()
        self._failures_in_succession = 0

    def drop_torn_lines(self, *paths: Path) -> None:
        """Cut unfinished last lines off *paths*, and note that in the summary."""
        self.summary.notices += filter(None, map(drop_torn_line, paths))

    def skip_accepted(self, path: Path, rows: Iterable[MicroResult | MeasuredRun[Any]]) -> None:
        """Measure nothing again of which *rows* of *path* hold an accepted run."""
        self.done |= {Task(path, *row.of_task) for row in rows if row.accepted}

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM end the campaign early; note how long it took."""
        began_s = time.monotonic()
        self._ends_s = began_s + self._budget_s
        with interruptible():
            try:
                yield
            except KeyboardInterrupt:
                self.summary.interrupted = True
        self.summary.seconds = time.monotonic() - began_s

    def run(
        self,
        rounds: Iterable[Sequence[Task]],
        part: str,
        *,
        seed: str | None = None,
        n_rounds: int | None = None,
    ) -> None:
        """Run the tasks of each round that are not done, then its rejected ones again.

        Parameters
        ----------
        rounds:
            Their tasks.
        part:
            What these rounds are to the campaign, for people.
        seed:
            Shuffles the tasks of each round; without one they stay in their order.
        n_rounds:
            How many there are at most; they are asked for one by one. None: all are known before
            the first begins.

        Raises
        ------
        CampaignError
            If four runs fail in succession.
        """
        known = list(rounds) if n_rounds is None else None
        tally = _Tally(began_s=time.monotonic())
        with self._executor() as executor:
            for index, tasks in enumerate(known if known is not None else rounds):
                if self.summary.out_of_time:
                    break
                missing = [t for t in _shuffled(tasks, seed, index) if t not in self.done]
                self.summary.skipped += len(tasks) - len(missing)
                if known is not None:
                    n_later = sum(t not in self.done for later in known[index + 1 :] for t in later)
                else:
                    n_later = len(missing) * ((n_rounds or 0) - index - 1)
                tally.total = tally.n_over + len(missing) + n_later
                self._run_round(missing, part, executor, tally)

    def _run_round(
        self, missing: Sequence[Task], part: str, executor: Executor | None, tally: _Tally
    ) -> None:
        """Run the tasks of a round, then those that were rejected, at most twice more."""
        waiting = missing
        for n_retries_left in reversed(range(RETRIES_MAX + 1)):
            rejected = []
            for index, outcome in run_all(self._attempt, waiting, executor):
                if outcome is None:
                    self.summary.out_of_time = True
                    continue
                task = waiting[index]
                note = self._keep(task, outcome)
                tally.n_attempts += 1
                if note and n_retries_left:
                    rejected.append(task)
                else:
                    tally.n_over += 1
                    self.summary.measured += not note
                    self.summary.given_up += bool(note)
                self.say(part, f"round {task.round} {task.label}", note, tally)
            if self.summary.out_of_time:
                return
            waiting = rejected

    def say(self, part: str, label: str, note: str, tally: _Tally | None = None) -> None:
        """Report where the campaign stands, or a *note* that belongs to no task."""
        if self._progress is None:
            return
        self._tally = tally or self._tally
        now_s = time.monotonic()
        self._progress(
            CampaignProgress(
                part=part,
                label=label,
                done=self._tally.n_over,
                total=self._tally.total,
                rejected=self.summary.rejected,
                seconds_left=min(self._tally.seconds_left(now_s), max(0.0, self._ends_s - now_s)),
                note=note,
            )
        )

    @contextlib.contextmanager
    def _executor(self) -> Iterator[Executor | None]:
        """Yield threads where several tasks may run at once; one task runs in this thread.

        However this is left, what still runs is ended first: nobody would read its result.
        """
        if self._n_at_once == 1:
            yield None
            return
        with ThreadPoolExecutor(self._n_at_once) as executor:
            try:
                yield executor
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                self._stop()
                raise

    def _attempt(self, task: Task) -> Sequence[Measured] | RunError | None:
        """Run one task, in whatever thread; a run that failed is an outcome, too.

        It is None if the budget has ended before.
        """
        if time.monotonic() > self._ends_s:
            return None
        try:
            return self._measure(task)
        except RunError as error:
            return error

    def _keep(self, task: Task, outcome: Sequence[Measured] | RunError) -> str:
        """Append the rows of a task; return why it does not count, or an empty string."""
        if isinstance(outcome, RunError):
            return self._fail(task, outcome)
        self._failures_in_succession = 0
        append(task.path, *outcome)
        note = next((row.reason or "not accepted" for row in outcome if not row.accepted), "")
        if note:
            self.summary.rejected += 1
            self.summary.reasons[_figure_of(note)] += 1
        else:
            self.done.add(task)
        return note

    def _fail(self, task: Task, error: RunError) -> str:
        self.summary.failed += 1
        self._failures_in_succession += 1
        if self._failures_in_succession >= _FAILURES_IN_SUCCESSION_MAX:
            raise CampaignError(
                f"{self._failures_in_succession} {self._things} failed in succession, "
                f"the last one ({task.label}): {error}"
            ) from error
        return f"failed: {error}"


def _figure_of(reason: str) -> str:
    """Return the name of the figure that *reason* says was out of bounds, or OTHER_REASONS.

    >>> _figure_of("spin_ratio must be below 1.1, got 1.2"), _figure_of("nginx answered no request")
    ('spin_ratio', 'other reasons')
    """
    name, _, rule = reason.partition(" ")
    return name if rule.startswith("must ") else OTHER_REASONS


def _shuffled(tasks: Sequence[Task], seed: str | None, index: int) -> list[Task]:
    if seed is None:
        return list(tasks)
    return random.Random(f"{seed} {index}").sample(tasks, len(tasks))


def check_machine(output: Path, identity: str) -> None:
    """Refuse the folder of a machine with another id than *identity*.

    For those who are about to open a target, which takes minutes where it must be built first;
    a campaign compares all that makes a machine.

    Raises
    ------
    DataError
        If the folder has a machine.json that is of another machine or cannot be read.
    """
    path = output / "machine.json"
    if path.exists():
        _compare(path, "id", identity)


def note_machine(output: Path, identity: Sequence[str], facts: Mapping[str, Fact]) -> None:
    """Write *facts* to machine.json, or refuse a folder in which those of *identity* differ."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / "machine.json"
    if not path.exists():
        write_whole(path, json.dumps(facts, indent=2) + "\n")
        return
    for name in identity:
        _compare(path, name, facts[name])


def _compare(path: Path, name: str, ours: Fact) -> None:
    """Refuse the facts in *path* if that of this *name* is not ours."""
    try:
        known = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path.name}: the file: must be JSON, got {error}") from error
    if not isinstance(known, dict) or name not in known:
        raise DataError(f"{path.name}: field {name} is missing")
    if known[name] != ours:
        raise DataError(
            f'{path.name}: field {name} is "{known[name]}", this machine is "{ours}": '
            "choose another folder"
        )


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold a lock, because two campaigns at once would measure each other."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "measuring.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CampaignError("another campaign is measuring on this machine") from error
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end a campaign as Ctrl-C does: with everything of ours removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
