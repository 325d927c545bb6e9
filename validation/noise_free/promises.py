"""The promised accuracy of forecasts of runs without noise, and the results.

    server CPU per request           within 2%
    waits, events per wait           within 2%
    latency                          mean within 5%, p99 within 10%
    capacity                         within 1.5%

Every held-out point counts. A point is within the limit if all of its runs are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..scoring.targets import Verdict, absolute_errors
from .scoring import RunErrors, RunScore, by_point

LIMITS = {
    "cpu_ns_per_request": 0.02,
    "waits_per_request": 0.02,
    "events_per_wait": 0.02,
    "mean_ns": 0.05,
    "p99_ns": 0.10,
    "throughput_per_s": 0.015,
}
"""The largest relative error of each metric of a run."""
NAMES = {
    "cpu_ns_per_request": "CPU per request",
    "waits_per_request": "waits per request",
    "events_per_wait": "events per wait",
    "mean_ns": "mean latency",
    "p99_ns": "p99 latency",
    "throughput_per_s": "capacity",
}


@dataclass(frozen=True)
class Errors:
    """Absolute errors of one predictor over runs; None without runs."""

    n_runs: int
    median: float | None
    worst: float | None


@dataclass(frozen=True)
class Promise:
    """The promise for one metric, and the results of the simulator and the baselines."""

    figure: str
    limit: float
    n_points: int
    n_points_within: int
    n_runs_within: int
    errors: dict[str, Errors]

    @property
    def verdict(self) -> Verdict:
        """Return whether every point is within the limit."""
        if self.n_points == 0:
            return "not measured"
        return "reached" if self.n_points_within == self.n_points else "missed"


def promises(scores: Sequence[RunScore]) -> list[Promise]:
    """Return the promise for each metric, with its results over held-out points."""
    unseen = [s for s in scores if not s.seen]
    return [_promise(figure, limit, unseen) for figure, limit in LIMITS.items()]


def _promise(figure: str, limit: float, scores: Sequence[RunScore]) -> Promise:
    scored = [s for s in scores if getattr(s.errors, figure) is not None]
    points = by_point(scored)
    within = [all(is_within(s.errors, [figure]) for s in runs) for runs in points.values()]
    return Promise(
        figure=figure,
        limit=limit,
        n_points=len(points),
        n_points_within=sum(within),
        n_runs_within=sum(is_within(s.errors, [figure]) for s in scored),
        errors={name: _summary(errors) for name, errors in absolute_errors(scored, figure).items()},
    )


def is_within(errors: RunErrors, figures: Iterable[str] = tuple(LIMITS)) -> bool:
    """Return whether all errors are within their limits; unscored metrics count as within."""
    known = [(getattr(errors, figure), LIMITS[figure]) for figure in figures]
    return all(error is None or abs(error) <= limit for error, limit in known)


def misfit(score: RunScore) -> float:
    """Return the largest error of a run in units of its limit; above 1 a limit is exceeded."""
    shares = [
        abs(error) / LIMITS[figure]
        for figure in LIMITS
        if (error := getattr(score.errors, figure)) is not None
    ]
    return max(shares, default=0.0)


def worst_points(scores: Sequence[RunScore], n: int) -> list[RunScore]:
    """Return the worst run of each of the *n* points with the largest errors, worst first."""
    unseen = by_point([s for s in scores if not s.seen])
    worst = [max(runs, key=misfit) for runs in unseen.values()]
    return sorted(worst, key=misfit, reverse=True)[:n]


def _summary(values: Sequence[float]) -> Errors:
    if not values:
        return Errors(0, None, None)
    return Errors(len(values), float(np.median(values)), max(values))
