"""As many replications as a relative precision takes, and no more than a budget.

                  ┌────────────── go on: n more ─────────────┐
                  ▼                                          │
    n_first ──► values ──► half-width ≤ target · |mean| ? ───┤
                                     │                       │
                                  reached            out of budget: not converged

The target is r / (1 + r): an error of at most that share of the *estimate* is at most the share r
of the true mean.

What stops when it looks precise stops too often where the spread came out small by chance: the
interval holds the mean less often than it says, the less the smaller n_first is and the more the
values are skewed. Of 2,000 experiments with mean waits of M/M/1, to 5% at a nominal 95%, 91% held
the mean with n_first = 3, and 94% with 50. Chow and Robbins show that the loss goes to
nothing with r, for any values of finite variance.

Sources: Chow and Robbins 1965, "On the asymptotic theory of fixed-width sequential confidence
intervals for the mean", Annals of Mathematical Statistics 36(2); Law 2015, "Simulation Modeling and
Analysis", §9.4.1 (r / (1 + r); n_first at least 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .interval import Interval, check_level
from .means import mean_interval

GROWTH_MAX = 2
"""Times as many values as there are may be asked for at once: the forecast is of few values."""


class Answer(StrEnum):
    """What to do after some replications."""

    GO_ON = "go on"
    REACHED = "reached"
    OUT_OF_BUDGET = "not converged"


@dataclass(frozen=True)
class Progress:
    """Where a sequential estimate stands.

    Parameters
    ----------
    answer:
        Whether to go on.
    n_more:
        Replications to add before asking again; 0 unless the answer is to go on.
    interval:
        Of the mean so far, in the unit of the figure; None before there are two values.
    """

    answer: Answer
    n_more: int
    interval: Interval | None


class SequentialMean:
    """The mean of one figure a replication, to a relative half-width.

    Parameters
    ----------
    relative:
        Greatest error as a share of the true mean, as 0.05.
    budget:
        Replications that may be made at all.
    n_first:
        Replications before the first look.
    level:
        Of the interval.

    Raises
    ------
    ValueError
        If one of them is out of its range.

    >>> mean = SequentialMean(relative=0.1, budget=40, n_first=4)
    >>> mean.add([10.0, 10.1, 9.9, 10.0]).answer
    <Answer.REACHED: 'reached'>
    """

    def __init__(
        self, *, relative: float, budget: int, n_first: int = 10, level: float = 0.95
    ) -> None:
        check_level(level)
        if not 0 < relative < math.inf:
            raise ValueError(f"relative: must be above 0, got {relative}")
        if n_first < 2:
            raise ValueError(f"n_first: must be at least 2, got {n_first}")
        if budget < n_first:
            raise ValueError(f"budget: must be at least n_first ({n_first}), got {budget}")
        self._target = relative / (1 + relative)
        self._budget = budget
        self._n_first = n_first
        self._level = level
        self._values: list[float] = []

    def add(self, values: Iterable[float] = ()) -> Progress:
        """Add the figures of more replications and return what to do next.

        A figure that some replication does not have (NaN) leaves the mean unknown for ever: the
        answer is then that it is out of budget, at once.

        Raises
        ------
        ValueError
            If the budget does not allow so many.
        """
        self._values.extend(values)
        n = len(self._values)
        if n > self._budget:
            raise ValueError(f"values: must be at most the budget, {self._budget}, got {n}")
        interval = mean_interval(self._values, level=self._level) if n > 1 else None
        if n < self._n_first:
            return Progress(Answer.GO_ON, self._n_first - n, interval)
        assert interval is not None
        relative = interval.relative_half_width
        if relative <= self._target:
            return Progress(Answer.REACHED, 0, interval)
        if n == self._budget or math.isnan(relative):
            return Progress(Answer.OUT_OF_BUDGET, 0, interval)
        # A half-width goes with one over the root of the number of values.
        excess = relative / self._target
        wanted = min(n * excess * excess, GROWTH_MAX * n, self._budget)
        return Progress(Answer.GO_ON, max(1, math.ceil(wanted) - n), interval)
