"""The command that asks whether it is true: measured runs beside forecasts, papers beside both."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..calibration.running.compiling import Side, compile_engines
from ..models.catalogue import MECHANISMS
from ..scenario.errors import UserError
from ..sim.files.parallel import cpu_count
from .door import compiling, keeping, people, progress_bar
from .observed import OfRuns, habits_told, observed_runs
from .options import check_absent, grouped, options_given
from .rules import OfRules, validate_rules
from .working import check_measured

if TYPE_CHECKING:
    from ..calibration.observed.observed_run import ObservedRun
    from ..calibration.profiles.cost_profile import Profile
    from ..calibration.records.measured_runs import RunRecord
    from ..validation.forecast.provenance import MachineRuns

PAPERS, RULES = "papers", "rules"
"""What stands in the place of a FOLDER for the literature, and for the kernel's rules."""
_DRAWS = 20
_NOT_OF_RULES = "unless `rules` stands in place of a FOLDER"
_NOT_OF_PAPERS = "unless `papers` stands in place of a FOLDER"


@dataclass(frozen=True, kw_only=True)
class OfPapers:
    """What is asked of the literature alone."""

    paper: Annotated[
        list[str] | None,
        typer.Option(help="Of papers: this one, named author_year; may be repeated."),
    ] = None
    fast: Annotated[
        bool, typer.Option("--fast", help="Of papers: fewer points and draws, shorter runs.")
    ] = False
    ablation: Annotated[
        bool | None,
        typer.Option(
            "--ablation/--no-ablation",
            help="Of papers: switch off one rule after the other; with --fast only if asked for.",
        ),
    ] = None


@grouped
def validate(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER...|papers|rules",
            help="Machines' folders, as `measure` makes them; or the word papers, for the "
            "literature; or rules, for those of Linux; absent with --runs.",
        ),
    ] = None,
    *,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            help="Instead of a FOLDER: runs that were observed of a server, a file or a folder "
            "with runs.jsonl. Again for more."
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            help="A shipped profile or a file, once for each FOLDER; if absent, FOLDER's own."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report; `report`, or `report-papers`, if absent. Of rules: for a "
            "page; none if absent."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=0, max=1000, help="Of the costs; 20, of papers 40, or 10 with --fast, if absent."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes; all CPUs if absent.")
    ] = None,
    of_papers: OfPapers,
    of_runs: OfRuns,
    of_rules: OfRules,
) -> None:
    """Set forecasts beside the runs measured in each FOLDER, and write one report.

    Runs of the emulated target have no noise: each is forecast by itself. With the word papers
    in place of a FOLDER, claims of the literature are simulated and scored instead; with the word
    rules, Linux and the simulator answer the same questions; with --runs, a --profile is held
    against runs of your own server.
    """
    n_workers = workers or cpu_count()
    n_draws = _DRAWS if draws is None else draws
    if runs:
        if folders:
            raise UserError(f"--runs: must be absent where a FOLDER is given, got {folders[0]}")
        check_absent(options_given(of_papers), _NOT_OF_PAPERS)
        check_absent(options_given(of_rules), _NOT_OF_RULES)
        to_runs = output or Path("report")
        _validate_runs(runs, profile or [], to_runs, of_runs, draws=n_draws, workers=n_workers)
        return
    check_absent(options_given(of_runs), "without --runs")
    if not folders:
        raise UserError("FOLDER: must be given, or --profile and --runs")
    _refuse_names_of_rules(folders)
    if folders == [Path(RULES)]:
        check_absent(options_given(of_papers), _NOT_OF_PAPERS)
        simulated = {"--profile": profile, "--draws": draws, "--workers": workers}
        given = [name for name, value in simulated.items() if value not in (None, [])]
        check_absent(given, "for rules, which have neither costs nor draws")
        validate_rules(of_rules, output)
        return
    check_absent(options_given(of_rules), _NOT_OF_RULES)
    if folders == [Path(PAPERS)]:
        from .papers import validate_papers

        if profile:
            raise UserError("--profile: must be absent for papers, whose machines are their own")
        if draws == 0:
            raise UserError("--draws: must be at least 1 for papers, got 0")
        validate_papers(
            list(dict.fromkeys(of_papers.paper or [])),
            output or Path("report-papers"),
            fast=of_papers.fast,
            draws=draws,
            ablation=of_papers.ablation,
            workers=n_workers,
        )
        return
    check_absent(options_given(of_papers), _NOT_OF_PAPERS)
    to_folder = output or Path("report")
    _validate_machines(folders, profile or [], to_folder, draws=n_draws, workers=n_workers)


def _refuse_names_of_rules(folders: Sequence[Path]) -> None:
    """Refuse what follows the word rules, unless *folders* are all there: then one is so named."""
    first, *others = folders
    if first == Path(RULES) and others and not all(folder.is_dir() for folder in folders):
        only = " ".join(f"--only {shlex.quote(str(other))}" for other in others)
        raise UserError(
            f"FOLDER: must be absent after rules, got {others[0]}: "
            f"dispatchsim validate rules {only} asks these rules alone"
        )


