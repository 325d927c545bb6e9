"""The knee: the load at which p99 passes a bound, measured and forecast; and errors by regime.

    p99 │            / measured      the shift is how much further the forecast's load is
        │ ─ ─ ─ ─ ─ x─ ─o ─ ─ bound  than the measured one: what a planner who trusted the
        │ ________/ __/ forecast     forecast would have been wrong by
        └────────────────── load

A curve is of one server in open loops, at three rates or more; between them it is a line in the
logarithm of p99. Regimes are those of queues: errors of response times before the knee, near it
and past it have nothing in common.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...calibration.points.point import Point, point_at
from ...sim.state.units import MILLISECOND_NS
from .scoring import LOAD_SHARE_MAX, LOAD_TOLERANCE, PointScore

BOUNDS_NS = tuple(n * MILLISECOND_NS for n in (1, 5, 20, 50))
WITHIN = 0.15
"""An error of a response time that is small enough."""
_RATES_MIN = 3
_ANY_RATE_PER_S = 1_000.0
_NAN = float("nan")

Curve = Sequence[tuple[float, float]]
"""A response time in ns by connections a second, ascending."""


class Knee(NamedTuple):
    """Where p99 of one server passes `bound_ns`, in connections a second; None: nowhere.

    Attributes
    ----------
    server:
        A point of its curve; its rate is arbitrary.
    low_per_s, high_per_s:
        The interval of the measured one over repeats; NaN without repeats.
    """

    server: Point
    bound_ns: int
    measured_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    forecast_per_s: float | None

    @property
    def shift(self) -> float | None:
        """How much further the forecast's knee is, relative to the measured one."""
        if self.measured_per_s is None or self.forecast_per_s is None:
            return None
        return self.forecast_per_s / self.measured_per_s - 1

    @property
    def is_in_noise(self) -> bool:
        """Whether the forecast's knee is within the interval over repeats."""
        if self.shift is None or self.forecast_per_s is None:
            return False
        # An end that is not among the rates that were measured is open.
        low = 0.0 if self.low_per_s is None else self.low_per_s
        high = math.inf if self.high_per_s is None else self.high_per_s
        return low <= self.forecast_per_s <= high


def knees(scores: Iterable[PointScore], bounds_ns: Sequence[int] = BOUNDS_NS) -> list[Knee]:
    """Return the knees of all servers of *scores* with open loops at three rates or more."""
    curves: dict[Point, list[PointScore]] = defaultdict(list)
    for entry in scores:
        point = entry.measured.point
        if point.load.loop == "open" and not math.isnan(entry.measured.median.p99_ns):
            curves[point_at(point, rate_per_s=_ANY_RATE_PER_S)].append(entry)
    found = []
    for server, entries in curves.items():
        entries.sort(key=lambda entry: entry.measured.point.rate_per_s)
        if len(entries) < _RATES_MIN:
            continue
        rates_per_s = [entry.measured.point.rate_per_s for entry in entries]
        measured, high, low, forecast = (
            list(zip(rates_per_s, values, strict=True))
            for values in (
                [entry.measured.median.p99_ns for entry in entries],
                [entry.measured.spread.p99_ns.high for entry in entries],
                [entry.measured.spread.p99_ns.low for entry in entries],
                [entry.forecast.central.p99_ns for entry in entries],
            )
        )
        found += [
            Knee(
                server,
                bound_ns,
                crossing(measured, bound_ns),
                noise(high, bound_ns),
                noise(low, bound_ns),
                crossing(forecast, bound_ns),
            )
            for bound_ns in bounds_ns
        ]
    return found


def noise(curve: Curve, bound_ns: float) -> float | None:
    """Return the `crossing` of an end of the repeats' interval; NaN where a point has one run."""
    return _NAN if any(math.isnan(value) for _, value in curve) else crossing(curve, bound_ns)


