"""Intervals from few runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import numpy as np

_STEPS_MAX = 200
"""Of Newton's method, which needs some 5 and, for one degree of freedom, some 20."""


@functools.cache
def two_sided_t(level: float, degrees: float) -> float:
    """Return within how many standard errors Student's t lies with probability *level*.

    SciPy has it, too, but takes longer to import than most runs take.

    >>> round(two_sided_t(0.95, 9), 3)
    2.262
    """
    reach = 0.0
    for _ in range(_STEPS_MAX):
        # The probability is concave in the reach, so each step from below stays below.
        step = (level - _within(reach, degrees)) / (2 * _density(reach, degrees))
        reach += step
        if step <= 1e-14 * reach:
            break
    return reach


def _density(t: float, degrees: float) -> float:
    """Return the density of Student's t."""
    log = -_log_beta(0.5, degrees / 2) - math.log(degrees) / 2
    return math.exp(log - (degrees + 1) / 2 * math.log1p(t * t / degrees))


def _within(t: float, degrees: float) -> float:
    """Return the probability that Student's t lies between -*t* and *t*."""
    x = t * t / (degrees + t * t)
    if x <= 0.5:
        return _regular_beta(x, 0.5, degrees / 2)
    return 1.0 - _regular_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def _regular_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) by its power series.

    Source: NIST Digital Library of Mathematical Functions, 8.17.8, https://dlmf.nist.gov/8.17.
    """
    if x == 0:
        return 0.0
    total = term = 1.0
    n = 0
    while term > 1e-17 * total:
        term *= x * (a + b + n) / (a + 1 + n)
        total += term
        n += 1
    return total * math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)) / a


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


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
