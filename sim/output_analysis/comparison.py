"""Comparison of two or more systems: their difference, and the best one.

Two under common random numbers, by the mean of paired differences:

    seed 1 ──► system A ──► a₁ ┐
          └──► system B ──► b₁ ┘ a₁ - b₁ ─┐
    seed 2 ──► ...               a₂ - b₂ ─┼──► mean ± t · s / √n

The same arrivals and services move both systems alike, so differences vary less than the metrics
do: Var(A - B) = Var A + Var B - 2 Cov(A, B).

Several, from as many replications of each:

                 A    B    C
    seed 1       ·    ·    ·      each pair, both ways: one-sided t test of paired differences
    seed 2       ·    ·    ·      all together: p-values adjusted by Holm's step-down
    ...          ·    ·    ·      some other is better for certain ──► not the best

Each system is compared with each other one, not only with the one of the best mean: that one was
chosen for its mean, and tests against it would find spurious differences. The probability that any
of all statements "A is better than B" is wrong is at most 1 - level. So in at least a share `level`
of all experiments the true best is among the systems not distinguished from the best.

Sources: Law 2015, "Simulation Modeling and Analysis", §10.2.1, §10.3 and §11.2; Holm 1979, "A
simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6(2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .interval import Floats, Interval, check_level, checked, mean_interval


@dataclass(frozen=True)
class Paired:
    """The difference of two systems.

    Parameters
    ----------
    difference:
        First minus second, in the unit of the metric.
    variance_gain:
        Factor of replications that independent runs would need for the same half-width; below 1
        if the common numbers did harm, infinite if no difference varied, NaN if no value did.
    """

    difference: Interval
    variance_gain: float


def paired_difference(first: ArrayLike, second: ArrayLike, *, level: float = 0.95) -> Paired:
    """Return the mean difference of two systems, replication by replication, and its t interval.

    Raises
    ------
    ValueError
        If there are fewer than two pairs, a value has no partner or is not finite, or *level* is
        no confidence.
    """
    a, b = checked("first", first, least=2), checked("second", second, least=2)
    if a.size != b.size:
        raise ValueError(f"second: must be as many as the first, {a.size}, got {b.size}")
    apart, paired = float(a.var(ddof=1) + b.var(ddof=1)), float((a - b).var(ddof=1))
    unlimited = math.inf if apart > 0 else math.nan
    gain = apart / paired if paired > 0 else unlimited
    return Paired(mean_interval(a - b, level=level), gain)


@dataclass(frozen=True)
class Ranking:
    """A ranking of several systems.

    Parameters
    ----------
    order:
        The systems by their position in the input, best mean first.
    p_better:
        In row i and column j the p-value, adjusted, of "i is better than j"; 1 where i is j.
    level:
        The probability that no statement is wrong.
    """

    order: tuple[int, ...]
    p_better: Floats
    level: float

    def better(self, first: int, second: int) -> bool:
        """Return whether system *first* is significantly better than *second*."""
        return bool(self.p_better[first, second] <= 1 - self.level)

    @property
    def perhaps_best(self) -> tuple[int, ...]:
        """Return the systems not distinguished from the best, best mean first."""
        systems = range(len(self.order))
        return tuple(i for i in self.order if not any(self.better(other, i) for other in systems))


def holm(p_values: ArrayLike) -> Floats:
    """Return adjusted *p_values*: rejecting those up to 5% errs in at most 5% of experiments.

    Holds for any dependence between the tests.

    Raises
    ------
    ValueError
        If one is not between 0 and 1.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = checked("p_values", p_values, least=0)
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError(f"p_values: must be between 0 and 1, got {p[(p < 0) | (p > 1)][0]}")
    order = np.argsort(p)
    steps = np.minimum(1.0, p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted


def rank(values: ArrayLike, *, largest: bool, level: float = 0.95) -> Ranking:
    """Return the ranking of systems whose metrics are the columns of *values*.

    Parameters
    ----------
    values:
        A row for each replication, a column for each system; common random numbers within a row
        make the comparison sharper.
    largest:
        Whether larger values are better (throughput), or smaller ones (latency).
    level:
        The probability that no statement is wrong.

    Raises
    ------
    ValueError
        If there are fewer than two replications or systems, or *level* is no confidence.
    """
    check_level(level)
    table = checked("values", values, least=2, dimensions=2)
    n_systems = table.shape[1]
    if n_systems < 2:
        raise ValueError(f"values: must be of at least 2 systems, got {n_systems}")
    goodness = table if largest else -table
    p_better = np.ones((n_systems, n_systems))
    pairs = ~np.eye(n_systems, dtype=bool)
    p_better[pairs] = holm(_p_greater(goodness)[pairs])
    order = np.argsort(-goodness.mean(axis=0), kind="stable")
    return Ranking(tuple(order.tolist()), p_better, level)


def _p_greater(goodness: Floats) -> Floats:
    """Return the p-values of "row is greater than column": one-sided t tests of differences."""
    from scipy.special import stdtr  # takes its time to import

    n = len(goodness)
    differences = goodness[:, :, None] - goodness[:, None, :]
    means = differences.mean(axis=0)
    errors = differences.std(axis=0, ddof=1) / n**0.5
    # Differences that do not vary are certain; a difference of 0 decides nothing.
    certain = np.where(means > 0, np.inf, np.where(means < 0, -np.inf, 0.0))
    t = np.divide(means, errors, out=certain, where=errors > 0)
    p: Floats = stdtr(n - 1, -t)
    return p
