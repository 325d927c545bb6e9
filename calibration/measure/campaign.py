"""A campaign: measure every task until one of its runs is accepted; keep finished runs on disk.

    round r:  tasks, order shuffled ─► rows on disk ─► rejected tasks, at most twice more

Tasks are interleaved in rounds because a real machine drifts: points are compared within a round. A
round may depend on earlier ones: points known precisely enough are not measured again. A campaign
may have a time budget, which may end within a round. If a target allows several tasks at once, they
run in threads; only this thread writes.

A killed campaign leaves at most one torn line. The same command continues it: tasks with accepted
rows on disk are skipped.
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
"""This many successive failed runs end a campaign: their common cause is permanent."""


OTHER_REASONS = "other reasons"


class CampaignError(RuntimeError):
    """The campaign cannot continue. Files on disk stay valid."""


@dataclass(frozen=True)
class CampaignProgress:
    """The progress of a campaign; *done* and *total* count the tasks of its part."""

    part: str
    label: str
    done: int
    total: int
    rejected: int
    seconds_left: float
    note: str = ""


@dataclass
class CampaignSummary:
    """The result of a campaign: tasks measured and already on disk, runs rejected and given up.

    `reasons` counts rejected runs by the noise metric out of bounds; other reasons count under
    OTHER_REASONS. `out_of_time` is whether the time budget ended before the work.
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
    """Something to measure: a point, a case, a load."""

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
    """The progress of a part of a campaign."""

    total: int = 0
    n_over: int = 0
    n_attempts: int = 0
    began_s: float = 0.0

    def seconds_left(self, now_s: float) -> float:
        """Return the time left if further tasks take as long as the finished ones."""
        seconds_each = (now_s - self.began_s) / max(1, self.n_attempts)
        return (self.total - self.n_over) * seconds_each


ProgressCallback = Callable[[CampaignProgress], None]
Measure = Callable[[Task], Sequence[Measured]]
"""Measures a task and returns its rows, at least one; raises `RunError` if it fails."""


class Campaign:
    """The files, the summary and the clock of a campaign.

    Parameters
    ----------
    measure:
        Measures a task; called in threads if *n_at_once* is above 1.
    progress:
        Called after each attempt.
    things:
        Name of the tasks, in the plural, for messages.
    n_at_once:
        Number of tasks that may run at once without changing each other's results.
    stop:
        Ends the tasks in other threads soon.
    budget_s:
        Time after the start of `working` at which the last task may begin.
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
        """Cut unfinished last lines off *paths*, with a notice in the summary."""
        self.summary.notices += filter(None, map(drop_torn_line, paths))

    def skip_accepted(self, path: Path, rows: Iterable[MicroResult | MeasuredRun[Any]]) -> None:
        """Skip tasks that have an accepted run among *rows* of *path*."""
        self.done |= {Task(path, *row.of_task) for row in rows if row.accepted}

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM end the campaign early; record its duration."""
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
        """Run the missing tasks of each round, then its rejected tasks again.

        Parameters
        ----------
        rounds:
            The tasks of each round.
        part:
            Name of this part of the campaign, for messages.
        seed:
            Shuffles the tasks of each round; None keeps their order.
        n_rounds:
            Maximum number of rounds, if each is planned after the one before. None: all are known
            in advance.

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
        """Run the tasks of a round, then its rejected tasks at most twice more."""
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
        """Report the progress of the campaign, or a *note* that belongs to no task."""
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
        """Yield threads if several tasks may run at once; a single task runs in this thread.

        On leaving, running tasks are ended first, because nothing would read their results.
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
        """Run one task, in any thread; a failed run is an outcome, too.

        The outcome is None if the time budget has ended.
        """
        if time.monotonic() > self._ends_s:
            return None
        try:
            return self._measure(task)
        except RunError as error:
            return error

    def _keep(self, task: Task, outcome: Sequence[Measured] | RunError) -> str:
        """Append the rows of a task; return why it does not count, else an empty string."""
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
    """Return the name of the metric out of bounds in *reason*, or OTHER_REASONS.

    >>> _figure_of("spin_ratio must be below 1.1, got 1.2"), _figure_of("nginx sent no reply")
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

    Called before a target is opened, which may take minutes of building. The campaign itself
    compares every fact of the machine's identity.

    Raises
    ------
    DataError
        If machine.json in the folder is of another machine, or cannot be read.
    """
    path = output / "machine.json"
    if path.exists():
        _compare(path, "id", identity)


def note_machine(output: Path, identity: Sequence[str], facts: Mapping[str, Fact]) -> None:
    """Write *facts* to machine.json; refuse a folder whose facts of *identity* differ."""
    output.mkdir(parents=True, exist_ok=True)
    path = output / "machine.json"
    if not path.exists():
        write_whole(path, json.dumps(facts, indent=2) + "\n")
        return
    for name in identity:
        _compare(path, name, facts[name])


def _compare(path: Path, name: str, ours: Fact) -> None:
    """Refuse the facts in *path* if the fact *name* differs from *ours*."""
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
    """Hold a lock, because two simultaneous campaigns would disturb each other."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "measuring.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CampaignError("another campaign is measuring on this machine") from error
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end a campaign like Ctrl-C: namespaces and processes are removed."""
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
