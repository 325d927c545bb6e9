"""The mean and its interval: of independent replications, or of one long run in batches.

    run 1 ──► value ─┐
    run 2 ──► value ─┼──► mean ± t · s / √n
    run n ──► value ─┘

The interval holds for normal values and nearly for means of long runs. Runs that are short beside
what the queue remembers give skewed values: the interval then misses a high mean too often (the
table of `validation/output_statistics/coverage.py` has such rows).

One long run is cut into overlapping batches:

    values  1 2 3 4 5 6 7 8 9 ...          n of them, each depends on those before it
            ├─────┤
              ├─────┤                      every batch of b neighbours, n - b + 1 of them;
                ├─────┤                    their means spread as a mean of b values does

Successive values of a queue are alike, so their own spread says nothing of the spread of their
mean; that of batches longer than what the queue remembers does. All batches, overlapping, have a
third less variance in their estimate than the n/b that do not overlap: 1.5 (n/b - 1) degrees of
freedom.

The batch is a twentieth of the run. Fewer than 10 batches make intervals long and of uncertain
length; more than 30 gain next to nothing, and each is shorter and more like its neighbours. The
length of the run must be right by itself: at load rho, waiting times are alike over some
1/(1 - √rho)² customers, and a batch should be several times that (the table of
`validation/output_statistics/coverage.py` shows what happens otherwise).

Sources: Law 2015, "Simulation Modeling and Analysis", §9.4.1 and §9.5.2; Meketon and Schmeiser
1984, "Overlapping batch means: something for nothing?", Winter Simulation Conference; Schmeiser
1982, "Batch size effects in the analysis of simulation output", Operations Research 30(3) (10 to 30
batches).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .interval import Floats, Interval, checked, t_interval


def mean_interval(values: ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the mean of one figure a replication and its t interval, in the figure's unit.

    A figure that some replication does not have (NaN) has neither mean nor interval.

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
"""Lengths of a batch in a run, unless said otherwise."""
BATCHES_MIN = 10
"""Lengths of a batch in a run; with fewer there is no interval."""


def batch_means_interval(
    values: ArrayLike, *, batch: int | None = None, level: float = 0.95
) -> Interval:
    """Return the mean of one long run in steady state, and its interval, in the values' unit.

    Parameters
    ----------
    values:
        Of successive customers, or of samples at equal distances in time.
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
