"""The commands of `validate`: forecasts beside measured runs, and claims of papers simulated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..calibration.running.compiling import Side, compile_engines
from ..models.catalogue import MECHANISMS
from ..scenario.errors import UserError
from ..sim.files.parallel import cpu_count
from .door import compiling, keeping, notes, people, progress_bar
from .observed import OfRuns, habits_told, observed_runs
from .options import grouped
from .working import check_measured

if TYPE_CHECKING:
    from ..calibration.observed.observed_run import ObservedRun
    from ..calibration.profiles.cost_profile import Profile
    from ..calibration.records.measured_runs import RunRecord
    from ..validation.forecast.provenance import MachineRuns
    from ..validation.report.report import Report

CostSamples = Annotated[
    int,
    typer.Option(
        "--cost-samples",
        min=0,
        max=1000,
        help="Each measured run is forecast this many times. Each forecast takes its costs at "
        "random from their measured intervals. 0: one forecast, with the fitted costs.",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=1024, help="Number of processes. Default: all CPUs."),
]
_OF_MACHINE = typer.Argument(
    metavar="FOLDER", help="Folder with a machine's results, written by `measure machine`."
)
ReportFolder = Annotated[Path, typer.Option("--output", help="Folder for the report.")]


def validate_machine(
    folders: Annotated[
        list[Path],
        _OF_MACHINE,
    ],
    *,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            help="A shipped profile or a file. With several folders, repeat the option, in the "
            "same order. Default: FOLDER.toml in the current folder, or else the shipped profile "
            "of that name."
        ),
    ] = None,
    output: ReportFolder = Path("report"),
    draws: CostSamples = 20,
    full: Annotated[
        bool,
        typer.Option("--full", help="Print every table and point of the report, not a summary."),
    ] = False,
    workers: Processes = None,
) -> None:
    """Compare forecasts with the measured runs of machines.

    dispatchsim validate machine my-machine

    A point is one server at one load. Print which metrics are wrong, what to suspect, errors by
    load, and the points with the largest errors. The report has one section per folder. On
    hardware, a forecast is compared with the median of repeated runs. On the emulated target
    (QEMU), where runs have no noise, it is compared with every single run. Forecasts that `lab
    forecast-grid` wrote into FOLDER are compared, too. A machine takes some minutes. If the command
    was stopped, run it again: it reuses the simulations that are in --output.
    """
    report = _validate_machines(
        folders, profile or [], output, draws=draws, workers=workers or cpu_count()
    )
    report.print(people(), full=full)


def validate_point(
    folder: Annotated[
        Path,
        _OF_MACHINE,
    ],
    point: Annotated[
        str | None,
        typer.Argument(
            metavar="POINT",
            help="Some or all words of a point's label, in order. Default: list all labels.",
        ),
    ] = None,
    *,
    profile: Annotated[
        str | None,
        typer.Option(
            help="A shipped profile or a file. Default: FOLDER.toml in the current folder, or else "
            "the shipped profile of that name."
        ),
    ] = None,
    draws: CostSamples = 20,
    workers: Processes = None,
) -> None:
    """Compare the measured runs of one server at one load with the forecast.

    dispatchsim validate point my-machine "poll idle 0 closed 64"

    A point is one server at one load. The output begins with the metric to look at first, and the
    costs to suspect. A table has each metric of each run beside the forecast. Another table divides
    the simulated CPU time of a request into activities. Runs that were rejected are left out.
    """
    from ..calibration.profiles.cost_profile import Profile
    from ..sim.files.tables import rich_table
    from ..validation.forecast.forecast import unknown
    from ..validation.report.one_point import (
        find_point,
        labels,
        one_point,
        point_tables,
        where_to_start,
    )
    from ..validation.report.report import is_emulated

    check_measured(folder, "heldout.jsonl")
    runs, console = _runs_of(folder), people()
    if point is None:
        console.print(*labels(runs), sep="\n", markup=False, soft_wrap=True)
        return
    (machine,) = _machines([folder], [profile] if profile else [])
    if is_emulated(machine):
        raise UserError(f"{folder}: must hold runs on hardware, got the emulated target's")
    try:
        wanted = find_point({run.point: None for run in runs if run.accepted}, point)
    except LookupError as error:
        raise UserError(f"POINT: {error}") from error
    source = Profile.read(machine.profile_path)
    if why := unknown(source, wanted):
        raise UserError(why)
    compile_engines([wanted.server.mechanism], source, side=Side.of_testbed(), telling=compiling)
    with progress_bar("forecasting") as progress:
        found = one_point(
            wanted, runs, source, draws=draws, workers=workers or cpu_count(), progress=progress
        )
    console.print(where_to_start(found), markup=False)
    console.print(f"profile {_profile_shown(machine.profile_path)}", markup=False, soft_wrap=True)
    for table in point_tables(found):
        console.print(rich_table(table))


@grouped
def validate_server(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="Measured runs of servers, written by `measure server` or `import`: files, or "
            "folders with a runs.jsonl.",
        ),
    ],
    *,
    profile: Annotated[
        str, typer.Option(help="The server's profile: a file, or a shipped profile.")
    ],
    output: ReportFolder = Path("report"),
    draws: CostSamples = 20,
    workers: Processes = None,
    of_runs: OfRuns,
) -> None:
    """Compare forecasts with the runs of a server.

    dispatchsim validate server my-server --profile my-server.toml
    """
    _validate_runs(runs, profile, output, of_runs, draws=draws, workers=workers or cpu_count())


def validate_papers(
    *,
    paper: Annotated[
        list[str] | None,
        typer.Option(help="Only this paper, named author_year. Repeatable. Default: all six."),
    ] = None,
    fast: Annotated[
        bool,
        typer.Option("--fast", help="Take fewer points and cost samples, and shorter runs."),
    ] = False,
    ablation: Annotated[
        bool | None,
        typer.Option(
            "--ablation/--no-ablation",
            help="Switch off one rule of the simulated kernel at a time, and simulate again. "
            "Default: yes, but no with --fast.",
        ),
    ] = None,
    output: ReportFolder = Path("report-papers"),
    draws: Annotated[
        int | None,
        typer.Option(
            "--cost-samples",
            min=1,
            max=1000,
            help="Each point (one server at one load) is simulated this many times. Each "
            "simulation takes its costs at random from their intervals. Default: 40, or 10 with "
            "--fast.",
        ),
    ] = None,
    workers: Processes = None,
) -> None:
    """Test the claims of six papers on simulated machines of their time.

    dispatchsim validate papers --fast
    """
    from .papers import score_papers

    score_papers(
        list(dict.fromkeys(paper or [])),
        output,
        fast=fast,
        draws=draws,
        ablation=ablation,
        workers=workers or cpu_count(),
    )


def _validate_machines(
    folders: Sequence[Path], profiles: Sequence[str], output: Path, *, draws: int, workers: int
) -> Report:
    """Forecast what was measured in *folders*, and write the report into *output*."""
    from ..calibration.profiles.cost_profile import Profile
    from ..validation.report.report import is_emulated
    from ..validation.report.report import validate as write_report

    machines = _machines(folders, profiles)
    # Mistakes in the runs are errors before anything is compiled for them.
    for machine in machines:
        is_emulated(machine)
    for machine in machines:
        with keeping(output):
            source = Profile.read(machine.profile_path)
            # Mechanisms without costs are not forecast, and the report names them.
            priced = [
                m
                for m in dict.fromkeys(
                    run.point.server.mechanism for run in _runs_of(machine.folder)
                )
                if m in MECHANISMS and not source.missing_for(m)
            ]
            compile_engines(priced, source, side=Side.of_testbed(), telling=compiling)
    with keeping(output), progress_bar("forecasting") as progress:
        return write_report(
            machines,
            output,
            draws=draws,
            workers=workers,
            progress=progress,
        )


def _machines(folders: Sequence[Path], profiles: Sequence[str]) -> list[MachineRuns]:
    """Return each folder with its profile."""
    from ..calibration.profiles.choosing import find_profile_path
    from ..validation.forecast.provenance import MachineRuns

    for folder in folders:
        # A folder may hold overload runs alone: its report has that section alone.
        check_measured(folder, *["heldout.jsonl"] * (not (folder / "overload.jsonl").is_file()))
    if profiles and len(profiles) != len(folders):
        raise UserError(
            f"--profile: must be given once for each FOLDER or not at all, "
            f"got {len(profiles)} for {len(folders)}"
        )
    paths = map(find_profile_path, profiles or map(_profile_of, folders))
    return [MachineRuns(path, folder) for path, folder in zip(paths, folders, strict=True)]


def _profile_shown(path: Path) -> str:
    """Return the name of a shipped profile, or the file of another."""
    from ..calibration.profiles.cost_profile import shipped_profiles

    return path.stem if path == shipped_profiles().get(path.stem) else str(path)


def _runs_of(folder: Path) -> list[RunRecord]:
    from ..validation.forecast.provenance import read_machine_runs

    return read_machine_runs(folder).all


def _profile_of(folder: Path) -> str:
    """Return the profile of the machine measured in *folder*: calibrated here, or shipped."""
    from ..calibration.profiles.cost_profile import shipped_profiles

    name = folder.resolve().name
    calibrated = Path(f"{name}.toml")
    if calibrated.is_file():
        if name in shipped_profiles():
            notes().print(
                f"profile: {calibrated} of the current folder, not the shipped profile of that "
                f"name (--profile {name})",
                markup=False,
                soft_wrap=True,
            )
        return str(calibrated)
    if name in shipped_profiles():
        return name
    raise UserError(
        f"--profile: must be given, as there is no {calibrated} here: "
        f"dispatchsim calibrate machine {folder} makes it"
    )


def _validate_runs(
    paths: Sequence[Path],
    profile_name: str,
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

    if output.exists() and not output.is_dir():
        raise UserError(f"--output: must be a folder, got the file {output}")
    runs, notices = observed_runs(paths, of_runs.server)
    habits, taken = habits_told(runs, of_runs.told)
    path = find_profile_path(profile_name)
    profile = Profile.read(path)
    notices = [*notices, *check_machine(runs, profile, anyway=of_runs.anyway), *taken]
    doing = dict.fromkeys(habits_of(run.server, habits) for run in runs)
    priced = [each for each in doing if not profile.missing_for(each.mechanism)]
    if not priced:
        missing = profile.missing_for(next(iter(doing)).mechanism)
        raise UserError(
            f"{profile.name}: {missing[0]}: must be given to forecast "
            f"{next(iter(doing)).mechanism}; the other runs lack their costs, too"
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
    """Return the runs by the server's name: its commands are ranked against each other."""
    named: dict[str, list[ObservedRun]] = {}
    for run in runs:
        named.setdefault(run.server.name or "a server without a name", []).append(run)
    return named


def _strange(runs: Sequence[ObservedRun], profile: Profile) -> list[str]:
    """Return a sentence if *profile* was fitted to another server than that of *runs*."""
    fitted = str(profile.machine.get("server", ""))
    name = runs[0].server.name
    if not fitted or not name or name in fitted:
        return []
    return [f'{profile.name} was fitted to "{fitted}", and these runs are of {name}']
