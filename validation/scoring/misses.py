"""By how much forecasts of a machine missed what it did: the allowance for what no cost knows.

    held-out runs ─► measured / forecast, point by point ─► misses/PROFILE.json
                     ─► quantiles, of points as busy ─► an interval for the next forecast

Draws of the costs say what the calibration leaves open; that the model itself is wrong, they do
not. How wrong it was at points which no fit has seen tells how wrong it may be at the next one, if
that is of their kind: then an interval made so holds with the probability that it says, whatever
the misses are distributed like. Whether it does is measured here with each mechanism left out in
turn, so that no interval has seen its own mechanism. The load at which p99 passes a bound is
missed, too: once for each bound and server that was measured at three rates or more. Of five to
eighteen such loads the interval is of their mean and spread, as if they were normal.

Sources: Vovk, Gammerman and Shafer 2005, "Algorithmic Learning in a Random World", §2 (conformal
prediction); Barber et al. 2021, "Predictive inference with the jackknife+" (leaving out in turn).

    dispatchsim lab misses             coverage of the shipped ones
    dispatchsim lab misses SCORES      write those of a scores.json
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ...calibration.profiles.cost_profile import MEASURED, QUICKLY, Profile, ProfileError
from ...calibration.profiles.hardware_change import CHANGED_FROM
from ...calibration.profiles.published_errors import MISSES_FOLDER, MachineErrors
from ...scenario.metrics import METRICS
from ...sim.files.tables import Column, Table
from ...sim.files.whole_files import write_whole
from ...sim.output_analysis.interval import prediction_interval

FORMAT = "dispatchsim-misses/3"
BUSY = 0.85
"""Utilisation, as forecast, from which on a point is near or past its capacity."""
LEVEL = 0.9
_KNEES_LEAST = 5
"""For mean and spread: of fewer, Student's t is wider than anybody can use."""
_BOUND_FACTOR_MOST = 3.0
"""Between a bound on p99 and the one whose past errors are taken for it."""
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


class KneeMiss(NamedTuple):
    """The load at which p99 of one server passes a bound, measured and forecast.

    With `is_end` one of both is the end of the measured rates, beyond which it passes.
    """

    mechanism: str
    bound_ns: int
    measured_per_s: float
    forecast_per_s: float
    is_end: bool

    @property
    def error(self) -> float:
        """The logarithm of measured over forecast; how large it is at least, with `is_end`."""
        return math.log(self.measured_per_s / self.forecast_per_s)


class Known(NamedTuple):
    """The misses to count with: of points, and of knees.

    `other_knees` are those of other machines, for one that has none of its own.
    """

    points: Sequence[Miss] = ()
    knees: Sequence[KneeMiss] = ()
    other_knees: Sequence[KneeMiss] = ()


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
    return _ranked([miss.of[figure] for miss in misses if figure in miss.of], level)


def _ranked(values: Iterable[float], level: float) -> Allowance | None:
    known = sorted(values)
    n, tail = len(known), (1 - level) / 2
    rank = math.floor(tail * (n + 1) + 1e-9)
    if rank < 1:
        return None
    return Allowance(known[rank - 1], median(known), known[n - rank], n)


class KneeAllowance(NamedTuple):
    """The `Allowance` for the load at which p99 passes `bound_ns`; whether of all machines.

    `n_least` says how many of the errors are only known to be at least so large.
    """

    allowed: Allowance
    bound_ns: int
    n_least: int
    is_of_others: bool