def crossing(curve: Curve, bound_ns: float) -> float | None:
    """Return the load at which *curve* first passes *bound_ns* upwards; None if it does not.

    >>> crossing([(1000.0, 1e6), (2000.0, 1e8)], 1e7)
    1500.0
    >>> crossing([(1000.0, 2e7), (2000.0, 1e8)], 1e7) is None
    True
    """
    for (rate_a, low), (rate_b, high) in pairwise(curve):
        if 0 < low < bound_ns <= high:
            share = math.log(bound_ns / low) / math.log(high / low)
            return rate_a + share * (rate_b - rate_a)
    return None


class KneeErrors(NamedTuple):
    """The shifts of all servers at one bound.

    Attributes
    ----------
    n, n_in_noise:
        Servers of which both curves pass the bound; of these, those whose forecast
        is within the interval over repeats.
    median, worst, signed:
        Of absolute shifts; the median of shifts with their sign.
    only_measured, only_forecast:
        Servers of which one curve passes the bound within the rates that were measured.
    """

    bound_ns: int
    n: int
    n_in_noise: int
    median: float
    signed: float
    worst: float
    only_measured: int
    only_forecast: int


def knee_errors(found: Sequence[Knee]) -> list[KneeErrors]:
    """Return the errors of *found* at each bound; those at which nothing crosses are left out."""
    rows = []
    for bound_ns in dict.fromkeys(knee.bound_ns for knee in found):
        own = [knee for knee in found if knee.bound_ns == bound_ns]
        shifts = [knee.shift for knee in own if knee.shift is not None]
        only_measured = sum(k.measured_per_s is not None and k.shift is None for k in own)
        only_forecast = sum(k.forecast_per_s is not None and k.shift is None for k in own)
        if shifts or only_measured or only_forecast:
            rows.append(
                KneeErrors(
                    bound_ns,
                    len(shifts),
                    sum(knee.is_in_noise for knee in own),
                    float(np.median(np.abs(shifts))) if shifts else _NAN,
                    float(np.median(shifts)) if shifts else _NAN,
                    float(np.abs(shifts).max()) if shifts else _NAN,
                    only_measured,
                    only_forecast,
                )
            )
    return rows


_QUIET = LOAD_SHARE_MAX * LOAD_TOLERANCE
REGIMES: dict[str, Callable[[float], bool]] = {
    f"no queue: up to {LOAD_SHARE_MAX:.0%} of capacity": lambda share: share <= _QUIET,
    "queue: up to the capacity": lambda share: _QUIET < share <= 1,
    "past the capacity": lambda share: share > 1,
}
"""By the load over the measured capacity."""
RESPONSE_TIMES = ("p50_ns", "p99_ns")


class RegimeErrors(NamedTuple):
    """Relative errors of one response time over the points of one regime that no fit saw.

    n_in_noise are those whose forecast is within the interval of the repeats, n_within those whose
    error is at most `WITHIN`.
    """

    figure: str
    regime: str
    n: int
    n_in_noise: int
    n_within: int
    median: float
    signed: float
    worst: float


def regime_errors(scores: Iterable[PointScore]) -> list[RegimeErrors]:
    """Return the errors of p50 and p99 in each regime of open loops that has points."""
    held_out = [(s.load_share, s) for s in scores if s.role != "fit" and s.load_share is not None]
    rows = (
        _errors_of(figure, regime, [score for share, score in held_out if is_in(share)])
        for figure in RESPONSE_TIMES
        for regime, is_in in REGIMES.items()
    )
    return [row for row in rows if row is not None]


def _errors_of(figure: str, regime: str, scores: Sequence[PointScore]) -> RegimeErrors | None:
    """Return the errors of *figure* over the *scores* of one regime; None without any."""
    errors, n_in_noise = [], 0
    for entry in scores:
        measured = getattr(entry.measured.median, figure)
        forecast = getattr(entry.forecast.central, figure)
        if measured > 0 and forecast > 0:  # false for NaN, too
            errors.append(forecast / measured - 1)
            spread = getattr(entry.measured.spread, figure)
            n_in_noise += bool(spread.low <= forecast <= spread.high)
    if not errors:
        return None
    sizes = np.abs(errors)
    return RegimeErrors(
        figure,
        regime,
        len(errors),
        n_in_noise,
        int((sizes <= WITHIN).sum()),
        float(np.median(sizes)),
        float(np.median(errors)),
        float(sizes.max()),
    )
