"""Does the number in the system grow all through a run? Without that there is no steady state.

    number in system            ·  ·            slope of the batch means on time,
                        · ·  ·                  with its t interval
              ·  · ·  ·
     ·  ·  ·                                    above 0 for certain: it grows

`metrics.verdict_of` asks whether a run ended with a longer queue than it began with, by more than a
share of what was offered and more than Poisson counts vary: from two points, for any run. It is
what a report of one run says. A steady-state study asks this before it averages: it sees all of the
run, so it finds a growth of a part of a percent in a long run, where two points need a whole
percent, and it knows how much the queue of this very run varies.

The batches must be longer than what the queue remembers, some 1/(1 - √rho)² customers at load rho.
Otherwise neighbours are alike, and a queue that merely wanders seems to grow: both then err on the
side of a longer run. Of 300 runs of M/M/1 in steady state at load 0.95, where a queue remembers
1,600 customers, there were called growing:

    customers a run    1,000   2,000   5,000   20,000   50,000
    two points           46%     25%      6%       0%       0%
    slope                22%     11%      8%       3%       1%     (2.5% by theory)

Remove the warm-up first (`warm_up`): filling up is growth.

Source: Law 2015, "Simulation Modeling and Analysis", §9.5 (batch means); Draper and Smith 1998,
"Applied Regression Analysis", §1.4 (interval of a slope).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..figures.metrics import OVERLOADED_SHARE, Verdict
from .interval import Interval, checked, t_interval

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

    Stable is what cannot be told from no growth; overloaded, what grows by more than the share of
    `metrics.OVERLOADED_SHARE`; backlogged, what grows for certain, but by less.

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
