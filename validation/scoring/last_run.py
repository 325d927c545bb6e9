"""The last run of each point as if it were the forecast of the first.

    runs of a point     first ──► measured
                        last  ──► as a forecast ─┐
    model ───────────────────────► its forecast ─┴─► errors of both, against the first run alone

Two runs of the same load differ: by chance, and because the machine changes. So a forecast of one
run can hardly be much closer than the other run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ...calibration.points.point import Point
from ...calibration.records.measured_runs import RunRecord
from ...calibration.records.precision import by_point
from ..forecast.forecast import Forecast
from ..points.figures import NAN, Figures
from ..points.measured_points import figures_of_run, group, verdict_of_run
from .knee import KneeErrors, knee_errors, knees
from .regimes import RegimeErrors, errors_of_both
from .scoring import PointScore, score
from .targets import OURS, targets

_NOTHING = Figures(*[NAN] * len(Figures._fields))


class AgainstFirst(NamedTuple):
    """The scores of two forecasts of the first run of each point: the last run, and the model."""

    last_run: list[PointScore]
    model: list[PointScore]


Pair = tuple[RegimeErrors, RegimeErrors] | tuple[KneeErrors, KneeErrors]


def against_first(runs: Iterable[RunRecord], forecasts: Mapping[Point, Forecast]) -> AgainstFirst:
    """Return the scores at the points of *forecasts* that have two accepted *runs* or more.

    *runs* are in order of time.
    """
    of_points = by_point(run for run in runs if run.accepted and run.point in forecasts)
    repeated = {point: own for point, own in of_points.items() if len(own) > 1}
    measured = group(own[0] for own in repeated.values())
    last = {point: _as_forecast(own[-1]) for point, own in repeated.items()}
    known = {point: replace(forecasts[point], low=_NOTHING, high=_NOTHING) for point in repeated}
    return AgainstFirst(score(measured, last, {}), score(measured, known, {}))


def _as_forecast(run: RunRecord) -> Forecast:
    return Forecast(
        point=run.point,
        central=figures_of_run(run),
        low=_NOTHING,
        high=_NOTHING,
        verdict=verdict_of_run(run),
        seeds=(run.seed,),
        draws=0,
    )


def pairs_of(found: AgainstFirst) -> list[Pair]:
    """Return the errors of the last run and of the model: of the knees, and by regime.

    Each pair covers the same points, or the same bound on p99.
    """
    last, model = ({row.bound_ns: row for row in knee_errors(knees(scores))} for scores in found)
    at_knees = [(last[bound], model[bound]) for bound in last if bound in model]
    return [*at_knees, *errors_of_both(found.last_run, found.model)]


def cpu_within(scores: Iterable[PointScore]) -> tuple[int, int]:
    """Return at how many points CPU busy is within its limit, and how many points there are."""
    found = next(target for target in targets(list(scores)) if target.name == "CPU busy")
    return found.n_within, found.n_points[OURS]
