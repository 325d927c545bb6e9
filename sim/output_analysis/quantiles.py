"""Quantiles with intervals: three procedures, each for another kind of data.

                             estimate                   spread
    over replications        mean of their quantiles    between their quantiles
    sectioned                quantile of all values     of the sections' quantiles about that
    of independent values    quantile of all values     binomial, between order statistics

Values within a run depend on each other, so a run is a section or is cut into a few long ones.
The quantile of a section is biased by a part of the order of 1/length. Over replications the bias
stays, however many there are; a sectioned estimate has that of all values together, and counts the
difference as spread. Where sections are short, a sectioned interval is the safer of the two.

Sources: Asmussen and Glynn 2007, "Stochastic Simulation", §III.5 (sectioning); Nakayama 2014,
"Confidence intervals for quantiles using sectioning when applying variance-reduction techniques",
ACM Transactions on Modeling and Computer Simulation 24(4); David and Nagaraja 2003, "Order
Statistics", §7.1 (binomial interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr
from scipy.stats import binom

from .interval import Floats, Interval, check_level, checked, mean_interval, t_interval


def sections_of(values: ArrayLike, n_sections: int) -> list[Floats]:
    """Return one long run cut into *n_sections* consecutive parts of about equal length.

    Raises
    ------
    ValueError
        If there are fewer *values* than sections, or fewer than two sections.

    >>> [section.tolist() for section in sections_of([1, 2, 3, 4], 2)]
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if n_sections < 2:
        raise ValueError(f"n_sections: must be at least 2, got {n_sections}")
    return np.array_split(checked("values", values, least=n_sections), n_sections)


def quantile_over_replications(
    replications: Sequence[ArrayLike], q: float, *, level: float = 0.95
) -> Interval:
    """Return the mean of the replications' quantiles at *q*, and its t interval.

    Raises
    ------
    ValueError
        If there are fewer than two replications, one is empty, or *q* or *level* is out of (0, 1).
    """
    return mean_interval(_quantiles(replications, q), level=level)


def quantile_sectioned(sections: Sequence[ArrayLike], q: float, *, level: float = 0.95) -> Interval:
    """Return the quantile of all values at *q*, with the spread of the sections' about it.

    Sections are replications, or parts of one long run (`sections_of`).

    Raises
    ------
    ValueError
        If there are fewer than two sections, one is empty, or *q* or *level* is out of (0, 1).
    """
    apart = _quantiles(sections, q)
    together = float(np.quantile(np.concatenate([np.asarray(s, float) for s in sections]), q))
    n = len(apart)
    variance = float(((apart - together) ** 2).sum()) / (n - 1)
    return t_interval(
        together,
        (variance / n) ** 0.5,
        degrees=n - 1,
        level=level,
        how=f"quantile of {n} sections together, t over their quantiles",
    )


def quantile_of_independent(values: ArrayLike, q: float, *, level: float = 0.95) -> Interval:
    """Return the quantile of independent *values* at *q*, between two of them.

    The number of values below the true quantile is binomial for every distribution, so the interval
    holds the quantile with a probability of at least *level*.

    Raises
    ------
    ValueError
        If there are too few values to bound the quantile at all, or *q* or *level* is out of
        (0, 1).

    >>> quantile_of_independent(range(1, 11), 0.5).low
    2.0
    """
    _check_q(q)
    check_level(level)
    least = math.ceil(math.log((1 - level) / 2) / math.log(max(q, 1 - q)))
    ordered = np.sort(checked("values", values, least=least))
    n = ordered.size
    first = int(binom.ppf((1 - level) / 2, n, q))
    last = int(binom.ppf((1 + level) / 2, n, q)) + 1
    covered = float(bdtr(last - 1, n, q) - bdtr(first - 1, n, q))
    return Interval(
        float(np.quantile(ordered, q)),
        float(ordered[first - 1]),
        float(ordered[last - 1]),
        level,
        f"order statistics {first} and {last} of {n}, which hold it in {covered:.1%}",
    )


def _quantiles(sections: Sequence[ArrayLike], q: float) -> Floats:
    _check_q(q)
    if len(sections) < 2:
        raise ValueError(f"sections: must be at least 2, got {len(sections)}")
    return np.array([np.quantile(checked("section", s, least=1), q) for s in sections])


def _check_q(q: float) -> None:
    if not 0 < q < 1:
        raise ValueError(f"q: must be above 0 and below 1, got {q}")
