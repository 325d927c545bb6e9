"""Whether there is a steady state, and where it begins.

There is none if the number in the system grows all through a run:

    number in system            ·  ·            slope of the batch means on time,
                        · ·  ·                  with its t interval
              ·  · ·  ·
     ·  ·  ·                                    above 0 for certain: it grows

`summary.verdict_of` asks whether a run ended with a longer queue than it began with, by more than a
share of the offered requests and more than Poisson counts vary: from two points, for any run. The
report of one run uses it. A steady-state study uses the slope before it averages: it covers the
whole run, so it finds a growth of a part of a percent in a long run, where two points need a whole
percent, and it includes the variation of this run's queue.

The batches must be longer than what the queue remembers, some 1/(1 - √rho)² customers at load rho.
Otherwise neighbours are alike, and a queue that merely wanders seems to grow: both then err on the
side of a longer run. Of 300 runs of M/M/1 in steady state at load 0.95, where a queue remembers
1,600 customers, there were called growing:

    customers a run    1,000   2,000   5,000   20,000   50,000
    two points           46%     25%      6%       0%       0%
    slope                22%     11%      8%       3%       1%     (2.5% by theory)

Remove the warm-up first (`mser5`): filling up is growth.

It begins where MSER-5 puts it:

    batch means of 5     ╲                    the standard error of what is kept, squared:
                          ╲__/╲_/╲__/╲_/╲     falls while the transient is cut off,
                          ▲                   rises when good data are
                          d

Of the mean of what remains, truncation trades bias for variance; the point of least (squared)
standard error is where both are small. It is no estimate of the error: values are taken for
independent. From several replications, take their average over runs first, value by value, and
remove the same number from each (Hoad, Robinson and Davies).

What is removed helps most where the run began far from its steady state, in a crowd. From an empty
server the transient is no larger than what queues do anyway: of M/M/1 at load 0.9, 20 runs of 2,000
customers, a bias of -4.4% of the mean became -2.4%, and a third of 1,000 experiments was refused.
A refusal in steady state is a sign of a short run, too: neighbours are so alike that the last
few batches happen to spread little (of single runs at load 0.5, M/M/1, 28% at 1,000 customers, 2%
at 5,000).

Sources: Law 2015, "Simulation Modeling and Analysis", §9.5 (batch means); Draper and Smith 1998,
"Applied Regression Analysis", §1.4 (interval of a slope); White 1997, "An effective truncation
heuristic for bias reduction in simulation output", Simulation 69(6); White, Cobb and Spratt 2000,
"A comparison of five steady-state truncation heuristics for simulation", Winter Simulation
Conference (batches of 5, nothing past the half);
Hoad, Robinson and Davies 2010, "Automating warm-up length estimation", Journal of the Operational
Research Society 61(9) (the last 5 batches are no candidates).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..figures.summary import OVERLOADED_SHARE, Verdict
from .interval import Floats, Interval, checked, t_interval

BATCHES = 10
"""In a run: few, so that each is long; 8 degrees of freedom are left."""


def drift(
    values: ArrayLike, step: float, *, n_batches: int = BATCHES, level: float = 0.95
) -> Interval:
    """Return the slope of *values* over time, with its interval.

    Parameters
    ----------
    values:
        Number in the system, or unfinished work, at equal distances in time.
    step:
        That distance; the slope is in units of the values over the unit of *step*.
    n_batches:
        Parts of the run whose means are taken for independent.
    level:
        Of the interval.

    Raises
    ------
    ValueError
        If there are fewer values than batches, or fewer batches than three, *step* is not above 0,
        or *level* is no confidence.
    """
    if n_batches < 3:
        raise ValueError(f"n_batches: must be at least 3, got {n_batches}")
    if not step > 0:
        raise ValueError(f"step: must be above 0, got {step}")
    array = checked("values", values, least=n_batches)
    length = array.size // n_batches
    # What does not fill a batch is left out at the beginning, where a warm-up may linger.
    means = array[array.size - n_batches * length :].reshape(n_batches, length).mean(axis=1)
    at = (np.arange(n_batches) - (n_batches - 1) / 2) * length * step
    slope = float(at @ means / (at @ at))
    rest = means - means.mean() - slope * at
    degrees = n_batches - 2
    error = (float(rest @ rest) / degrees / float(at @ at)) ** 0.5
    how = f"slope of {n_batches} batch means, t"
    return t_interval(slope, error, degrees=degrees, level=level, how=how)


def verdict_of_drift(slope: Interval, arrivals: float) -> Verdict:
    """Return stable, backlogged or overloaded, from the growth as a share of the *arrivals*.

    Stable: no significant growth. Overloaded: growth above the share `summary.OVERLOADED_SHARE`.
    Backlogged: significant growth below that share.

    Parameters
    ----------
    slope:
        Of the number in the system, over a unit of time (see `drift`).
    arrivals:
        Over the same unit of time; of unfinished work, what they bring.

    Raises
    ------
    ValueError
        If *arrivals* are not above 0.
    """
    if not arrivals > 0:
        raise ValueError(f"arrivals: must be above 0, got {arrivals}")
    if not slope.low > 0:
        return Verdict.STABLE
    return (
        Verdict.OVERLOADED if slope.estimate > OVERLOADED_SHARE * arrivals else Verdict.BACKLOGGED
    )


BATCH = 5
"""Values in a batch, the 5 of MSER-5."""
LAST_BATCHES = 5
"""At the end, too few to have a spread of their own: alike by chance, they would always win."""


@dataclass(frozen=True)
class WarmUp:
    """How many values to remove from the beginning of a run.

    Parameters
    ----------
    n_removed:
        Values, a multiple of 5; 0 if refused.
    refused:
        Why no point of truncation is reliable, None if one is.
    """

    n_removed: int
    refused: str | None = None


def mser5(values: ArrayLike) -> WarmUp:
    """Return the warm-up of a run of *values*, successive or at equal distances in time.

    Refused where the run is too short, where more than half of it would go, and where the
    statistic still falls at the last point that may be taken: the run has then not settled.

    Raises
    ------
    ValueError
        If a value is infinite or NaN.
    """
    array = checked("values", values, least=0)
    n_batches = array.size // BATCH
    least = 2 * LAST_BATCHES
    if n_batches < least:
        return WarmUp(0, f"the run has {array.size} values, fewer than {least * BATCH}")
    errors = _squared_errors(array[: n_batches * BATCH].reshape(-1, BATCH).mean(axis=1))
    candidates = errors[: n_batches - LAST_BATCHES + 1]
    found = int(np.argmin(candidates))
    if found == candidates.size - 1:
        return WarmUp(0, "the run has not settled: the least error is at the very end")
    if 2 * found > n_batches:
        return WarmUp(0, f"{found * BATCH} of {array.size} values would be removed, more than half")
    return WarmUp(found * BATCH)


def _squared_errors(batches: Floats) -> Floats:
    """Return, for each number of batches removed, the variance of the rest over their number."""
    centred = batches - batches.mean()  # or squares would lose the digits that count
    left = np.arange(batches.size, 0, -1)
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    errors: Floats = (squares - sums**2 / left) / left**2
    return np.maximum(errors, 0.0)
