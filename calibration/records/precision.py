"""The precision of a point from its repeats: their scatter, and whether there are enough.

The median is used because undetected disturbed repeats move it least. With up to five runs its 95%
interval would exceed their range, which holds the median in 75% of cases for three runs and 94% for
five. So the scatter of few runs is their range. Student's t interval of the mean decides whether a
point is known precisely. It holds the mean in 95% of cases for few runs, too, if they are about
normal and their number is fixed in advance. A point stops at its first success, so somewhat fewer
points are known than are counted as known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...sim.load.streams import generator
from ...sim.output_analysis.interval import mean_interval
from ..points.point import Point
from .measured_runs import Gaps, RunRecord

REPEATS_LEAST = 3
"""The least number of accepted runs of a point."""
WITHIN = 0.03
"""The largest ratio of half the interval to its middle for a point that is known precisely."""
_RESAMPLES = 1000
_MEDIAN_LEAST = 6  # the range of five values is only a 94% interval of the median


class Repeat(Protocol):
    """One of several equal runs, of our own server or of another."""

    @property
    def accepted(self) -> bool:
        """Whether the run counts."""

    @property
    def client_gaps(self) -> Gaps | None:
        """The gaps of the load generator's CPU."""

    @property
    def warm_up_ns(self) -> int | None:
        """The time before the window; None if unknown."""

    @property
    def window_ns(self) -> int:
        """The length of the window."""


R = TypeVar("R", bound=Repeat)
FIGURES: tuple[Callable[[RunRecord], float], ...] = (
    lambda run: run.result.replied / run.window_ns,
    lambda run: run.result.cpu.busy_ns / run.window_ns,
)
"""The metrics to know precisely: replies/s, and the busy share of the server's CPU."""


def range_of_repeats(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of *values*, or with six or more the 95% interval of their median.

    The interval is a seeded percentile bootstrap (Efron and Tibshirani 1993, §13.3). NaN for fewer
    than two values.
    """
    known = np.array([value for value in values if not math.isnan(value)])
    if known.size < 2:
        return math.nan, math.nan
    if known.size < _MEDIAN_LEAST:
        return float(known.min()), float(known.max())
    picks = generator(0, "bootstrap").integers(known.size, size=(_RESAMPLES, known.size))
    low, high = np.quantile(np.median(known[picks], axis=1), (0.025, 0.975))
    return float(low), float(high)


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95% t interval of the mean, over the mean; NaN for fewer than two.

    >>> half_width([100.0, 100.0, 100.0])
    0.0
    """
    if len(values) < 2:
        return math.nan
    mean = mean_interval(values)
    return mean.half_width / mean.estimate if mean.estimate else math.nan


def widest(runs: Iterable[R], figures: Sequence[Callable[[R], float]]) -> float:
    """Return the largest `half_width` of the metrics `figures` over accepted *runs*.

    It is infinite with fewer than `REPEATS_LEAST` runs.
    """
    accepted = [run for run in runs if run.accepted]
    if len(accepted) < REPEATS_LEAST:
        return math.inf
    widths = [half_width([figure(run) for run in accepted]) for figure in figures]
    return max(math.inf if math.isnan(width) else width for width in widths)


class Scatter(NamedTuple):
    """The coefficient of variation of repeats' replies/s: medians over points.

    Only points with enough repeats beside a reference run count.
    """

    n_points: int
    raw: float
    relative: float


def scatter(repeats: Iterable[Sequence[tuple[float, float]]]) -> Scatter | None:
    """Return the scatter of repeats, raw and relative to the reference runs beside them.

    Parameters
    ----------
    repeats:
        For each point: replies/s of a run, and the time of a reply at the reference point beside
        it. Twice that time means half the machine's speed. The result is None if no point has
        `REPEATS_LEAST` repeats.
    """
    points = [np.array(own) for own in repeats if len(own) >= REPEATS_LEAST]
    if not points:
        return None
    raw = [_variation(own[:, 0]) for own in points]
    relative = [_variation(own[:, 0] * own[:, 1]) for own in points]
    return Scatter(len(points), float(np.median(raw)), float(np.median(relative)))


def _variation(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / values.mean()) if values.mean() else math.nan


def by_point(runs: Iterable[RunRecord]) -> Mapping[Point, list[RunRecord]]:
    """Return the runs of each point, in their order."""
    found: dict[Point, list[RunRecord]] = {}
    for run in runs:
        found.setdefault(run.point, []).append(run)
    return found


def noise_text(
    repeats: Iterable[Sequence[R]],
    within: float,
    figures: Sequence[Callable[[R], float]],
    things: str = "points",
) -> str:
    """Return a sentence on the precision of *things*, the noise, and the number of runs needed.

    *repeats* are the runs of each. A thing is known once the 95% interval of its mean is within
    *within*. Each stops at its first success, so somewhat fewer are known than counted.
    """
    repeats = list(repeats)
    widths = [widest(own, figures) for own in repeats]
    n_known = sum(width <= within for width in widths)
    parts = [f"{n_known} of {len(widths)} {things} are known to {within:.0%}"]
    runs = [run for own in repeats for run in own]
    n_rejected = sum(not run.accepted for run in runs)
    if n_rejected:
        parts.append(f"{n_rejected} of {len(runs)} runs were rejected")
    lost = [
        run.client_gaps.of_run.lost_ns / ((run.warm_up_ns or 0) + run.window_ns)
        for run in runs
        if run.client_gaps is not None
    ]
    if lost:
        parts.append(f"the client's CPU was lost for {np.median(lost):.1%} of the time")
    rest = [width for width in widths if within < width < math.inf]
    if rest:
        # An interval shrinks with the root of the number of runs, or faster with few runs.
        factor = (float(np.median(rest)) / within) ** 2
        parts.append(
            f"half of the others with {REPEATS_LEAST} runs need at most {factor:.1f} times as many "
            "runs"
        )
    n_few = sum(sum(run.accepted for run in own) < REPEATS_LEAST for own in repeats)
    if n_few:
        have = f"{things.removesuffix('s')} has" if n_few == 1 else f"{things} have"
        parts.append(f"{n_few} {have} fewer than {REPEATS_LEAST} accepted runs")
    return "; ".join(parts)
