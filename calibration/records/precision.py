"""How well repeats determine a point: the interval of their median, and whether it is narrow.

A median is taken because a disturbed repeat that the gate missed moves it least. Its interval is
by percentile bootstrap (Efron and Tibshirani 1993, §13.3), seeded, so it can be repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ...sim.load.streams import generator
from ..points.point import Point
from .measured_runs import RunRecord

REPEATS_LEAST = 3
"""Accepted runs that a point needs, however close to each other."""
WITHIN = 0.03
"""Half of the interval over the median, of a point that is known well enough."""
_RESAMPLES = 1000

FIGURES: tuple[Callable[[RunRecord], float], ...] = (
    lambda run: run.result.replied / run.window_ns,
    lambda run: run.result.cpu.busy_ns / run.window_ns,
)
"""What must be known well: replies a second, and the busy share of the server's CPU."""


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of the median of *values*; NaN for less than two."""
    known = np.array([value for value in values if not math.isnan(value)])
    if known.size < 2:
        return math.nan, math.nan
    picks = generator(0, "bootstrap").integers(known.size, size=(_RESAMPLES, known.size))
    low, high = np.quantile(np.median(known[picks], axis=1), (0.025, 0.975))
    return float(low), float(high)


def half_width(values: Sequence[float]) -> float:
    """Return half of the interval of the median, over the median; NaN for less than two.

    >>> half_width([100.0, 100.0, 100.0])
    0.0
    """
    low, high = interval_of_median(values)
    middle = float(np.median(values)) if values else math.nan
    return (high - low) / 2 / middle if middle else math.nan


def widest(runs: Iterable[RunRecord]) -> float:
    """Return the `half_width` of the less certain of the `FIGURES` over accepted *runs*.

    It is infinite with fewer than `REPEATS_LEAST`.
    """
    accepted = [run for run in runs if run.accepted]
    if len(accepted) < REPEATS_LEAST:
        return math.inf
    widths = [half_width([figure(run) for run in accepted]) for figure in FIGURES]
    return max(math.inf if math.isnan(width) else width for width in widths)


def by_point(runs: Iterable[RunRecord]) -> Mapping[Point, list[RunRecord]]:
    """Return the runs of each point, in their order."""
    found: dict[Point, list[RunRecord]] = {}
    for run in runs:
        found.setdefault(run.point, []).append(run)
    return found


def noise_text(runs: Sequence[RunRecord], within: float) -> str:
    """Return in words how well points are known, how noisy the machine is, and what that costs."""
    widths = [widest(own) for own in by_point(runs).values()]
    n_known = sum(width <= within for width in widths)
    parts = [f"{n_known} of {len(widths)} points are known to {within:.0%}"]
    n_rejected = sum(not run.accepted for run in runs)
    if n_rejected:
        parts.append(f"{n_rejected} of {len(runs)} runs were rejected")
    lost = [
        run.client_gaps.lost_ns / (run.warm_up_ns + run.window_ns)
        for run in runs
        if run.client_gaps is not None
    ]
    if lost:
        parts.append(f"the host kept the client's CPU for {np.median(lost):.1%} of the time")
    rest = [width for width in widths if within < width < math.inf]
    if rest:
        # The interval of a median shrinks with the root of the number of runs.
        factor = (float(np.median(rest)) / within) ** 2
        parts.append(f"half of the others need {factor:.1f} times as many runs")
    return "; ".join(parts)
