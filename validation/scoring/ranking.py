"""Is what was measured to be faster forecast to be faster? Of points that differ in one thing only.

pairs of points, one of ASPECTS apart ──measured intervals separate?──► right, or wrong
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import combinations
from typing import NamedTuple

from ...calibration.points.points import Point
from .scoring import PointScore

ASPECTS = {
    "mechanism": "mechanisms",
    "idle": "idle connections",
    "workers": "workers",
    "accept_limit": "connections accepted at a time",
    "share": "what workers share",
    "wake": "whom a connection wakes",
    "requests": "requests a connection",
    "users": "users",
}
"""What two points may differ in, by its field, as people call it."""


class RankedPair(NamedTuple):
    """Two points that differ in *aspect*, of which the first answers more by measurement."""

    aspect: str
    faster: PointScore
    slower: PointScore

    @property
    def right(self) -> bool:
        """Whether the forecast has them in the same order."""
        return (
            self.faster.forecast.central.throughput_per_s
            > self.slower.forecast.central.throughput_per_s
        )


def ranked_pairs(scores: Sequence[PointScore]) -> list[RankedPair]:
    """Return the pairs whose measured capacities separate; one point of each the fit has not seen.

    Of an open loop that both kept up with there is no capacity.
    """
    pairs = []
    capacities = [s for s in scores if s.measured.point.loop == "closed"]
    for one, other in combinations(capacities, 2):
        aspect = _only_difference(one.measured.point, other.measured.point)
        if aspect is None or one.role == other.role == "fit":
            continue
        low, high = sorted((one, other), key=lambda s: s.measured.median.throughput_per_s)
        if low.measured.spread.throughput_per_s.high < high.measured.spread.throughput_per_s.low:
            pairs.append(RankedPair(aspect, high, low))
    return pairs


def _only_difference(one: Point, other: Point) -> str | None:
    """Return the aspect in which two points differ if it is one, else None."""
    # What a single event loop shares, and whom a connection wakes, makes no difference.
    alone = () if one.has_loops and other.has_loops else ("share", "wake")
    differing = [
        field.name
        for field in fields(Point)
        if field.name not in alone and getattr(one, field.name) != getattr(other, field.name)
    ]
    return differing[0] if len(differing) == 1 and differing[0] in ASPECTS else None
