"""Finished forecasts on disk, so that an interrupted validation goes on where it was.

    forecasts.jsonl    {"key": HASH, "forecast": {...}}    one line a finished forecast

The key is a hash of all that decides a forecast: point, lengths, seeds, draws, the profile file
and the sources of the simulator. A change of any of them is a new key; old lines are passed over.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...calibration.points.points import Point
from ...sim.figures.metrics import Verdict
from ..points.measured_points import Figures
from .forecast import Forecast, Request

_PACKAGE = Path(__file__).resolve().parents[2]
_SOURCES = (
    "sim/**/*.py",
    "models/**/*.py",
    "validation/forecast/forecast.py",
    "validation/points/measured_points.py",
    "calibration/profiles/cost_profile.py",
    "calibration/profiles/cost_tables.py",
    "calibration/measure/macro.py",
    "calibration/points/point_runs.py",
    "calibration/points/points.py",
)


class ForecastCache:
    """The forecasts in the file *path*, made with *profile_hash* and *code*."""

    def __init__(self, path: Path, *, profile_hash: str, code: str) -> None:
        self._path = path
        self._context = [profile_hash, code]
        self._known = dict(_read(path))

    def get(self, request: Request) -> Forecast | None:
        """Return the finished forecast of *request*, None if there is none."""
        return self._known.get(self.key(request))

    def put(self, request: Request, forecast: Forecast) -> None:
        """Keep *forecast*; when this returns it is on the disk."""
        key = self.key(request)
        self._known[key] = forecast
        line = json.dumps({"key": key, "forecast": to_json(forecast)}, allow_nan=False) + "\n"
        if _is_torn(self._path):
            line = "\n" + line  # a line torn by a kill must not swallow this one
        with self._path.open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def key(self, request: Request) -> str:
        """Return the hash of all that decides the forecast of *request*."""
        content = [
            self._context,
            asdict(request.point),
            list(request.lengths),
            list(request.seeds),
            request.draws,
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def source_hash(package: Path = _PACKAGE) -> str:
    """Return twelve hexadecimal digits that change with any source that decides a forecast."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in package.glob(pattern)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def file_hash(path: Path) -> str:
    """Return twelve hexadecimal digits of the content of *path*."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def to_json(forecast: Forecast) -> dict[str, Any]:
    """Return *forecast* as plain values; NaN becomes null."""
    return {
        "point": asdict(forecast.point),
        "central": figures_to_json(forecast.central),
        "low": figures_to_json(forecast.low),
        "high": figures_to_json(forecast.high),
        "verdict": str(forecast.verdict),
        "seeds": list(forecast.seeds),
        "draws": forecast.draws,
    }


def figures_to_json(figures: Iterable[float]) -> dict[str, float | None]:
    """Return *figures* by name; NaN becomes null."""
    return {
        name: None if math.isnan(value) else value
        for name, value in zip(Figures._fields, figures, strict=True)
    }


def forecast_of_json(content: dict[str, Any]) -> Forecast:
    """Return the forecast that `to_json` wrote."""
    return Forecast(
        point=Point(**content["point"]),
        central=figures_of_json(content["central"]),
        low=figures_of_json(content["low"]),
        high=figures_of_json(content["high"]),
        verdict=Verdict(content["verdict"]),
        seeds=tuple(content["seeds"]),
        draws=content["draws"],
    )


def figures_of_json(content: dict[str, float | None]) -> Figures:
    """Return the figures that `figures_to_json` wrote; null becomes NaN."""
    return Figures(
        **{name: float("nan") if value is None else value for name, value in content.items()}
    )


def _is_torn(path: Path) -> bool:
    """Return whether the last line of *path* has no end."""
    content = path.read_bytes() if path.exists() else b""
    return bool(content) and not content.endswith(b"\n")


def _read(path: Path) -> Iterable[tuple[str, Forecast]]:
    """Yield what is in *path*; a line that cannot be read is computed again, not an error."""
    if not path.exists():
        return
    for line in path.read_text(errors="replace").splitlines():
        try:
            content = json.loads(line)
            yield content["key"], forecast_of_json(content["forecast"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
