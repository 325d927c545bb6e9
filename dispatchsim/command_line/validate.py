"""The command that asks whether it is true: measured runs beside forecasts, papers beside both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..calibration.running.compiling import Side, compile_engines
from ..models.catalogue import MECHANISMS
from ..scenario.errors import UserError
from ..sim.files.parallel import cpu_count
from .door import Stopped, compiling, keeping, people, progress_bar
from .observed import (
    AcceptLimit,
    Anyway,
    OwnMechanism,
    ReadsAfterAccept,
    ServerPart,
    ServerWorkers,
    Told,
)
from .working import check_measured

if TYPE_CHECKING:
    from ..calibration.records.measured_runs import RunRecord
    from ..validation.forecast.provenance import MachineRuns

PAPERS = "papers"
"""What stands in the place of a FOLDER for the literature."""
_DRAWS = 20


def validate(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER...|papers",
            help="Machines' folders, as `measure` makes them; or the word papers, for the "
            "literature; absent with --runs.",
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
        typer.Option(help="Folder for the report; `report`, or `report-papers`, if absent."),
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
    paper: Annotated[
        list[str] | None,
        typer.Option(help="Of papers: this one, named author_year; may be repeated."),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Of papers: fewer points and draws, shorter runs.")
    ] = False,
    ablation: Annotated[
        bool | None,
        typer.Option(
            "--ablation/--no-ablation",
            help="Of papers: switch off one rule after the other; with --fast only if asked for.",
        ),
    ] = None,
    mechanism: OwnMechanism = None,
    accept_limit: AcceptLimit = None,
    reads_after_accept: ReadsAfterAccept = None,
    server_workers: ServerWorkers = None,
    server: ServerPart = None,
    anyway: Anyway = False,
) -> None:
    """Set forecasts beside the runs measured in each FOLDER, and write one report.

    Runs of the emulated target have no noise: each is forecast by itself. With the word papers
    in place of a FOLDER, claims of the literature are simulated and scored instead; with --runs, a
    --profile is held against runs of your own server.
    """
    told = Told(mechanism, accept_limit, reads_after_accept, server_workers)
    of_papers = (
        ("--paper", bool(paper)),
        ("--fast", fast),
        ("--ablation", ablation is not None),
    )
    if runs:
        if folders:
            raise UserError(f"--runs: must be absent where a FOLDER is given, got {folders[0]}")
        _check_absent(of_papers, "unless `papers` stands in place of a FOLDER")
        from .against import validate_runs

        validate_runs(
            runs,
            profile or [],
            output or Path("report"),
            told,
            server=server,
            anyway=anyway,
            draws=_DRAWS if draws is None else draws,
            workers=workers,
        )
        return
    of_runs = (
        *((option, True) for option in told.options),
        ("--server", server is not None),
        ("--anyway", anyway),
    )
    _check_absent(of_runs, "without --runs")
    if not folders:
        raise UserError("FOLDER: must be given, or --profile and --runs")
    if folders == [Path(PAPERS)]:
        from .papers import validate_papers

        if profile:
            raise UserError("--profile: must be absent for papers, whose machines are their own")
        if draws == 0:
            raise UserError("--draws: must be at least 1 for papers, got 0")
        folder = output or Path("report-papers")
        validate_papers(
            list(dict.fromkeys(paper or [])),
            folder,
            fast=fast,
            draws=draws,
            ablation=ablation,
            workers=workers,
        )
        return
    _check_absent(of_papers, "unless `papers` stands in place of a FOLDER")
    output = output or Path("report")
    from ..calibration.profiles.cost_profile import Profile
    from ..validation.report.report import is_emulated
    from ..validation.report.report import validate as write_report

    machines = _machines(folders, profile or [])
    # What is wrong with the runs is said before anything is compiled for them.
    noise_free = [is_emulated(machine) for machine in machines]
    for machine in machines:
        with keeping(output):
            source = Profile.read(machine.profile_path)
            # What the profile has no costs of is not forecast, and the report says so.
            priced = [
                m
                for m in dict.fromkeys(run.point.mechanism for run in _runs_of(machine.folder))
                if m in MECHANISMS and not source.missing_for(m)
            ]
            compile_engines(priced, source, side=Side.of_testbed(), telling=compiling)
    with _keeping_forecasts(output, noise_free), progress_bar("forecasting") as progress:
        report = write_report(
            machines,
            output,
            draws=_DRAWS if draws is None else draws,
            workers=workers or cpu_count(),
            progress=progress,
        )
    report.print(people())


def _check_absent(options: Sequence[tuple[str, bool]], where: str) -> None:
    """Refuse the first of *options* that was given."""
    for name, given in options:
        if given:
            raise UserError(f"{name}: must be absent {where}")


@contextlib.contextmanager
def _keeping_forecasts(output: Path, noise_free: Sequence[bool]) -> Iterator[None]:
    """Say on Ctrl-C which forecasts are kept: those of noisy runs, which take the longest."""
    try:
        with keeping(output):
            yield
    except Stopped as stop:
        if not any(noise_free):
            raise
        kept = "no forecast is kept" if all(noise_free) else str(stop)
        raise Stopped(
            f"{kept}; forecasts of runs without noise are made anew, in a minute or so"
        ) from None


def _machines(folders: Sequence[Path], profiles: Sequence[str]) -> list[MachineRuns]:
    """Return each folder with its profile."""
    from ..calibration.running.preparation import find_profile_path
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
