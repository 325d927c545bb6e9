"""The section of a report on a real machine: medians of noisy runs against intervals.

runs ─► points ─┬─► forecasts ──────── ─┬─► scores ─► targets
profile ────────┴─► baselines ──────────┘
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...calibration.points.point import Point
from ...calibration.points.points import FIT_POINT
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import MicroResult, RunRecord, read_rows
from ...calibration.records.noise import NoiseLimits
from ...calibration.records.precision import Scatter, by_point
from ...calibration.running.preparation import open_connections
from ...scenario.formats import time_text
from ...sim.engine.workers import workers_for
from ...sim.files.tables import Table
from ..drawing.accuracy_figures import accuracy_figures
from ..drawing.figures import figures
from ..forecast.baselines import Baseline, baselines
from ..forecast.forecast import (
    Forecast,
    Lengths,
    Request,
    SeedGaps,
    forecasts,
    neighbours_of,
    unknown,
)
from ..forecast.grid_forecast import FORECAST_FILE, read_forecast
from ..forecast.hour_prices import HourPrices, calibration_prices, hour_prices
from ..forecast.kept_runs import KeptRuns
from ..forecast.provenance import MachineRuns, Provenance, provenance_of, read_machine_runs
from ..points.measured_points import MeasuredPoint, group
from ..scoring.drift import Drift, drift_table, drifts, scatter_of
from ..scoring.equal_cpu import equal_cpu
from ..scoring.knee import PUBLISHED_BOUND_NS, KneeErrors, knee_errors, knees
from ..scoring.last_run import AgainstFirst, against_first, cpu_within, pairs_of
from ..scoring.regimes import (
    CAPACITY,
    CLOSED,
    QUIET,
    RegimeErrors,
    errors_beside,
    regime_errors,
)
from ..scoring.scoring import LOAD_SHARE_MAX, PointScore, score
from ..scoring.suspects import readings_of, suspicions
from ..scoring.targets import OURS, Target, targets
from ..scoring.value_verdicts import ErrorSummary, unsigned
from .last_run_table import last_run_table
from .page import DrawnFigure, Shown, facts_of, heading_of
from .point_tables import (
    BY_SHARE,
    KEPT_UP,
    hour_table,
    knee_table,
    missing_tables,
    other_gaps_table,
    own_gaps_table,
    regime_table,
    score_tables,
    target_table,
)
from .summary_tables import (
    equal_cpu_table,
    equal_cpu_text,
    load_table,
    server_and_idle,
    suspect_table,
    worst_points_table,
)

SEEDS_MAX = 3
"""Arrival seeds simulated at a point; the measured runs may have had more."""
LEADING = {
    "predicted_measured": "Forecast against measured, one mark for each held-out point. Bars: "
    "range of the repeats (six or more: 95% interval of their median). There is no bar for a "
    "single run, or where a knee's range ends beyond the measured rates. Line: equal; grey: "
    "within 15%.",
    "error_by_load": "Median relative error of response times in open loops over all idle counts: "
    "one row for each server, one column for each load. Errors beyond a factor of two are shown as "
    "factors.",
}
"""The captions of the pictures above all tables."""
CAPTIONS = {
    **LEADING,
    "closed_throughput": "Closed loop: replies per second against idle connections. Points: "
    "median of the measured repeats with their range; lines and bands: forecast with its 95% "
    "interval.",
    "open_curves": "Open loop: CPU and median latency against offered rate. Points: measured with "
    "the range of the repeats; lines and bands: forecast.",
    "error_histogram": "Relative error of throughput over the held-out points where the server, "
    "not the load, limits throughput. Dashed: ±10%.",
}
_TEXT = (
    "Every point below was measured with the C server of the mechanism. The simulator forecast it "
    "from costs that were fitted without it. + means that the forecast is above the measurement."
)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class StatedForecasts:
    """Forecasts from a file in the machine's folder: the file's head, and their scores.

    Their rates are shares of an assumed capacity. Only those forecasts are scored whose points were
    measured at the same rates.
    """

    made: dict[str, Any]
    scores: list[PointScore]

    @property
    def title(self) -> str:
        """The end of the title of their table."""
        return f", forecast on {self.made['date'][:10]}, before the measurement"


@dataclass(frozen=True)
class HardwareSection:
    """The results of a validation on a real machine."""

    name: str
    provenance: Provenance
    scores: list[PointScore]
    targets: list[Target]
    missing: list[MeasuredPoint]
    stated: StatedForecasts | None = None
    drifts: list[Drift] = field(default_factory=list)
    scatter: Scatter | None = None
    against_first: AgainstFirst = field(default_factory=lambda: AgainstFirst([], []))

    @property
    def kept_up(self) -> list[PointScore]:
        """The scores of points whose load generator was the limit in no run."""
        return [score for score in self.scores if score.measured.kept_up]

    @property
    def knows_lateness(self) -> bool:
        """Whether any run has recorded how late its load generator was at p99."""
        generators = [score.measured.generator for score in self.scores]
        return any(g is not None and not math.isnan(g.lag_p99_ns) for g in generators)


def hardware_section(
    machine: MachineRuns,
    *,
    draws: int = 20,
    workers: int = 1,
    progress: Progress | None = None,
    kept: KeptRuns | None = None,
) -> HardwareSection:
    """Forecast every point that was measured on *machine*, and compare.

    Parameters
    ----------
    draws:
        Number of cost samples for each forecast's interval.
    workers:
        Threads to simulate in; 1: this one.
    progress:
        Called with (runs simulated, runs to simulate).
    kept:
        Results of earlier runs; None: simulate everything.

    Raises
    ------
    ValueError
        If the machine has no runs.
    """
    profile = Profile.read(machine.profile_path)
    runs = read_machine_runs(machine.folder)
    measured = group(runs.all)
    found = forecast_all(
        measured,
        profile,
        draws=draws,
        workers=workers,
        progress=progress,
        kept=kept,
        hours=_hours(machine.folder, runs.all),
    )
    scores = score(measured, found, _baselines_of(measured, profile))
    method = {
        "draws": draws,
        "seeds_by_point_max": SEEDS_MAX,
        "noise_limits": asdict(NoiseLimits()),
    }
    return HardwareSection(
        name=machine.name,
        provenance=provenance_of(
            machine,
            runs.all,
            profile,
            method=method,
            notices=runs.notices + out_of_reach([entry.point for entry in measured], profile),
        ),
        scores=scores,
        targets=targets(scores),
        missing=[entry for entry in measured if not entry.measured],
        stated=_stated(machine.folder / FORECAST_FILE, measured),
        drifts=drifts(runs.held_out),
        scatter=scatter_of(runs.held_out),
        against_first=against_first(runs.held_out, scores),
    )


def _hours(folder: Path, runs: Sequence[RunRecord]) -> dict[Point, HourPrices]:
    """Return the costs measured around the accepted runs of each point, where they are known."""
    calibrated = calibration_prices(read_rows(folder / "micro.jsonl", MicroResult).rows)
    accepted = by_point(run for run in runs if run.accepted)
    hours = {point: hour_prices(own, calibrated) for point, own in accepted.items()}
    return {point: prices for point, prices in hours.items() if prices is not None}


def _stated(path: Path, measured: Sequence[MeasuredPoint]) -> StatedForecasts | None:
    """Return the forecasts in the file *path* with their scores; None if there is none."""
    if not path.is_file():
        return None
    earlier = read_forecast(path)
    return StatedForecasts(earlier.made, score(measured, earlier.forecasts, {}))


def show_hardware(section: HardwareSection) -> Shown:
    """Return the parts of *section* that a report shows."""
    wanted = target_table(section.targets)
    every, kept_up = (
        (knee_errors(knees(scores)), regime_errors(scores))
        for scores in (section.scores, section.kept_up)
    )
    wrong = suspect_table(suspicions(readings_of(section.scores)))
    of_planners = asked_tables(
        every,
        kept_up,
        differ=len(section.kept_up) < len(section.scores),
        knows_lateness=section.knows_lateness,
    )
    at_equal_cpu = equal_cpu(section.scores, server_and_idle)
    asked = [wrong, *of_planners]
    if at_equal_cpu:
        asked.append(equal_cpu_table(at_equal_cpu))
    if section.stated:
        stated = regime_table(regime_errors(section.stated.scores))
        asked.append(replace(stated, title=stated.title + section.stated.title))
    if pairs := pairs_of(section.against_first):
        asked.append(last_run_table(pairs, list(map(cpu_within, section.against_first))))
    if with_gaps := errors_beside(section.scores, "with_own_gaps"):
        asked.append(own_gaps_table(with_gaps))
    if with_others := errors_beside(section.scores, "with_other_gaps", "with_own_gaps"):
        asked.append(other_gaps_table(with_others))
    if section.drifts:
        asked += [
            hour_table(errors_beside(section.scores, "at_hour")),
            drift_table(section.drifts, section.scatter),
        ]
    tables = [*score_tables(section.scores), *missing_tables(section.missing)]
    by_load = (load_table(every[1]), worst_points_table(section.scores))
    return Shown(
        title=f"On hardware: {section.name}",
        heading=heading_of(f"on hardware: {section.name}", section.provenance),
        text=_TEXT,
        summary=summary_of(every, section.targets),
        name=section.name,
        first=[*asked, wanted],
        tables=tables,
        brief=[wrong, *(table for table in by_load if table.rows)],
        closing=equal_cpu_text(at_equal_cpu),
        screen=[*asked, wanted, *tables],
        figures=lambda: {
            name: DrawnFigure(figure, CAPTIONS[name])
            for name, figure in (accuracy_figures(section.scores) | figures(section.scores)).items()
        },
        leading=tuple(LEADING),
        notices=section.provenance.notices,
        facts=facts_of(section.provenance),
        seeds=sorted(
            (entry.measured.point.label, ", ".join(map(str, entry.forecast.seeds)))
            for entry in section.scores
        ),
    )


_SUMMARISED = {
    "capacity of closed loops": (CAPACITY, CLOSED),
    f"p50 up to {LOAD_SHARE_MAX:.0%} of capacity": ("p50_ns", QUIET),
    f"p99 up to {LOAD_SHARE_MAX:.0%} of capacity": ("p99_ns", QUIET),
}


def summary_of(every: Asked, targets: Sequence[Target]) -> str:
    """Return the median errors of *every* point in a sentence or two; empty without any."""
    at_knees, in_regimes = every
    by_cell = {(row.figure, row.regime): row for row in in_regimes}
    rows: list[tuple[str, ErrorSummary]] = [
        (name, by_cell[cell]) for name, cell in _SUMMARISED.items() if cell in by_cell
    ]
    bound = time_text(PUBLISHED_BOUND_NS, trim=True)
    rows += [
        (f"load at which p99 exceeds {bound}", row)
        for row in at_knees
        if row.bound_ns == PUBLISHED_BOUND_NS
    ]
    errors = ", ".join(f"{name} {unsigned(row.median)}" for name, row in rows)
    sentences = [f"Median errors: {errors}."] if errors else []
    sentences += [
        f"CPU busy is within {100 * target.limit:.0f} percentage points at {target.n_within} of "
        f"{target.n_points[OURS]} points."
        for target in targets
        if target.name == "CPU busy" and target.n_points[OURS]
    ]
    return " ".join(sentences)


Asked = tuple[Sequence[KneeErrors], Sequence[RegimeErrors]]
"""The errors that a planner needs first: of the knee, and of all metrics by regime."""


def asked_tables(
    every: Asked, kept_up: Asked, *, differ: bool, knows_lateness: bool
) -> list[Table]:
    """Return the tables of knee errors and of errors by regime.

    They cover *every* point and, if these *differ*, the points whose generator *kept_up*. Without
    *knows_lateness* the titles of the latter note that lateness was not recorded.
    """
    tables = [knee_table(every[0]), regime_table(every[1])]
    if differ:
        fewer = knee_table(kept_up[0]), regime_table(kept_up[1])
        end = KEPT_UP if knows_lateness else KEPT_UP + BY_SHARE
        tables += [replace(table, title=table.title + end) for table in fewer]
    return tables


def forecast_all(
    measured: Sequence[MeasuredPoint],
    profile: Profile,
    *,
    draws: int,
    workers: int,
    progress: Progress | None,
    kept: KeptRuns | None,
    hours: Mapping[Point, HourPrices] = MappingProxyType({}),
) -> dict[Point, Forecast]:
    """Return the forecasts of all points with costs in *profile*, and of open loops around them.

    *hours* are the costs measured around the runs of each point.
    """
    priced = [e for e in measured if unknown(profile, e.point) is None]
    own_gaps = [_own_gaps(e) for e in priced]
    requests = [
        Request(
            *(e.point, e.seeds[:SEEDS_MAX], draws, Lengths(e.warm_up_ns, e.window_ns)),
            own_gaps=own,
            other_gaps=other,
            hour=hours.get(e.point),
        )
        for e, own, other in zip(priced, own_gaps, other_gaps(own_gaps), strict=True)
    ]
    near = [extra for request in requests for extra in neighbours_of(request)]
    taken = {request.point for request in requests}
    requests += list({r.point: r for r in near if r.point not in taken}.values())
    with workers_for("auto", workers) as executor:
        made = forecasts(requests, profile, executor=executor, progress=progress, kept=kept)
        return {request.point: forecast for request, forecast in made}


def _own_gaps(measured: MeasuredPoint) -> tuple[SeedGaps, ...]:
    """Return the recorded gaps of the runs whose seeds are simulated; none if a run has no record.

    Forecasts with gaps and without therefore have the same arrivals.
    """
    of_seed, seeds = dict(measured.own_gaps), measured.seeds[:SEEDS_MAX]
    if not all(seed in of_seed for seed in seeds):
        return ()
    return tuple((seed, of_seed[seed]) for seed in seeds)


def other_gaps(own: Sequence[tuple[SeedGaps, ...]]) -> list[tuple[SeedGaps, ...]]:
    """Return the seeds of each point, paired with the gaps of the next point's runs in turn.

    The last point takes those of the first. A point without recorded gaps gets none.

    >>> other_gaps([((1, "a"), (2, "b")), (), ((7, "c"),)])
    [((1, 'c'), (2, 'c')), (), ((7, 'a'),)]
    >>> other_gaps([((1, "a"),), ()])
    [(), ()]
    """
    recorded = [index for index, gaps in enumerate(own) if gaps]
    found: list[tuple[SeedGaps, ...]] = [()] * len(own)
    if len(recorded) > 1:
        for index, after in zip(recorded, [*recorded[1:], recorded[0]], strict=True):
            others = itertools.cycle(gaps for _, gaps in own[after])
            found[index] = tuple((seed, next(others)) for seed, _ in own[index])
    return found


def out_of_reach(points: Sequence[Point], profile: Profile) -> list[str]:
    """Return a sentence for each point without a forecast, extrapolation, and missing effect."""
    reasons = [unknown(profile, point) for point in points]
    notices = [f"not forecast: {reason}" for reason in reasons if reason]
    outside = profile.outside_range(max(open_connections(point) for point in points))
    others = [sentence for sentence in (outside, profile.missing_effects()) if sentence]
    return list(dict.fromkeys(notices)) + others


def _baselines_of(
    measured: Sequence[MeasuredPoint], profile: Profile
) -> dict[Point, dict[str, Baseline]]:
    at_fit = [e for e in measured if e.measured and e.point == FIT_POINT]
    fit_cost_ns = None
    if at_fit:
        # A closed loop keeps the server busy, so busy time over throughput is cost per request.
        figures = at_fit[0].median
        fit_cost_ns = figures.cpu_busy / figures.throughput_per_s * 1e9
    answers = {}
    for entry in measured:
        point = entry.point
        if unknown(profile, point):
            continue
        costs = profile.costs(point.server.mechanism, open_connections=open_connections(point))
        answers[point] = baselines(point, costs, profile.network_delay_ns, fit_cost_ns)
    return answers
