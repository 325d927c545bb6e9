"""Observed runs, grouped by operating point: medians, and the noise of repeats.

    run, run, run ──usable?──► point_of ──► repeats of a point ──► median ± 95% interval
                       └─────► left out, with the reason

Owners repeat a run once or twice, so the scatter of a point starts from the expected scatter of
repeats (calibration/observed/cost_intervals.py). It is not pooled over points, because it grows
near the knee of a latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...calibration.fit.medians import FitError
from ...calibration.observed.cost_intervals import Kind, scatter_of
from ...calibration.observed.observed_run import Habits, ObservedRun
from ...calibration.observed.operating_point import counted, point_of, what_failed, why_unusable
from ...calibration.points.point import Point
from ...sim.state.units import SECOND_NS
from ..points.figures import Figures, median
from ..points.measured_points import MeasuredPoint, Spread, whole_ten_ms
from .forecast import Lengths, lengths_of

WINDOW_NS_MAX = 2 * SECOND_NS
"""Longest simulated window: tools run for minutes, but a steady state does not change."""
_NAN = float("nan")


@dataclass(frozen=True)
class ObservedPoints:
    """The points that can be forecast, and notes on omitted runs and assumptions."""

    points: list[MeasuredPoint]
    notes: tuple[str, ...]


def observed_points(runs: Sequence[ObservedRun], habits: Habits) -> ObservedPoints:
    """Return *runs* by their points, in order of first appearance."""
    by_point: dict[Point, list[ObservedRun]] = {}
    rejected: dict[Point, int] = {}
    remarks: list[tuple[ObservedRun, str]] = []
    for run in runs:
        try:
            point = point_of(run, habits)
        except FitError as error:
            remarks.append((run, f"left out, {error}"))
            continue
        if why := why_unusable(run):
            remarks.append((run, f"left out, {why}"))
            rejected[point] = rejected.get(point, 0) + 1
            continue
        by_point.setdefault(point, []).append(run)
        if remark := what_failed(run):
            remarks.append((run, remark))
        if run.load.idle is None:
            remarks.append((run, "the number of idle connections is not recorded: none assumed"))
    points = [_measured(point, own, rejected.get(point, 0)) for point, own in by_point.items()]
    return ObservedPoints(points, tuple(counted(remarks)))


def _figures(run: ObservedRun) -> Figures:
    """Return the metrics of one run; NaN where the tool did not record them.

    The simulator's latency is that of a whole connection, from its due time.
    """
    latency = run.latency_ns
    since = ("intended", "connect") if run.load.loop == "open" else ("intended",)
    known = latency.quantiles if latency and latency.since in since else {}
    if run.load.requests != 1:
        known = {}
    return Figures(
        throughput_per_s=run.throughput_per_s,
        cpu_busy=_NAN if run.busy_share is None else run.busy_share,
        process_ns_per_request=_NAN if run.process_ns is None else run.process_ns / run.replied,
        p50_ns=known.get("0.5", _NAN),
        p99_ns=known.get("0.99", _NAN),
        events_per_wait=_NAN,
    )


def _measured(point: Point, runs: Sequence[ObservedRun], n_rejected: int) -> MeasuredPoint:
    offered = [run.offered * SECOND_NS / run.window_ns for run in runs]
    return MeasuredPoint.of(
        point,
        [_figures(run) for run in runs],
        [verdict for run in runs if (verdict := run.verdict)],
        spread_of=_spread,
        n_rejected=n_rejected,
        seeds=tuple(sorted({run.seed for run in runs if run.seed is not None})) or (1,),
        **_lengths(point, runs)._asdict(),
        offered_per_s=median(offered),
    )


def _spread(values: Sequence[float]) -> Spread:
    """Return the 95% interval of the median of *values*; NaN if unknown."""
    known = [value for value in values if value > 0]  # NaN is dropped
    if not known:
        return Spread(_NAN, _NAN, _NAN)
    scatter, middle = scatter_of([known]), median(known)
    half = middle * scatter.reach * Kind(1, 1.0, len(known)).relative_error
    return Spread(middle - half, middle + half, scatter.relative)


def _lengths(point: Point, runs: Sequence[ObservedRun]) -> Lengths:
    """Return the lengths to simulate, in whole 10 ms."""
    warm_ups = [run.warm_up_ns for run in runs if run.warm_up_ns is not None]
    usual = lengths_of(point)

    def whole(values_ns: Sequence[int]) -> int:
        return max(10_000_000, whole_ten_ms(values_ns))

    return Lengths(
        whole(warm_ups) if warm_ups else usual.warm_up_ns,
        min(WINDOW_NS_MAX, whole([run.window_ns for run in runs])),
    )
