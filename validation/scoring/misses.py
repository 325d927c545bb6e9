"""By how much forecasts of a machine missed what it did: the allowance for what no cost knows.

    held-out runs ─► measured / forecast, point by point ─► misses/PROFILE.json
                     ─► quantiles, of points as busy ─► an interval for the next forecast

Draws of the costs say what the calibration leaves open; that the model itself is wrong, they do
not. How wrong it was at points which no fit has seen tells how wrong it may be at the next one, if
that is of their kind: then an interval made so holds with the probability that it says, whatever
the misses are distributed like. Whether it does is measured here with each mechanism left out in
turn, so that no interval has seen its own mechanism.

Sources: Vovk, Gammerman and Shafer 2005, "Algorithmic Learning in a Random World", §2 (conformal
prediction); Barber et al. 2021, "Predictive inference with the jackknife+" (leaving out in turn).

    dispatchsim lab misses             coverage of the shipped ones
    dispatchsim lab misses SCORES      write those of a scores.json
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ...calibration.profiles.cost_profile import MEASURED, QUICKLY, Profile, ProfileError
from ...calibration.profiles.hardware_change import CHANGED_FROM
from ...calibration.profiles.published_errors import MISSES_FOLDER, MachineErrors
from ...scenario.metrics import METRICS
from ...sim.files.tables import Column, Table
from ...sim.files.whole_files import write_whole

FORMAT = "dispatchsim-misses/2"
BUSY = 0.85
"""Utilisation, as forecast, from which on a point is near or past its capacity."""
LEVEL = 0.9
QUICK, BORROWED = ".quick", ".borrowed"
"""Ends of the names of profiles that were measured quickly, or scaled from another machine's."""


FIGURES = {
    "throughput_per_s": "throughput_per_s",
    "cpu_busy": "cpu_busy",
    "p50_answered_ns": "p50_ns",
    "p99_answered_ns": "p99_ns",
}
"""The metrics that are missed (scenario/metrics.py), and their names in reports and files."""


class Miss(NamedTuple):
    """A measured point beside its forecast.

    Attributes
    ----------
    mechanism, utilisation:
        Of the point; the utilisation is that of the forecast.
    of:
        By metric: the logarithm of measured over forecast.
    """

    mechanism: str
    utilisation: float
    of: dict[str, float]

    @property
    def is_busy(self) -> bool:
        """Whether the forecast was of a server near or past its capacity."""
        return self.utilisation >= BUSY


class Allowance(NamedTuple):
    """What to add to a forecast, as a `Miss` states it; and of how many misses it is.

    `middle` is their median: a forecast is centred on it.
    """

    low: float
    middle: float
    high: float
    n: int


def allowance(misses: Iterable[Miss], figure: str, level: float = LEVEL) -> Allowance | None:
    """Return between what a further miss of *figure* lies with *level*, if it is of their kind.

    None if there are too few for that level: it takes 2 / (1 - level) - 1 of them.
    """
    known = sorted(miss.of[figure] for miss in misses if figure in miss.of)
    n, tail = len(known), (1 - level) / 2
    rank = math.floor(tail * (n + 1) + 1e-9)
    if rank < 1:
        return None
    return Allowance(known[rank - 1], median(known), known[n - rank], n)


def coverage(misses: Sequence[Miss], figure: str, level: float = LEVEL) -> tuple[int, int]:
    """Return how many points lie in the interval of the other mechanisms' misses, of how many."""
    inside = total = 0
    for mechanism in dict.fromkeys(m.mechanism for m in misses):
        others = [m for m in misses if m.mechanism != mechanism]
        found = {
            busy: allowance([m for m in others if m.is_busy == busy], figure, level)
            for busy in (True, False)
        }
        for miss in misses:
            if miss.mechanism != mechanism or figure not in miss.of:
                continue
            allowed = found[miss.is_busy]
            if allowed is not None:
                total += 1
                inside += allowed.low <= miss.of[figure] <= allowed.high
    return inside, total


def misses_of(scores: Mapping[str, Any]) -> dict[str, list[Miss]]:
    """Return the misses in a report's scores, by profile: points that no fit has seen.

    Those at which the load generator was the limit are no misses of a forecast, and left out.
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
    """Return the miss at a point of a report's scores."""
    measured, forecast = entry["measured"]["median"], entry["forecast"]["central"]
    of = {}
    for figure, reported in FIGURES.items():
        ours, theirs = forecast[reported], measured[reported]
        if ours is None or theirs is None:
            continue
        if figure == "throughput_per_s" and entry["role"] == "offered":
            continue  # both delivered what was offered, which says nothing of either
        if ours > 0 and theirs > 0:
            of[figure] = round(math.log(theirs / ours), 6)
    return Miss(entry["point"]["mechanism"], round(forecast["cpu_busy"], 6), of)


