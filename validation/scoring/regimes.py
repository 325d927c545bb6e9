"""Errors by regime of load: before the knee, near it, and past it.

Response times depend on queues, so their errors differ between these regimes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

from ...calibration.points.point import Point
from ...calibration.profiles.published_errors import MachineErrors
from ...calibration.records import precision
from ..points.measured_points import Spread
from .knee import PUBLISHED_BOUND_NS
from .scoring import LOAD_SHARE_MAX, LOAD_TOLERANCE, PointScore
from .value_verdicts import ErrorSummary, Judged, judge

_QUIET_MOST = LOAD_SHARE_MAX * LOAD_TOLERANCE
# Files of scores have these names; tables show those of `point_tables.REGIME_NAMES`.
QUIET = f"no queue: up to {LOAD_SHARE_MAX:.0%} of capacity"
"""The regime of low loads."""
NEAR, PAST = "queue: up to the capacity", "past the capacity"
REGIMES: dict[str, Callable[[float], bool]] = {
    QUIET: lambda share: share <= _QUIET_MOST,
    NEAR: lambda share: _QUIET_MOST < share <= 1,
    PAST: lambda share: share > 1,
}
"""The regimes of open loops, by offered load over measured capacity."""
CLOSED = "closed loops"
RESPONSE_TIMES = ("p50_ns", "p99_ns", "p999_ns")
CAPACITY, CPU = "throughput_per_s", "cpu_busy"
INTERRUPTS, EVENTS = "interrupts_per_request", "events_per_wait"
FULL = 0.99
"""Busy share of the CPU from which on a server has no idle time left."""
SCORED = (CAPACITY, CPU, INTERRUPTS, EVENTS, *RESPONSE_TIMES)
"""The fields of `Figures` with a verdict at each point."""
_IN_CLOSED_LOOPS = (CAPACITY, INTERRUPTS, EVENTS)
"""The metrics that closed loops have, too."""


@dataclass(frozen=True, kw_only=True)
class RegimeErrors(ErrorSummary):
    """The errors of one metric over the held-out points of one regime."""

    figure: str
    regime: str


def regime_errors(scores: Iterable[PointScore]) -> list[RegimeErrors]:
    """Return the errors of each metric of `SCORED` in each regime with points.

    Throughput counts where the server, not the load, limits it. Closed loops have a capacity,
    interrupts and events but no scored response times, as each user waits for its reply.
    """
    rows = []
    for figure, regime, own in _cells(scores):
        found = [value for score in own if (value := value_of(score, figure)) is not None]
        if found:
            rows.append(RegimeErrors.of(found, figure=figure, regime=regime))
    return rows


def _cells(scores: Iterable[PointScore]) -> Iterator[tuple[str, str, list[PointScore]]]:
    """Yield each metric and regime with the held-out points of the regime."""
    held_out = [score for score in scores if score.role != "fit"]
    for figure in (*RESPONSE_TIMES, CAPACITY, CPU, INTERRUPTS, EVENTS):
        for regime in (*REGIMES, *[CLOSED] * (figure in _IN_CLOSED_LOOPS)):
            yield figure, regime, [score for score in held_out if regime_of(score) == regime]


Beside = Literal["central", "at_hour", "with_own_gaps", "with_other_gaps"]


def errors_beside(
    scores: Iterable[PointScore], other: Beside, one: Beside = "central"
) -> list[tuple[RegimeErrors, RegimeErrors]]:
    """Return the `regime_errors` of the forecast *one*, and of the *other* one.

    Both cover the points at which each of the forecasts has an error.
    """
    known = [
        score
        for score in scores
        if None not in (getattr(score.forecast, one), getattr(score.forecast, other))
    ]
    return errors_of_both(
        [_with_central(score, one) for score in known],
        [_with_central(score, other) for score in known],
    )


def errors_of_both(
    scores: Sequence[PointScore], others: Sequence[PointScore]
) -> list[tuple[RegimeErrors, RegimeErrors]]:
    """Return the `regime_errors` of *scores* and of *others*, which are of the same points.

    Both cover the points at which each has an error.
    """
    beside = {score.measured.point: score for score in others}
    rows = []
    for figure, regime, own in _cells(scores):
        pairs = [(value_of(s, figure), value_of(beside[s.measured.point], figure)) for s in own]
        both = [(a, b) for a, b in pairs if _has_error(a) and _has_error(b)]
        if both:
            first, second = (
                RegimeErrors.of(found, figure=figure, regime=regime)
                for found in zip(*both, strict=True)
            )
            rows.append((first, second))
    return rows


def _with_central(score: PointScore, other: Beside) -> PointScore:
    """Return *score* with its *other* forecast as the central one."""
    figures = getattr(score.forecast, other)
    return replace(score, forecast=replace(score.forecast, central=figures))


def _has_error(found: Judged | None) -> TypeGuard[Judged]:
    return found is not None and not math.isnan(found.error)


def regime_of(score: PointScore) -> str | None:
    """Return the regime of a point; None for an open loop with unknown capacity."""
    return regime_at(score.measured.point, score.load_share)


def regime_at(point: Point, share: float | None) -> str | None:
    """Return the regime of *point*, which offers *share* of the capacity; None if that is unknown.

    A closed loop needs no share.
    """
    if point.load.loop == "closed":
        return CLOSED
    return None if share is None else next(name for name, has in REGIMES.items() if has(share))


def machine_errors(section: Mapping[str, Any]) -> MachineErrors:
    """Return the published errors of a machine from its section in a report's scores."""
    of = {(row["figure"], row["regime"]): row["median"] for row in section["regimes"]}
    knee = {row["bound_ns"]: row["median"] for row in section["knees"]}
    return MachineErrors(
        capacity=of.get((CAPACITY, CLOSED)),
        p50=of.get(("p50_ns", QUIET)),
        p99=of.get(("p99_ns", QUIET)),
        knee=knee.get(PUBLISHED_BOUND_NS),
    )


def value_of(score: PointScore, figure: str) -> Judged | None:
    """Return the verdict of one metric of a point; None without one, or without a capacity.

    A forecast with replies but without this metric, as in older files, has no verdict. The CPU of a
    server that is full in both has none either: it shows enough load, and nothing about costs.
    """
    if figure == CAPACITY and score.role == "offered":
        return None
    noise: Spread = getattr(score.measured.spread, figure)
    measured, forecast = (
        getattr(each, figure) for each in (score.measured.median, score.forecast.central)
    )
    if math.isnan(forecast) and not math.isnan(score.forecast.central.p50_ns):
        return None
    if figure == CPU and measured >= FULL and forecast >= FULL:
        return None
    return judge(measured, forecast, (noise.low, noise.high))


def noise_of(score: PointScore, figure: str) -> float:
    """Return the size up to which an error of one metric of a point may be noise.

    A point with one run has the least value.
    """
    return noise_size(
        getattr(score.measured.spread, figure), getattr(score.measured.median, figure)
    )


def noise_size(spread: Spread, measured: float) -> float:
    """Return half the range of the repeats over the *measured* value, at least `precision.WITHIN`.

    That is the limit for a precisely known point. It is the result without repeats.
    """
    half = (spread.high - spread.low) / 2 / measured
    return precision.WITHIN if math.isnan(half) else max(precision.WITHIN, half)
