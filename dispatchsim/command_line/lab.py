"""The laboratory's tables: each compares one kind of measurement with its forecast."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..scenario.errors import UserError
from ..sim.files.parallel import cpu_count
from .door import progress_bar
from .working import check_folder, check_known, check_measured

if TYPE_CHECKING:
    from ..calibration.profiles.cost_profile import Profile
    from ..validation.overload.overload import Compared

_OVERLOAD_WIDTH, _WIDTH = 120, 110
_SCALED_WAY, _QUICK_WAY = "scaled: another machine", "quick: two minutes"
Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="Folder with a machine's results, written by `measure`."),
]
ProfileFile = Annotated[
    str, typer.Option("--profile", help="The machine's profile: a shipped one or a file.")
]


def _read_profile(name: str, option: str = "--profile") -> Profile:
    from ..calibration.profiles.choosing import find_profile_path
    from ..calibration.profiles.cost_profile import Profile

    return Profile.read(find_profile_path(name, option))


def _own_profile(folder: Path, name: str | None) -> Profile:
    """Return the profile *name*, or the shipped one of the name of *folder*.

    Raises
    ------
    UserError
        If there is none.
    """
    from ..calibration.profiles.cost_profile import shipped_profiles

    own = folder.resolve().name
    if name is None and own not in shipped_profiles():
        raise UserError(f"--profile: must be given, as no profile of {own} is shipped")
    return _read_profile(name or own)


def _print(lines: Iterable[str]) -> None:
    """Print each line as soon as it is known."""
    for line in lines:
        typer.echo(line)


def overload(
    folder: Folder,
    *,
    profile: Annotated[
        str | None,
        typer.Option(
            help="The machine's profile: a shipped one or a file. Default: the shipped profile "
            "with the same name as FOLDER."
        ),
    ] = None,
) -> None:
    """Compare measured overload with the simulation of the same runs.

    dispatchsim lab overload calibration/measured/epyc-family25-2cpu-linux-6.18
    """
    from ..calibration.records.measured_runs import read_rows
    from ..calibration.records.overload_records import OVERLOAD_FILE, OverloadRecord
    from ..validation.overload.overload import compare

    records = read_rows(folder / OVERLOAD_FILE, OverloadRecord).rows
    if not any(record.accepted for record in records):
        raise UserError(
            f"{folder / OVERLOAD_FILE}: must hold accepted runs of overload: "
            f"`dispatchsim measure overload --output {folder}` writes them"
        )
    _print_overload(compare(records, _own_profile(folder, profile)))


def _print_overload(compared: list[Compared]) -> None:
    """Print the runs of each point, every metric, then how many metrics are within bounds."""
    from rich.console import Console

    from ..scenario.formats import rate_text
    from ..sim.files.tables import rich_table
    from ..validation.overload.verdicts import overload_tables

    console = Console(width=_OVERLOAD_WIDTH, highlight=False, markup=False)
    for entry in compared:
        console.print(
            f"{entry.point.label}: {entry.n_runs} accepted, {entry.n_rejected} rejected, "
            f"capacity {rate_text(entry.capacity_per_s)}, measured load {entry.load:.3f}"
        )
    for table in reversed(overload_tables(compared)):
        console.print()
        console.print(rich_table(table))


def interrupt_load(
    folder: Folder,
    *,
    profile: ProfileFile,
    plot: Annotated[
        Path | None,
        typer.Option(help="Plot measured and forecast values to this file, such as FILE.png."),
    ] = None,
) -> None:
    """Compare measured and forecast CPU time of a process during a datagram flood.

    dispatchsim lab interrupt-load my-machine --profile my-machine.toml

    During the flood a process computes without a pause. Its progress shows how much CPU time the
    flood leaves.
    """
    from rich.console import Console

    from ..sim.files.tables import rich_table
    from ..validation.overload.interrupt_load import (
        flood_figure,
        read_machine,
        score_floods,
        table,
    )

    if plot is not None:
        check_folder("--plot", plot)
    scores = score_floods(read_machine(folder), _read_profile(profile))
    Console(width=_WIDTH).print(rich_table(table(scores)))
    if plot is not None:
        flood_figure(scores).savefig(plot, dpi=120)


def overflow_onset(folder: Folder, *, profile: ProfileFile) -> None:
    """Compare the measured and the forecast load that overflows the RT signal queue.

    dispatchsim lab overflow-onset my-machine --profile my-machine.toml
    """
    from ..validation.overload.overflow_onset import onset_lines

    _print(onset_lines(folder, _read_profile(profile)))


def call_counts(folder: Folder, *, profile: ProfileFile) -> None:
    """Compare the measured and the forecast number of system calls per request.

    dispatchsim lab call-counts counted --profile counted-linux-6.1
    """
    from ..validation.noise_free.call_counts import call_lines

    _print(call_lines(folder, _read_profile(profile)))


def ablation(
    folder: Folder,
    *,
    profile: ProfileFile,
    effect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EFFECT",
            help="Leave out only this effect, such as interrupt-way. To list all effects, give an "
            "unknown name. Repeatable.",
        ),
    ] = None,
    every: Annotated[
        int,
        typer.Option(
            help="Take every Nth point (one server at one load); on the emulated target, every Nth "
            "run."
        ),
    ] = 1,
) -> None:
    """Leave out one effect at a time, and print how forecast errors change.

    dispatchsim lab ablation my-machine --profile my-machine.toml --every 10
    """
    from ..validation.report.ablation import EFFECTS, effect_lines

    for name in effect or ():
        check_known("--effect", name, EFFECTS)
    check_measured(folder, "heldout.jsonl", "fit.jsonl")
    _print(effect_lines(folder, _read_profile(profile), effect or (), every))


def forecast_grid(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE", help="The name of a shipped profile, or a profile's file."
        ),
    ],
    *,
    capacity: Annotated[
        str,
        typer.Option(
            help="Requests/s of a saturated epoll_level server on the machine, such as 42000/s. "
            "Each load is this capacity times a factor, such as 0.8."
        ),
    ],
    kept_capacity: Annotated[
        str | None,
        typer.Option(help="Capacity with keep-alive, in requests/s. Default: --capacity."),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="File for the forecasts, such as a machine's forecast.json.")
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Forecast about one point in eight.")
    ] = False,
    mechanisms: Annotated[
        str | None, typer.Option(help="Only these, separated by commas. Default: all.")
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            "--cost-samples",
            min=0,
            max=1000,
            help="Each point is forecast this many times. Each forecast takes its costs at random "
            "from their measured intervals.",
        ),
    ] = 5,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Number of processes. Default: all CPUs."),
    ] = None,
) -> None:
    """Forecast all points of a machine before they are measured.

    dispatchsim lab forecast-grid my.toml --capacity 42000/s --output f.json

    A point is one server at one load. To compare the forecasts with measured runs, write them to
    forecast.json in the folder of these runs. Then run `dispatchsim validate machine` with that
    folder.
    """
    from ..calibration.points.points import STOCK_MECHANISMS
    from ..calibration.profiles.choosing import find_profile_path
    from ..scenario.quantities import parse_rate_per_s
    from ..validation.forecast.grid_forecast import forecast_grid as forecast_all
    from ..validation.forecast.grid_forecast import write_forecast

    def rate_per_s(option: str, text: str) -> float:
        try:
            return parse_rate_per_s(text)
        except ValueError as error:
            raise UserError(f"{option}: {error}") from None

    check_folder("--output", output)
    names = STOCK_MECHANISMS if mechanisms is None else mechanisms.split(",")
    for name in names:
        check_known("--mechanisms", name, STOCK_MECHANISMS)
    path = find_profile_path(profile)
    capacity_per_s = rate_per_s("--capacity", capacity)
    kept_per_s = rate_per_s("--kept-capacity", kept_capacity) if kept_capacity else None
    try:
        with progress_bar("forecasting") as progress:
            forecast = forecast_all(
                path,
                capacity_per_s,
                kept_per_s=kept_per_s,
                quick=quick,
                mechanisms=names,
                draws=draws,
                workers=workers or cpu_count(),
                progress=progress,
            )
    except ValueError as error:
        raise UserError(f"forecast-grid: {error}") from None
    write_forecast(forecast, output)
    typer.echo(f"{output}: {len(forecast.forecasts)} points")


def forecast_errors(
    scores: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SCORES", help="A scores.json of a report, whose errors replace shipped ones."
        ),
    ] = None,
) -> None:
    """Print how often forecast intervals contain the measured value.

    dispatchsim lab forecast-errors

    Each mechanism (or machine) is left out in turn: an interval is made from the errors of the
    others, then tested on the errors of the one left out. Errors in SCORES replace the shipped
    errors of the same machines.
    """
    from rich.console import Console

    from ..sim.files.tables import rich_table
    from ..validation.scoring.coverage import (
        coverage_by_others_table,
        coverage_table,
        coverage_with_work_table,
    )
    from ..validation.scoring.error_files import (
        knee_misses,
        misses_of,
        shipped_misses,
        write_misses,
    )
    from ..validation.scoring.regimes import machine_errors

    for path in scores or ():
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = misses_of(content)
            errors = {s["name"]: machine_errors(s) for s in content["hardware"]}
            knees = {s["name"]: knee_misses(s["knee_loads"]) for s in content["hardware"]}
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(
                f"SCORES: must be the scores.json of a report of `dispatchsim validate machine`, "
                f"got {path}"
            ) from None
        for name, of_machine in found.items():
            written = write_misses(name, of_machine, knees=knees[name], errors=errors[name])
            typer.echo(f"{written}: {len(of_machine)} points")
    shipped = shipped_misses()
    for table in (coverage_table, coverage_with_work_table, coverage_by_others_table):
        Console(width=_WIDTH).print(rich_table(table(shipped)))


def equal_cpu(
    scores: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCORES",
            help="The scores.json of a report of `validate`. Default: the published runs.",
        ),
    ] = None,
    *,
    machine: Annotated[
        list[str] | None,
        typer.Option(metavar="MACHINE", help="Only this machine. Repeatable. Default: all."),
    ] = None,
    points: Annotated[
        bool,
        typer.Option(
            "--points",
            help="Print each point (one server at one load), not only medians by server.",
        ),
    ] = False,
) -> None:
    """Find out whether errors of p50 come from wrong CPU costs or from wrong delays.

    dispatchsim lab equal-cpu report/scores.json

    Two forecasts of p50 are compared with the measured one. Forecast 1 is for the measured load.
    Forecast 2 is for another load, chosen so that the simulated CPU is as busy as the real CPU
    was. If only forecast 1 is wrong, the CPU costs are wrong. If both are wrong, there is
    another cause than CPU costs: a delay (such as the network's) or the model.
    """
    from rich.console import Console

    from ..sim.files.tables import rich_table
    from ..validation.report.reported import machine_scores
    from ..validation.report.summary_tables import (
        equal_cpu_points_table,
        equal_cpu_table,
        server_and_idle,
    )
    from ..validation.scoring.equal_cpu import allowing, equal_cpu

    try:
        found = machine_scores(scores)
    except (OSError, ValueError, KeyError, TypeError):
        where = "the published points" if scores is None else scores
        raise UserError(
            f"SCORES: must be the scores.json of a report of `dispatchsim validate machine` or "
            f"`server`, got {where}"
        ) from None
    for name in machine or ():
        check_known("--machine", name, found)
    console = Console(width=_WIDTH)
    for name in machine or found:
        console.print(f"{name}:", highlight=False)
        console.print(rich_table(equal_cpu_table(equal_cpu(found[name], server_and_idle))))
        if points:
            console.print(rich_table(equal_cpu_points_table(allowing(found[name]))))


def what_measuring_buys(
    folder: Folder,
    *,
    quick: Annotated[
        Path,
        typer.Option(
            metavar="PROFILE", help="Profile of FOLDER's machine from `measure machine --quick`."
        ),
    ],
    borrow: Annotated[
        str, typer.Option(metavar="MACHINE", help="Shipped machine whose profile is scaled.")
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            help="Profile of the full results. Default: the shipped profile with the same name as "
            "FOLDER."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of threads.")] = 1,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Store the forecast errors of scaled and quick costs. `capacity` and `forecast` "
            "use these errors later. If a profile comes from `measure machine --quick`, they use "
            "the errors of quick costs. If it was scaled from another machine, they use the errors "
            "of scaled costs.",
        ),
    ] = False,
) -> None:
    """Compare forecasts from three sources of costs.

    dispatchsim lab what-measuring-buys mine --quick quick.toml --borrow MACHINE

    The same measured runs of FOLDER are forecast with the costs of each source. scaled: costs of
    another machine (--borrow), scaled by how fast FOLDER's machine computes, uses memory and enters
    the kernel. quick: costs from a short measurement (the profile given with --quick).
    full: costs from the whole measurement (the profile given with --profile).
    """
    from rich.console import Console

    from ..calibration.profiles.cost_profile import Profile
    from ..sim.files.tables import rich_table
    from ..validation.report.scores_json import knee_loads
    from ..validation.report.what_measuring_buys import (
        borrowed,
        bought,
        buying_table,
        forecast_from,
        misses_of_scores,
    )
    from ..validation.scoring.error_files import BORROWED, QUICK, knee_misses, write_misses
    from .demonstration import measured_folder

    micro = "micro.jsonl"
    check_measured(folder, micro, "heldout.jsonl")
    full = _own_profile(folder, profile)
    profiles = {
        _SCALED_WAY: borrowed(
            _read_profile(borrow, "--borrow"), measured_folder() / borrow / micro, folder / micro
        ),
        _QUICK_WAY: Profile.read(quick),
        "full": full,
    }
    with progress_bar("forecasting") as progress:
        scores = forecast_from(folder, profiles, workers=workers, progress=progress)
    rows = [bought(way, profiles[way], own) for way, own in scores.items()]
    Console(width=_WIDTH).print(rich_table(buying_table(rows)))
    if keep:
        for way, kind in ((_SCALED_WAY, BORROWED), (_QUICK_WAY, QUICK)):
            own = scores[way]
            knees = knee_misses(knee_loads(own))
            path = write_misses(f"{full.name}{kind}", misses_of_scores(own), knees=knees)
            typer.echo(f"{path}: {len(scores[way])} points")


def coverage(
    *,
    experiments: Annotated[int, typer.Option(min=1, help="Experiments per case.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.")] = 1,
) -> None:
    """Test on simulated data how often confidence intervals contain the true value.

    dispatchsim lab coverage --experiments 100
    """
    from ..validation.output_statistics.coverage import coverage_lines

    _print(coverage_lines(experiments, seed))


def reported(
    *,
    write: Annotated[bool, typer.Option("--write", help="Write the pictures again.")] = False,
    take: Annotated[
        Path | None,
        typer.Option(
            metavar="REPORT", help="First replace the published report by the one in this folder."
        ),
    ] = None,
) -> None:
    """Check that the published pictures match the data of the published report.

    dispatchsim lab reported

    The exit code is 1 if a picture changed.
    """
    from ..validation.report.reported import checked
    from ..validation.report.reported import take as take_in

    if take is not None:
        take_in(take)
    n_old = 0
    for path, is_as_made in checked(write=write or take is not None):
        n_old += not is_as_made
        typer.echo(f"{path}: {'up to date' if is_as_made else 'differs from what the code makes'}")
    if n_old:
        raise typer.Exit(1)
