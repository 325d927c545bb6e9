"""Independent replications: the mean of one figure a run.

    run 1 ──► value ─┐
    run 2 ──► value ─┼──► mean ± t · s / √n
    run n ──► value ─┘

The interval holds for normal values and nearly for means of long runs. Runs that are short beside
what the queue remembers give skewed values: the interval then misses a high mean too often (the
table of `validation/output_statistics/coverage.py` has such rows).

Source: Law 2015, "Simulation Modeling and Analysis", §9.4.1 and §9.5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .interval import Interval, t_interval


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
