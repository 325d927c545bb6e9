"""Forecast errors of a machine, and the allowance for model errors that they give.

    held-out runs ─► measured / forecast, point by point ─► misses/PROFILE.json
                     ─► quantiles over points as busy ─► an interval for the next forecast

Cost samples show the uncertainty of the calibration, not errors of the model itself. Errors at
held-out points bound the error at a new point of the same kind: the interval then has its nominal
probability for any distribution of errors. The coverage is measured here with each mechanism left
out in turn, so that no interval uses its own mechanism. The load at which p99 exceeds a bound also
has an error, for each bound and each server measured at three or more rates. From five to eighteen
such loads the interval is made of their mean and spread, as if they were normal.

Application work has no forecast error (dispatchsim/studies/stated.py). At a point with such work
the error is of all CPU time, so it is smaller than that of the costs. Intervals are made of errors
without such work, and forecasts dilute them by the share of the work. Points with such work are
tested against the interval diluted by their own share.

Sources: Vovk, Gammerman and Shafer 2005, "Algorithmic Learning in a Random World", §2 (conformal
prediction); Barber et al. 2021, "Predictive inference with the jackknife+" (leaving out in turn).

    dispatchsim lab forecast-errors             coverage of the shipped errors
    dispatchsim lab forecast-errors SCORES      write the errors of a scores.json
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ...calibration.profiles.cost_profile import MEASURED, QUICKLY, Profile, ProfileError
from ...calibration.profiles.hardware_change import CHANGED_FROM
from ...calibration.profiles.published_errors import MISSES_FOLDER, MachineErrors
from ...scenario.metrics import METRICS
from ...sim.files.tables import Column, Table
from ...sim.files.whole_files import write_whole
from ...sim.output_analysis.interval import prediction_interval
from ...sim.state.units import SECOND_NS
from .knee import crossing

FORMAT = "dispatchsim-misses/4"
BUSY = 0.85
"""Forecast utilisation from which on a point is near or past its capacity."""
LEVEL = 0.9
_KNEES_LEAST = 5
"""Least number for mean and spread: with fewer, Student's t gives uselessly wide intervals."""
_BOUND_FACTOR_MOST = 3.0
"""Largest factor between a bound on p99 and the scored bound whose errors are used for it."""
THROUGHPUT = "throughput_per_s"
QUICK, BORROWED = ".quick", ".borrowed"
"""Name endings of profiles that were measured quickly, or scaled from another machine's."""


FIGURES = {
    THROUGHPUT: "throughput_per_s",
    "cpu_busy": "cpu_busy",
    "p50_answered_ns": "p50_ns",
    "p99_answered_ns": "p99_ns",
}
"""The metrics with recorded errors (scenario/metrics.py), and their names in reports and files."""


