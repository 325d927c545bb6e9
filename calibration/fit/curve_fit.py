"""Small non-negative fits: curves through totals, lines over sizes, and their intervals.

    ns │              ·      straight lines between knots at measured counts,
       │         · ──        never negative, never falling
       │   · ──
       └───┴─────┴────┴─► count

Errors count relative to the value, down to a floor: a microbenchmark is accurate to a few per cent,
but not to a nanosecond.
Sources: Lawson and Hanson 1974, "Solving Least Squares Problems", ch. 23 (NNLS); Efron and
Tibshirani 1993, "An Introduction to the Bootstrap", ch. 13 (percentile intervals).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from ...sim.load.streams import generator

Floats = NDArray[np.float64]

KNOTS_MAX = 8
ERROR_FLOOR_NS = 50.0
"""Smaller values have the weight of this one: the clock is not more accurate."""
_TAIL = 0.025  # each tail of a 95% interval


class Solution(NamedTuple):
    """Non-negative unknowns, and the root mean square of the remaining relative errors."""

    unknowns: tuple[float, ...]
    residual: float


class CurveFit(NamedTuple):
    """A piecewise linear, non-negative, non-decreasing function by its knots."""

    at: tuple[int, ...]
    ns: tuple[float, ...]
    residual: float


def fit_nonnegative(
    factors: Sequence[Sequence[float]] | Floats,
    totals: Sequence[float] | Floats,
    *,
    floor_ns: float = ERROR_FLOOR_NS,
    relative_to: Sequence[float] | Floats | None = None,
) -> Solution:
    """Return the unknowns >= 0 whose product with *factors* is closest to *totals*.

    Parameters
    ----------
    factors, totals:
        Shapes (measurements, unknowns) and (measurements,).
    floor_ns:
        Errors count relative to the total, or to this if the total is smaller.
    relative_to:
        Values that errors count relative to, instead of the totals; shape (measurements,).

    >>> fit_nonnegative([[1, 0], [1, 10], [1, 20]], [100, 1100, 2100]).unknowns
    (100.0, 100.0)
    """
    matrix = np.asarray(factors, np.float64)
    wanted = np.asarray(totals, np.float64)
    sizes = wanted if relative_to is None else np.asarray(relative_to, np.float64)
    weights = 1 / np.maximum(np.abs(sizes), floor_ns)
    weighted = matrix * weights[:, None]
    # Scale columns to equal length: NNLS compares gradients; counts of 10,000 would dominate.
    lengths = np.linalg.norm(weighted, axis=0)
    lengths[lengths == 0] = 1
    found = nnls(weighted / lengths, wanted * weights)[0] / lengths
    errors = (matrix @ found - wanted) * weights
    # The rounding is finer than any clock.
    return Solution(tuple(float(x) for x in np.round(found, 6)), float(np.sqrt(np.mean(errors**2))))


def fit_line(sizes: Sequence[float], totals: Sequence[float]) -> Solution:
    """Return (base, slope) >= 0 of ``total = base + slope * size``.

    >>> fit_line([0, 10, 20], [100, 1100, 2100]).unknowns
    (100.0, 100.0)
    """
    return fit_nonnegative([[1, size] for size in sizes], totals)


def fit_slope(sizes: Sequence[float], totals: Sequence[float]) -> Solution:
    """Return (slope,) >= 0 of ``total = slope * size``."""
    return fit_rest(sizes, totals, totals)


def fit_rest(sizes: Sequence[float], rests: Sequence[float], totals: Sequence[float]) -> Solution:
    """Return (slope,) >= 0 of ``rest = slope * size``, closest relative to *totals*.

    A rest is what is left of a total when all else is known: small rests may be far off without
    harm.
    """
    return fit_nonnegative([[size] for size in sizes], rests, relative_to=totals)


def fit_curve(
    counts: Sequence[int],
    totals: Sequence[float],
    *,
    knots: Sequence[int] | None = None,
    from_zero: bool = False,
) -> CurveFit:
    """Return the curve closest to *totals* over *counts*.

    Parameters
    ----------
    counts, totals:
        One entry for each measurement; counts may repeat.
    knots:
        Ascending counts where the curve bends, at most eight; default: `choose_knots`.
    from_zero:
        Whether the curve is 0 at its first knot.

    Raises
    ------
    ValueError
        If there is no measurement, or a count lies outside the knots.
    """
    if not counts:
        raise ValueError("a curve needs at least 1 measurement, got 0")
    at = tuple(knots) if knots is not None else choose_knots(counts)
    if len(at) > KNOTS_MAX or list(at) != sorted(set(at)):
        raise ValueError(f"knots must be at most {KNOTS_MAX} and ascending, got {at}")
    if min(counts) < at[0] or max(counts) > at[-1]:
        raise ValueError(
            f"counts must lie within the knots {at[0]} to {at[-1]}, "
            f"got {min(counts)} to {max(counts)}"
        )
    # The unknowns are the value at the first knot and the rises from knot to knot.
    rises = np.tril(np.ones((len(at), len(at))))[:, 1 if from_zero else 0 :]
    solution = fit_nonnegative(_hats(counts, at) @ rises, totals)
    values = rises @ np.array(solution.unknowns)
    return CurveFit(at, tuple(float(x) for x in np.round(values, 6)), solution.residual)


def fit_intercept_curve(counts: Sequence[int], totals: Sequence[float]) -> tuple[float, CurveFit]:
    """Split *totals* into a constant and a curve that begins with 0 at 0; return both.

    The constant is the line through the two smallest counts, extended to 0.

    >>> base, curve = fit_intercept_curve([10, 100, 200], [200, 1100, 4100])
    >>> base, curve.at, curve.ns
    (100.0, (0, 100, 200), (0.0, 1000.0, 4000.0))
    """
    distinct = sorted(set(counts))
    measured = [n for n in choose_knots(counts) if n > 0]
    # The first count is not a knot, otherwise the intercept would be undetermined.
    keeps_first = distinct[0] == 0 or len(measured) < 2
    knots = [0, *(measured if keeps_first else measured[1:])]
    fit = fit_curve(counts, totals, knots=knots)
    base = fit.ns[0]
    above = tuple(ns - base for ns in fit.ns)
    return base, CurveFit(fit.at, above, fit.residual)


def choose_knots(counts: Sequence[int], n_max: int = KNOTS_MAX) -> tuple[int, ...]:
    """Return at most *n_max* distinct *counts*, evenly spaced among them, with both ends.

    >>> choose_knots([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], n_max=4)
    (1, 4, 7, 10)
    """
    distinct = sorted(set(counts))
    if len(distinct) <= n_max:
        return tuple(distinct)
    picked = np.linspace(0, len(distinct) - 1, n_max).round().astype(int)
    return tuple(distinct[i] for i in picked)


def _hats(counts: Sequence[int], at: Sequence[int]) -> Floats:
    """Return the share of each knot in the value at each count, shape (counts, knots)."""
    unit = np.eye(len(at))
    columns = [np.interp(counts, at, unit[k]) for k in range(len(at))]
    return np.stack(columns, axis=1)


def bootstrap(
    estimate: Callable[[NDArray[np.int64]], Sequence[float]],
    n_rounds: int,
    *,
    replicates: int,
    seed: int,
    name: str,
) -> tuple[Floats, Floats]:
    """Return the ends of the 95% percentile intervals of *estimate* when rounds are resampled.

    Parameters
    ----------
    estimate:
        Function from indices of rounds (with repetition) to numbers.
    n_rounds:
        Number of rounds; with one round the interval has no width.
    seed, name:
        The stream of random numbers.
    """
    random = generator(seed, f"bootstrap {name}")
    # One round has only one resample, which is drawn once.
    n_drawn = max(1, replicates) if n_rounds > 1 else 1
    drawn = random.integers(n_rounds, size=(n_drawn, n_rounds))
    return ends([estimate(rounds) for rounds in drawn])


def ends(estimates: Sequence[Sequence[float]]) -> tuple[Floats, Floats]:
    """Return the ends of the 95% percentile intervals of repeated estimates."""
    low, high = np.quantile(np.array(estimates, np.float64), [_TAIL, 1 - _TAIL], axis=0)
    return low, high


def tenths(values: Floats) -> tuple[float, ...]:
    """Return the values rounded to a tenth of a nanosecond, as in profiles."""
    return tuple(round(float(value), 1) for value in values)
