"""The committed results of the last validation, for the README, the documents and tests.

    dispatchsim validate machine ─► REPORT ─┬─► report.html
                                            ├─► scores.json    a summary: targets, promises, effects
                                            ├─► points.csv     every point of a real machine
                                            └─► noise_free.png
    points.csv ─► scores of each point ─► closed_loop.png, open_loop.png

`make reports` makes all reports and copies them here.

    dispatchsim lab reported    check that the code makes the committed pictures
        --write                 make the pictures again
        --take REPORT           copy the results of the report in that folder
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pandas as pd

from ...calibration.points.point import STORED, point_at
from ...sim.figures.summary import Verdict
from ...sim.files.whole_files import write_whole
from ..drawing.figures import closed_throughput, open_curves, style, to_png
from ..forecast.forecast import Forecast
from ..points.figures import Figures
from ..points.measured_points import GeneratorFigures, MeasuredPoint, Spread, Spreads
from ..scoring.regimes import SCORED
from ..scoring.scoring import Errors, Inside, PointScore, Shifts, curve_of, relative, shifts

REPORTED = Path(__file__).parents[1] / "reported"
SCORES, POINTS, PAGE = "scores.json", "points.csv", "report.html"
MACHINE = "epyc-family26-2cpu-linux-6.18"
PICTURES = {
    "closed_loop.png": ("closed", closed_throughput),
    "open_loop.png": ("open", open_curves),
}
"""The pictures of MACHINE: kind of load, and drawing function."""
_NOISE_FREE = ("counted-linux-6.1_noise_free_curves.png", "noise_free.png")
_BY_POINT = ("points", "knee_loads", "runs", "ledgers", "not_measured")
"""Keys of a report section that hold one entry for each point or run."""
_DIGITS = 6
DIFFERENCE_MAX = 0.002
"""Largest mean difference of a picture, as a share of full brightness.

Other releases of matplotlib set type differently."""


def take(report: Path, folder: Path = REPORTED) -> None:
    """Copy the committed parts of the report in the folder *report* into *folder*."""
    scores = json.loads((report / SCORES).read_text())
    rows = [row for section in scores["hardware"] for row in _rows(section)]
    table = pd.DataFrame(rows).to_csv(index=False, float_format=f"%.{_DIGITS}g")
    summary = {
        **scores,
        **{
            kind: [
                {name: value for name, value in section.items() if name not in _BY_POINT}
                for section in scores[kind]
            ]
            for kind in ("hardware", "noise_free")
        },
    }
    write_whole(folder / POINTS, table)
    write_whole(folder / SCORES, json.dumps(summary, indent=1) + "\n")
    shutil.copyfile(report / PAGE, folder / PAGE)
    shutil.copyfile(report / "figures" / _NOISE_FREE[0], folder / _NOISE_FREE[1])


def _rows(section: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row of the table for each point of a machine's *section*."""
    defaults = {name: field.usual for name, field in STORED.items()}
    for entry in section["points"]:
        measured, forecast = entry["measured"], entry["forecast"]
        point = {k: v for k, v in entry["point"].items() if v != defaults[k]}
        row = {
            "machine": section["name"],
            "point": json.dumps(point),
            "role": entry["role"],
            "load share": entry["load_share"],
            "runs": measured["accepted"],
            "generator kept up": measured["generator_kept_up"],
        }
        for name in SCORED:
            row[f"measured {name}"] = measured["median"][name]
            row[f"forecast {name}"] = forecast["central"][name]
            for end in ("low", "high"):
                row[f"measured {name} {end}"] = measured["spread"][name][end]
                row[f"forecast {name} {end}"] = forecast[end][name]
        yield row


def reported_scores(machine: str, folder: Path = REPORTED) -> list[PointScore]:
    """Return the committed scores of all points of *machine*, as far as pictures show them.

    Errors at equal CPU come from forecasts at the measured rates alone, so fewer points have one
    than in a report, which also forecasts rates around them.

    Raises
    ------
    ValueError
        If the scores hold no such machine.
    """
    table = pd.read_csv(folder / POINTS)
    own = table[table["machine"] == machine]
    if own.empty:
        raise ValueError(f"machine: must be one of the committed scores, got {machine}")
    scores = [_point_score(row) for row in own.to_dict("records")]
    made = {score.forecast.point: score.forecast for score in scores}
    shifted = []
    for score in scores:
        point = score.forecast.point
        by = shifts(point, score.measured.median, curve_of(point, made))
        shifted.append(replace(score, **by._asdict()))
    return shifted


