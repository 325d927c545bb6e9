"""Errors of every run's forecast by metric, and of points from their runs.

    run ─► errors relative to the measurement ────┐
    run ─► errors ────────────────────────────────┴─► a point is within a limit if all its runs are

Throughput is scored where it is the server's capacity: where either side delivered less than the
offered load or, in a closed loop, left hardly any CPU idle.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...calibration.points.point import Point
from ...calibration.records.measured_runs import RunRecord
from ...sim.figures.summary import Verdict
from ...sim.state.units import SECOND_NS
from ..forecast.baselines import Baseline
from ..points.measured_points import verdict_of_run
from .run_forecast import Counts, RunFigures, RunForecast, measured_counts, measured_figures

SATURATED_BUSY = 0.98
_DELIVERED = 0.97


class RunErrors(NamedTuple):
    """Forecast over measured, minus 1, for each of `RunFigures`; None: not scored."""

    cpu_ns_per_request: float | None
    waits_per_request: float | None
    events_per_wait: float | None
    mean_ns: float | None
    p99_ns: float | None
    throughput_per_s: float | None


@dataclass(frozen=True)
class RunScore:
    """One run and its forecast.

    Attributes
    ----------
    seen:
        Whether the fit used this point; it is shown then, and not scored.
    saturated:
        Whether throughput is the server's capacity.
    load_share:
        Offered rate of an open loop over the measured capacity of the same server; None if that
        was not measured.
    at_equal_cpu:
        Errors with all costs scaled so that the forecast CPU is as busy as measured.
    """

    record: RunRecord
    seen: bool
    saturated: bool
    load_share: float | None
    measured: RunFigures
    forecast: RunFigures
    errors: RunErrors
    at_equal_cpu: RunErrors
    counts: Counts
    forecast_counts: Counts
    ledger_ns: dict[str, float]
    verdict: Verdict
    forecast_verdict: Verdict
    baseline_errors: dict[str, RunErrors]

    @property
    def point(self) -> Point:
        """The operating point."""
        return self.record.point


def score_runs(
    records: Sequence[RunRecord],
    forecasts: Sequence[RunForecast],
    baselines: Mapping[Point, Mapping[str, Baseline]],
    seen: Collection[Point],
) -> list[RunScore]:
    """Return the score of every run; *records* and *forecasts* have the same order."""
    capacities = _capacities_per_s(records)
    scores = []
    for record, forecast in zip(records, forecasts, strict=True):
        capacity = capacities.get(_server(record.point))
        scores.append(
            _score_run(
                record,
                forecast,
                baselines.get(record.point, {}),
                capacity_per_s=capacity,
                seen=record.point in seen,
            )
        )
    return scores


def _score_run(
    record: RunRecord,
    forecast: RunForecast,
    answers: Mapping[str, Baseline],
    *,
    capacity_per_s: float | None,
    seen: bool,
) -> RunScore:
    point, measured = record.point, measured_figures(record)
    saturated = _saturated(record, measured) or _saturated(record, forecast.figures)
    share = (
        point.rate_per_s / capacity_per_s if point.load.loop == "open" and capacity_per_s else None
    )

    def errors(figures: RunFigures) -> RunErrors:
        found = RunErrors(*map(relative, figures, measured))
        return found if saturated else found._replace(throughput_per_s=None)

    def baseline_errors(answer: Baseline) -> RunErrors:
        figures = figures_of_baseline(answer)
        # A value that a formula does not predict is not an error.
        said = zip(figures, errors(figures), strict=True)
        return RunErrors(*(None if math.isnan(value) else error for value, error in said))

    return RunScore(
        record=record,
        seen=seen,
        saturated=saturated,
        load_share=share,
        measured=measured,
        forecast=forecast.figures,
        errors=errors(forecast.figures),
        at_equal_cpu=errors(forecast.at_equal_cpu),
        counts=measured_counts(record),
        forecast_counts=forecast.counts,
        ledger_ns=forecast.ledger_ns,
        verdict=verdict_of_run(record),
        forecast_verdict=forecast.verdict,
        baseline_errors={name: baseline_errors(answer) for name, answer in answers.items()},
    )


def figures_of_baseline(answer: Baseline) -> RunFigures:
    """Return the predictions of a formula: its latency is a mean, and it predicts no waits."""
    nan = float("nan")
    rate, busy = answer.throughput_per_s, answer.cpu_busy
    return RunFigures(
        cpu_ns_per_request=busy / rate * SECOND_NS if rate and busy is not None else nan,
        waits_per_request=nan,
        events_per_wait=nan,
        mean_ns=nan if answer.p50_ns is None else answer.p50_ns,
        p99_ns=nan,
        throughput_per_s=nan if rate is None else rate,
    )


def relative(forecast: float, measured: float) -> float | None:
    """Return the relative error; None where nothing was measured.

    A forecast without this metric, as without any reply, has an error of -100%.
    """
    if math.isnan(measured) or measured == 0:
        return None
    return -1.0 if math.isnan(forecast) else forecast / measured - 1


def by_point(scores: Sequence[RunScore]) -> dict[Point, list[RunScore]]:
    """Return the runs of each point, in order of first appearance."""
    points: dict[Point, list[RunScore]] = {}
    for score in scores:
        points.setdefault(score.point, []).append(score)
    return points


def worst_error(errors: Iterable[RunErrors], figure: str) -> float | None:
    """Return the error of one metric farthest from 0, with its sign; None without errors."""
    known = [error for each in errors if (error := getattr(each, figure)) is not None]
    return max(known, key=abs, default=None)


def _saturated(record: RunRecord, figures: RunFigures) -> bool:
    """Return whether the metrics are those of a saturated server."""
    if record.point.load.loop == "closed":
        busy = figures.throughput_per_s * figures.cpu_ns_per_request / SECOND_NS
        return busy >= SATURATED_BUSY
    offered_per_s = (
        record.result.offered * record.point.load.requests * SECOND_NS / record.window_ns
    )
    return figures.throughput_per_s < _DELIVERED * offered_per_s


def _capacities_per_s(records: Sequence[RunRecord]) -> dict[tuple[object, ...], float]:
    """Return the highest measured rate of connections of each server that was saturated.

    Open loops decide if one saturated the server. More events share a wait there than with a few
    users, so the capacities of both loads differ.
    """
    by_loop: dict[str, dict[tuple[object, ...], float]] = {"closed": {}, "open": {}}
    for record in records:
        measured, server = measured_figures(record), _server(record.point)
        if _saturated(record, measured):
            rate = measured.throughput_per_s / record.point.load.requests
            capacities = by_loop[record.point.load.loop]
            capacities[server] = max(rate, capacities.get(server, 0.0))
    return by_loop["closed"] | by_loop["open"]


def _server(point: Point) -> tuple[object, ...]:
    """Return the settings that all points of one server share."""
    options = (
        point.server.accept_limit,
        point.server.listener,
        point.server.read_after_accept,
        point.server.max_events,
    )
    return (
        point.server.mechanism,
        point.idle.connections,
        *options,
        point.load.requests,
        point.load.reply_size,
    )