class Miss(NamedTuple):
    """The forecast errors of a measured point.

    Attributes
    ----------
    mechanism, utilisation:
        The point's mechanism, and the forecast utilisation.
    of:
        The logarithm of measured over forecast, by metric.
    stated:
        The share of the forecast CPU time that application work takes.
    """

    mechanism: str
    utilisation: float
    of: dict[str, float]
    stated: float = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether the forecast server was near or past its capacity."""
        return self.utilisation >= BUSY


class KneeMiss(NamedTuple):
    """The load at which p99 of one server exceeds a bound, measured and forecast.

    With `is_end` one of both loads is the end of the measured rates: the curve passes beyond it.
    `stated` is as in a `Miss`, at the forecast load.
    """

    mechanism: str
    bound_ns: int
    measured_per_s: float
    forecast_per_s: float
    is_end: bool
    stated: float = 0.0

    @property
    def error(self) -> float:
        """The logarithm of measured over forecast; with `is_end` its least size."""
        return math.log(self.measured_per_s / self.forecast_per_s)


class Known(NamedTuple):
    """The forecast errors to allow for: of points, and of knees.

    `other_knees` are those of other machines, for a machine without its own.
    """

    points: Sequence[Miss] = ()
    knees: Sequence[KneeMiss] = ()
    other_knees: Sequence[KneeMiss] = ()


class Allowance(NamedTuple):
    """The interval of further forecast errors, in the logarithms of a `Miss`, and their number.

    `middle` is their median: a forecast is centred on it.
    """

    low: float
    middle: float
    high: float
    n: int

    def beside_work(self, figure: str, stated: float) -> Allowance:
        """Return the interval for a server whose application takes the share *stated* of CPU time.

        The median error is one of the costs alone, so it shrinks with their share. The spread does
        not: forecasts with application work erred as widely as those without.

        >>> Allowance(-0.5, 0.0, 0.25, 40).beside_work("cpu_busy", 0.5)
        Allowance(low=-0.5, middle=0.0, high=0.25, n=40)
        """
        middle = math.log(measured_factor(figure, self.middle, stated))
        low, high = middle + self.low - self.middle, middle + self.high - self.middle
        return self._replace(low=low, middle=middle, high=high)

    def holds(self, figure: str, error: float, stated: float) -> bool:
        """Whether the interval beside application work holds the *error* of a point."""
        here = self.beside_work(figure, stated)
        return here.low <= error <= here.high


def measured_factor(figure: str, error: float, stated: float = 0.0) -> float:
    """Return measured over forecast of the metric if the costs alone are in error.

    *error* is its logarithm without application work; *stated* is the share of the forecast CPU
    time that such work takes, which has no error.

    >>> round(measured_factor("cpu_busy", math.log(0.8), stated=0.5), 6)
    0.9
    >>> round(measured_factor("throughput_per_s", math.log(1.25), stated=0.5), 6)
    1.111111
    """
    if figure == THROUGHPUT:
        return 1 / (stated + (1 - stated) * math.exp(-error))
    return stated + (1 - stated) * math.exp(error)


def stated_share(work_ns: float, per_s: float, cpu_busy: float) -> float:
    """Return the share of a CPU's busy time that *work_ns* for each of *per_s* requests takes.

    >>> stated_share(20_000, 10_000.0, 0.5)
    0.4
    """
    return min(1.0, work_ns * per_s / (SECOND_NS * cpu_busy)) if cpu_busy > 0 else 0.0


def stated_at(per_s: float, shares: Iterable[tuple[float, float]]) -> float:
    """Return the `stated_share` of a server at the load *per_s*, from its *shares* by load."""
    rates_per_s, at_rates = zip(*sorted(shares), strict=True)
    return float(np.interp(per_s, rates_per_s, at_rates))


def allowance(misses: Iterable[Miss], figure: str, level: float = LEVEL) -> Allowance | None:
    """Return the interval that holds a further error of the metric with probability *level*.

    Only points without application work count: their errors are of the costs alone. None if there
    are too few of them: it takes 2 / (1 - level) - 1.
    """
    return _ranked([m.of[figure] for m in misses if not m.stated and figure in m.of], level)


def _ranked(values: Iterable[float], level: float) -> Allowance | None:
    known = sorted(values)
    n, tail = len(known), (1 - level) / 2
    rank = math.floor(tail * (n + 1) + 1e-9)
    if rank < 1:
        return None
    return Allowance(known[rank - 1], median(known), known[n - rank], n)


class KneeAllowance(NamedTuple):
    """The `Allowance` for the load at which p99 exceeds `bound_ns`, and whether of all machines.

    `n_least` is the number of errors of which only a least size is known; at `n_too_high` of them
    the forecast load was too high.
    """

    allowed: Allowance
    bound_ns: int
    n_least: int
    is_of_others: bool
    n_too_high: int = 0


def knee_allowance(known: Known, bound_ns: float, level: float = LEVEL) -> KneeAllowance | None:
    """Return the interval of the error of a further load at which p99 exceeds *bound_ns*.

    It uses the nearest scored bound and the ranks of the machine's own knees; with five to eighteen
    of them, their mean and spread (`prediction_interval`). A machine without a validation uses the
    ranks of all other machines. None if there are too few knees, or if the nearest scored bound
    differs by more than a factor of three. A knee that `is_end` counts with its least error, one
    with application work not at all.
    """
    of_costs = [knee for knee in known.knees or known.other_knees if not knee.stated]
    bounds_ns = {knee.bound_ns for knee in of_costs}
    if not bounds_ns:
        return None
    nearest_ns = min(sorted(bounds_ns), key=lambda each: abs(math.log(each / bound_ns)))
    if not 1 / _BOUND_FACTOR_MOST <= nearest_ns / bound_ns <= _BOUND_FACTOR_MOST:
        return None
    is_of_others = not known.knees
    near = [knee for knee in of_costs if knee.bound_ns == nearest_ns]
    errors = [knee.error for knee in near]
    allowed = _ranked(errors, level)
    if allowed is None and len(errors) >= _KNEES_LEAST and not is_of_others:
        low, high = prediction_interval(errors, level)
        allowed = Allowance(low, median(errors), high, len(errors))
    if allowed is None:
        return None
    ends = [knee for knee in near if knee.is_end]
    n_too_high = sum(knee.error < 0 for knee in ends)
    return KneeAllowance(allowed, nearest_ns, len(ends), is_of_others, n_too_high)


def coverage(misses: Sequence[Miss], figure: str, level: float = LEVEL) -> tuple[int, int]:
    """Return (points inside, points): inside the interval of the other mechanisms' errors."""
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
    """Return (points inside, points): inside the interval of the errors of the *others*."""
    inside = total = 0
    for busy in (True, False):
        allowed = allowance([m for m in others if m.is_busy == busy], figure, level)
        own = [m for m in misses if m.is_busy == busy and figure in m.of]
        if allowed is not None:
            total += len(own)
            inside += sum(allowed.holds(figure, m.of[figure], m.stated) for m in own)
    return inside, total


