"""Forecast errors of a machine, and the allowance for model errors that they give.

    held-out runs ─► measured / forecast, point by point ─► misses/PROFILE.json (error_files.py)
                     ─► quantiles over points as busy ─► an interval for the next forecast
                                                         ─► its coverage (coverage.py)

Cost samples show the uncertainty of the calibration, not errors of the model itself. Errors at
held-out points bound the error at a new point of the same kind: the interval then has its nominal
probability for any distribution of errors. The load at which p99 exceeds a bound also has an error,
for each bound and each server measured at three or more rates. From five to eighteen such loads the
interval is made of their mean and spread, as if they were normal.

With application work the error is of all CPU time, not of the costs alone. Points with such work
make no interval. For a server with such work the median error is reduced by the share of the work,
and the spread stays (`Allowance.beside_work`). This law was chosen on the points with application
work of one machine, so their coverage is no independent test of it. Only the next machine with
such points can test it.

Source: Vovk, Gammerman and Shafer 2005, "Algorithmic Learning in a Random World", §2 (conformal
prediction).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from ...sim.output_analysis.interval import prediction_interval
from ...sim.state.units import SECOND_NS

BUSY = 0.85
"""Forecast utilisation from which on a point is near or past its capacity."""
LEVEL = 0.9
_KNEES_LEAST = 5
"""Least number for mean and spread: with fewer, Student's t gives uselessly wide intervals."""
_BOUND_FACTOR_MOST = 3.0
"""Largest factor between a bound on p99 and the scored bound whose errors are used for it."""
THROUGHPUT = "throughput_per_s"
FIGURES = {
    THROUGHPUT: "throughput_per_s",
    "cpu_busy": "cpu_busy",
    "p50_answered_ns": "p50_ns",
    "p99_answered_ns": "p99_ns",
}
"""The metrics with recorded errors (scenario/metrics.py), and their names in reports and files."""


