"""The last run of each point as if it were the forecast of the first.

    runs of a point     first ──► measured
                        last  ──► as a forecast ─┐
    model ───────────────────────► its forecast ─┴─► errors of both, against the first run alone

Two runs of the same load differ: their arrivals differ, and the machine changes. The difference has
the noise of both runs, a forecast's error that of one. With lognormal noise of both runs alike, a
forecast without error would have 0.7 to 0.8 times the median error of the last run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ...calibration.records.measured_runs import RunRecord
from ...calibration.records.precision import by_point
from ..forecast.forecast import Forecast
from ..points.figures import NAN, Figures
from ..points.measured_points import figures_of_run, group, verdict_of_run
from .knee import Knee, KneeErrors, knee_errors, knees
from .regimes import RegimeErrors, errors_of_both
from .scoring import PointScore
from .targets import CPU_WORST_MAX

_NOTHING = Figures(*[NAN] * len(Figures._fields))


class AgainstFirst(NamedTuple):
    """Two forecasts of the first run of each point, of the same points: the last run, the model."""

    last_run: list[PointScore]
    model: list[PointScore]


Pair = tuple[RegimeErrors, RegimeErrors] | tuple[KneeErrors, KneeErrors]


def against_first(runs: Iterable[RunRecord], scores: Iterable[PointScore]) -> AgainstFirst:
    """Return the *scores* with two accepted *runs* or more, each against its first run.

    *runs* are in order of time. Loads and roles of the points stay those of *scores*.
    """
    of_points = by_point(run for run in runs if run.accepted)
    found = AgainstFirst([], [])
    for entry in scores:
        own = of_points.get(entry.measured.point, [])
        if len(own) > 1:
            (first,) = group(own[:1])
            alone = replace(entry, measured=first)
            found.model.append(alone)
            found.last_run.append(replace(alone, forecast=_as_forecast(own[-1])))
    return found


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

    Each pair covers the same points, or the same servers at one bound on p99.
    """
    of_last, of_model = (
        {(knee.server, knee.bound_ns): knee for knee in _known(scores)} for scores in found
    )
    both = [key for key in of_last if key in of_model]
    at_knees = (knee_errors([own[key] for key in both]) for own in (of_last, of_model))
    return [*zip(*at_knees, strict=True), *errors_of_both(found.last_run, found.model)]


def _known(scores: Iterable[PointScore]) -> list[Knee]:
    return [knee for knee in knees(scores) if knee.least_shift is not None]


def cpu_within(scores: Iterable[PointScore]) -> tuple[int, int]:
    """Return at how many points CPU busy is within its limit, and how many points there are."""
    errors = [
        abs(entry.forecast.central.cpu_busy - entry.measured.median.cpu_busy)
        for entry in scores
        if entry.role != "fit"
    ]
    known = [error for error in errors if not math.isnan(error)]
    return sum(error <= CPU_WORST_MAX for error in known), len(known)