def read_misses(profile: str) -> list[Miss]:
    """Return the shipped misses of the machine of *profile*; none if it was never validated."""
    path = MISSES_FOLDER / f"{profile}.json"
    return read_file(path) if path.is_file() else []


def read_file(path: Path) -> list[Miss]:
    """Return the misses in a file.

    Raises
    ------
    ProfileError
        If it is none of this format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f'format must be "{FORMAT}", got {content["format"]}')
        return [
            Miss(
                str(p["mechanism"]),
                float(p["utilisation"]),
                {figure: float(p[k]) for figure, k in FIGURES.items() if k in p},
            )
            for p in content["points"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProfileError(f"{path}: must be a file of misses, got {error}") from None


def shipped_misses() -> dict[str, list[Miss]]:
    """Return all shipped misses of profiles that were measured in full, by profile."""
    return {
        path.stem: read_file(path)
        for path in sorted(MISSES_FOLDER.glob("*.json"))
        if not path.stem.endswith((QUICK, BORROWED))
    }


def _of_kind(kind: str) -> list[Miss]:
    return [
        miss for path in sorted(MISSES_FOLDER.glob(f"*{kind}.json")) for miss in read_file(path)
    ]


def misses_for(
    profile: Profile, given: Sequence[Miss] | None = None
) -> tuple[list[Miss], list[str]]:
    """Return the misses to count with in a forecast by *profile*, and what to know of them.

    Those *given*, or else the shipped ones of its machine; of a machine that was never validated
    those of all others. A profile that was measured quickly, or scaled from another machine's, has
    those of such profiles.
    """
    if given is not None:
        return list(given), []
    measured = str(profile.machine.get(CHANGED_FROM, profile.name))
    own = read_misses(measured)
    if profile.machine.get(MEASURED) == QUICKLY and (quick := _of_kind(QUICK)):
        return quick, [
            f"{profile.name} was measured quickly: past misses are those of such profiles"
        ]
    if measured != profile.name and (scaled := _of_kind(BORROWED)):
        return scaled, [
            f"nobody has measured such hardware: past misses are those of profiles scaled from "
            f"another machine's, as this one is from {measured}"
        ]
    if own and measured != profile.name:
        return own, [f"nobody has measured such hardware: past misses are those of {measured}"]
    if own:
        return own, []
    pooled = [miss for misses in shipped_misses().values() for miss in misses]
    return pooled, [
        f"past misses are those of other machines: no forecast of {profile.name} was ever set "
        "beside measured runs (`dispatchsim validate` measures its own)"
    ]


def write_misses(
    profile: str,
    misses: Sequence[Miss],
    folder: Path = MISSES_FOLDER,
    *,
    errors: MachineErrors | None = None,
) -> Path:
    """Write the misses of a machine, and its published errors if they are known; return where."""
    lines = []
    for miss in misses:
        of = {FIGURES[figure]: value for figure, value in miss.of.items()}
        point = {"mechanism": miss.mechanism, "utilisation": miss.utilisation}
        lines.append(json.dumps(point | of))
    published = {"errors": errors._asdict()} if errors else {}
    head = json.dumps({"format": FORMAT, "profile": profile, **published})
    opening = f'{head[:-1]}, "points": [\n'
    path = folder / f"{profile}.json"
    write_whole(path, opening + ",\n".join(lines) + "\n]}\n")
    return path


def coverage_table(shipped: Mapping[str, Sequence[Miss]], level: float = LEVEL) -> Table:
    """Return how often intervals of nominally *level* hold what was measured."""

    def column(figure: str) -> Column[str]:
        def held(name: str) -> str:
            inside, total = coverage(shipped[name], figure, level)
            return f"{inside / total:.1%} of {total}" if total else "too few"

        return Column(METRICS[figure].heading, held)

    columns = [Column[str]("machine", str, words=True), *map(column, FIGURES)]
    title = f"points inside intervals of {level:.0%}, each mechanism left out in turn"
    return Table.of(title, shipped, columns)
