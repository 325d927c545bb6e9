"""Forecasts against measurements: errors stated three ways, intervals and verdicts.

    at equal offered load     the error that a user of the forecast would see
    at equal utilisation      latency where the forecast's CPU is as busy as the measured one
    as a load shift           by how much the offered load must change for the curves to meet

Near the knee a 3% error of a cost is a 24% error of latency, so the last two separate a wrong cost
from a wrong shape. The scatter of the repeats stands beside every error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from ...calibration.points.point import Point, point_at
from ...calibration.points.points import FIT_POINT, FIT_POINTS
from ..forecast.baselines import Baseline
from ..forecast.forecast import Forecast
from ..points.figures import Figures
from ..points.measured_points import MeasuredPoint

LOAD_SHARE_MAX = 0.8
LOAD_TOLERANCE = 1.01  # a point at 80% of one capacity estimate is not at 80.4% of the next
_DELIVERED = 0.97
_BUSY_MAX = 0.99
_SHIFT_MAX = 0.5

Curve = Sequence[tuple[float, Figures]]
"""Metrics of a forecast by offered rate, ascending."""
Role = Literal["capacity", "offered", "fit"]
_Position = tuple[float, float]


class Errors(NamedTuple):
    """Errors of a forecast; None where there is nothing to compare.

    throughput and p50 are relative to the measured value, cpu is a difference of shares.
    """

    throughput: float | None
    cpu: float | None
    p50: float | None


class Shifts(NamedTuple):
    """Errors at another load, as fields of a `PointScore`; None if the curve does not reach it."""

    p50_at_equal_cpu: float | None
    load_shift_cpu: float | None
    load_shift_p50: float | None


class Inside(NamedTuple):
    """Whether the measured median lies in the forecast's interval; None without one."""

    throughput: bool | None
    cpu: bool | None
    p50: bool | None


@dataclass(frozen=True)
class PointScore:
    """One measured point beside its forecast.

    Attributes
    ----------
    role:
        "capacity" (the server limits throughput), "offered" (both delivered the offered load, so
        throughput is not scored) or "fit" (used by the fit, not scored).
    load_share:
        Offered rate over the measured capacity in an open loop; None otherwise.
    p50_counts:
        Whether the target of p50 applies (open loop, at most 80% of capacity).
    p50_at_equal_cpu:
        Relative p50 error where the forecast's CPU is as busy as measured.
    load_shift_cpu, load_shift_p50:
        Relative change of the offered rate at which the forecast equals the measured value.
    """

    measured: MeasuredPoint
    forecast: Forecast
    role: Role
    load_share: float | None
    p50_counts: bool
    errors: Errors
    inside: Inside
    p50_at_equal_cpu: float | None
    load_shift_cpu: float | None
    load_shift_p50: float | None
    baseline_errors: dict[str, Errors]

    @property
    def throughput_at_equal_cpu(self) -> float | None:
        """Relative error of replies per second of busy CPU; None if unknown.

        It is the error of throughput at equal utilisation.
        """
        forecast, measured = self.forecast.central, self.measured.median
        values = (forecast.cpu_busy, measured.cpu_busy, measured.throughput_per_s)
        if any(math.isnan(value) or value <= 0 for value in values):
            return None
        per_busy_s = measured.throughput_per_s / measured.cpu_busy
        return forecast.throughput_per_s / forecast.cpu_busy / per_busy_s - 1


def score(
    measured: Sequence[MeasuredPoint],
    forecasts: Mapping[Point, Forecast],
    baselines: Mapping[Point, Mapping[str, Baseline]],
    fitted: Sequence[Point] = FIT_POINTS,
) -> list[PointScore]:
    """Return the score of every measured and forecast point; *fitted* points are not scored."""
    scores = []
    for entry in measured:
        forecast = forecasts.get(entry.point)
        if entry.measured and forecast is not None:
            curve = curve_of(entry.point, forecasts)
            capacity = capacity_per_s(entry.point, measured, fitted)
            answers = baselines.get(entry.point, {})
            role = _role(entry, forecast, fitted)
            scores.append(
                _score_point(entry, forecast, role, curve, capacity=capacity, answers=answers)
            )
    return scores


def _score_point(
    entry: MeasuredPoint,
    forecast: Forecast,
    role: Role,
    curve: Curve,
    *,
    capacity: float | None,
    answers: Mapping[str, Baseline],
) -> PointScore:
    point, median = entry.point, entry.median
    share = point.rate_per_s / capacity if point.load.loop == "open" and capacity else None
    return PointScore(
        measured=entry,
        forecast=forecast,
        role=role,
        load_share=share,
        p50_counts=role != "fit"
        and share is not None
        and share <= LOAD_SHARE_MAX * LOAD_TOLERANCE
        and not math.isnan(median.p50_ns),
        errors=_errors(
            forecast.central.throughput_per_s,
            forecast.central.cpu_busy,
            forecast.central.p50_ns,
            median,
        ),
        inside=Inside(
            _inside(median.throughput_per_s, forecast, "throughput_per_s"),
            _inside(median.cpu_busy, forecast, "cpu_busy"),
            _inside(median.p50_ns, forecast, "p50_ns"),
        ),
        **shifts(point, median, curve)._asdict(),
        baseline_errors={name: _errors(*answer, median) for name, answer in answers.items()},
    )


def _role(entry: MeasuredPoint, forecast: Forecast, fitted: Sequence[Point]) -> Role:
    """Return the role of a point.

    A forecast that wrongly falls short of the offered load is an error, so throughput is left out
    only where measurement and forecast both delivered the offered load.
    """
    if entry.point in fitted:
        return "fit"
    if entry.point.load.loop == "closed":
        return "capacity"
    enough_per_s = _DELIVERED * entry.offered_per_s * entry.point.load.requests
    delivered = min(entry.median.throughput_per_s, forecast.central.throughput_per_s)
    return "offered" if delivered >= enough_per_s else "capacity"


