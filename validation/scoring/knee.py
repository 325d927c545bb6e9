"""The knee: the load at which p99 exceeds a bound, measured and forecast.

    p99 │            / measured      the shift is the forecast load over the measured load,
        │ ─ ─ ─ ─ ─ x─ ─o ─ ─ bound  minus 1: the error of a planner who relied on the
        │ ________/ __/ forecast     forecast
        └────────────────── load

A curve covers one server in open loops at three or more rates. Between rates the logarithm of p99
is interpolated linearly.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from ...calibration.points.point import Point, point_at
from ...sim.state.units import MILLISECOND_NS
from .scoring import PointScore
from .value_verdicts import WITHIN, ErrorSummary, Judged, judge

BOUNDS_NS = tuple(n * MILLISECOND_NS for n in (1, 5, 20, 50))
PUBLISHED_BOUND_NS = 20 * MILLISECOND_NS
"""The bound of the knee among a machine's published errors."""
_RATES_MIN = 3
_ANY_RATE_PER_S = 1_000.0
_NAN = float("nan")
Curve = Sequence[tuple[float, float]]
"""Response time in ns by connections per second, ascending."""


class Knee(NamedTuple):
    """The load at which p99 of one server exceeds `bound_ns`, in connections per second.

    None stands for a load beyond the measured rates.

    Attributes
    ----------
    server:
        A point of its curve; its rate is arbitrary.
    low_per_s, high_per_s:
        The interval of the measured load over repeats; NaN without repeats, None for an end beyond
        the measured rates.
    measured_end_per_s, forecast_end_per_s:
        The end of the rates beyond which each curve passes the bound, if not between them.
    """

    server: Point
    bound_ns: int
    measured_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    forecast_per_s: float | None
    measured_end_per_s: float
    forecast_end_per_s: float

    @property
    def least_shift(self) -> float | None:
        """The shift, or its least size if a curve passes beyond the rates; None: unknown."""
        measured, forecast = self.loads_per_s
        if self.is_end and measured == forecast:
            return None  # both loads are beyond the same end
        return forecast / measured - 1

    @property
    def loads_per_s(self) -> tuple[float, float]:
        """The measured and the forecast load; for a load beyond the rates, their end."""
        measured, forecast = self.measured_per_s, self.forecast_per_s
        return (
            self.measured_end_per_s if measured is None else measured,
            self.forecast_end_per_s if forecast is None else forecast,
        )

    @property
    def is_end(self) -> bool:
        """Whether one of `loads_per_s` is an end of the rates."""
        return self.measured_per_s is None or self.forecast_per_s is None

    @property
    def shift(self) -> float | None:
        """The forecast load over the measured load, minus 1."""
        return None if self.judged is None else self.judged.error

    @property
    def judged(self) -> Judged | None:
        """The shift and its verdict; None if one of the curves does not pass the bound."""
        if self.measured_per_s is None or self.forecast_per_s is None:
            return None
        is_lower = self.forecast_per_s < self.measured_per_s
        is_higher = self.forecast_per_s > self.measured_per_s
        # An interval end beyond the measured rates is open: any load on that side is in the noise.
        if (is_lower and self.low_per_s is None) or (is_higher and self.high_per_s is None):
            return judge(self.measured_per_s, self.forecast_per_s, (_NAN, _NAN))
        low = 0.0 if self.low_per_s is None else self.low_per_s
        high = math.inf if self.high_per_s is None else self.high_per_s
        return judge(self.measured_per_s, self.forecast_per_s, (low, high))


def knees(scores: Iterable[PointScore], bounds_ns: Sequence[int] = BOUNDS_NS) -> list[Knee]:
    """Return the knees of all servers of *scores* with open loops at three or more rates."""
    curves: dict[Point, list[PointScore]] = defaultdict(list)
    for entry in scores:
        point = entry.measured.point
        if point.load.loop == "open" and not math.isnan(entry.measured.median.p99_ns):
            curves[server_of(point)].append(entry)
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
                [_answered_ns(entry) for entry in entries],
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
                _end(measured, bound_ns),
                _end(forecast, bound_ns),
            )
            for bound_ns in bounds_ns
        ]
    return found


def server_of(point: Point) -> Point:
    """Return the server of an open loop: *point* without its rate."""
    return point_at(point, rate_per_s=_ANY_RATE_PER_S)


def _answered_ns(entry: PointScore) -> float:
    """Return the forecast's p99; infinite without replies."""
    p99_ns = entry.forecast.central.p99_ns
    return math.inf if math.isnan(p99_ns) else p99_ns


def _end(curve: Curve, bound_ns: float) -> float:
    """Return the end of the rates beyond which *curve* passes *bound_ns*."""
    return curve[0 if curve[0][1] >= bound_ns else -1][0]


def noise(curve: Curve, bound_ns: float) -> float | None:
    """Return the `crossing` of an end of the repeats' interval; NaN if a point has one run."""
    return _NAN if any(math.isnan(value) for _, value in curve) else crossing(curve, bound_ns)


def crossing(curve: Curve, bound_ns: float) -> float | None:
    """Return the load at which *curve* first rises above *bound_ns*; None if it does not.

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


@dataclass(frozen=True, kw_only=True)
class KneeErrors(ErrorSummary):
    """The shifts of all servers with a curve that passes one bound.

    `only_measured` and `only_forecast` count the servers with one curve only that passes the bound
    within the measured rates. They enter with the least shift that these rates allow: missed if it
    is beyond `WITHIN`, else unknown.
    """

    bound_ns: int
    only_measured: int
    only_forecast: int


def knee_errors(found: Sequence[Knee]) -> list[KneeErrors]:
    """Return the errors of *found* at each bound that a curve crosses."""
    rows = []
    for bound_ns in dict.fromkeys(knee.bound_ns for knee in found):
        own = [knee for knee in found if knee.bound_ns == bound_ns]
        shifts = [knee.judged for knee in own if knee.judged is not None]
        only_measured = sum(k.measured_per_s is not None and k.shift is None for k in own)
        only_forecast = sum(k.forecast_per_s is not None and k.shift is None for k in own)
        least = [
            judged
            for knee in own
            if knee.is_end and knee.least_shift is not None
            if (judged := judge(*knee.loads_per_s, (_NAN, _NAN)))
        ]
        if shifts or least:
            both = KneeErrors.of(
                [*shifts, *least],
                bound_ns=bound_ns,
                only_measured=only_measured,
                only_forecast=only_forecast,
            )
            n_within = sum(abs(each.error) <= WITHIN for each in shifts)
            rows.append(replace(both, n_within=n_within))
    return rows
