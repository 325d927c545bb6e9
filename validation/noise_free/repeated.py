"""Saturated points, each simulated with other arrivals too: the states that its queues may be in.

    measured    runs   ·  ·· ·
    simulated   ├───┬────────────────┤     12 runs with arrivals of their own
               low median          high

At or above the capacity a server's metrics follow its queues. A queue may settle in one of several
states: interrupts may handle the packets, or ksoftirqd; the accept queue may be full or almost
empty. One arrival decides which, so a run and its own simulation may differ by the distance of two
states. Runs with other arrivals show all states that the model has. If it has those of the machine,
a measured run is within the range of the simulated ones as often as one of n + 1 equal runs is
neither the lowest nor the highest. The runs of a point share one range, so they count for less than
independent ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from statistics import median

from ...calibration.points.point import Point
from ...calibration.profiles.cost import CostSource
from ..forecast.forecast import Lengths
from ..forecast.kept_runs import KeptRuns
from .run_forecast import noise_free_job, run_forecasts
from .scoring import RunScore, by_point

N_REPEATED = 12
"""Simulated runs of each point."""
_OTHER_ARRIVALS = 1000  # repeats of a point from here on have arrivals that no measured run has


@dataclass(frozen=True)
class RepeatedPoint:
    """Replies per second of a saturated point: of the measured runs, and of the simulated ones."""

    point: Point
    measured_per_s: tuple[float, ...]
    simulated_per_s: tuple[float, ...]

    @property
    def low_per_s(self) -> float:
        """The lowest simulated rate."""
        return min(self.simulated_per_s)

    @property
    def high_per_s(self) -> float:
        """The highest simulated rate."""
        return max(self.simulated_per_s)

    @property
    def n_inside(self) -> int:
        """The number of measured runs within the range of the simulated ones."""
        return sum(self.low_per_s <= rate <= self.high_per_s for rate in self.measured_per_s)

    @property
    def width(self) -> float:
        """The length of the range, relative to its lower end; infinite if that is 0."""
        return self.high_per_s / self.low_per_s - 1 if self.low_per_s > 0 else float("inf")

    @property
    def error(self) -> float:
        """The relative error of the simulated median against the measured one."""
        return median(self.simulated_per_s) / median(self.measured_per_s) - 1


@dataclass(frozen=True)
class RepeatedSummary:
    """All repeated points together.

    `expected` is the share of measured runs that would be inside if the model produced them.
    """

    n_points: int
    n_within: int
    median_error: float | None
    n_runs: int
    n_inside: int
    expected: float
    median_width: float | None


def repeated_points(
    scores: Sequence[RunScore],
    profile: CostSource,
    *,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    kept: KeptRuns | None = None,
) -> list[RepeatedPoint]:
    """Return the held-out points of *scores* whose throughput is a capacity, simulated again.

    A point counts with all its runs if the throughput of any of them is scored.

    Parameters
    ----------
    executor, progress, kept:
        As in `run_forecasts`.
    """
    held_out = by_point([s for s in scores if not s.seen])
    points = {
        point: runs
        for point, runs in held_out.items()
        if any(s.errors.throughput_per_s is not None for s in runs)
    }
    jobs = [
        noise_free_job(point, point.seed(_OTHER_ARRIVALS + k), _lengths(runs[0]), profile)
        for point, runs in points.items()
        for k in range(N_REPEATED)
    ]
    found = run_forecasts(jobs, executor=executor, progress=progress, kept=kept)
    rates = [forecast.figures.throughput_per_s for forecast in found]
    return [
        RepeatedPoint(
            point,
            tuple(s.measured.throughput_per_s for s in runs),
            tuple(rates[i * N_REPEATED : (i + 1) * N_REPEATED]),
        )
        for i, (point, runs) in enumerate(points.items())
    ]


def summary_of(points: Sequence[RepeatedPoint], limit: float) -> RepeatedSummary:
    """Return the summary of *points*; a median is within *limit* if its relative error is."""
    errors = [abs(point.error) for point in points]
    return RepeatedSummary(
        n_points=len(points),
        n_within=sum(error <= limit for error in errors),
        median_error=median(errors) if errors else None,
        n_runs=sum(len(point.measured_per_s) for point in points),
        n_inside=sum(point.n_inside for point in points),
        expected=(N_REPEATED - 1) / (N_REPEATED + 1),
        median_width=median(point.width for point in points) if points else None,
    )


def _lengths(score: RunScore) -> Lengths:
    return Lengths(score.record.warm_up_ns, score.record.window_ns)
