"""A profile against its owner's runs: every point forecast, scored, ranked.

runs ─► points ─┬─► forecasts ──────── ─┬─► scores ─┬─► summary
profile ────────┘                       │           └─► ranking
points of the fit ──────────────────────┘ marked, not scored

ObservedSection ─┬─► report.html
                 ├─► scores.json     "dispatchsim-scores/2", under "observed"
                 └─► figures/
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ...calibration.observed.application_fit import was_fitted_to
from ...calibration.observed.observed_run import Habits, ObservedRun
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import DataError
from ...calibration.testbed.machine_facts import now_text
from ...sim.files.whole_files import write_whole
from ..drawing.figures import closed_throughput, open_curves, style
from ..forecast.kept_runs import KeptRuns
from ..forecast.observed_points import observed_points
from ..forecast.provenance import Provenance, file_hash, installed_version, source_hash
from ..scoring.equal_cpu import equal_cpu
from ..scoring.scoring import PointScore, score
from ..scoring.suspects import readings_of, suspicions
from ..scoring.targets import Capacity, RankedPair, ranked_pairs
from .hardware_section import CAPTIONS, SEEDS_MAX, forecast_all, out_of_reach
from .page import DrawnFigure, Shown, facts_of, heading_of, page, print_sections, write_figures
from .point_tables import observed_tables
from .scores_json import point_score, scores_json
from .summary_tables import equal_cpu_text, server_and_idle, suspect_table

_TEXT = (
    "Every point below was measured by the server's owner. The simulator forecast it from the "
    "profile. + means that the forecast is above the measurement."
)


@dataclass(frozen=True)
class ObservedSection:
    """The results of a validation against the runs of one server."""

    name: str
    provenance: Provenance
    scores: list[PointScore]
    pairs: list[RankedPair]
    capacity: Capacity


def observed_section(
    name: str,
    runs: Sequence[ObservedRun],
    profile_path: Path,
    habits: Habits,
    *,
    draws: int = 20,
    workers: int = 1,
    notices: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
    kept: KeptRuns | None = None,
) -> ObservedSection:
    """Forecast every point of *runs* from the profile, and compare.

    Parameters
    ----------
    name:
        The server's name in the report.
    habits:
        The server's behaviour, for runs that do not record it.
    draws, workers, progress, kept:
        As of `hardware_section`.
    notices:
        Further notices to print.

    Raises
    ------
    DataError
        If no run is usable.
    """
    profile = Profile.read(profile_path)
    grouped = observed_points(runs, habits)
    if not grouped.points:
        reason = f": {grouped.notes[0]}" if grouped.notes else ""
        raise DataError(f"no run of {name} can be compared with a forecast{reason}")
    found = forecast_all(
        grouped.points,
        profile,
        draws=draws,
        workers=workers,
        progress=progress,
        kept=kept,
    )
    fitted = was_fitted_to(profile, runs)
    seen = [entry.point for entry in grouped.points if fitted(entry.point)]
    scores = score(grouped.points, found, {}, seen)
    points = [entry.point for entry in grouped.points]
    dates = sorted({run.source.date for run in runs} - {""}) or ["unknown"]
    return ObservedSection(
        name=name,
        provenance=Provenance(
            date=now_text(),
            profile=profile.name,
            profile_hash=file_hash(profile_path),
            machine=dict(profile.machine),
            steering=("as the runs had it",),
            measured_from=dates[0],
            measured_to=dates[-1],
            measured_code=tuple(sorted({run.source.tool for run in runs})),
            version=installed_version(),
            code=source_hash(),
            python=platform.python_version(),
            method={"draws": draws, "seeds_by_point_max": SEEDS_MAX},
            n_runs=len(runs),
            n_rejected=sum(not run.accepted for run in runs),
            rejected_by_reason=dict(
                sorted(Counter(run.reason for run in runs if not run.accepted).items())
            ),
            notices=(*notices, *grouped.notes, *out_of_reach(points, profile), *_unfitted(profile)),
        ),
        scores=scores,
        pairs=ranked_pairs(scores),
        capacity=Capacity.of(scores),
    )


def _unfitted(profile: Profile) -> list[str]:
    """Return a sentence if *profile* describes a machine without a server."""
    if profile.machine.get("fitted_to"):
        return []
    return [
        f"{profile.name} was not fitted to a server: the cost of the server's own code is that of "
        "the machine's test server (`dispatchsim calibrate server RUNS` fits it)"
    ]


@dataclass(frozen=True)
class ObservedReport:
    """The results of a validation, and their files."""

    sections: list[ObservedSection]
    html_path: Path
    scores_path: Path


def write_observed(sections: Sequence[ObservedSection], output_dir: Path) -> ObservedReport:
    """Write pictures, scores and, last, the page of *sections* into *output_dir*."""
    shown = [show_observed(section, number) for number, section in enumerate(sections, start=1)]
    write_figures({"observed": shown}, output_dir / "figures")
    report = ObservedReport(list(sections), output_dir / "report.html", output_dir / "scores.json")
    write_whole(report.scores_path, scores_json({"observed": map(_scores_of, sections)}))
    write_whole(report.html_path, page(shown))
    return report


def print_observed(report: ObservedReport, console: Console) -> None:
    """Print the summary and every point, then the paths of the report."""
    shown = [show_observed(section) for section in report.sections]
    print_sections(console, shown, (report.html_path, report.scores_path))


def show_observed(section: ObservedSection, number: int = 1) -> Shown:
    """Return the parts of *section* that a report shows; its pictures are named by *number*."""
    first, *tables = observed_tables(section.scores, section.capacity, section.pairs)
    wrong = suspect_table(suspicions(readings_of(section.scores)))
    return Shown(
        title=section.name,
        heading=heading_of(section.name, section.provenance),
        text=_TEXT,
        name=str(number),
        first=[first, wrong],
        tables=tables,
        closing=equal_cpu_text(equal_cpu(section.scores, server_and_idle)),
        screen=[first, wrong, *tables],
        figures=lambda: observed_figures(section),
        notices=section.provenance.notices,
        facts=facts_of(section.provenance),
    )


def observed_figures(section: ObservedSection) -> dict[str, DrawnFigure]:
    """Return capacity against idle connections, by requests per connection, and open loops."""
    drawn: dict[str, DrawnFigure] = {}
    opened = [s for s in section.scores if s.measured.point.load.loop == "open"]
    closed: dict[int, list[PointScore]] = {}
    for entry in section.scores:
        if entry.measured.point.load.loop == "closed":
            closed.setdefault(entry.measured.point.load.requests, []).append(entry)
    with style():
        for requests, scores in sorted(closed.items()):
            caption = f"Requests per connection: {requests}. {CAPTIONS['closed_throughput']}"
            drawn[f"closed_throughput_{requests}"] = DrawnFigure(closed_throughput(scores), caption)
        if opened:
            drawn["open_curves"] = DrawnFigure(open_curves(opened), CAPTIONS["open_curves"])
    return drawn


def _scores_of(section: ObservedSection) -> dict[str, Any]:
    return {
        "name": section.name,
        "provenance": section.provenance,
        "capacity": section.capacity,
        "points": [
            {**point_score(entry), "throughput_at_equal_cpu": entry.throughput_at_equal_cpu}
            for entry in section.scores
        ],
        "ranking": [
            {
                "aspect": pair.aspect,
                "faster": pair.faster.measured.point,
                "slower": pair.slower.measured.point,
                "right": pair.right,
            }
            for pair in section.pairs
        ],
    }
