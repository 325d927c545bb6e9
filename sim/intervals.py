"""Intervals from few runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import stdtrit


def two_sided_t(level: float, degrees: float) -> float:
    """Return within how many standard errors Student's t lies with probability *level*.

    >>> round(two_sided_t(0.95, 9), 3)
    2.262
    """
    return float(stdtrit(degrees, (1 + level) / 2))


def prediction_interval(values: Iterable[float], level: float = 0.95) -> tuple[float, float]:
    """Return where one more value like these lies with *level*: mean and spread, Student's t.

    For normal values; quantiles of ten values could not bound more than some 82% of them. NaN
    values are left out; fewer than two give no interval (NaN, NaN). With infinite ones, of clients
    that wait for ever, it is from the least value to the greatest.

    Source: Hahn and Meeker 1991, "Statistical Intervals", §4.7.
    """
    known = np.array([value for value in values if not np.isnan(value)])
    if known.size < 2:
        return math.nan, math.nan
    if not np.isfinite(known).all():
        return float(known.min()), float(known.max())
    mean, deviation = float(known.mean()), float(known.std(ddof=1))
    reach = two_sided_t(level, known.size - 1) * deviation * (1 + 1 / known.size) ** 0.5
    return mean - reach, mean + reach
