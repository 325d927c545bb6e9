"""The section of a report on the target without noise: every run against its own simulation.

runs ────┬─► forecasts, run by run ─┬─► scores ─► promises
profile ─┴─► baselines ─────────────┘     └─────► ledgers ◄─ instructions/*.json
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...calibration.points.points import Point
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.measured_runs import RunRecord
from ...sim.engine.workers import workers_for
from ..forecast.baselines import Baseline, baselines
from ..forecast.provenance import MachineRuns, Provenance, provenance_of, read_machine_runs
from ..noise_free.ledger import Ledger, ledgers, read_profiles
from ..noise_free.promises import Promise, promises
from ..noise_free.run_forecast import job_of, measured_figures, run_forecasts
from ..noise_free.scoring import RunScore, score_runs
from ..points.measured_points import MeasuredPoint, group
from .hardware_section import out_of_reach, unknown
from .noise_free_figures import CAPTIONS, noise_free_figures
from .noise_free_tables import (
    count_tables,
    function_table,
    group_tables,
    ledger_summary,
    ledger_table,
    point_tables,
    promise_table,
    regime_table,
    worst_table,
)
from .page import DrawnFigure, Shown, facts_of, heading_of
from .point_tables import missing_tables

_TEXT = (
    "The same C servers on a kernel in an emulator that counts instructions, one a nanosecond: a "
    "run repeats exactly, so every run is set beside the simulation of its own arrivals, and "
    "whatever differs is an effect that the model lacks or a cost that it has wrong. It says "
    "nothing about caches."
)


@dataclass(frozen=True)
class NoiseFreeSection:
    """What a validation found on the target without noise."""

    name: str
    provenance: Provenance
    scores: list[RunScore]
    promises: list[Promise]
    ledgers: list[Ledger]
    missing: list[MeasuredPoint]


def noise_free_section(
    machine: MachineRuns,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> NoiseFreeSection:
    """Simulate every run that was measured on *machine*, and compare.

    Parameters
    ----------
    workers:
        Threads to simulate in; 1: this one.
    progress:
        Called with (runs simulated, runs to simulate).

    Raises
    ------
    ValueError
        If the machine has no runs, or an instruction profile breaks its format.
    """
    profile = Profile.read(machine.profile_path)
    runs = read_machine_runs(machine.folder)
    profiles = read_profiles(machine.folder / "instructions")
    points = list(dict.fromkeys(record.point for record in runs.all))
    known = {point for point in points if unknown(profile, point) is None}
    priced = {k: v for k, v in profiles.items() if unknown(profile, v.point) is None}
    used = [record for record in runs.all if record.accepted and record.point in known]
    with workers_for("auto", workers) as executor:
        found = run_forecasts(
            [job_of(record, profile) for record in used], executor=executor, progress=progress
        )
    answers = _baselines_of(used, runs.fitted, profile)
    scores = score_runs(used, found, answers, {record.point for record in runs.fitted})
    notices = runs.notices + out_of_reach(points, profile)
    return NoiseFreeSection(
        name=machine.name,
        provenance=provenance_of(
            machine,
            runs.all,
            profile,
            method={"forecast": "each run by itself, with its own arrivals and free clients"},
            notices=notices,
        ),
        scores=scores,
        promises=promises(scores),
        ledgers=ledgers(priced, profile),
        missing=[entry for entry in group(runs.all) if not entry.measured],
    )


def show_noise_free(section: NoiseFreeSection) -> Shown:
    """Return what a report shows of *section*; a terminal shows no single points."""
    scores, found = section.scores, section.ledgers
    first = [promise_table(section.promises), regime_table(scores), *group_tables(scores)]
    worst, missing = worst_table(scores), missing_tables(section.missing)
    functions = [("Functions", [function_table(ledger) for ledger in found])]
    return Shown(
        title=f"Without noise: {section.name}",
        heading=heading_of(f"without noise: {section.name}", section.provenance),
        text=_TEXT,
        name=section.name,
        first=first,
        tables=[worst, *map(ledger_table, found), *missing],
        folded=[
            ("Every point", point_tables(scores)),
            ("Counts", count_tables(scores)),
            *(functions if found else []),
        ],
        screen=[*first, worst, *([ledger_summary(found)] if found else []), *missing],
        figures=lambda: {
            f"noise_free_{name}": DrawnFigure(figure, CAPTIONS[name])
            for name, figure in noise_free_figures(scores, found).items()
        },
        notices=section.provenance.notices,
        facts=facts_of(section.provenance),
    )


def _baselines_of(
    records: Sequence[RunRecord], fitted: Sequence[RunRecord], profile: Profile
) -> dict[Point, dict[str, Baseline]]:
    """Return what the formulae say; processor sharing knows its mechanism's fit point."""
    cost_ns = {
        run.point.mechanism: measured_figures(run).cpu_ns_per_request
        for run in fitted
        if run.accepted
    }
    answers = {}
    for point in dict.fromkeys(record.point for record in records):
        costs = profile.costs(
            point.mechanism, open_connections=point.idle + point.users, free_clients=True
        )
        known_ns = cost_ns.get(point.mechanism)
        answers[point] = baselines(point, costs, profile.network_delay_ns, known_ns)
    return answers
