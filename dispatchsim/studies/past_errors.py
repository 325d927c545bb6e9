"""The effect of past forecast errors on the load at which an objective is violated.

    at capacity    the error of throughput, a factor ─► scales the load searched for if it is the
                                                        rate; otherwise the speed of the server
    p99 violated   the error of the load at which    ─► as at capacity
                   p99 exceeds a bound, a factor
    below          the error of p50, p99 or CPU      ─► moves the bound for the simulator

The central search is repeated with a correction that would have made the simulator right: at both
ends of the interval of past errors (`validation.scoring.misses`), and at their median, on which the
answer is centred. Errors do not apply to times that the scenario states (`stated.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..calibration.profiles.cost import CostSource
from ..calibration.profiles.cost_profile import Profile
from ..scenario.cpus import threads_of
from ..scenario.errors import ScenarioError
from ..scenario.formats import share_text
from ..scenario.metric import Kind
from ..scenario.metrics import METRICS
from ..scenario.quantities import DURATION, RATE
from ..scenario.scenario import Scenario
from ..validation.scoring.error_files import misses_for, shipped_misses
from ..validation.scoring.misses import (
    BUSY,
    LEVEL,
    THROUGHPUT,
    Allowance,
    Known,
    allowance,
    knee_allowance,
)
from ..validation.scoring.value_verdicts import in_words
from .axis import RATE_FIELD
from .objective import Clause, Objective
from .rows import Found, Search
from .searching import LINK_FULL, SearchTask, Simulating, search_all
from .stated import Stated, stated_of
from .waiting import BUSIEST, LINK

_OF_OTHERS = " of other machines"
_BUSY = "cpu_busy"
_P99 = ("p99_ns", "p99_answered_ns")
_MISSED_AS = {
    "p50_ns": "p50_answered_ns",
    "p99_ns": "p99_answered_ns",
    "p50_answered_ns": "p50_answered_ns",
    "p99_answered_ns": "p99_answered_ns",
    _BUSY: _BUSY,
    BUSIEST: _BUSY,
}
"""Metrics of objectives, and the metric that past forecasts were scored by."""
_FEW = 10
"""Fewer past forecasts make an interval that is itself uncertain."""
_MOSTLY = 0.5
"""Share of application work above which the costs, whose errors are known, are the lesser part."""


class PastErrors(NamedTuple):
    """The loads that violate the objective, at the ends and the median of past errors.

    Attributes
    ----------
    figure, allowed:
        The metric in error, and its past errors.
    knee_ns:
        The bound, if the errors are of the load at which p99 exceeds it; 0: of the metric itself.
    n_least, n_too_high:
        The number of errors of which only a lower limit is known, and of those where the forecast
        was too high.
    is_of_others:
        Whether the errors are from other machines, as this one was never validated.
    low, middle, high:
        Loads; 0 if no load meets the objective.
    stated:
        The share of CPU time that the scenario states, by which the median error is reduced.
    """

    figure: str
    allowed: Allowance
    low: float
    middle: float
    high: float
    stated: float = 0.0
    knee_ns: int = 0
    n_least: int = 0
    is_of_others: bool = False
    n_too_high: int = 0

    def of_loads(self, factor: float) -> PastErrors:
        """Return the same errors of loads that are higher by *factor*."""
        low, middle, high = (factor * load for load in (self.low, self.middle, self.high))
        return self._replace(low=low, middle=middle, high=high)

    @property
    def sentences(self) -> list[str]:
        """The past errors, and their share of the answer."""
        middle, *ends = map(_error_text, (self.allowed.middle, self.allowed.low, self.allowed.high))
        runs, missed = "runs", METRICS[self.figure].short
        if self.knee_ns:
            bound = DURATION.format(self.knee_ns)
            runs, missed = "server programs", f"the load at which p99 exceeds {bound}"
        machines = _OF_OTHERS if self.is_of_others else ""
        least = f"; {self.n_least} of these errors may be larger" if self.n_least else ""
        few = "only " if self.allowed.n < _FEW else ""
        errors = [
            f"past forecasts of {missed} were {middle} in the median "
            f"({LEVEL:.0%} interval: {' to '.join(ends)}){least}",
            f"these past forecasts cover {few}{self.allowed.n} {runs}{machines}, without "
            "application work",
        ]
        if not self.stated:
            return errors
        return [
            *errors,
            f"{share_text(self.stated)} of the busy CPU time is the application's (from the "
            "scenario); the correction applies to the other "
            f"{share_text(1 - self.stated)}",
        ]


def _error_text(error: float) -> str:
    """Return how far a forecast was off; *error* is the logarithm of measured over forecast.

    >>> _error_text(math.log(1.25)), _error_text(math.log(1 / 3))
    ('20% too low', '3 times too high')
    """
    return in_words(math.expm1(-error))


def _is_far(error: float) -> bool:
    """Return whether a forecast was wrong by a factor of two or more."""
    return abs(error) >= math.log(2)


def far_p99(scenario: Scenario, profile: CostSource, busiest: float) -> list[str]:
    """Return a warning if past forecasts of p99 were far off at a CPU as busy as *busiest*."""
    if busiest < BUSY or scenario.machine.role == "client" or not isinstance(profile, Profile):
        return []
    known, _ = misses_for(profile)
    allowed = allowance([miss for miss in known.points if miss.is_busy], _MISSED_AS["p99_ns"])
    if allowed is None or not any(map(_is_far, (allowed.low, allowed.high))):
        return []
    machines = _OF_OTHERS if known.is_of_others else ""
    low, high = map(_error_text, (allowed.low, allowed.high))
    return [
        f"p99 is unreliable with a CPU at least {BUSY:.0%} busy: {LEVEL:.0%} of the {allowed.n} "
        f"past forecasts of such runs{machines} had errors from {high} to {low}; "
        "`dispatchsim capacity` finds the load that keeps p99 below a bound"
    ]


def unlike_past(scenario: Scenario) -> list[str]:
    """Return a warning if *scenario* differs from the runs whose errors are used."""
    here = []
    if scenario.machine.cpus > 1:
        here.append("several CPUs")
    if scenario.load.connections is not None:
        here.append("connections kept open")
    if not here:
        return []
    return [
        "the interval may be too narrow: past errors were measured with one CPU and new "
        f"connections, but this scenario has {' and '.join(here)}"
    ]


def mostly_work(share: float) -> list[str]:
    """Return a warning if application work takes a *share* of CPU time that few runs had."""
    if share <= _MOSTLY:
        return []
    numbers = [
        n
        for known in shipped_misses().values()
        if (n := sum(miss.stated > _MOSTLY for miss in known.points))
    ]
    machines = "one machine" if len(numbers) == 1 else f"{len(numbers)} machines"
    return [
        f"the application takes {share_text(share)} of the CPU time: above {_MOSTLY:.0%}, the rule "
        f"for the interval rests on {sum(numbers)} runs of {machines} only"
    ]


def past_errors(
    task: SearchTask, central: Search, known: Known, where: Simulating
) -> PastErrors | None:
    """Return the answer of the *central* search of *task* with *known* errors applied.

    None if it did not end between two loads, if the link or a backend is the bottleneck rather than
    a CPU, or if too few errors of that kind are known.
    """
    if central.found is not Found.BETWEEN or central.low == 0:
        return None
    broken = central.tried[central.high].broken
    used = central.tried[central.low].figures[BUSIEST]
    # No past error is of a full link, of a pool without a free thread, or of a response time with
    # a backend in it.
    is_busy = used >= BUSY
    is_full = central.tried[central.low].figures[LINK] >= LINK_FULL
    has_backend = task.scenario.backend.connections is not None
    if not is_busy and (is_full or has_backend):
        return None
    is_rate = task.axis.field == RATE_FIELD
    per_s = central.middle if is_rate else task.scenario.load.rate
    clause = next((c for c in task.objective.clauses if str(c) == broken), None)
    missed = _missed(clause, known, is_busy=is_busy, is_rate=is_rate, has_backend=has_backend)
    if missed is None:
        return None
    figure, allowed = missed.figure, missed.allowed
    n_cpus = min(task.scenario.machine.cpus, threads_of(task.scenario))
    stated = stated_of(task.scenario, per_s or 0.0, n_cpus * used)
    here = allowed.beside_work(figure, stated.share)
    errors = [here.low, here.middle, here.high]
    if is_rate and figure == THROUGHPUT:
        loads = [stated.measured(figure, central.middle, error) for error in errors]
    else:
        tasks = [_as_if_right(task, central, figure, error, stated) for error in errors]
        if None in tasks:
            return None
        loads = [_load(found) for found in search_all([t for t in tasks if t], where)]
    low, middle, high = sorted(loads)
    return PastErrors(
        figure,
        allowed,
        low,
        middle,
        high,
        stated=stated.share,
        knee_ns=missed.knee_ns,
        n_least=missed.n_least,
        is_of_others=known.is_of_others,
        n_too_high=missed.n_too_high,
    )


class _Missed(NamedTuple):
    """Fields as in `PastErrors`."""

    figure: str
    allowed: Allowance
    knee_ns: int = 0
    n_least: int = 0
    n_too_high: int = 0


def _missed(
    clause: Clause | None,
    known: Known,
    *,
    is_busy: bool,
    is_rate: bool,
    has_backend: bool,
) -> _Missed | None:
    """Return the errors of the metric that violates *clause*; None if too few are known."""
    if clause and clause.figure in _P99 and (is_busy or is_rate) and not has_backend:
        # Near capacity p99 is so steep that an error of the load by a factor means a server faster
        # by that factor in all its work: with more idle connections, scans are as much shorter.
        knee = knee_allowance(known, clause.bound)
        if knee is not None:
            return _Missed(THROUGHPUT, *knee)
    figure = THROUGHPUT if is_busy else _MISSED_AS.get(clause.figure if clause else "")
    if figure is None:
        return None
    allowed = allowance([miss for miss in known.points if miss.is_busy == is_busy], figure)
    return None if allowed is None else _Missed(figure, allowed)


def _as_if_right(
    task: SearchTask, central: Search, figure: str, error: float, stated: Stated
) -> SearchTask | None:
    """Return the search whose simulated answer would be measured if *error* were the error.

    None if the rate needed is illegal.
    """
    near = task._replace(begin=central.middle, growth=1.05)
    if figure == THROUGHPUT:
        rate_per_s = task.scenario.load.rate
        if rate_per_s is None:
            return None
        # A server faster in all its work equals this one at a lower rate and a slower clock.
        less = {"rate": RATE.format(stated.simulated(figure, rate_per_s, error))}
        try:
            near = near._replace(scenario=task.scenario.with_values(load=less))
        except ScenarioError:
            return None

    def bound(clause: Clause) -> float:
        if figure == THROUGHPUT and METRICS[clause.figure].kind is Kind.TIME:
            return stated.measured(figure, clause.bound, error)
        is_missed = _MISSED_AS.get(clause.figure) == figure
        return stated.simulated(clause.figure, clause.bound, error) if is_missed else clause.bound

    clauses = (clause._replace(bound=bound(clause)) for clause in task.objective.clauses)
    return near._replace(objective=Objective(tuple(clauses)))


def _load(search: Search) -> float:
    if search.found is Found.ALWAYS_BROKEN:
        return 0.0
    return search.low if math.isinf(search.high) else search.middle