def capacity_per_s(
    point: Point, measured: Sequence[MeasuredPoint], fitted: Sequence[Point] = (FIT_POINT,)
) -> float | None:
    """Return the measured capacity of the server at *point*, in connections per second.

    It is the highest throughput of the open loops of the same server, if one of them delivered less
    than was offered; else the throughput of the fit point, else of any closed loop of the same
    server. None if none of these was measured. A server with an application, or with kept
    connections, differs from that of the fit point.
    """
    known = [entry for entry in measured if entry.measured]
    series = [entry for entry in known if _series(entry.point) == _series(point)]
    saturated = any(
        entry.median.throughput_per_s < _DELIVERED * entry.offered_per_s * entry.point.load.requests
        for entry in series
    )
    like_fit = not point.server.request_cpu and not point.keeps
    groups = (
        series if saturated and point.load.loop == "open" else [],
        [e for e in known if like_fit and e.point == next(iter(fitted), None)],
        [e for e in known if e.point.load.loop == "closed" and _server(e.point) == _server(point)],
    )
    for group in groups:
        if group:
            return max(e.median.throughput_per_s / e.point.load.requests for e in group)
    return None


@functools.cache  # making a point checks it again, and this is called for every pair of points
def _series(point: Point) -> Point | None:
    """Return the settings that all open-loop points of one curve share; None in a closed loop."""
    return point_at(point, rate_per_s=1000.0) if point.load.loop == "open" else None


def _server(point: Point) -> tuple[object, ...]:
    return (
        point.server.mechanism,
        point.idle.connections,
        point.server.accept_limit,
        point.server.listener,
        point.load.requests,
        point.server.request_cpu,
        point.load.connections,
    )


def curve_of(point: Point, forecasts: Mapping[Point, Forecast]) -> Curve:
    """Return (rate, metrics) of the forecasts on the curve of *point*; empty in a closed loop."""
    series = _series(point)
    if series is None:
        return []
    return sorted(
        (forecast.point.rate_per_s, forecast.central)
        for forecast in forecasts.values()
        if _series(forecast.point) == series
    )


def shifts(point: Point, measured: Figures, curve: Curve) -> Shifts:
    """Return the errors of the forecast *curve* at equal CPU, and as shifts of the load."""
    shift_cpu = load_shift(point, curve, "cpu_busy", measured.cpu_busy)
    shift_p50 = load_shift(point, curve, "p50_ns", measured.p50_ns)
    at_equal_cpu = None
    if shift_cpu is not None:
        p50_ns = _interpolate(curve, "p50_ns", point.rate_per_s * (1 + shift_cpu))
        at_equal_cpu = relative(p50_ns, measured.p50_ns)
    return Shifts(at_equal_cpu, shift_cpu, shift_p50)


def load_shift(point: Point, curve: Curve, figure: str, value: float) -> float | None:
    """Return the relative change of rate at which the forecast *curve* has *value*.

    Between rates, the logarithm of the metric is interpolated linearly; of several such rates the
    nearest counts. None for a closed loop, if the curve does not reach the value (it is never
    extended), and beyond half the rate: the curve is flat there, and its shift meaningless.
    """
    shifts = [
        (rate_a + (rate_b - rate_a) * math.log(value / low) / math.log(high / low))
        / point.rate_per_s
        - 1
        for (rate_a, low), (rate_b, high) in _segments(curve, figure)
        if low != high and min(low, high) <= value <= max(low, high)
    ]
    best = min(shifts, key=abs, default=math.inf)
    return best if abs(best) <= _SHIFT_MAX else None


def _segments(curve: Curve, figure: str) -> Iterator[tuple[_Position, _Position]]:
    """Yield the stretches of *curve* along which the metric varies with the load.

    CPU time does not vary where the CPU is always busy.
    """
    for (rate_a, a), (rate_b, b) in pairwise(curve):
        ends = (rate_a, float(getattr(a, figure))), (rate_b, float(getattr(b, figure)))
        known = all(value > 0 for _, value in ends)  # false for NaN, too
        if known and not (figure == "cpu_busy" and max(a.cpu_busy, b.cpu_busy) > _BUSY_MAX):
            yield ends


def _interpolate(curve: Curve, figure: str, rate: float) -> float:
    for (rate_a, low), (rate_b, high) in _segments(curve, figure):
        if rate_a <= rate <= rate_b * (1 + 1e-12):
            return float(low * (high / low) ** ((rate - rate_a) / (rate_b - rate_a)))
    return float("nan")


def _errors(
    throughput_per_s: float | None, cpu_busy: float | None, p50_ns: float | None, median: Figures
) -> Errors:
    cpu = None
    if cpu_busy is not None and not math.isnan(median.cpu_busy):
        cpu = cpu_busy - median.cpu_busy
    return Errors(
        relative(throughput_per_s, median.throughput_per_s), cpu, relative(p50_ns, median.p50_ns)
    )


def relative(forecast: float | None, measured: float) -> float | None:
    """Return the relative error; None if a value is missing or the measured one is 0."""
    if forecast is None or math.isnan(forecast) or math.isnan(measured) or measured == 0:
        return None
    return forecast / measured - 1


def _inside(value: float, forecast: Forecast, figure: str) -> bool | None:
    low, high = getattr(forecast.low, figure), getattr(forecast.high, figure)
    if math.isnan(low) or math.isnan(value):
        return None
    return bool(low <= value <= high)


def verdicts_agree(score: PointScore) -> bool:
    """Return whether simulator and server were in the same state."""
    return score.forecast.verdict == score.measured.verdict
