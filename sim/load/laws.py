"""Distributions of random quantities in a run: a law, and its table of values.

    law ─► 65,536 quantiles, shuffled by the seed ─► value of a number: a hash selects one

The table is made before the run, so no mechanism can shift the random values of another. Its
quantiles have equal distances of probability, so the mean is exact, and the tail ends at a
probability of 8 in a million.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..state.laws import P99_BY_MEAN_MAX, Counts, Law
from ..state.units import PERMILLE
from .streams import generator

N_DRAWS = 65_536
"""A power of two, as a hash selects a value."""


def quantiles_ns(law: Law, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quantiles of *law* at *shares*, each above 0 and below 1.

    Raises
    ------
    ValueError
        If no lognormal law has that mean and 99th percentile, or there are no samples.
    """
    if law.kind == "constant":
        return np.full(shares.shape, float(law.mean_ns))
    if law.kind == "exponential":
        return np.asarray(-law.mean_ns * np.log1p(-shares), np.float64)
    if law.kind == "samples":
        if not law.samples_ns:
            raise ValueError("a law of samples needs at least one")
        ordered = np.sort(np.asarray(law.samples_ns, np.float64))
        return ordered[(shares * ordered.size).astype(np.int64)]
    ratio = law.p99_ns / law.mean_ns
    if not 1 < ratio <= P99_BY_MEAN_MAX:
        raise ValueError(
            f"p99_ns must be above the mean and at most {P99_BY_MEAN_MAX:.1f} times it, "
            f"got {law.p99_ns} with a mean of {law.mean_ns}"
        )
    from scipy.special import ndtri  # takes longer to import than most commands last

    # mean = exp(m + s^2 / 2) and p99 = exp(m + z s): the smaller s is the law of moderate tails.
    z = float(ndtri(0.99))
    sigma = z - math.sqrt(z * z - 2 * math.log(ratio))
    mu = math.log(law.mean_ns) - sigma * sigma / 2
    return np.asarray(np.exp(mu + sigma * ndtri(shares)), np.float64)


def draws_ns(law: Law | None, seed: int, name: str) -> NDArray[np.int64]:
    """Return the table of *law* for the quantity of that *name*, shape (N_DRAWS,); none of None."""
    if law is None:
        return np.zeros(0, np.int64)
    shares = (np.arange(N_DRAWS) + 0.5) / N_DRAWS
    quantiles = quantiles_ns(law, shares)
    if law.kind in {"exponential", "lognormal"}:
        quantiles *= law.mean / quantiles.mean()  # for the tail that is cut off
    table = np.rint(quantiles).astype(np.int64)
    return np.asarray(generator(seed, name).permutation(table), np.int64)


def counts_at(counts: Counts, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the quantiles of *counts* at *shares*, each from 0 and below 1."""
    if counts.kind == "samples":
        ordered = np.sort(np.asarray(counts.samples, np.int64))
        return np.asarray(ordered[(shares * ordered.size).astype(np.int64)], np.int64)
    if counts.kind == "constant" or counts.of_each == 1:
        return np.full(shares.shape, counts.of_each, np.int64)
    numbers = np.ceil(np.log1p(-shares) / math.log1p(-1 / counts.of_each))
    return np.asarray(np.maximum(numbers, 1), np.int64)


def share_draws(seed: int, name: str, *, is_drawn: bool) -> NDArray[np.int64]:
    """Return a table of thousandths, 0 to 999 equally often, for the choice of that *name*.

    A choice of a given share holds for values below the share. The table is empty unless
    *is_drawn*.
    """
    if not is_drawn:
        return np.zeros(0, np.int64)
    thousandths = np.arange(N_DRAWS) * PERMILLE // N_DRAWS
    return np.asarray(generator(seed, name).permutation(thousandths), np.int64)