class Miss(NamedTuple):
    """The forecast errors of a measured point.

    Attributes
    ----------
    mechanism, utilisation:
        The point's mechanism, and the forecast utilisation.
    of:
        The logarithm of measured over forecast, by metric.
    stated:
        The share of the forecast CPU time that application work takes.
    """

    mechanism: str
    utilisation: float
    of: dict[str, float]
    stated: float = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether the forecast server was near or past its capacity."""
        return self.utilisation >= BUSY


class KneeMiss(NamedTuple):
    """The load at which p99 of one server exceeds a bound, measured and forecast.

    With `is_end` one of both loads is the end of the measured rates: the curve passes beyond it.
    `stated` is as in a `Miss`, at the forecast load.
    """

    mechanism: str
    bound_ns: int
    measured_per_s: float
    forecast_per_s: float
    is_end: bool
    stated: float = 0.0

    @property
    def error(self) -> float:
        """The logarithm of measured over forecast; with `is_end` its least size."""
        return math.log(self.measured_per_s / self.forecast_per_s)


class Known(NamedTuple):
    """The forecast errors to allow for: of points, and of knees.

    With `is_of_others` they are of other machines, for a machine without its own.
    """

    points: Sequence[Miss] = ()
    knees: Sequence[KneeMiss] = ()
    is_of_others: bool = False


def pooled(machines: Iterable[Known], *, is_of_others: bool) -> Known:
    """Return the forecast errors of several *machines* as one."""
    points: list[Miss] = []
    knees: list[KneeMiss] = []
    for known in machines:
        points += known.points
        knees += known.knees
    return Known(points, knees, is_of_others)


class Allowance(NamedTuple):
    """The interval of further forecast errors, in the logarithms of a `Miss`, and their number.

    `middle` is their median: a forecast is centred on it.
    """

    low: float
    middle: float
    high: float
    n: int

    def beside_work(self, figure: str, stated: float) -> Allowance:
        """Return the interval for a server whose application takes the share *stated* of CPU time.

        The median error is one of the costs alone, so it is reduced by the share. The spread stays:
        in the runs by which this law was chosen, a smaller spread would have held far fewer.

        >>> Allowance(-0.5, 0.0, 0.25, 40).beside_work("cpu_busy", 0.5)
        Allowance(low=-0.5, middle=0.0, high=0.25, n=40)
        """
        middle = math.log(measured_factor(figure, self.middle, stated))
        low, high = middle + self.low - self.middle, middle + self.high - self.middle
        return self._replace(low=low, middle=middle, high=high)

    def holds(self, figure: str, error: float, stated: float) -> bool:
        """Whether the interval beside application work holds the *error* of a point."""
        here = self.beside_work(figure, stated)
        return here.low <= error <= here.high


def measured_factor(figure: str, error: float, stated: float = 0.0) -> float:
    """Return measured over forecast of the metric if the costs alone are in error.

    *error* is its logarithm without application work; *stated* is the share of the forecast CPU
    time that such work takes, which has no error.

    >>> round(measured_factor("cpu_busy", math.log(0.8), stated=0.5), 6)
    0.9
    >>> round(measured_factor("throughput_per_s", math.log(1.25), stated=0.5), 6)
    1.111111
    """
    if figure == THROUGHPUT:
        return 1 / (stated + (1 - stated) * math.exp(-error))
    return stated + (1 - stated) * math.exp(error)


def stated_share(work_ns: float, per_s: float, cpus_used: float) -> float:
    """Return the share of the busy time of CPUs that *work_ns* for each of *per_s* requests takes.

    >>> stated_share(20_000, 10_000.0, 0.5)
    0.4
    """
    return min(1.0, work_ns * per_s / (SECOND_NS * cpus_used)) if cpus_used > 0 else 0.0


def stated_at(per_s: float, shares: Iterable[tuple[float, float]]) -> float:
    """Return the `stated_share` of a server at the load *per_s*, from its *shares* by load."""
    rates_per_s, at_rates = zip(*sorted(shares), strict=True)
    return float(np.interp(per_s, rates_per_s, at_rates))


def allowance(misses: Iterable[Miss], figure: str, level: float = LEVEL) -> Allowance | None:
    """Return the interval that holds a further error of the metric with probability *level*.

    Only points without application work count: their errors are of the costs alone. None if there
    are too few of them: it takes 2 / (1 - level) - 1.
    """
    return _ranked([m.of[figure] for m in misses if not m.stated and figure in m.of], level)


def _ranked(values: Iterable[float], level: float) -> Allowance | None:
    known = sorted(values)
    n, tail = len(known), (1 - level) / 2
    rank = math.floor(tail * (n + 1) + 1e-9)
    if rank < 1:
        return None
    return Allowance(known[rank - 1], median(known), known[n - rank], n)


class KneeAllowance(NamedTuple):
    """The `Allowance` for the load at which p99 exceeds `bound_ns`.

    `n_least` is the number of errors of which only a least size is known; at `n_too_high` of them
    the forecast load was too high.
    """

    allowed: Allowance
    bound_ns: int
    n_least: int
    n_too_high: int


def knee_allowance(known: Known, bound_ns: float, level: float = LEVEL) -> KneeAllowance | None:
    """Return the interval of the error of a further load at which p99 exceeds *bound_ns*.

    It uses the nearest scored bound and the ranks of the knees; with five to eighteen of them, and
    not of other machines, their mean and spread (`prediction_interval`). None if there are too few
    knees, or if the nearest scored bound differs by more than a factor of three. A knee that
    `is_end` counts with its least error, one with application work not at all.
    """
    of_costs = [knee for knee in known.knees if not knee.stated]
    bounds_ns = {knee.bound_ns for knee in of_costs}
    if not bounds_ns:
        return None
    nearest_ns = min(sorted(bounds_ns), key=lambda each: abs(math.log(each / bound_ns)))
    if not 1 / _BOUND_FACTOR_MOST <= nearest_ns / bound_ns <= _BOUND_FACTOR_MOST:
        return None
    near = [knee for knee in of_costs if knee.bound_ns == nearest_ns]
    errors = [knee.error for knee in near]
    allowed = _ranked(errors, level)
    if allowed is None and len(errors) >= _KNEES_LEAST and not known.is_of_others:
        low, high = prediction_interval(errors, level)
        allowed = Allowance(low, median(errors), high, len(errors))
    if allowed is None:
        return None
    ends = [knee for knee in near if knee.is_end]
    n_too_high = sum(knee.error < 0 for knee in ends)
    return KneeAllowance(allowed, nearest_ns, len(ends), n_too_high)
