"""The section of a report on a real machine: medians of noisy runs against intervals.

runs ─► points ─┬─► forecasts ──────── ─┬─► scores ─► targets
profile ────────┴─► baselines ──────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from ...calibration.points.point import Point
from ...calibration.points.points import FIT_POINT
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.noise import NoiseLimits
from ...calibration.running.preparation import open_connections
from ...sim.engine.workers import workers_for
from ..drawing.figures import figures
from ..forecast.baselines import Baseline, baselines
from ..forecast.forecast import Forecast, Lengths, Request, forecasts, neighbours_of
from ..forecast.kept_runs import KeptRuns
from ..forecast.provenance import MachineRuns, Provenance, provenance_of, read_machine_runs
from ..points.measured_points import MeasuredPoint, group
from ..scoring.knee import knee_errors, knees, regime_errors
from ..scoring.scoring import PointScore, score
from ..scoring.targets import Target, targets
from .page import DrawnFigure, Shown, facts_of, heading_of
from .point_tables import (
    knee_table,
    missing_tables,
    regime_table,
    score_tables,
    target_table,
)

SEEDS_MAX = 3
"""Arrival seeds simulated at a point; the measured runs may have had more."""
CAPTIONS = {
    "closed_throughput": "Closed loop: replies per second against idle connections. Points: "
    "median of the measured repeats with its 95% interval; lines and bands: forecast with its 95% "
    "interval.",
    "open_curves": "Open loop: CPU and median latency against offered rate. Points: measured with "
    "the 95% interval of the median; lines and bands: forecast.",
    "error_histogram": "Relative error of throughput over the held-out points where throughput is "
    "the server's and not the load's; dashed: ±10%.",
}
_TEXT = (
    "Every point below was measured with the C server of the mechanism and forecast by the "
    "simulator from costs that were fitted without it. + means that the forecast is above the "
    "measurement."
)
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class HardwareSection:
    """What a validation found on a real machine."""

    name: str
    provenance: Provenance
    scores: list[PointScore]
    targets: list[Target]
    missing: list[MeasuredPoint]


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
        Of the profile's costs, for each forecast's interval.
    workers:
        Threads to simulate in; 1: this one.
    progress:
        Called with (runs simulated, runs to simulate).
    kept:
        Results of earlier runs; None: all is simulated.

    Raises
    ------
    ValueError
        If the machine has no runs.
    """
    profile = Profile.read(machine.profile_path)
    runs = read_machine_runs(machine.folder)
    measured = group(runs.all)
    found = forecast_all(
        measured, profile, draws=draws, workers=workers, progress=progress, kept=kept
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
    )


def show_hardware(section: HardwareSection) -> Shown:
    """Return what a report shows of *section*."""
    wanted = target_table(section.targets)
    asked = [
        knee_table(knee_errors(knees(section.scores))),
        regime_table(regime_errors(section.scores)),
    ]
    tables = [*score_tables(section.scores), *missing_tables(section.missing)]
    return Shown(
        title=f"On hardware: {section.name}",
        heading=heading_of(f"on hardware: {section.name}", section.provenance),
        text=_TEXT,
        name=section.name,
        first=[*asked, wanted],
        tables=tables,
        screen=[*asked, wanted, *tables],
        figures=lambda: {
            name: DrawnFigure(figure, CAPTIONS[name])
            for name, figure in figures(section.scores).items()
        },
        notices=section.provenance.notices,
        facts=facts_of(section.provenance),
        seeds=sorted(
            (entry.measured.point.label, ", ".join(map(str, entry.forecast.seeds)))
            for entry in section.scores
        ),
    )


def forecast_all(
    measured: Sequence[MeasuredPoint],
    profile: Profile,
    *,
    draws: int,
    workers: int,
    progress: Progress | None,
    kept: KeptRuns | None,
) -> dict[Point, Forecast]:
    """Return the forecasts of all points that *profile* prices, and of open loops around them."""
    requests = [
        Request(
            *(e.point, e.seeds[:SEEDS_MAX], draws, Lengths(e.warm_up_ns, e.window_ns)),
            own_gaps=e.own_gaps[:SEEDS_MAX],
        )
        for e in measured
        if unknown(profile, e.point) is None
    ]
    near = [extra for request in requests for extra in neighbours_of(request)]
    taken = {request.point for request in requests}
    requests += list({r.point: r for r in near if r.point not in taken}.values())
    with workers_for("auto", workers) as executor:
        made = forecasts(requests, profile, executor=executor, progress=progress, kept=kept)
        return {request.point: forecast for request, forecast in made}


def unknown(profile: Profile, point: Point) -> str | None:
    """Return why *profile* cannot price *point*, None if it can."""
    try:
        profile.costs(point.server.mechanism, open_connections=open_connections(point))
    except ValueError as error:
        return str(error)
    return None


def out_of_reach(points: Sequence[Point], profile: Profile) -> list[str]:
    """Return a sentence for what cannot be forecast, and for what is extrapolated."""
    reasons = [unknown(profile, point) for point in points]
    notices = [f"not forecast: {reason}" for reason in reasons if reason]
    outside = profile.outside_range(max(open_connections(point) for point in points))
    return list(dict.fromkeys(notices)) + ([outside] if outside else [])


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
