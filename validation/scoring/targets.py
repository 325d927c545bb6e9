"""The accuracy targets of the forecasts, and the results, with the baselines.

    relative error of capacity       median at most 5%, worst at most 10%, up to 6000 idle
    CPU busy                         every point within 5 points
    p50 at up to 80% of capacity     every point within 15%

For a server's own runs: capacity with a new mechanism or idle count, median at most 10%, worst at
most 20%. Only held-out points count.

    pairs of points, one of ASPECTS apart ──measured intervals separate?──► ranked right, or wrong

Of two points that differ in one setting, the faster by measurement must be faster by forecast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from ...calibration.points.point import Point, stored
from .scoring import PointScore

CAPACITY_MEDIAN_MAX = 0.05
CAPACITY_WORST_MAX = 0.10
CPU_WORST_MAX = 0.05
P50_WORST_MAX = 0.15
IDLE_MAX = 6000
OBSERVED_MEDIAN_MAX = 0.10
OBSERVED_WORST_MAX = 0.20
OURS = "dispatchsim"

Verdict = Literal["reached", "missed", "not measured"]


class Scored(Protocol):
    """A point forecast by the simulator and by baselines; errors by metric, None if not scored."""

    @property
    def errors(self) -> Any:
        """Ours."""

    @property
    def baseline_errors(self) -> Mapping[str, Any]:
        """The errors of each baseline, by its name."""


def verdict_of(value: float | None, limit: float) -> Verdict:
    """Return whether *value* is within *limit*."""
    if value is None:
        return "not measured"
    return "reached" if value <= limit else "missed"


@dataclass(frozen=True)
class Capacity:
    """The absolute errors of capacity over held-out points; None without any."""

    n_points: int
    median: float | None
    worst: float | None

    @classmethod
    def of(cls, scores: Sequence[PointScore]) -> Capacity:
        """Return the errors of capacity of *scores*: closed loops, and open loops past capacity."""
        errors = absolute_errors([s for s in scores if s.role == "capacity"], "throughput")[OURS]
        return cls(len(errors), _statistic(errors, "median"), _statistic(errors, "worst"))

    @property
    def wanted(self) -> tuple[tuple[str, float | None, float], ...]:
        """The targets of a server's own runs: statistic, value, limit."""
        return (
            ("median", self.median, OBSERVED_MEDIAN_MAX),
            ("worst", self.worst, OBSERVED_WORST_MAX),
        )


@dataclass(frozen=True)
class Target:
    """The target of one metric, and the results of the simulator and the baselines.

    `limit` bounds the statistic ("median" or "worst") of absolute errors over `n_points` points.
    `values` and `n_points` are by name of the predictor; a value is None without points.
    """

    name: str
    unit: Literal["relative", "points"]
    statistic: Literal["median", "worst"]
    limit: float
    values: dict[str, float | None]
    n_points: dict[str, int]
    n_within: int

    @property
    def verdict(self) -> Verdict:
        """Return whether the target was reached."""
        return verdict_of(self.values[OURS], self.limit)


def targets(scores: Sequence[PointScore]) -> list[Target]:
    """Return the targets with the results of the simulator and of every baseline."""
    held_out = [
        s for s in scores if s.role != "fit" and s.measured.point.idle.connections <= IDLE_MAX
    ]
    capacity = [s for s in held_out if s.role == "capacity"]
    latency = [s for s in held_out if s.p50_counts]
    return [
        _target("capacity", capacity, "throughput", "median", CAPACITY_MEDIAN_MAX),
        _target("capacity", capacity, "throughput", "worst", CAPACITY_WORST_MAX),
        _target("CPU busy", held_out, "cpu", "worst", CPU_WORST_MAX, unit="points"),
        _target("p50, load ≤ 80%", latency, "p50", "worst", P50_WORST_MAX),
    ]


def _target(
    name: str,
    scores: Sequence[PointScore],
    figure: str,
    statistic: Literal["median", "worst"],
    limit: float,
    *,
    unit: Literal["relative", "points"] = "relative",
) -> Target:
    errors = absolute_errors(scores, figure)
    return Target(
        name=name,
        unit=unit,
        statistic=statistic,
        limit=limit,
        values={who: _statistic(values, statistic) for who, values in errors.items()},
        n_points={who: len(values) for who, values in errors.items()},
        n_within=sum(value <= limit for value in errors[OURS]),
    )


def absolute_errors(scores: Iterable[Scored], figure: str) -> dict[str, list[float]]:
    """Return the absolute errors of one metric over *scores*, by name of the predictor."""
    scores = list(scores)
    names = dict.fromkeys(name for s in scores for name in s.baseline_errors)
    errors: dict[str, list[float]] = {OURS: [], **{name: [] for name in names}}
    for entry in scores:
        for name, found in ((OURS, entry.errors), *entry.baseline_errors.items()):
            value = getattr(found, figure)
            if value is not None:
                errors[name].append(abs(value))
    return errors


def _statistic(values: Sequence[float], statistic: Literal["median", "worst"]) -> float | None:
    if not values:
        return None
    return max(values) if statistic == "worst" else float(np.median(values))


ASPECTS = {
    "mechanism": "mechanisms",
    "idle": "idle connections",
    "workers": "workers",
    "accept_limit": "connections accepted at a time",
    "share": "objects shared by workers",
    "wake": "workers woken by a connection",
    "requests": "requests per connection",
    "users": "users",
}
"""The settings in which two points may differ: names for people, by field."""


class RankedPair(NamedTuple):
    """Two points that differ in *aspect*; the first has the higher measured capacity."""

    aspect: str
    faster: PointScore
    slower: PointScore

    @property
    def right(self) -> bool:
        """Whether the forecast has the same order."""
        return (
            self.faster.forecast.central.throughput_per_s
            > self.slower.forecast.central.throughput_per_s
        )


def ranked_pairs(scores: Sequence[PointScore]) -> list[RankedPair]:
    """Return the pairs with separate measured capacities and at least one held-out point.

    An open loop with which both kept up shows no capacity.
    """
    pairs = []
    capacities = [s for s in scores if s.measured.point.load.loop == "closed"]
    for one, other in combinations(capacities, 2):
        aspect = _only_difference(one.measured.point, other.measured.point)
        if aspect is None or one.role == other.role == "fit":
            continue
        low, high = sorted((one, other), key=lambda s: s.measured.median.throughput_per_s)
        if low.measured.spread.throughput_per_s.high < high.measured.spread.throughput_per_s.low:
            pairs.append(RankedPair(aspect, high, low))
    return pairs


def _only_difference(one: Point, other: Point) -> str | None:
    """Return the aspect in which two points differ; None unless there is exactly one."""
    # With a single event loop, `share` and `wake` make no difference.
    alone = () if one.has_loops and other.has_loops else ("share", "wake")
    theirs = stored(other)
    differing = [
        name for name, value in stored(one).items() if name not in alone and value != theirs[name]
    ]
    return differing[0] if len(differing) == 1 and differing[0] in ASPECTS else None
