"""The laboratory's tables: each sets one thing that was measured beside what is forecast of it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..scenario.errors import UserError
from ..sim.files.parallel import cpu_count
from .door import progress_bar
from .working import check_folder, check_known

if TYPE_CHECKING:
    from ..calibration.profiles.cost_profile import Profile
    from ..validation.overload.overload import Compared

_OVERLOAD_WIDTH, _WIDTH = 120, 110
_SCALED_WAY, _QUICK_WAY = "another machine's, scaled", "two minutes"
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A machine's raw results.")]
ProfileFile = Annotated[
    str, typer.Option("--profile", help="Of that machine: a shipped profile or a file.")
]


def _read_profile(name: str) -> Profile:
    from ..calibration.profiles.choosing import find_profile_path
    from ..calibration.profiles.cost_profile import Profile

    return Profile.read(find_profile_path(name))


def _print(lines: Iterable[str]) -> None:
    """Print each line as soon as it is known."""
    for line in lines:
        typer.echo(line)


def overload(
    folder: Folder,
    *,
    profile: Annotated[
        str | None,
        typer.Option(help="A shipped profile or a file; if absent, that of FOLDER's name."),
    ] = None,
) -> None:
    """Set overload as it was measured beside the simulation of the same runs."""
    from ..calibration.profiles.cost_profile import shipped_profiles
    from ..calibration.records.measured_runs import read_rows
    from ..calibration.records.overload_records import OVERLOAD_FILE, OverloadRecord
    from ..validation.overload.overload import compare

    records = read_rows(folder / OVERLOAD_FILE, OverloadRecord).rows
    if not any(record.accepted for record in records):
        raise UserError(
            f"{folder / OVERLOAD_FILE}: must hold accepted runs "
            f"(dispatchsim measure overload --output {folder} makes some)"
        )
    name = profile or folder.resolve().name
    if profile is None and name not in shipped_profiles():
        raise UserError(f"--profile: must be given, as no profile of {name} is shipped")
    _print_overload(compare(records, _read_profile(name)))


def _print_overload(compared: list[Compared]) -> None:
    """Print the runs of each point, every figure, then how many figures are within."""
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
    figure: Annotated[
        Path | None, typer.Option(help="A picture, such as FILE.png, of measured beside forecast.")
    ] = None,
) -> None:
    """Set what floods of datagrams leave to a process that computes beside the forecast."""
    from rich.console import Console

    from ..sim.files.tables import rich_table
    from ..validation.overload.interrupt_load import (
        flood_figure,
        read_machine,
        score_floods,
        table,
    )

    if figure is not None:
        check_folder("--figure", figure)
    scores = score_floods(read_machine(folder), _read_profile(profile))
    Console(width=_WIDTH).print(rich_table(table(scores)))
    if figure is not None:
        flood_figure(scores).savefig(figure, dpi=120)


def overflow_onset(folder: Folder, *, profile: ProfileFile) -> None:
    """Compare the load at which RT signals overflow their queue."""
    from ..validation.overload.overflow_onset import onset_lines

    _print(onset_lines(folder, _read_profile(profile)))


def call_counts(folder: Folder, *, profile: ProfileFile) -> None:
    """Compare the calls that servers make for each request."""
    from ..validation.noise_free.call_counts import call_lines

    _print(call_lines(folder, _read_profile(profile)))


def ablation(
    folder: Folder,
    *,
    profile: ProfileFile,
    effect: Annotated[
        list[str] | None, typer.Option(help="Only this one; again for another.")
    ] = None,
    every: Annotated[int, typer.Option(help="Only each so many-th run, or point.")] = 1,
) -> None:
    """Tell what each effect in the model is worth: errors without it and with all of them."""
    from ..validation.report.ablation import EFFECTS, effect_lines

    for name in effect or ():
        check_known("--effect", name, EFFECTS)
    _print(effect_lines(folder, _read_profile(profile), effect or (), every))


def forecast_grid(
    profile: Annotated[
        str, typer.Argument(metavar="PROFILE", help="A shipped profile, or a file of one.")
    ],
    *,
    capacity: Annotated[
        str,
        typer.Option(help="Of the fit point, as 42000/s: the rates of points are shares of it."),
    ],
    kept_capacity: Annotated[
        str | None,
        typer.Option(help="Of kept connections, in requests/s; the same if absent."),
    ] = None,
    output: Annotated[Path, typer.Option(help="The file, such as a machine's forecast.json.")],
    quick: Annotated[bool, typer.Option("--quick", help="One point in about eight.")] = False,
    mechanisms: Annotated[
        str | None, typer.Option(help="Of these only, between commas; of all if absent.")
    ] = None,
    draws: Annotated[int, typer.Option(min=0, max=1000, help="Of the costs.")] = 5,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes; all CPUs if absent.")
    ] = None,
) -> None:
    """Forecast all points of the next campaign on hardware, to be committed before it is measured.

    `dispatchsim validate FOLDER` sets a forecast.json in FOLDER beside what was measured there.
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


