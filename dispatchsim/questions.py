"""The planner's question: up to which rate p99 stays under a bound.

    rate   ├──── p99 within ────┤ low ··· high ├──── p99 above ────┤
            1. longer and longer steps until both are known   2. bisect, all at one seed

Each replication is a search of its own, with its own seed and its own draw of the costs. At one
seed arrivals at two rates are the same arrivals, nearer together, so p99 hardly ever falls when
the rate rises and bisection is safe. The answer is the range over replications: arrivals and
calibration are both in it.

A connection that fails counts as one that waits for ever, one that is still open as one that has
waited since; otherwise a server that answers few would look quick.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from .calibration.cost_source import CostSource
from .compiling import Side, compile_engines
from .errors import ScenarioError, UserError
from .models.simulate import Engine
from .preparation import job_of, profile_of, run_job, warnings_of, with_engine
from .quantities import DURATION, RATE
from .scenario import CONNECTIONS_MAX, Scenario, check_scenario
from .sim.parallel import run_all
from .sim.units import SECOND_NS

PRECISION = 0.02
"""Relative width at which a search ends."""
CONNECTIONS_MIN = 100
"""Connections of a window at the least: with fewer, the 99 % quantile is the maximum."""
RATE_MAX_PER_S = 2_000_000.0
RUNS_MAX = 24


class Found(StrEnum):
    """How a search ended."""

    BETWEEN = "between"  # the bound is passed between low and high
    ALWAYS_ABOVE = "always above"  # p99 is above the bound at the lowest rate tried, high
    NOT_REACHED = "not reached"  # p99 is within the bound at the highest rate tried, low
    OUT_OF_BUDGET = "out of budget"  # between low and high, which are further apart than asked


class Search(NamedTuple):
    """One replication's answer; tried_ns holds the p99 at each rate that was simulated.

    That p99 is over all connections due: one that failed waited for ever.
    """

    seed: int
    draw: int | None
    found: Found
    low_per_s: float
    high_per_s: float
    tried_ns: dict[float, float]


class SearchTask(NamedTuple):
    """What one search needs, in whatever process."""

    scenario: Scenario
    profile: CostSource
    bound_ns: int
    seed: int
    draw: int | None
    begin_per_s: float
    growth: float
    seconds_max: float


@dataclass(frozen=True)
class Capacity:
    """The answer: p99 passes the bound between `low_per_s` and `high_per_s`.

    The first search is at central costs, the others each at a draw of what the calibration
    leaves open. Where a search ended at a limit, the range is open on that side (0 or infinity).
    """

    scenario: Scenario
    profile: str
    bound_ns: int
    searches: tuple[Search, ...]
    warnings: tuple[str, ...]

    @property
    def low_per_s(self) -> float:
        """The lowest rate at which some replication's p99 may pass the bound."""
        return min(s.low_per_s for s in self.searches)

    @property
    def high_per_s(self) -> float:
        """The rate at which every replication's p99 has passed the bound."""
        return max(s.high_per_s for s in self.searches)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        bound = DURATION.format(self.bound_ns)
        kinds = {s.found for s in self.searches}
        if kinds == {Found.NOT_REACHED}:
            return f"p99 stays within {bound} up to {_rate(self.low_per_s)}, the highest rate tried"
        if kinds == {Found.ALWAYS_ABOVE}:
            return (
                f"p99 is above {bound} at every rate tried, from {_rate(self.high_per_s)} on "
                "(who fails or is still open counts as late: `dispatchsim run` says how many)"
            )
        low, high = self.low_per_s, self.high_per_s
        if low == 0 and math.isinf(high):
            text = f"nothing is known of where p99 passes {bound}"
        elif low == 0:
            text = f"p99 passes {bound} below {_rate(high)}"
        elif math.isinf(high):
            text = f"p99 passes {bound} above {_rate(low)}"
        else:
            text = f"p99 passes {bound} between {_rate(low)} and {_rate(high)}"
        if Found.OUT_OF_BUDGET in kinds:
            text += " (the search ended early: there was no more time)"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "format": "dispatchsim-capacity/1",
            "scenario": self.scenario.to_dict(),
            "profile": self.profile,
            "p99_bound_ns": self.bound_ns,
            "answer": self.sentence,
            "low_per_s": self.low_per_s,
            "high_per_s": self.high_per_s,
            "warnings": list(self.warnings),
            "searches": [
                {
                    "seed": s.seed,
                    "cost_draw": s.draw,
                    "found": str(s.found),
                    "low_per_s": s.low_per_s,
                    "high_per_s": s.high_per_s,
                    "tried": [
                        {"rate_per_s": rate, "p99_due_ns": p99}
                        for rate, p99 in sorted(s.tried_ns.items())
                    ],
                }
                for s in self.searches
            ],
        }


