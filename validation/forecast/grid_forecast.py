"""Forecasts of a whole grid, written to a file before the measurement.

    profile, capacity ──► the points of a campaign ──► forecasts ──► forecast.json
    forecast.json in a machine's folder ──► the report scores it beside the later forecasts

A file records its date, code and costs. The history of the repository shows that it was committed
before the runs were made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...calibration.points.point import Point, point_at, stored
from ...calibration.points.points import STOCK_MECHANISMS, held_out_points
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import DataError
from ...sim.engine.workers import workers_for
from ...sim.figures.summary import Verdict
from ...sim.files.whole_files import to_json, write_whole
from ..points.figures import Figures
from .forecast import Forecast, Request, forecasts, lengths_of, unknown
from .provenance import file_hash, installed_version, source_hash

FORMAT = "dispatchsim-grid-forecast/1"
FORECAST_FILE = "forecast.json"
"""The file's name in a machine's folder."""
_REPEATS = 3
"""The seed of the simulated arrivals: the first of a campaign."""


@dataclass(frozen=True)
class GridForecast:
    """Forecasts of a grid; `made` holds the facts at the beginning of their file, by name."""

    made: dict[str, Any]
    forecasts: dict[Point, Forecast]


def forecast_grid(
    profile_path: Path,
    capacity_per_s: float,
    *,
    kept_per_s: float | None = None,
    quick: bool = False,
    mechanisms: Sequence[str] = STOCK_MECHANISMS,
    draws: int = 5,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> GridForecast:
    """Return the forecasts of the held-out points of a campaign on hardware.

    Parameters
    ----------
    capacity_per_s, kept_per_s:
        The capacities that rates are shares of, as in `held_out_points`.
    quick, mechanisms:
        The choice of points.
    draws, workers, progress:
        As of `forecasts`. Points with a mechanism that the profile lacks are left out.

    Raises
    ------
    ValueError
        If the capacity is not above 0, or the profile has the costs of no point.
    """
    profile = Profile.read(profile_path)
    points = held_out_points(
        capacity_per_s, kept_per_s=kept_per_s, quick=quick, mechanisms=mechanisms
    )
    requests = [
        Request(point, tuple(map(point.seed, range(_REPEATS))), draws, lengths_of(point))
        for point in points
        if unknown(profile, point) is None
    ]
    if not requests:
        raise ValueError(f"{profile.name}: must have costs for a mechanism of the grid, has none")
    with workers_for("auto", workers) as executor:
        made = forecasts(requests, profile, executor=executor, progress=progress)
        found = {request.point: forecast for request, forecast in made}
    head = {
        "format": FORMAT,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": installed_version(),
        "code": source_hash(),
        "profile": profile.name,
        "profile_hash": file_hash(profile_path),
        "capacity_per_s": capacity_per_s,
        "kept_per_s": kept_per_s,
        "draws": draws,
        "not_forecast": len(points) - len(requests),
    }
    return GridForecast(head, {request.point: found[request.point] for request in requests})


def write_forecast(forecast: GridForecast, path: Path) -> None:
    """Write *forecast* as JSON, a line for each point; the file is written whole or not at all."""
    lines = ",\n".join(json.dumps(_entry(each)) for each in forecast.forecasts.values())
    head = to_json(forecast.made).rstrip().removesuffix("}").rstrip()
    write_whole(path, f'{head},\n  "points": [\n{lines}\n]}}\n')


def _entry(forecast: Forecast) -> dict[str, Any]:
    ends = {name: getattr(forecast, name) for name in ("central", "low", "high")}
    return {
        "point": stored(forecast.point),
        "verdict": str(forecast.verdict),
        "seeds": forecast.seeds,
        **{name: _known(figures) for name, figures in ends.items()},
    }


def _known(figures: Figures) -> dict[str, float]:
    """Return the metrics that exist: JSON has no NaN."""
    return {name: value for name, value in figures._asdict().items() if not math.isnan(value)}


def read_forecast(path: Path) -> GridForecast:
    """Return the forecasts in a file.

    Raises
    ------
    DataError
        If the file has another format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise ValueError(f'format must be "{FORMAT}", got {content.get("format")}')
        entries = content.pop("points")
        found = [_forecast(entry, content["draws"]) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: must be forecasts of a grid, got {error}") from None
    return GridForecast(content, {forecast.point: forecast for forecast in found})


def _forecast(entry: Mapping[str, Any], draws: int) -> Forecast:
    nothing = dict.fromkeys(Figures._fields, float("nan"))
    ends = {name: Figures(**{**nothing, **entry[name]}) for name in ("central", "low", "high")}
    return Forecast(
        point=point_at(**entry["point"]),
        verdict=Verdict(entry["verdict"]),
        seeds=tuple(entry["seeds"]),
        draws=draws,
        **ends,
    )
