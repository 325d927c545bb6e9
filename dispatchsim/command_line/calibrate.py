"""The commands of `calibrate`: a profile of a machine, or of a server that was observed on it.

a machine's folder ──► micro and fit runs ──────────► profile
observed runs ───┬──► CPU time of its own code ─────► profile ──┬─► scenario
machine's profile┘                                              └─► which further run to make
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..calibration.running.compiling import Side, compile_engines
from ..scenario.errors import UserError
from ..scenario.formats import rate_text, time_text
from ..scenario.quantities import shown
from ..sim.files.tables import Column, Table, rich_table
from .door import compiling, notes, people, search_steps
from .observed import OfRuns, habits_told, observed_runs, profile_of_runs
from .options import grouped
from .working import check_folder, check_measured

if TYPE_CHECKING:
    from ..calibration.observed.application_fit import ApplicationFit
    from ..calibration.points.point import Point

_FITTED = "fitting the costs of a request and of a connection"


@dataclass(frozen=True, kw_only=True)
class OfServer:
    """What is made of runs that were observed of a server."""

    profile: Annotated[
        str | None,
        typer.Option(
            help="Costs of the machine: a shipped profile or a file. Default: the shipped profile "
            "of the machine named in the runs."
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option(help="Name of the new profile. Default: the server's.")
    ] = None
    scenario: Annotated[
        Path | None, typer.Option(help="Write a scenario with this server to this new file.")
    ] = None
    output: Annotated[
        Path | None, typer.Option(help="File for the profile. Default: SERVER.toml.")
    ] = None
    of_runs: OfRuns


@grouped
def calibrate_server(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS",
            help="Measured runs of one server, written by `measure server` or `import`: files, or "
            "folders with a runs.jsonl.",
        ),
    ],
    *,
    of_server: OfServer,
) -> None:
    """Fit the CPU time of a server's own code to runs of `measure server`.

    dispatchsim calibrate server my-server --output my-server.toml

    It prints the costs of a request and of a connection, with intervals, and a scenario with this
    server. It suggests which further run would narrow the intervals most.
    """
    _calibrate_server(runs, of_server, of_server.output)


def _calibrate_server(paths: Sequence[Path], of_server: OfServer, output: Path | None) -> None:
    """Fit a profile to runs that were observed of a server."""
    from ..calibration.observed.application_fit import fit_application, scenario_text
    from ..calibration.observed.observed_run import habits_of
    from ..calibration.observed.run_files import check_machine, check_one_server
    from ..calibration.profiles.choosing import find_profile
    from ..scenario.scenario import Scenario
    from ..sim.files.whole_files import write_whole

    runs, notices = observed_runs(paths, of_server.of_runs.server)
    label = check_one_server(runs)
    habits, taken = habits_told(runs, of_server.of_runs.told)
    machine = find_profile(of_server.profile) if of_server.profile else profile_of_runs(runs)
    notices += check_machine(runs, machine, anyway=of_server.of_runs.anyway)
    scenario = of_server.scenario
    own = of_server.name or (
        output.stem if output else _short(runs[0].server.command or runs[0].server.name)
    )
    target = output or Path(f"{own}.toml")
    check_folder("--output", target)
    if scenario is not None:
        check_folder("--scenario", scenario)
        if scenario.exists():
            raise UserError(f"--scenario: must be a new file, {scenario} is there")
    for each in dict.fromkeys(habits_of(run.server, habits) for run in runs):
        if not machine.missing_for(each.mechanism):
            compile_engines(
                [each.mechanism], machine, side=Side.of_testbed(each.loops), telling=compiling
            )
    with search_steps(notes(), _FITTED) as step:
        fit = fit_application(machine, runs, habits, name=own, step=step)
    first = next(iter(fit.points))
    closes = next((r.server.closes_first for r in runs if r.server.closes_first is not None), None)
    beside = Path(os.path.relpath(target, scenario.parent)) if scenario else target
    text = scenario_text(fit, closes_first=closes, profile_path=beside)
    Scenario.check(tomllib.loads(text), str(scenario or "the scenario"))
    unsure = machine.not_measured(first.server.mechanism)
    instead = " (replaced)" if target.exists() else ""
    fit.profile.write(target)
    if scenario is not None:
        write_whole(scenario, text)
    _print_fit(fit, label, machine.name, [*notices, *([unsure] if unsure else []), *taken])
    people().print(f"\n{target}: profile {own}{instead}", markup=False)
    asked = scenario or Path(f"{own}_scenario.toml")
    if scenario is None:
        people().print(f"Its scenario, which --scenario {asked} writes:\n\n{text}", markup=False)
    people().print(
        f'Next: dispatchsim run {asked}; dispatchsim capacity {asked} --p99 "50 ms"',
        markup=False,
        soft_wrap=True,
    )


def _short(command: str) -> str:
    """Return the name of a server's program, fit for a file's name."""
    words = [word for word in command.split() if "=" not in word and word != "env"]
    return Path(words[0] if words else "server").name


def _print_fit(fit: ApplicationFit, server: str, machine: str, notices: Sequence[str]) -> None:
    """Print the fitted costs, their runs and intervals, and the next run to measure."""
    console = people()
    console.print(f"{server}\nat the costs of {machine}\n", markup=False)
    application = fit.profile.cost["application"]

    def takes(words: str, key: str) -> tuple[str, str, str]:
        if key not in application:
            return words, "unknown", "the cost of a request may include it"
        cost = application[key]
        low, high = time_text(cost.low[0]), time_text(cost.high[0])
        return words, time_text(cost.value[0]), f"{low} to {high}"

    rows = [takes("a request", "request_ns"), takes("a connection", "connection_ns")]
    costs = Table.of_cells("", ("CPU time of", "", "95% interval"), rows)
    columns: list[Column[Point]] = [
        Column("fitted to", lambda point: point.label, words=True),
        Column("runs", lambda point: fit.points[point]),
        Column("measured rate", lambda point: rate_text(fit.rates_per_s[point])),
        Column("simulation error", lambda point: f"{fit.misfits[point]:+.1%}"),
    ]
    for table in (costs, Table.of("", fit.points, columns)):
        console.print(rich_table(table))
        console.print()
    known = f"repeated runs scatter by {fit.scatter.relative:.1%}"
    expected = f"no run was repeated; a scatter of {fit.scatter.relative:.1%} is assumed"
    console.print(known if fit.scatter.n_repeats else expected, markup=False)
    for note in (*notices, *fit.notes):
        notes().print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
    console.print(f"\n{next_run_text(fit)}", markup=False, soft_wrap=True)


def next_run_text(fit: ApplicationFit) -> str:
    """Return a sentence: the further run that narrows the intervals most, and by how much."""
    found = fit.next_run
    known = found.requests in [point.load.requests for point in fit.points]
    count = f"{found.requests} request{'s' if found.requests > 1 else ''} a connection"
    what = f"The most useful next run: {'another of' if known else 'one of'} {count}"
    request = f"±{time_text(found.before.request_ns)} to ±{time_text(found.after.request_ns)}"
    connection = f"±{time_text(found.after.connection_ns)}"
    if math.isinf(found.before.connection_ns):
        if math.isinf(found.after.connection_ns):
            return f"{what}. It narrows the interval of a request from {request}."
        return (
            f"{what}. It separates the cost of a connection, to {connection}, from that of a "
            "request, which now includes it."
        )
    return (
        f"{what}. It narrows the interval of a request from {request}, of a connection from "
        f"±{time_text(found.before.connection_ns)} to {connection}."
    )


def calibrate_machine(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Folder with a machine's results, written by `measure machine`.",
        ),
    ],
    *,
    output: Annotated[
        Path | None, typer.Option(help="File for the profile. Default: FOLDER.toml.")
    ] = None,
) -> None:
    """Fit the costs of a machine to its measured calls and runs.

    dispatchsim calibrate machine my-machine

    The folder must hold runs of the kinds 'micro' and 'fit'. The folder may also hold runs
    of `measure flood` and recordings of `lab gaps`. They are used, too. A gap is a time in which
    the host took the CPU away.
    """
    from ..calibration.emulated.microbenchmarks import missing_commands
    from ..calibration.fit.fit import fit_profile
    from ..calibration.fit.medians import FitError
    from ..calibration.fit.noise_section import with_noise
    from ..calibration.profiles.choosing import find_profile
    from ..calibration.records.flood_records import FLOOD_FILE, FloodRecord
    from ..calibration.records.measured_runs import MicroResult, RunRecord, read_rows
    from ..calibration.records.noise import judged_by_file, never_calm_text

    check_measured(folder, "machine.json", "micro.jsonl", "fit.jsonl")
    target = output or Path(f"{folder.resolve().name}.toml")
    micro, runs = (
        read_rows(folder / "micro.jsonl", MicroResult),
        read_rows(folder / "fit.jsonl", RunRecord),
    )
    floods = read_rows(folder / FLOOD_FILE, FloodRecord)
    shared = never_calm_text(micro.rows)
    for notice in (*micro.notices, *runs.notices, *floods.notices, *([shared] if shared else [])):
        notes().print(f"warning: {notice}", style="yellow", markup=False)
    facts = _machine_facts(folder / "machine.json")
    # Of the fit point.
    of_fit, known = Side.of_testbed(), find_profile(None)
    compile_engines(["epoll_level"], known, side=of_fit, telling=compiling)
    console = notes()
    try:
        with search_steps(console, _FITTED) as step:
            profile = fit_profile(
                facts,
                micro.rows,
                judged_by_file(runs.rows),
                floods.rows,
                name=target.stem,
                report=lambda sentence: console.print(sentence, markup=False),
                step=step,
            )
    except FitError as error:
        if not (missing := missing_commands(micro.rows)):
            raise
        raise UserError(
            f"{error} (the round is incomplete: {len(missing)} of its microbenchmarks are missing; "
            "the same `dispatchsim measure machine` command resumes)"
        ) from None
    instead = " (replaced)" if target.exists() else ""
    target.parent.mkdir(parents=True, exist_ok=True)
    profile = with_noise(profile, folder, target)
    profile.write(target)
    people().print(f"{target}: profile {profile.name}{instead}", markup=False)


def _machine_facts(path: Path) -> dict[str, object]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: is not JSON ({error})") from None
    if not isinstance(facts, dict) or facts.get("format") != "dispatchsim-machine/1":
        found = facts.get("format") if isinstance(facts, dict) else facts
        raise UserError(f'{path}: format: must be "dispatchsim-machine/1", got {shown(found)}')
    return facts
