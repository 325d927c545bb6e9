"""Files of forecast errors: written from a report's scores, and read for the next forecast.

    scores.json ─► misses_of, knee_misses ─► write_misses ─► misses/PROFILE.json
                   the next forecast      ◄─ misses_for   ◄─ of its machine, or of all others

A machine that was never validated gets the errors of all others, with a notice.

    dispatchsim lab forecast-errors SCORES      write the errors of a scores.json
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...calibration.profiles.cost_profile import MEASURED, QUICKLY, Profile, ProfileError
from ...calibration.profiles.hardware_change import CHANGED_FROM
from ...calibration.profiles.published_errors import MISSES_FOLDER, MachineErrors
from ...sim.files.whole_files import write_whole
from .misses import (
    FIGURES,
    LEVEL,
    THROUGHPUT,
    KneeMiss,
    Known,
    Miss,
    pooled,
    stated_share,
)

FORMAT = "dispatchsim-misses/4"
QUICK, BORROWED = ".quick", ".borrowed"
"""Name endings of profiles that were measured quickly, or scaled from another machine's."""


def misses_of(scores: Mapping[str, Any]) -> dict[str, list[Miss]]:
    """Return the forecast errors at held-out points of a report's scores, by profile.

    Points at which the load generator was the limit are left out: the forecast is not in error.
    """
    return {
        section["name"]: [
            miss_of(entry)
            for entry in section["points"]
            if entry["role"] != "fit" and entry["measured"]["generator_kept_up"]
        ]
        for section in scores["hardware"]
    }


def miss_of(entry: Mapping[str, Any]) -> Miss:
    """Return the forecast errors at a point of a report's scores."""
    measured, forecast = entry["measured"]["median"], entry["forecast"]["central"]
    of = {}
    for figure, reported in FIGURES.items():
        ours, theirs = forecast[reported], measured[reported]
        if ours is None or theirs is None:
            continue
        if figure == THROUGHPUT and entry["role"] == "offered":
            continue  # both delivered the offered load, so their throughput shows nothing
        if ours > 0 and theirs > 0:
            of[figure] = round(math.log(theirs / ours), 6)
    utilisation = round(forecast["cpu_busy"], 6)
    return Miss(entry["point"]["mechanism"], utilisation, of, round(_stated_share(entry), 6))


def _stated_share(entry: Mapping[str, Any]) -> float:
    forecast = entry["forecast"]["central"]
    work_ns = entry["point"]["request_work_ns"]
    return stated_share(work_ns, forecast["throughput_per_s"], forecast["cpu_busy"])


def knee_misses(knees: Sequence[Mapping[str, Any]]) -> list[KneeMiss]:
    """Return the errors of *knees* in a report's scores (scores_json.py, `knee_loads`).

    Raises
    ------
    KeyError, TypeError, ValueError
        If they have another format.
    """
    if not all(knee[load] > 0 for knee in knees for load in ("measured_per_s", "forecast_per_s")):
        raise ValueError("loads of knees must be above 0")
    return [
        KneeMiss(
            str(knee["mechanism"]),
            int(knee["bound_ns"]),
            float(knee["measured_per_s"]),
            float(knee["forecast_per_s"]),
            bool(knee["is_end"]),
            round(float(knee["stated"]), 6),
        )
        for knee in knees
    ]


def read_misses(profile: str) -> Known:
    """Return the shipped forecast errors of the machine of *profile*; empty if not validated."""
    path = MISSES_FOLDER / f"{profile}.json"
    return read_file(path) if path.is_file() else Known()


def read_file(path: Path) -> Known:
    """Return the forecast errors in a file.

    Raises
    ------
    ProfileError
        If the file has another format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ProfileError(
                f'{path}: must be a file of forecast errors in the format "{FORMAT}", got '
                f'"{content["format"]}"; `dispatchsim lab forecast-errors SCORES` writes it anew '
                "from the scores.json of a report"
            )
        points = [
            Miss(
                str(p["mechanism"]),
                float(p["utilisation"]),
                {figure: float(p[k]) for figure, k in FIGURES.items() if k in p},
                float(p["stated"]),
            )
            for p in content["points"]
        ]
        return Known(points, knee_misses(content["knees"]))
    except ProfileError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProfileError(f"{path}: must be a file of forecast errors, got {error}") from None


def shipped_misses() -> dict[str, Known]:
    """Return the shipped forecast errors of all profiles that were measured in full, by profile."""
    return {
        path.stem: read_file(path)
        for path in sorted(MISSES_FOLDER.glob("*.json"))
        if not path.stem.endswith((QUICK, BORROWED))
    }


def _of_kind(kind: str) -> Known:
    paths = sorted(MISSES_FOLDER.glob(f"*{kind}.json"))
    return pooled(map(read_file, paths), is_of_others=False)


def misses_for(
    profile: Profile, given: Sequence[Miss] | Known | None = None
) -> tuple[Known, list[str]]:
    """Return the forecast errors to allow for in a forecast by *profile*, and notices about them.

    They are those *given*, or else the shipped ones of its machine, or of all other machines if it
    was never validated. A profile that was measured quickly, or scaled from another machine's, uses
    the errors of such profiles.
    """
    if given is not None:
        return given if isinstance(given, Known) else Known(given), []
    measured = str(profile.machine.get(CHANGED_FROM, profile.name))
    own = read_misses(measured)
    if profile.machine.get(MEASURED) == QUICKLY and (quick := _of_kind(QUICK)).points:
        return quick, [
            f"{profile.name} was measured quickly: past errors are those of such profiles"
        ]
    if measured != profile.name and (scaled := _of_kind(BORROWED)).points:
        return scaled, [
            f"this hardware was not measured: the profile is scaled from {measured}, and past "
            "errors are those of such profiles"
        ]
    if own.points and measured != profile.name:
        return own, [f"this hardware was not measured: past errors are those of {measured}"]
    if own.points:
        return own, []
    return pooled(shipped_misses().values(), is_of_others=True), [
        f"no forecast of {profile.name} was compared with measured runs (`dispatchsim validate "
        f"machine` does it): past errors are those of other machines, and the interval may hold "
        f"far less than {LEVEL:.0%}"
    ]


def write_misses(
    profile: str,
    misses: Sequence[Miss],
    folder: Path = MISSES_FOLDER,
    *,
    knees: Sequence[KneeMiss] = (),
    errors: MachineErrors | None = None,
) -> Path:
    """Write the errors of forecasts of a machine, and its published errors; return the path."""
    lines = []
    for miss in misses:
        of = {FIGURES[figure]: value for figure, value in miss.of.items()}
        point = {
            "mechanism": miss.mechanism,
            "utilisation": miss.utilisation,
            "stated": miss.stated,
        }
        lines.append(json.dumps(point | of))
    published = {"errors": errors._asdict()} if errors else {}
    head = json.dumps({"format": FORMAT, "profile": profile, **published})
    of_knees = ",\n".join(json.dumps(knee._asdict()) for knee in knees)
    opening = f'{head[:-1]}, "knees": [\n{of_knees}\n], "points": [\n'
    path = folder / f"{profile}.json"
    write_whole(path, opening + ",\n".join(lines) + "\n]}\n")
    return path
