"""Observed runs, grouped by operating point: medians, and the noise floor beneath every error.

    run, run, run ──usable?──► point_of ──► repeats of a point ──► median ± 95% interval
                       └─────► left out, with the reason

Owners repeat a run once or twice, so the scatter of a point begins from what is expected of
repeats (calibration/observed/cost_intervals.py). It is not pooled over points: near the knee of a
latency it is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...calibration.fit.medians import FitError
from ...calibration.observed.cost_intervals import Kind, scatter_of
from ...calibration.observed.habits import Habits
from ...calibration.observed.observed_run import ObservedRun
from ...calibration.observed.operating_point import counted, point_of, what_failed, why_unusable
from ...calibration.points.points import Point
from ...sim.figures.metrics import Verdict
from ...sim.state.units import SECOND_NS
from ..points.measured_points import Figures, MeasuredPoint, Spread, Spreads, median
from .forecast import Lengths, lengths_of

WINDOW_NS_MAX = 2 * SECOND_NS
"""Of what is simulated: tools run for minutes, and a steady state does not change."""
_NAN = float("nan")


@dataclass(frozen=True)
class ObservedPoints:
    """The points that can be forecast, and what was left out or taken for granted."""

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
            remarks.append((run, "nobody says how many idle connections there were: none"))
    points = [_measured(point, own, rejected.get(point, 0)) for point, own in by_point.items()]
    return ObservedPoints(points, tuple(counted(remarks)))


def _figures(run: ObservedRun) -> Figures:
    """Return the figures of one run; NaN where the tool could not see them.

    The simulator's latency is of a whole connection, from when it was due.
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
    columns = list(zip(*map(_figures, runs), strict=True))
    offered = [run.offered * SECOND_NS / run.window_ns for run in runs]
    lengths = _lengths(point, runs)
    verdicts = sorted((v for run in runs if (v := run.verdict)), key=list(Verdict).index)
    return MeasuredPoint(
        point=point,
        median=Figures(*map(median, columns)),
        spread=Spreads(*map(_spread, columns)),
        n_accepted=len(runs),
        n_rejected=n_rejected,
        seeds=tuple(sorted({run.seed for run in runs if run.seed is not None})) or (1,),
        **lengths._asdict(),
        offered_per_s=median(offered),
        verdict=verdicts[len(verdicts) // 2] if verdicts else Verdict.STABLE,
    )


def _spread(values: Sequence[float]) -> Spread:
    """Return the 95% interval of the median of *values*, NaN where none is known."""
    known = [value for value in values if value > 0]  # NaN is not
    if not known:
        return Spread(_NAN, _NAN, _NAN)
    scatter, middle = scatter_of([known]), median(known)
    half = middle * scatter.reach * Kind(1, 1.0, len(known)).relative_error
    return Spread(middle - half, middle + half, scatter.relative)


def _lengths(point: Point, runs: Sequence[ObservedRun]) -> Lengths:
    """Return the lengths to simulate, in whole 10 ms."""
    warm_ups = [run.warm_up_ns for run in runs if run.warm_up_ns is not None]
    usual = lengths_of(point)
    ten_ms = 10_000_000

    def whole(values_ns: Sequence[int]) -> int:
        return max(ten_ms, round(float(np.median(values_ns)) / ten_ms) * ten_ms)

    return Lengths(
        whole(warm_ups) if warm_ups else usual.warm_up_ns,
        min(WINDOW_NS_MAX, whole([run.window_ns for run in runs])),
    )
