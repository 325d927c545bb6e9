"""A profile against its owner's runs: every point forecast, scored, ranked.

runs ─► points ─┬─► forecasts (cached) ─┬─► scores ─┬─► summary
profile ────────┘                       │           └─► ranking
points of the fit ──────────────────────┘ marked, not scored
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ...calibration.observed.application_fit import was_fitted_to
from ...calibration.observed.habits import Habits
from ...calibration.observed.observed_run import ObservedRun
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import DataError
from ..forecast.forecast_cache import ForecastCache, file_hash, source_hash
from ..forecast.observed_points import observed_points
from ..forecast.provenance import Provenance, installed_version
from ..scoring.ranking import RankedPair, ranked_pairs
from ..scoring.scoring import PointScore, score
from .hardware_section import SEEDS_MAX, forecast_all, out_of_reach

CAPACITY_MEDIAN_MAX = 0.10
CAPACITY_WORST_MAX = 0.20
"""What a forecast of an unseen mechanism or idle count has to reach."""


@dataclass(frozen=True)
class Capacity:
    """The absolute errors of capacity over the points that the fit has not seen; None: none."""

    n_points: int
    median: float | None
    worst: float | None


@dataclass(frozen=True)
class ObservedSection:
    """What a validation found of the runs of one server."""

    name: str
    provenance: Provenance
    scores: list[PointScore]
    pairs: list[RankedPair]
    capacity: Capacity


def observed_section(
    name: str,
    runs: Sequence[ObservedRun],
    profile_path: Path,
    habits: Habits,
    cache_path: Path,
    *,
    draws: int = 20,
    workers: int = 1,
    notices: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> ObservedSection:
    """Forecast every point of *runs* from the profile, and compare.

    Parameters
    ----------
    name:
        Of the server, for people.
    habits:
        What the server does, where a run does not say.
    cache_path:
        Of finished forecasts, kept as they end.
    draws, workers, progress:
        As of `hardware_section`.
    notices:
        What to tell besides.

    Raises
    ------
    DataError
        If no run can be used.
    """
    profile = Profile.read(profile_path)
    grouped = observed_points(runs, habits)
    if not grouped.points:
        reason = f": {grouped.notes[0]}" if grouped.notes else ""
        raise DataError(f"no run of {name} can be set beside a forecast{reason}")
    cache = ForecastCache(cache_path, profile_hash=file_hash(profile_path), code=source_hash())
    found = forecast_all(
        grouped.points, profile, cache, draws=draws, workers=workers, progress=progress
    )
    fitted = was_fitted_to(profile, runs)
    seen = [entry.point for entry in grouped.points if fitted(entry.point)]
    scores = score(grouped.points, found, {}, seen)
    points = [entry.point for entry in grouped.points]
    dates = sorted({run.source.date for run in runs} - {""}) or ["unknown"]
    return ObservedSection(
        name=name,
        provenance=Provenance(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            profile=profile.name,
            profile_hash=file_hash(profile_path),
            machine=dict(profile.machine),
            steering=("as the runs had it",),
            measured_from=dates[0],
            measured_to=dates[-1],
            measured_code=tuple(sorted({run.source.tool for run in runs})),
            version=installed_version(),
            code=source_hash(),
            python=platform.python_version(),
            method={"draws": draws, "seeds_by_point_max": SEEDS_MAX},
            n_runs=len(runs),
            n_rejected=sum(not run.accepted for run in runs),
            rejected_by_reason=dict(
                sorted(Counter(run.reason for run in runs if not run.accepted).items())
            ),
            notices=(*notices, *grouped.notes, *out_of_reach(points, profile), *_unfitted(profile)),
        ),
        scores=scores,
        pairs=ranked_pairs(scores),
        capacity=capacity_of(scores),
    )


def _unfitted(profile: Profile) -> list[str]:
    """Return a sentence if *profile* is of a machine alone."""
    if profile.machine.get("fitted_to"):
        return []
    return [
        f"{profile.name} does not say that it was fitted to a server: what the server's own code "
        "takes is that of the machine's test server (`dispatchsim calibrate RUNS` fits it)"
    ]


def capacity_of(scores: Sequence[PointScore]) -> Capacity:
    """Return the errors of capacity: of closed loops, and of open ones past it."""
    errors = [
        abs(s.errors.throughput)
        for s in scores
        if s.role == "capacity" and s.errors.throughput is not None
    ]
    if not errors:
        return Capacity(0, None, None)
    return Capacity(len(errors), float(np.median(errors)), max(errors))


def error_at_equal_busy(entry: PointScore) -> float | None:
    """Return the relative error of replies for a second of a busy CPU; None where it is unknown.

    That is at equal utilisation what the error of throughput is at equal load.
    """
    forecast, measured = entry.forecast.central, entry.measured.median
    values = (forecast.cpu_busy, measured.cpu_busy, measured.throughput_per_s)
    if any(math.isnan(value) or value <= 0 for value in values):
        return None
    per_busy_s = measured.throughput_per_s / measured.cpu_busy
    return forecast.throughput_per_s / forecast.cpu_busy / per_busy_s - 1
