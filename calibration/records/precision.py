"""How well repeats determine a point: how far they lie apart, and whether enough were made.

A median is taken because a disturbed repeat that the gate missed moves it least. Up to five runs
its 95% interval would be wider than all of them: the range of three holds the median in 75% of
cases, of five in 94%. So the scatter of few is their range. Whether a point is known well is asked
of Student's t interval, which is of the mean. It holds the mean in 95% of cases for few runs, too,
where these are about normal and their number is fixed before. A point stops at its first success,
after some round: of the points that are counted as known somewhat fewer are.
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
"""Accepted runs that a point needs, however close to each other."""
WITHIN = 0.03
"""Half of the interval over its middle, of a point that is known well enough."""
_RESAMPLES = 1000
_MEDIAN_LEAST = 6  # of five values even the range is a 94% interval of the median


class Repeat(Protocol):
    """One of several runs of the same, of our own server or of somebody else's."""

    @property
    def accepted(self) -> bool:
        """Whether it counts."""

    @property
    def client_gaps(self) -> Gaps | None:
        """When the load generator's CPU did not run."""

    @property
    def warm_up_ns(self) -> int | None:
        """What was before the window; None where nobody tells."""

    @property
    def window_ns(self) -> int:
        """What of the run was looked at."""


R = TypeVar("R", bound=Repeat)
FIGURES: tuple[Callable[[RunRecord], float], ...] = (
    lambda run: run.result.replied / run.window_ns,
    lambda run: run.result.cpu.busy_ns / run.window_ns,
)
"""What must be known well: replies a second, and the busy share of the server's CPU."""


def range_of_repeats(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of *values*, from six on the 95% interval of their median.

    That is by percentile bootstrap (Efron and Tibshirani 1993, §13.3), seeded. NaN for less than
    two.
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
    """Return half of the 95% interval of the mean, by Student's t, over it; NaN for less than two.

    >>> half_width([100.0, 100.0, 100.0])
    0.0
    """
    if len(values) < 2:
        return math.nan
    mean = mean_interval(values)
    return mean.half_width / mean.estimate if mean.estimate else math.nan


def widest(runs: Iterable[R], figures: Sequence[Callable[[R], float]]) -> float:
    """Return the `half_width` of the least certain of *figures* over accepted *runs*.

    It is infinite with fewer than `REPEATS_LEAST`.
    """
    accepted = [run for run in runs if run.accepted]
    if len(accepted) < REPEATS_LEAST:
        return math.inf
    widths = [half_width([figure(run) for run in accepted]) for figure in figures]
    return max(math.inf if math.isnan(width) else width for width in widths)


class Scatter(NamedTuple):
    """The coefficient of variation of repeats' replies a second: medians over points.

    They are of points with enough repeats that have neighbours.
    """

    n_points: int
    raw: float
    relative: float


def scatter(repeats: Iterable[Sequence[tuple[float, float]]]) -> Scatter | None:
    """Return how repeats scatter, raw and relative to what was beside them.

    Parameters
    ----------
    repeats:
        Of each point: replies a second of a run, and the time of a reply at the reference point
        beside it: twice as long, and the machine was half as fast. None is returned if no point
        has `REPEATS_LEAST`.
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
    """Return in words how well *things* are known, how noisy the machine is, and what that costs.

    *repeats* are the runs of each. One is known once the 95% interval of the mean is within; each
    stops at its first success, so that somewhat fewer are.
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
        # An interval shrinks with the root of the number of runs, and of few runs faster.
        factor = (float(np.median(rest)) / within) ** 2
        parts.append(
            f"half of the others with {REPEATS_LEAST} runs need at most {factor:.1f} times as many "
            "runs"
        )
    n_few = sum(sum(run.accepted for run in own) < REPEATS_LEAST for own in repeats)
    if n_few:
        have = f"{things.removesuffix('s')} has" if n_few == 1 else f"{things} have"
        parts.append(f"{n_few} {have} fewer than {REPEATS_LEAST} runs that count")
    return "; ".join(parts)
