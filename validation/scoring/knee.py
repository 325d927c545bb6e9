"""The knee: the load at which p99 passes a bound, measured and forecast.

    p99 │            / measured      the shift is how much further the forecast's load is
        │ ─ ─ ─ ─ ─ x─ ─o ─ ─ bound  than the measured one: what a planner who trusted the
        │ ________/ __/ forecast     forecast would have been wrong by
        └────────────────── load

A curve is of one server in open loops, at three rates or more; between them it is a line in the
logarithm of p99.
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
"""Of the knee among a machine's published errors."""
_RATES_MIN = 3
_ANY_RATE_PER_S = 1_000.0
_NAN = float("nan")
Curve = Sequence[tuple[float, float]]
"""A response time in ns by connections a second, ascending."""


class Knee(NamedTuple):
    """Where p99 of one server passes `bound_ns`, in connections a second.

    None is beyond the rates that were measured.

    Attributes
    ----------
    server:
        A point of its curve; its rate is arbitrary.
    low_per_s, high_per_s:
        The interval of the measured one over repeats; NaN without repeats, None for an end beyond
        the rates that were measured.
    measured_end_per_s, forecast_end_per_s:
        The end of the rates beyond which each curve passes, if it does not between them.
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
        """The shift, or its least size where a curve passes beyond the rates; None: unknown."""
        measured, forecast = self.loads_per_s
        if self.is_end and measured == forecast:
            return None  # both are beyond the same end
        return forecast / measured - 1

    @property
    def loads_per_s(self) -> tuple[float, float]:
        """The measured and the forecast load, or the end of the rates beyond which each is."""
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
        """How much further the forecast's knee is, relative to the measured one."""
        return None if self.judged is None else self.judged.error

    @property
    def judged(self) -> Judged | None:
        """The shift and its verdict; None where one of the curves does not pass the bound."""
        if self.measured_per_s is None or self.forecast_per_s is None:
            return None
        is_lower = self.forecast_per_s < self.measured_per_s
        is_higher = self.forecast_per_s > self.measured_per_s
        # An end beyond the rates that were measured is open: on its side all would be in the noise.
        if (is_lower and self.low_per_s is None) or (is_higher and self.high_per_s is None):
            return judge(self.measured_per_s, self.forecast_per_s, (_NAN, _NAN))
        low = 0.0 if self.low_per_s is None else self.low_per_s
        high = math.inf if self.high_per_s is None else self.high_per_s
        return judge(self.measured_per_s, self.forecast_per_s, (low, high))


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


def _answered_ns(entry: PointScore) -> float:
    """Return the forecast's p99; infinite where nobody is answered."""
    p99_ns = entry.forecast.central.p99_ns
    return math.inf if math.isnan(p99_ns) else p99_ns


def _end(curve: Curve, bound_ns: float) -> float:
    """Return the end of the rates beyond which *curve* passes *bound_ns*, if not between them."""
    return curve[0 if curve[0][1] >= bound_ns else -1][0]


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


@dataclass(frozen=True, kw_only=True)
class KneeErrors(ErrorSummary):
    """The shifts of all servers of which a curve passes one bound.

    `only_measured` and `only_forecast` are the servers of which one curve alone passes it within
    the rates that were measured. Sizes count them with the least shift that these rates allow. They
    are missed if that is beyond `WITHIN`, and unknown otherwise.
    """

    bound_ns: int
    only_measured: int
    only_forecast: int


def knee_errors(found: Sequence[Knee]) -> list[KneeErrors]:
    """Return the errors of *found* at each bound; those at which nothing crosses are left out."""
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
