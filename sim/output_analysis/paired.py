"""Two systems under common random numbers: the mean of paired differences.

    seed 1 ──► system A ──► a₁ ┐
          └──► system B ──► b₁ ┘ a₁ - b₁ ─┐
    seed 2 ──► ...               a₂ - b₂ ─┼──► mean ± t · s / √n

The same arrivals and services move both systems alike, so differences vary less than the figures
do: Var(A - B) = Var A + Var B - 2 Cov(A, B).

Source: Law 2015, "Simulation Modeling and Analysis", §10.2.1 and §11.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from .interval import Interval
from .replications import mean_interval
from .samples import checked


@dataclass(frozen=True)
class Paired:
    """What two systems differ by.

    Parameters
    ----------
    difference:
        First minus second, in the unit of the figure.
    variance_gain:
        How many times more replications independent runs would take for the same half-width;
        below 1 if the common numbers did harm, infinite if no difference varied, NaN if nothing
        did.
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