def knee_allowance(known: Known, bound_ns: float, level: float = LEVEL) -> KneeAllowance | None:
    """Return the interval of the error of a further load at which p99 passes *bound_ns*.

    It is of the nearest bound that was scored, by the ranks of the machine's own knees; of five to
    eighteen, by their mean and spread (`prediction_interval`). A machine that was never validated
    has the ranks of all others'. None if there are too few, or that bound is another by more than a
    factor of three. A knee that `is_end` counts with the least size of its error.
    """
    bounds_ns = {knee.bound_ns for knee in known.knees or known.other_knees}
    if not bounds_ns:
        return None
    nearest_ns = min(sorted(bounds_ns), key=lambda each: abs(math.log(each / bound_ns)))
    if not 1 / _BOUND_FACTOR_MOST <= nearest_ns / bound_ns <= _BOUND_FACTOR_MOST:
        return None
    is_of_others = not known.knees
    near = [knee for knee in known.knees or known.other_knees if knee.bound_ns == nearest_ns]
    errors = [knee.error for knee in near]
    allowed = _ranked(errors, level)
    if allowed is None and len(errors) >= _KNEES_LEAST and not is_of_others:
        low, high = prediction_interval(errors, level)
        allowed = Allowance(low, median(errors), high, len(errors))
    if allowed is None:
        return None
    return KneeAllowance(allowed, nearest_ns, sum(knee.is_end for knee in near), is_of_others)


def coverage(misses: Sequence[Miss], figure: str, level: float = LEVEL) -> tuple[int, int]:
    """Return how many points lie in the interval of the other mechanisms' misses, of how many."""
    inside = total = 0
    for mechanism in dict.fromkeys(m.mechanism for m in misses):
        own = [m for m in misses if m.mechanism == mechanism]
        others = [m for m in misses if m.mechanism != mechanism]
        n_inside, n = coverage_by(others, own, figure, level)
        inside, total = inside + n_inside, total + n
    return inside, total


def coverage_by(
    others: Sequence[Miss], misses: Sequence[Miss], figure: str, level: float = LEVEL
) -> tuple[int, int]:
    """Return how many of *misses* lie in the interval of the *others*, of how many."""
    inside = total = 0
    for busy in (True, False):
        allowed = allowance([m for m in others if m.is_busy == busy], figure, level)
        own = [m.of[figure] for m in misses if m.is_busy == busy and figure in m.of]
        if allowed is not None:
            total += len(own)
            inside += sum(allowed.low <= error <= allowed.high for error in own)
    return inside, total


def knee_coverage(knees: Sequence[KneeMiss], level: float = LEVEL) -> tuple[int, int]:
    """Return how many knees lie in the interval of the other mechanisms' knees, of how many."""
    inside = total = 0
    for knee in knees:
        others = [each for each in knees if each.mechanism != knee.mechanism]
        n_inside, n = knee_coverage_by(Known(knees=others), [knee], level)
        inside, total = inside + n_inside, total + n
    return inside, total


def knee_coverage_by(
    known: Known, knees: Sequence[KneeMiss], level: float = LEVEL
) -> tuple[int, int]:
    """Return how many *knees* lie in the interval of those that are *known*, of how many.

    An error whose least size is inside may be outside, so it counts as neither.
    """
    inside = total = 0
    for knee in knees:
        found = knee_allowance(known, knee.bound_ns, level)
        if found is not None and found.bound_ns == knee.bound_ns:
            is_inside = found.allowed.low <= knee.error <= found.allowed.high
            total += not (is_inside and knee.is_end)
            inside += is_inside and not knee.is_end
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