def machine_scores(path: Path | None) -> dict[str, list[PointScore]]:
    """Return the scores of all points by machine: of a report's scores.json, or the committed ones.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        If the file *path* is missing or has another format.
    """
    if path is not None:
        content = json.loads(path.read_text(encoding="utf-8"))
        # A report of a server has "observed" instead, of the same form.
        sections = content["observed" if "observed" in content else "hardware"]
        return {section["name"]: scores_of(section) for section in sections}
    machines = pd.read_csv(REPORTED / POINTS, usecols=["machine"])["machine"].unique()
    return {machine: reported_scores(machine) for machine in machines}


def scores_of(section: Mapping[str, Any]) -> list[PointScore]:
    """Return the scores of all points in a machine's *section* of a report's scores.json.

    Values that neither a picture nor a table of servers shows are placeholders.
    """
    rows = (
        {name: np.nan if value is None else value for name, value in row.items()}
        for row in _rows(section)
    )
    return [
        replace(_point_score(row), **{name: entry[name] for name in Shifts._fields})
        for row, entry in zip(rows, section["points"], strict=True)
    ]


def _point_score(row: Mapping[Any, Any]) -> PointScore:
    """Return the score in a row of the table; values that no picture shows are placeholders."""
    point = point_at(**json.loads(row["point"]))

    def figures_of(prefix: str, end: str = "") -> Figures:
        values = {name: row.get(f"{prefix} {name}{end}", np.nan) for name in SCORED}
        return Figures(**{**dict.fromkeys(Figures._fields, np.nan), **values})

    spreads = {
        name: Spread(
            row.get(f"measured {name} low", np.nan),
            row.get(f"measured {name} high", np.nan),
            np.nan,
        )
        for name in SCORED
    }
    unknown = Spread(np.nan, np.nan, np.nan)
    return PointScore(
        measured=MeasuredPoint(
            point=point,
            median=figures_of("measured"),
            spread=Spreads(**{**dict.fromkeys(Spreads._fields, unknown), **spreads}),
            n_accepted=row["runs"],
            n_rejected=0,
            seeds=(),
            warm_up_ns=0,
            window_ns=0,
            offered_per_s=point.rate_per_s,
            verdict=Verdict.STABLE,
            generator=GeneratorFigures(
                np.nan, np.nan, np.nan, np.nan, int(not row["generator kept up"])
            ),
        ),
        forecast=Forecast(
            point=point,
            central=figures_of("forecast"),
            low=figures_of("forecast", " low"),
            high=figures_of("forecast", " high"),
            verdict=Verdict.STABLE,
            seeds=(),
            draws=0,
        ),
        role=row["role"],
        load_share=None if np.isnan(row["load share"]) else row["load share"],
        p50_counts=False,
        errors=Errors(None, None, relative(row["forecast p50_ns"], row["measured p50_ns"])),
        inside=Inside(None, None, None),
        p50_at_equal_cpu=None,
        load_shift_cpu=None,
        load_shift_p50=None,
        baseline_errors={},
    )


def made(name: str) -> bytes:
    """Return the picture *name* made from the committed scores."""
    return drawn(name, reported_scores(MACHINE))


def drawn(name: str, scores: Sequence[PointScore]) -> bytes:
    """Return the picture *name* of the points of a machine."""
    loop, draw = PICTURES[name]
    own = [s for s in scores if s.measured.point.load.loop == loop]
    with style():
        return to_png(draw([s for s in own if s.measured.point.server.accept_limit == 0]))


def difference(one: bytes, other: bytes) -> float:
    """Return the mean difference of two pictures over their pixels; 1 if their sizes differ."""
    first, second = (matplotlib.image.imread(io.BytesIO(picture)) for picture in (one, other))
    if first.shape != second.shape:
        return 1.0
    return float(np.abs(first - second).mean())


def checked(*, write: bool = False) -> Iterator[tuple[Path, bool]]:
    """Yield each committed picture, and whether the code makes the same one.

    With *write* each picture is made again first.
    """
    for name in PICTURES:
        picture, path = made(name), REPORTED / name
        if write:
            write_whole(path, picture)
        yield path, difference(picture, path.read_bytes()) <= DIFFERENCE_MAX
