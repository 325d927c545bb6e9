"""An estimate with its confidence interval, by Student's t: of a mean, and of one more value.

low ├──────────── estimate ────────────┤ high
     ◄─ half_width ─►                     in a share `level` of all experiments
                                          the true value lies in between

Input values are checked: every procedure here assumes finite numbers.

The mean is taken over independent replications, or over one long run in batches.

    run 1 ──► value ─┐
    run 2 ──► value ─┼──► mean ± t · s / √n
    run n ──► value ─┘

The interval is exact for normal values and nearly so for means of long runs. Runs that are short
compared with the correlation time of the queue give skewed values: the interval then excludes a
high mean too often (see the table of `validation/output_statistics/coverage.py`).

One long run is cut into overlapping batches:

    values  1 2 3 4 5 6 7 8 9 ...          n of them, each depends on those before it
            ├─────┤
              ├─────┤                      every batch of b neighbours, n - b + 1 of them;
                ├─────┤                    their means spread as a mean of b values does

Successive values of a queue are correlated, so their spread does not give the spread of their mean.
The spread of batches longer than the correlation time does. All overlapping batches together have
a third less variance in their estimate than the n/b that do not overlap: 1.5 (n/b - 1) degrees of
freedom.

The batch is a twentieth of the run. Fewer than 10 batches make intervals long and of uncertain
length. More than 30 gain almost nothing, and shorter batches are more correlated. The run must be
long enough: at load rho, waiting times are correlated over about 1/(1 - √rho)² customers, and a
batch should be several times that (the table of `validation/output_statistics/coverage.py` shows
the effect of shorter runs).

Sources: Law 2015, "Simulation Modeling and Analysis", §9.4.1 and §9.5.2; Meketon and Schmeiser
1984, "Overlapping batch means: something for nothing?", Winter Simulation Conference; Schmeiser
1982, "Batch size effects in the analysis of simulation output", Operations Research 30(3) (10 to 30
batches).
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
"""Steps of Newton's method, which needs about 5, or about 20 for one degree of freedom."""


@functools.cache
def two_sided_t(level: float, degrees: float) -> float:
    """Return the number of standard errors within which Student's t lies with probability *level*.

    SciPy has this function, too, but its import takes longer than most runs.

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
    """Return the prediction interval of one more value, from mean and spread, by Student's t.

    For normal values; quantiles of ten values could not bound more than about 82% of them. NaN
    values are left out; fewer than two values give no interval (NaN, NaN). With infinite values,
    from failed clients, it reaches from the smallest value to the largest.

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
    """The confidence interval of a metric, in the unit of the metric.

    Parameters
    ----------
    estimate, low, high:
        The estimate, and the bounds of its interval; NaN if unknown.
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
        In the unit of the metric.
    degrees:
        Degrees of freedom of *standard_error*, not necessarily whole.
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


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean of one value a replication and its t interval, in the values' unit.

    If the value of a replication is NaN, there is neither mean nor interval.

    Raises
    ------
    ValueError
        If there are fewer than two *values*, or *level* is no confidence.

    >>> mean_interval([9.0, 10.0, 11.0]).estimate
    10.0
    """
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size < 2:
        raise ValueError(f"values: must be at least 2 in a row, got shape {array.shape}")
    with np.errstate(invalid="ignore"):  # infinite values have no deviation
        deviation = float(array.std(ddof=1))
    return t_interval(
        float(array.mean()),
        deviation / float(array.size) ** 0.5,
        degrees=array.size - 1,
        level=level,
        how=f"t over {array.size} replications",
    )


BATCHES = 20
"""Default number of batches in a run."""
BATCHES_MIN = 10
"""Smallest number of batches in a run; with fewer there is no interval."""


def batch_means_interval(
    values: ArrayLike, *, batch: int | None = None, level: float = 0.95
) -> Interval:
    """Return the mean of one long run in steady state, and its interval, in the values' unit.

    Parameters
    ----------
    values:
        Values of successive customers, or samples at equal distances in time.
    batch:
        Values in a batch; a twentieth of the run unless given.
    level:
        Of the interval.

    Raises
    ------
    ValueError
        If there are fewer values than ten times the batch, or *level* is no confidence.
    """
    array = checked("values", values, least=BATCHES_MIN)
    n = array.size
    b = max(1, n // BATCHES) if batch is None else batch
    if b < 1:
        raise ValueError(f"batch: must be at least 1, got {b}")
    if n < BATCHES_MIN * b:
        raise ValueError(f"values: must be at least {BATCHES_MIN} batches of {b}, got {n}")
    return t_interval(
        float(array.mean()),
        _variance_of_mean(array - array.mean(), b) ** 0.5,
        degrees=1.5 * (n / b - 1),
        level=level,
        how=f"overlapping batch means, {n} values in batches of {b}",
    )


def _variance_of_mean(centred: Floats, b: int) -> float:
    """Return the estimated variance of the mean; values are centred, or sums would lose digits."""
    n = centred.size
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    means = (sums[b:] - sums[:-b]) / b
    return float((means**2).sum()) * b / ((n - b + 1) * (n - b))