def knee_coverage(knees: Sequence[KneeMiss], level: float = LEVEL) -> tuple[int, int]:
    """Return (knees inside, knees): inside the interval of the other mechanisms' knees."""
    inside = total = 0
    for knee in knees:
        others = [each for each in knees if each.mechanism != knee.mechanism]
        n_inside, n = knee_coverage_by(Known(knees=others), [knee], level)
        inside, total = inside + n_inside, total + n
    return inside, total


def knee_coverage_by(
    known: Known, knees: Sequence[KneeMiss], level: float = LEVEL
) -> tuple[int, int]:
    """Return (knees inside, knees): *knees* inside the interval of the *known* ones.

    An error whose least size is inside may itself be outside, so it is not counted.
    """
    inside = total = 0
    for knee in knees:
        found = knee_allowance(known, knee.bound_ns, level)
        if found is not None and found.bound_ns == knee.bound_ns:
            is_inside = found.allowed.holds(THROUGHPUT, knee.error, knee.stated)
            total += not (is_inside and knee.is_end)
            inside += is_inside and not knee.is_end
    return inside, total


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


def knee_misses(
    knees: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]] = ()
) -> list[KneeMiss]:
    """Return the errors of *knees* in a report's scores (scores_json.py, `knee_loads`).

    In older reports knees lack the share of application work: it is read from *entries*, the
    report's points.

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
            round(float(knee["stated"] if "stated" in knee else _knee_stated(knee, entries)), 6),
        )
        for knee in knees
    ]


def _knee_stated(knee: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> float:
    """Return the share of application work at the forecast load of *knee*.

    Its server is the one whose curves in *entries* pass the bound at the loads of the knee.
    """
    servers: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for entry in entries:
        point = entry["point"]
        is_open = (point["mechanism"], point["loop"]) == (knee["mechanism"], "open")
        measured = entry["measured"]
        if is_open and measured["generator_kept_up"] and measured["median"]["p99_ns"] is not None:
            servers[json.dumps(point | {"rate_per_s": 0})].append(entry)
    found = {
        stated_at(
            knee["forecast_per_s"], [(e["point"]["rate_per_s"], _stated_share(e)) for e in own]
        )
        for own in servers.values()
        if _has_knee(own, knee)
    }
    if len(found) != 1:
        raise ValueError(f"one server must have the knee {knee}, got {len(found)}")
    return found.pop()


def _has_knee(own: Sequence[Mapping[str, Any]], knee: Mapping[str, Any]) -> bool:
    """Return whether the curves of a server pass the knee's bound at the knee's loads."""
    found = []
    for side, of, load in (
        ("measured", "median", "measured_per_s"),
        ("forecast", "central", "forecast_per_s"),
    ):
        times_ns = [(e["point"]["rate_per_s"], e[side][of]["p99_ns"]) for e in own]
        curve = sorted((rate, math.inf if ns is None else ns) for rate, ns in times_ns)
        crossed = crossing(curve, knee["bound_ns"])
        ends = [curve[0][0], curve[-1][0]]
        found.append(crossed)
        if knee[load] != crossed and (crossed is not None or knee[load] not in ends):
            return False
    return bool(knee["is_end"]) == (None in found)


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
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProfileError(f"{path}: must be a file of forecast errors, got {error}") from None


def shipped_misses() -> dict[str, Known]:
    """Return the shipped forecast errors of all profiles that were measured in full, by profile."""
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
    """Return the forecast errors to allow for in a forecast by *profile*, and notices about them.

    They are those *given*, or else the shipped ones of its machine, or of all other machines if it
    was never validated. A profile that was measured quickly, or scaled from another machine's, uses
    the errors of such profiles.
    """
    if given is not None:
        return given if isinstance(given, Known) else Known(given), []
    measured = str(profile.machine.get(CHANGED_FROM, profile.name))
    pooled = _pooled(shipped_misses().values())
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
    return pooled, [
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


def coverage_table(shipped: Mapping[str, Known], level: float = LEVEL) -> Table:
    """Return the table of how often intervals of nominal *level* hold the measured values."""
    title = f"Points inside {level:.0%} intervals, each mechanism left out in turn"
    return _coverage_table(
        title,
        shipped,
        lambda name, figure: coverage(shipped[name].points, figure, level),
        lambda name: knee_coverage(shipped[name].knees, level),
    )


def coverage_by_others_table(shipped: Mapping[str, Known], level: float = LEVEL) -> Table:
    """Return the table of how often intervals from other machines hold a machine's values."""
    others = {
        name: _pooled(known for other, known in shipped.items() if other != name)
        for name in shipped
    }
    title = f"Points inside {level:.0%} intervals, each machine left out in turn"
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
        Column("load at which p99 exceeds its bound", lambda name: _held(*knees(name))),
    ]
    return Table.of(title, shipped, columns)


def _held(inside: int, total: int) -> str:
    return f"{inside / total:.1%} of {total}" if total else "too few"