def knee_misses(knees: Sequence[Mapping[str, Any]]) -> list[KneeMiss]:
    """Return the misses of *knees* as a report's scores have them (scores_json.py, `knee_loads`).

    Raises
    ------
    KeyError, TypeError, ValueError
        If they are of another format.
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
        )
        for knee in knees
    ]


def read_misses(profile: str) -> Known:
    """Return the shipped misses of the machine of *profile*; none if it was never validated."""
    path = MISSES_FOLDER / f"{profile}.json"
    return read_file(path) if path.is_file() else Known()


def read_file(path: Path) -> Known:
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
        points = [
            Miss(
                str(p["mechanism"]),
                float(p["utilisation"]),
                {figure: float(p[k]) for figure, k in FIGURES.items() if k in p},
            )
            for p in content["points"]
        ]
        return Known(points, knee_misses(content["knees"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProfileError(f"{path}: must be a file of misses, got {error}") from None


def shipped_misses() -> dict[str, Known]:
    """Return all shipped misses of profiles that were measured in full, by profile."""
    return {
        path.stem: read_file(path)
        for path in sorted(MISSES_FOLDER.glob("*.json"))
        if not path.stem.endswith((QUICK, BORROWED))
    }


def _pooled(of_machines: Iterable[Known]) -> Known:
    points: list[Miss] = []
    knees: list[KneeMiss] = []
    for known in of_machines:
        points += known.points
        knees += known.knees
    return Known(points, (), knees)


def _of_kind(kind: str) -> Known:
    return _pooled(map(read_file, sorted(MISSES_FOLDER.glob(f"*{kind}.json"))))


def misses_for(
    profile: Profile, given: Sequence[Miss] | Known | None = None
) -> tuple[Known, list[str]]:
    """Return the misses to count with in a forecast by *profile*, and what to know of them.

    Those *given*, or else the shipped ones of its machine; of a machine that was never validated
    those of all others. A profile that was measured quickly, or scaled from another machine's, has
    those of such profiles.
    """
    if given is not None:
        return given if isinstance(given, Known) else Known(given), []
    measured = str(profile.machine.get(CHANGED_FROM, profile.name))
    pooled = _pooled(shipped_misses().values())
    own = read_misses(measured)
    if profile.machine.get(MEASURED) == QUICKLY and (quick := _of_kind(QUICK)).points:
        return quick, [
            f"{profile.name} was measured quickly: past misses are those of such profiles"
        ]
    if measured != profile.name and (scaled := _of_kind(BORROWED)).points:
        return scaled, [
            f"nobody has measured such hardware: past misses are those of profiles scaled from "
            f"another machine's, as this one is from {measured}"
        ]
    if own.points and measured != profile.name:
        return own, [f"nobody has measured such hardware: past misses are those of {measured}"]
    if own.points:
        return own, []
    return pooled, [
        f"past misses are those of other machines: no forecast of {profile.name} was ever set "
        f"beside measured runs (`dispatchsim validate` measures its own), and an interval made of "
        f"them may hold far less than {LEVEL:.0%}"
    ]


def write_misses(
    profile: str,
    misses: Sequence[Miss],
    folder: Path = MISSES_FOLDER,
    *,
    knees: Sequence[KneeMiss] = (),
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
    of_knees = ",\n".join(json.dumps(knee._asdict()) for knee in knees)
    opening = f'{head[:-1]}, "knees": [\n{of_knees}\n], "points": [\n'
    path = folder / f"{profile}.json"
    write_whole(path, opening + ",\n".join(lines) + "\n]}\n")
    return path


def coverage_table(shipped: Mapping[str, Known], level: float = LEVEL) -> Table:
    """Return how often intervals of nominally *level* hold what was measured."""
    title = f"points inside intervals of {level:.0%}, each mechanism left out in turn"
    return _coverage_table(
        title,
        shipped,
        lambda name, figure: coverage(shipped[name].points, figure, level),
        lambda name: knee_coverage(shipped[name].knees, level),
    )


def coverage_by_others_table(shipped: Mapping[str, Known], level: float = LEVEL) -> Table:
    """Return how often an interval of the other machines' misses holds what one measured."""
    others = {
        name: _pooled(known for other, known in shipped.items() if other != name)
        for name in shipped
    }
    title = f"points inside intervals of {level:.0%}, each machine left out in turn"
    return _coverage_table(
        title,
        shipped,
        lambda name, figure: coverage_by(others[name].points, shipped[name].points, figure, level),
        lambda name: knee_coverage_by(others[name], shipped[name].knees, level),
    )


def _coverage_table(
    title: str,
    shipped: Mapping[str, Known],
    points: Callable[[str, str], tuple[int, int]],
    knees: Callable[[str], tuple[int, int]],
) -> Table:
    def column(figure: str) -> Column[str]:
        return Column(METRICS[figure].heading, lambda name: _held(*points(name, figure)))

    columns = [
        Column[str]("machine", str, words=True),
        *map(column, FIGURES),
        Column("load at which p99 breaks", lambda name: _held(*knees(name))),
    ]
    return Table.of(title, shipped, columns)


def _held(inside: int, total: int) -> str:
    return f"{inside / total:.1%} of {total}" if total else "too few"
