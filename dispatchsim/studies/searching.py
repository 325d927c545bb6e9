"""Searches for the load at which an objective is violated: the next load to try, and the end.

    load   ├──── objective met ────┤ low ··· high ├──── violated ────┤
            1. longer and longer steps until both are known   2. bisect, all at one seed

With one seed, a higher rate only moves the same arrivals closer together, so p99 hardly ever falls
when the rate rises, and bisection is safe. Several searches proceed together: a round is one run of
each. Every run is read from the store or added to it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, NamedTuple

from ..calibration.profiles.cost_profile import Profile
from ..scenario.scenario import Scenario
from ..sim.figures.summary import OVERLOADED_SHARE, Verdict
from ..store.records import Record, Run
from ..store.work import simulate_all
from .axis import RATE_FIELD, Axis
from .objective import Objective
from .rows import Found, Search, Tried
from .waiting import BUSIEST, figures_for

if TYPE_CHECKING:
    from ..store.store import Store

RUNS_MAX = 24
FALLS_BEHIND = "the server falls behind"
"""The reason why a load violates an objective although it meets every clause."""
LINK_FULL = 0.9
"""Above this use, queues at the link dominate response times (as `misses.BUSY` for a CPU)."""
_GROWTH_MAX = 8.0
_SMALL_STEP = 1.05
_FAR_STEPS = 3
_NEAR_CAPACITY = 0.97
"""CPU use above which its inverse no longer predicts how far the load can grow."""


class SearchTask(NamedTuple):
    """The inputs of one search."""

    scenario: Scenario
    profile: Profile
    objective: Objective
    axis: Axis
    seed: int
    draw: int | None
    begin: float
    growth: float
    precision: float
    seconds_max: float


class Simulating(NamedTuple):
    """Where runs of searches are simulated and kept; as for `simulate_all`."""

    store: Store | None = None
    executor: Executor | None = None


def search_all(
    tasks: Sequence[SearchTask],
    where: Simulating = Simulating(),  # noqa: B008 (a record that nothing changes)
    ended: Callable[[int], None] | None = None,
) -> list[Search]:
    """Return each search's result, in the order of *tasks*; *ended* gets the number finished."""
    ways = [_Way(task) for task in tasks]
    while going := [way for way in ways if way.search is None]:
        runs = [way.run for way in going]
        figures = sorted({c.figure for way in going for c in way.task.objective.clauses})
        records = simulate_all(runs, figures=figures, store=where.store, executor=where.executor)
        for way, record in zip(going, records, strict=True):
            way.note(_tried(way.task, record))
        if ended:
            ended(sum(way.search is not None for way in ways))
    return [way.search for way in ways if way.search is not None]


def kept_above(task: SearchTask, where: Simulating) -> float | None:
    """Return a value far above the task's first one if it meets the objective; otherwise None.

    Higher values of some fields, such as server.backlog, may help.
    """
    far = task.axis.above(task.begin, _GROWTH_MAX)
    if far <= task.begin:
        return None
    run = Run(task.axis.at(task.scenario, far), task.profile, task.seed, task.draw)
    figures = sorted({clause.figure for clause in task.objective.clauses})
    (record,) = simulate_all([run], figures=figures, store=where.store, executor=where.executor)
    return far if _tried(task, record).broken is None else None


class _Way:
    """One search: the next load to try, and its result at the end."""

    def __init__(self, task: SearchTask) -> None:
        self.task = task
        self.search: Search | None = None
        self._until_s = time.monotonic() + task.seconds_max
        self._tried: dict[float, Tried] = {}
        self._low, self._high, self._growth = 0.0, math.inf, task.growth
        self._n_far = 0  # steps by the idle share of the CPU
        self._x = min(max(task.begin, task.axis.floor), task.axis.ceiling)

    @property
    def run(self) -> Run:
        """The run at the next load to try."""
        task = self.task
        return Run(task.axis.at(task.scenario, self._x), task.profile, task.seed, task.draw)

    def note(self, tried: Tried) -> None:
        """Record the result of the run; choose the next load, or end."""
        self._tried[self._x] = tried
        if tried.broken is None:
            self._low = self._x
        else:
            self._high = self._x
        found = self._found()
        if found is None:
            self._x = self._next(tried)
            if self._x in self._tried:  # as close as numbers can be written
                found = Found.BETWEEN
        if found is not None:
            task = self.task
            self.search = Search(task.seed, task.draw, found, self._low, self._high, self._tried)

    def _found(self) -> Found | None:
        axis, low, high = self.task.axis, self._low, self._high
        if low >= axis.ceiling:
            return Found.NEVER_BROKEN
        if high <= axis.floor:
            return Found.ALWAYS_BROKEN
        are_known = not math.isinf(high) and (low > 0 or axis.floor in self._tried)
        if are_known and _are_near(self.task, low, high):
            return Found.BETWEEN
        if time.monotonic() > self._until_s or len(self._tried) >= RUNS_MAX:
            return Found.OUT_OF_BUDGET
        return None

    def _next(self, tried: Tried) -> float:
        axis, growth = self.task.axis, self._growth
        if math.isinf(self._high):
            used = tried.figures[BUSIEST]
            is_far = self.task.growth >= 2 and 1 / _GROWTH_MAX < used < _NEAR_CAPACITY
            if is_far and axis.field == RATE_FIELD:
                self._growth = _SMALL_STEP  # there the CPU is about fully busy
                self._n_far += 1
                # A scanning server is busy at any load, so its use does not predict its capacity.
                step = 1 / used if self._n_far <= _FAR_STEPS else max(2.0, 1 / used)
                return axis.above(self._low, step)
            self._growth = min(growth**2, 2.0)
            return axis.above(self._low, growth)
        if self._low == 0 and axis.floor not in self._tried:
            self._growth = min(growth**2, 2.0)
            return axis.below(self._high, growth)
        return axis.between(self._low, self._high)


def _are_near(task: SearchTask, low: float, high: float) -> bool:
    return high - low <= max(task.precision * high, 1.0 if task.axis.is_whole else 0.0)


def _tried(task: SearchTask, record: Record) -> Tried:
    """Return a run judged by the task's objective."""
    figures = record.figures
    clause = task.objective.broken_by(figures)
    broken = str(clause) if clause else None
    if broken is None and _falls_behind(record):
        broken = FALLS_BEHIND
    names = {*figures_for(task.scenario), *(clause.figure for clause in task.objective.clauses)}
    return Tried({name: figures[name] for name in sorted(names)}, broken)


def _falls_behind(record: Record) -> bool:
    """Return whether more requests arrive than are served, though few have failed yet.

    A run shorter than the clients' timeout meets a bound on errors alone in this state.
    """
    few = record.figures["failed_share"] <= OVERLOADED_SHARE
    return Verdict(record.verdict) is Verdict.OVERLOADED and few