def capacity(
    scenario: Scenario,
    *,
    p99_ns: int,
    profile: CostSource | None = None,
    replications: int = 6,
    seconds_max: float = 300.0,
    engine: Engine | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Capacity:
    """Return the rates between which the p99 of *scenario* passes *p99_ns*.

    Parameters
    ----------
    scenario:
        An open loop; its own rate is where the search begins.
    p99_ns:
        The bound.
    profile:
        What things cost; None: what the scenario names.
    replications:
        Searches; the first at central costs, the others each at a draw of the costs.
    seconds_max:
        Wall time of each search, after which it says how far it came.
    engine, executor, progress:
        As for `running.run`.

    Raises
    ------
    ScenarioError, ProfileError
        If the scenario has no rate or cannot be run.
    """
    check_scenario(scenario)
    scenario = with_engine(scenario, engine)
    if scenario.load.rate is None:
        raise ScenarioError("load.rate: is missing, and a capacity is a rate of an open loop")
    if p99_ns < 1:
        raise UserError(f"p99 must be above 0, got {p99_ns} ns")
    if replications < 1:
        raise UserError(f"replications must be at least 1, got {replications}")
    window_ns = scenario.run.duration - scenario.run.warm_up
    if window_ns < 10 * p99_ns:
        raise ScenarioError(
            "run.duration: must leave a window of at least ten times the bound on p99 "
            f"({DURATION.format(10 * p99_ns)}) after the warm-up, got {DURATION.format(window_ns)}"
        )
    profile = profile or profile_of(scenario)
    if executor is not None and scenario.run.engine != "reference":
        side = Side.of(scenario)
        compile_engines([scenario.server.mechanism], profile, side=side, executor=executor)
    first = SearchTask(
        scenario, profile, p99_ns, scenario.run.seed, None, scenario.load.rate, 2.0, seconds_max
    )
    found = {0: next(iter(run_all(search, [first], executor)))[1]}
    # The others begin where the first one ended, with small steps: four runs instead of twelve.
    begin = found[0].low_per_s or found[0].high_per_s
    others = [
        first._replace(seed=first.seed + i, draw=i - 1, begin_per_s=begin, growth=1.05)
        for i in range(1, replications)
    ]
    if progress:
        progress(1, replications)
    for index, ended in run_all(search, others, executor):
        found[index + 1] = ended
        if progress:
            progress(len(found), replications)
    return Capacity(
        scenario,
        profile.name,
        p99_ns,
        tuple(found[i] for i in range(replications)),
        tuple(warnings_of(scenario, profile)),
    )


def search(task: SearchTask) -> Search:
    """Return between which rates one replication's p99 passes the bound."""
    until_s = time.monotonic() + task.seconds_max
    tried_ns: dict[float, float] = {}
    low, high, growth = 0.0, math.inf, task.growth
    length = task.scenario.run
    ceiling = min(RATE_MAX_PER_S, 0.99 * CONNECTIONS_MAX * SECOND_NS / length.duration)
    floor = min(CONNECTIONS_MIN * SECOND_NS / (length.duration - length.warm_up), ceiling)
    rate = min(max(task.begin_per_s, floor), ceiling)
    while True:
        tried_ns[rate] = p99_at(task, rate)
        if tried_ns[rate] <= task.bound_ns:
            low = rate
        else:
            high = rate
        found = None
        if low >= ceiling:
            found = Found.NOT_REACHED
        elif high <= floor:
            found = Found.ALWAYS_ABOVE
        elif low > 0 and not math.isinf(high) and high - low <= PRECISION * high:
            found = Found.BETWEEN
        elif time.monotonic() > until_s or len(tried_ns) >= RUNS_MAX:
            found = Found.OUT_OF_BUDGET
        if found:
            return Search(task.seed, task.draw, found, low, high, tried_ns)
        if math.isinf(high):
            rate, growth = min(low * growth, ceiling), min(growth**2, 2.0)
        elif low == 0:
            rate, growth = max(high / growth, floor), min(growth**2, 2.0)
        else:
            rate = float(round((low + high) / 2, 3))


def p99_at(task: SearchTask, rate_per_s: float) -> float:
    """Return the p99 in ns, over all connections due, of the task's scenario at another rate."""
    scenario = task.scenario.with_values(load={"rate": RATE.format(rate_per_s)})
    return run_job(job_of(scenario, task.profile, task.seed, draw=task.draw)).summary.p99_due_ns


def _rate(per_s: float) -> str:
    """Return a rate as people say it: three digits are all that the search gives.

    >>> _rate(12345.6)
    '12,300/s'
    """
    digits = 2 - math.floor(math.log10(per_s)) if per_s > 0 else 0
    return f"{round(per_s, digits):,.{max(0, digits)}f}/s"