def _validate_machines(
    folders: Sequence[Path], profiles: Sequence[str], output: Path, *, draws: int, workers: int
) -> None:
    """Forecast what was measured in *folders*, and write the report into *output*."""
    from ..calibration.profiles.cost_profile import Profile
    from ..validation.report.report import is_emulated
    from ..validation.report.report import validate as write_report

    machines = _machines(folders, profiles)
    # What is wrong with the runs is said before anything is compiled for them.
    for machine in machines:
        is_emulated(machine)
    for machine in machines:
        with keeping(output):
            source = Profile.read(machine.profile_path)
            # What the profile has no costs of is not forecast, and the report says so.
            priced = [
                m
                for m in dict.fromkeys(
                    run.point.server.mechanism for run in _runs_of(machine.folder)
                )
                if m in MECHANISMS and not source.missing_for(m)
            ]
            compile_engines(priced, source, side=Side.of_testbed(), telling=compiling)
    with keeping(output), progress_bar("forecasting") as progress:
        report = write_report(
            machines,
            output,
            draws=draws,
            workers=workers,
            progress=progress,
        )
    report.print(people())


def _machines(folders: Sequence[Path], profiles: Sequence[str]) -> list[MachineRuns]:
    """Return each folder with its profile."""
    from ..calibration.profiles.choosing import find_profile_path
    from ..validation.forecast.provenance import MachineRuns

    for folder in folders:
        # Of a machine on which only overload was measured there is only that section.
        check_measured(folder, *["heldout.jsonl"] * (not (folder / "overload.jsonl").is_file()))
    if profiles and len(profiles) != len(folders):
        raise UserError(
            f"--profile: must be given once for each FOLDER or not at all, "
            f"got {len(profiles)} for {len(folders)}"
        )
    paths = map(find_profile_path, profiles or map(_profile_of, folders))
    return [MachineRuns(path, folder) for path, folder in zip(paths, folders, strict=True)]


def _runs_of(folder: Path) -> list[RunRecord]:
    from ..validation.forecast.provenance import read_machine_runs

    return read_machine_runs(folder).all


def _profile_of(folder: Path) -> str:
    """Return the profile of the machine measured in *folder*: calibrated here, or shipped."""
    from ..calibration.profiles.cost_profile import shipped_profiles

    name = folder.resolve().name
    calibrated = Path(f"{name}.toml")
    if calibrated.is_file():
        return str(calibrated)
    if name in shipped_profiles():
        return name
    raise UserError(
        f"--profile: must be given, as there is no {calibrated} here: "
        f"dispatchsim calibrate {folder} makes it"
    )


def _validate_runs(
    paths: Sequence[Path],
    profiles: Sequence[str],
    output: Path,
    of_runs: OfRuns,
    *,
    draws: int,
    workers: int,
) -> None:
    """Forecast every point of the runs in *paths*, compare, and write the report into *output*.

    Raises
    ------
    UserError, DataError, FitError
        If runs or profile cannot be used.
    """
    from ..calibration.observed.observed_run import habits_of
    from ..calibration.observed.run_files import check_machine
    from ..calibration.profiles.choosing import find_profile_path
    from ..calibration.profiles.cost_profile import Profile
    from ..validation.forecast.kept_runs import KEPT_RUNS, KeptRuns
    from ..validation.report.observed_section import (
        observed_section,
        print_observed,
        write_observed,
    )

    if len(profiles) != 1:
        raise UserError(f"--profile: must be given once with --runs, got {len(profiles)}")
    if output.exists() and not output.is_dir():
        raise UserError(f"--output: must be a folder, got the file {output}")
    runs, notices = observed_runs(paths, of_runs.server)
    habits, taken = habits_told(runs, of_runs.told)
    path = find_profile_path(profiles[0])
    profile = Profile.read(path)
    notices = [*notices, *check_machine(runs, profile, anyway=of_runs.anyway), *taken]
    doing = dict.fromkeys(habits_of(run.server, habits) for run in runs)
    priced = [each for each in doing if not profile.missing_for(each.mechanism)]
    if not priced:
        missing = profile.missing_for(next(iter(doing)).mechanism)
        raise UserError(
            f"{profile.name}: {missing[0]}: must be known to forecast "
            f"{next(iter(doing)).mechanism}, and it is the same for all other runs"
        )
    with keeping(output):
        for n_loops in dict.fromkeys(each.loops for each in priced):
            names = dict.fromkeys(each.mechanism for each in priced if each.loops == n_loops)
            compile_engines(list(names), profile, side=Side.of_testbed(n_loops), telling=compiling)
    output.mkdir(parents=True, exist_ok=True)
    sections = []
    with keeping(output), progress_bar("forecasting") as progress:
        kept = KeptRuns(output / KEPT_RUNS)
        for name, own in _by_name(runs).items():
            sections.append(
                observed_section(
                    name,
                    own,
                    path,
                    habits,
                    draws=draws,
                    workers=workers,
                    notices=[*notices, *_strange(own, profile)],
                    progress=progress,
                    kept=kept,
                )
            )
    print_observed(write_observed(sections, output), people())


def _by_name(runs: Sequence[ObservedRun]) -> dict[str, list[ObservedRun]]:
    """Return the runs by the server's name: what its commands differ in is to be ranked."""
    named: dict[str, list[ObservedRun]] = {}
    for run in runs:
        named.setdefault(run.server.name or "a server without a name", []).append(run)
    return named


def _strange(runs: Sequence[ObservedRun], profile: Profile) -> list[str]:
    """Return a sentence if *profile* was fitted to another server than *runs* are of."""
    fitted = str(profile.machine.get("server", ""))
    name = runs[0].server.name
    if not fitted or not name or name in fitted:
        return []
    return [f'{profile.name} was fitted to "{fitted}", and these runs are of {name}']
