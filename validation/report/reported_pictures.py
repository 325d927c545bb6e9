"""The README's pictures of measured runs, made anew from the committed scores.

    reported/scores.json ─► scores of each point ─► figures ─► closed_loop.png, open_loop.png

`python -m dispatchsim.validation.report.reported_pictures` says whether those that are committed
are what the code makes; with --write it makes them anew.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np

from ...calibration.points.points import Point
from ...sim.figures.metrics import Verdict
from ...sim.files.whole_files import write_whole
from ..drawing.figures import figures, to_png
from ..forecast.forecast import Forecast
from ..points.measured_points import Figures, MeasuredPoint, Spread, Spreads
from ..scoring.scoring import Errors, Inside, PointScore

REPORTED = Path(__file__).parents[1] / "reported"
PICTURES = {
    "closed_loop.png": ("epyc-family26-2cpu-linux-6.18", "closed_throughput"),
    "open_loop.png": ("epyc-family26-2cpu-linux-6.18", "open_curves"),
}
"""Of which machine, and which of its figures."""
DIFFERENCE_MAX = 0.002
"""Of a picture, as a share of full brightness: other releases of matplotlib set type otherwise."""


def reported_scores(machine: str) -> list[PointScore]:
    """Return the committed scores of all points of *machine*.

    Raises
    ------
    ValueError
        If the scores hold no such machine.
    """
    content = json.loads((REPORTED / "scores.json").read_text())
    for section in content["hardware"]:
        if section["name"] == machine:
            return [_point_score(entry) for entry in section["points"]]
    raise ValueError(f"machine: must be one of the committed scores, got {machine}")


def _point_score(content: dict[str, Any]) -> PointScore:
    return PointScore(
        measured=_measured(content),
        forecast=_forecast(content["forecast"]),
        role=content["role"],
        load_share=content["load_share"],
        p50_counts=content["p50_counts"],
        errors=Errors(**content["errors"]),
        inside=Inside(**content["inside"]),
        p50_at_equal_cpu=content["p50_at_equal_cpu"],
        load_shift_cpu=content["load_shift_cpu"],
        load_shift_p50=content["load_shift_p50"],
        baseline_errors={name: Errors(**e) for name, e in content["baselines"].items()},
    )


def _forecast(content: dict[str, Any]) -> Forecast:
    """Return the forecast that the scores hold."""
    return Forecast(
        point=Point(**content["point"]),
        central=_figures(content["central"]),
        low=_figures(content["low"]),
        high=_figures(content["high"]),
        verdict=Verdict(content["verdict"]),
        seeds=tuple(content["seeds"]),
        draws=content["draws"],
    )


def _figures(content: dict[str, float | None]) -> Figures:
    """Return the figures of the scores; null becomes NaN."""
    return Figures(
        **{name: float("nan") if value is None else value for name, value in content.items()}
    )


def _measured(content: dict[str, Any]) -> MeasuredPoint:
    """Return what was measured of a point; of its runs themselves the scores say no more."""
    point, measured = Point(**content["point"]), content["measured"]
    spreads = {name: Spread(**_known(spread)) for name, spread in measured["spread"].items()}
    return MeasuredPoint(
        point=point,
        median=_figures(measured["median"]),
        spread=Spreads(**spreads),
        n_accepted=measured["accepted"],
        n_rejected=measured["rejected"],
        seeds=(),
        warm_up_ns=0,
        window_ns=0,
        offered_per_s=point.rate_per_s,
        verdict=Verdict(measured["verdict"]),
    )


def _known(values: dict[str, float | None]) -> dict[str, float]:
    return {name: float("nan") if value is None else value for name, value in values.items()}


def made(name: str) -> bytes:
    """Return the picture *name* as the code makes it."""
    machine, figure = PICTURES[name]
    return to_png(figures(reported_scores(machine))[figure])


def difference(one: bytes, other: bytes) -> float:
    """Return how far two pictures differ in the mean over their dots, 1 if in their sizes."""
    first, second = (matplotlib.image.imread(io.BytesIO(picture)) for picture in (one, other))
    if first.shape != second.shape:
        return 1.0
    return float(np.abs(first - second).mean())


def main(arguments: Sequence[str]) -> int:
    """Check the committed pictures, or make them anew; return 0 if they are what the code makes."""
    about = (__doc__ or "").split("\n", 1)[0]
    parser = argparse.ArgumentParser(prog="reported_pictures", description=about)
    parser.add_argument("--write", action="store_true", help="make them anew")
    write = parser.parse_args(arguments).write
    n_old = 0
    for name in PICTURES:
        picture = made(name)
        if write:
            write_whole(REPORTED / name, picture)
        is_old = difference(picture, (REPORTED / name).read_bytes()) > DIFFERENCE_MAX
        n_old += is_old
        print(f"{REPORTED / name}: {'is not what the code makes' if is_old else 'as made'}")
    return 1 if n_old else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