def misses(
    scores: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SCORES", help="The scores.json of a report, to be taken in first."),
    ] = None,
) -> None:
    """Print how often intervals made of forecasts' misses hold what was measured.

    With SCORES the misses in them are written first, in place of the shipped ones of the machines.
    """
    from rich.console import Console

    from ..sim.files.tables import rich_table
    from ..validation.scoring.misses import (
        coverage_by_others_table,
        coverage_table,
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
        except (ValueError, KeyError, TypeError):
            raise UserError(
                f"SCORES: must be the scores.json of a report that dispatchsim validate made, "
                f"got {path}"
            ) from None
        for name, of_machine in found.items():
            written = write_misses(name, of_machine, knees=knees[name], errors=errors[name])
            typer.echo(f"{written}: {len(of_machine)} points")
    shipped = shipped_misses()
    for table in (coverage_table, coverage_by_others_table):
        Console(width=_WIDTH).print(rich_table(table(shipped)))


def what_measuring_buys(
    folder: Folder,
    *,
    quick: Annotated[
        Path, typer.Option(metavar="PROFILE", help="Of `measure --quick` on the same machine.")
    ],
    borrow: Annotated[
        str, typer.Option(metavar="MACHINE", help="A shipped machine whose profile is scaled.")
    ],
    profile: Annotated[
        str | None,
        typer.Option(help="Of all that was measured; if absent, the shipped one of FOLDER's name."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Threads to simulate in.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Let `capacity` count with what is found.")
    ] = False,
) -> None:
    """Forecast the same runs from another machine's costs, from two minutes and from all of them.

    Of the other machine's costs those that compute, wait for memory or enter the kernel are scaled
    by what this machine takes for that.
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
    from ..validation.scoring.misses import BORROWED, QUICK, knee_misses, write_misses
    from .demonstration import measured_folder

    micro = "micro.jsonl"
    full = _read_profile(profile or folder.resolve().name)
    profiles = {
        _SCALED_WAY: borrowed(
            _read_profile(borrow), measured_folder() / borrow / micro, folder / micro
        ),
        _QUICK_WAY: Profile.read(quick),
        "all of it": full,
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
    experiments: Annotated[int, typer.Option(min=1, help="Of each case.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Of all draws.")] = 1,
) -> None:
    """Measure how often confidence intervals hold the known truth."""
    from ..validation.output_statistics.coverage import coverage_lines

    _print(coverage_lines(experiments, seed))


def reported(
    *,
    write: Annotated[bool, typer.Option("--write", help="Make the pictures anew.")] = False,
    take: Annotated[
        Path | None, typer.Option(metavar="REPORT", help="Take a report's folder in, whole.")
    ] = None,
) -> None:
    """Say whether the committed pictures of measured runs are what the code makes.

    The exit code is 1 if one of them is not.
    """
    from ..validation.report.reported import checked
    from ..validation.report.reported import take as take_in

    if take is not None:
        take_in(take)
    n_old = 0
    for path, is_as_made in checked(write=write or take is not None):
        n_old += not is_as_made
        typer.echo(f"{path}: {'as made' if is_as_made else 'is not what the code makes'}")
    if n_old:
        raise typer.Exit(1)
