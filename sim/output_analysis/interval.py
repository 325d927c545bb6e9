"""A metric with its confidence interval, by Student's t; and the interval of one more value.

low ├──────────── estimate ────────────┤ high
     ◄─ half_width ─►                     in a share `level` of all experiments
                                          the true value lies in between

Values that come in from outside are checked: every procedure here assumes that they are numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def checked(name: str, values: ArrayLike, *, least: int, dimensions: int = 1) -> Floats:
    """Return *values* as an array of float, at least *least* along its first dimension.

    Raises
    ------
    ValueError
        If they have another shape, are fewer, or hold an infinity or NaN.

    >>> checked("values", [1, 2], least=2).tolist()
    [1.0, 2.0]
    """
    array = np.asarray(values, dtype=float)
    if array.ndim != dimensions:
        raise ValueError(f"{name}: must have {dimensions} dimensions, got {array.ndim}")
    if len(array) < least:
        raise ValueError(f"{name}: must be at least {least}, got {len(array)}")
    if not np.isfinite(array).all():
        wrong = array[~np.isfinite(array)]
        raise ValueError(f"{name}: must be finite, got {wrong[0]}")
    return array


def check_level(level: float) -> None:
    """Check that *level* is a confidence.

    Raises
    ------
    ValueError
        If it is not above 0 and below 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level: must be above 0 and below 1, got {level}")


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


@dataclass(frozen=True)
class Interval:
    """Where a figure of the system lies, in the unit of the figure.

    Parameters
    ----------
    estimate, low, high:
        The figure as estimated, and the bounds of its interval; NaN where they are not known.
    level:
        The nominal share of experiments whose interval holds the true value, as 0.95.
    how:
        The procedure, in words.
    """

    estimate: float
    low: float
    high: float
    level: float
    how: str

    @property
    def half_width(self) -> float:
        """Return half of the interval's length, also where the estimate is not its middle."""
        return (self.high - self.low) / 2

    @property
    def relative_half_width(self) -> float:
        """Return the half-width as a share of the estimate; infinite where that is 0.

        >>> Interval(10.0, 9.5, 10.5, 0.95, "by hand").relative_half_width
        0.05
        """
        if self.estimate == 0:
            return math.inf if self.half_width > 0 else 0.0
        return self.half_width / abs(self.estimate)

    def holds(self, value: float) -> bool:
        """Return whether *value* is in the interval, its bounds included."""
        return self.low <= value <= self.high


def t_interval(
    estimate: float, standard_error: float, *, degrees: float, level: float, how: str
) -> Interval:
    """Return the interval of Student's t about *estimate*.

    Parameters
    ----------
    estimate, standard_error:
        In the unit of the figure.
    degrees:
        Of freedom, of *standard_error*; they need not be whole.
    level, how:
        See `Interval`.

    Raises
    ------
    ValueError
        If *level* is no confidence.
    """
    check_level(level)
    reach = two_sided_t(level, degrees) * standard_error
    return Interval(estimate, estimate - reach, estimate + reach, level, how)
