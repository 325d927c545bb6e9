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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self, TypeGuard

import numpy as np

from ...calibration.points.point import Point, point_at
from ...calibration.profiles.published_errors import MachineErrors
from ...sim.state.units import MILLISECOND_NS
from ..points.measured_points import Spread
from .scoring import LOAD_SHARE_MAX, LOAD_TOLERANCE, PointScore
from .targets import OURS
from .value_verdicts import WITHIN, Judged, judge, middle_error, worst

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
        """The shift, or how large it is at least where one curve alone passes between the rates."""
        if self.measured_per_s is None and self.forecast_per_s is None:
            return None
        measured = self.measured_per_s or self.measured_end_per_s
        return (self.forecast_per_s or self.forecast_end_per_s) / measured - 1

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
                _end(measured, bound_ns),
                _end(forecast, bound_ns),
            )
            for bound_ns in bounds_ns
        ]
    return found


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
class ErrorSummary:
    """Relative errors of several values.

    Attributes
    ----------
    n, n_repeated:
        Values; of these, those with repeats, whose noise is known.
    n_in_noise, n_within, n_missed:
        Those whose forecast is in the noise; whose error is at most `WITHIN`; neither of both.
    median, signed, worst:
        The error of middle size, by factors, with the sign of most; the median of errors; and the
        one that is the largest factor. NaN for none.
    n_no_reply:
        Those that are missed because the forecast has no reply. They have no size.
    """

    n: int
    n_repeated: int
    n_in_noise: int
    n_within: int
    n_missed: int
    median: float
    signed: float
    worst: float
    n_no_reply: int = 0

    @classmethod
    def of(cls, found: Sequence[Judged], **others: object) -> Self:
        """Return the summary of *found*; *others* are the fields of those that derive from this."""
        errors = [each.error for each in found if not math.isnan(each.error)]
        return cls(
            n=len(found),
            n_repeated=sum(each.in_noise is not None for each in found),
            n_in_noise=sum(each.in_noise is True for each in found),
            n_within=sum(abs(error) <= WITHIN for error in errors),
            n_missed=sum(each.verdict == "missed" for each in found),
            median=middle_error(errors) if errors else _NAN,
            signed=float(np.median(errors)) if errors else _NAN,
            worst=worst(errors) if errors else _NAN,
            n_no_reply=len(found) - len(errors),
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class KneeErrors(ErrorSummary):
    """The shifts of all servers of which a curve passes one bound.

    `only_measured` and `only_forecast` are the servers of which one curve alone passes it within
    the rates that were measured. They are missed, and of their shift it is known how large it is at
    least: sizes count them with that.
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
        missed = [
            Judged(knee.least_shift, None, "missed")
            for knee in own
            if knee.shift is None and knee.least_shift is not None
        ]
        if shifts or missed:
            both = KneeErrors.of(
                [*shifts, *missed],
                bound_ns=bound_ns,
                only_measured=only_measured,
                only_forecast=only_forecast,
            )
            n_within = sum(abs(each.error) <= WITHIN for each in shifts)
            rows.append(replace(both, n_within=n_within))
    return rows


_QUIET_MOST = LOAD_SHARE_MAX * LOAD_TOLERANCE
QUIET = f"no queue: up to {LOAD_SHARE_MAX:.0%} of capacity"
"""The regime of low loads."""
REGIMES: dict[str, Callable[[float], bool]] = {
    QUIET: lambda share: share <= _QUIET_MOST,
    "queue: up to the capacity": lambda share: _QUIET_MOST < share <= 1,
    "past the capacity": lambda share: share > 1,
}
"""Of open loops, by the load over the measured capacity."""
CLOSED = "closed loops"
RESPONSE_TIMES = ("p50_ns", "p99_ns", "p999_ns")
CAPACITY, CPU = "throughput_per_s", "cpu_busy"
FULL = 0.99
"""Of the CPU: from here on a server has no idle time left."""
SCORED = (CAPACITY, CPU, *RESPONSE_TIMES)
"""Of `Figures`: what each point has a verdict of."""


@dataclass(frozen=True, kw_only=True)
class RegimeErrors(ErrorSummary):
    """The errors of one figure over the points of one regime that no fit saw."""

    figure: str
    regime: str


def regime_errors(scores: Iterable[PointScore]) -> list[RegimeErrors]:
    """Return the errors of response times, capacity and CPU in each regime that has points.

    Throughput counts where it is the server's and not the load's; closed loops have a capacity
    and no other regime, as each user waits for its reply there.
    """
    rows = []
    for figure, regime, own in _cells(scores):
        found = [value for score in own if (value := value_of(score, figure)) is not None]
        if found:
            rows.append(RegimeErrors.of(found, figure=figure, regime=regime))
    return rows


def _cells(scores: Iterable[PointScore]) -> Iterator[tuple[str, str, list[PointScore]]]:
    """Yield each figure and regime with the points of the regime that no fit saw."""
    held_out = [score for score in scores if score.role != "fit"]
    for figure in (*RESPONSE_TIMES, CAPACITY, CPU):
        for regime in (*REGIMES, *[CLOSED] * (figure == CAPACITY)):
            yield figure, regime, [score for score in held_out if regime_of(score) == regime]


Beside = Literal["central", "at_hour", "with_own_gaps", "with_other_gaps"]


def errors_beside(
    scores: Iterable[PointScore], other: Beside, one: Beside = "central"
) -> list[tuple[RegimeErrors, RegimeErrors]]:
    """Return the `regime_errors` of the forecast *one*, and of the *other* one.

    Both are of the same points: those at which each of the forecasts has an error.
    """
    known = [
        score
        for score in scores
        if None not in (getattr(score.forecast, one), getattr(score.forecast, other))
    ]
    rows = []
    for figure, regime, own in _cells(known):
        pairs = [
            (value_of(_with_central(s, one), figure), value_of(_with_central(s, other), figure))
            for s in own
        ]
        both = [(a, b) for a, b in pairs if _has_error(a) and _has_error(b)]
        if both:
            first, beside = (
                RegimeErrors.of(found, figure=figure, regime=regime)
                for found in zip(*both, strict=True)
            )
            rows.append((first, beside))
    return rows


def _with_central(score: PointScore, other: Beside) -> PointScore:
    """Return *score* with its *other* forecast as the central one."""
    figures = getattr(score.forecast, other)
    return replace(score, forecast=replace(score.forecast, central=figures))


def _has_error(found: Judged | None) -> TypeGuard[Judged]:
    return found is not None and not math.isnan(found.error)


def regime_of(score: PointScore) -> str | None:
    """Return the regime of a point; None of an open loop at a server of unknown capacity."""
    if score.measured.point.load.loop == "closed":
        return CLOSED
    share = score.load_share
    if share is None:
        return None
    return next(name for name, is_in in REGIMES.items() if is_in(share))


def machine_errors(section: Mapping[str, Any]) -> MachineErrors:
    """Return the published errors of a machine, of its section in a report's scores.

    Each has the sign of most errors: half as much is as far off as twice as much.
    """
    capacity = next(
        target["values"][OURS]
        for target in section["targets"]
        if (target["name"], target["statistic"]) == ("capacity", "median")
    )
    of = {row["figure"]: row["median"] for row in section["regimes"] if row["regime"] == QUIET}
    knee = {row["bound_ns"]: row["median"] for row in section["knees"]}
    return MachineErrors(capacity, of.get("p50_ns"), of.get("p99_ns"), knee.get(PUBLISHED_BOUND_NS))


def value_of(score: PointScore, figure: str) -> Judged | None:
    """Return the verdict of one figure of a point; None where there is none, or no capacity.

    A forecast with replies but without this figure, as in older files, has no verdict. Nor has the
    CPU of a server that is full in both: it says that there was enough load, and nothing of costs.
    """
    if figure == CAPACITY and score.role == "offered":
        return None
    noise: Spread = getattr(score.measured.spread, figure)
    measured, forecast = (
        getattr(each, figure) for each in (score.measured.median, score.forecast.central)
    )
    if math.isnan(forecast) and not math.isnan(score.forecast.central.p50_ns):
        return None
    if figure == CPU and min(measured, forecast) >= FULL:
        return None
    return judge(measured, forecast, (noise.low, noise.high))
