"""The command `calibrate`: a profile of a machine, or of a server that was observed on it.

a machine's folder ──► micro and fit runs ──────────► profile
observed runs ───┬──► what its own code takes ──────► profile ──┬─► scenario
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
from .door import compiling, notes, people
from .observed import OfRuns, habits_told, observed_runs, profile_of_runs
from .options import check_absent, grouped, options_given
from .working import check_folder, check_measured

if TYPE_CHECKING:
    from ..calibration.observed.application_fit import ApplicationFit
    from ..calibration.points.point import Point


@dataclass(frozen=True, kw_only=True)
class OfServer:
    """What is asked for of runs that were observed of a server, and of no machine."""

    profile: Annotated[
        str | None,
        typer.Option(
            help="Of runs: the machine's prices, a shipped profile or a file; if absent, the "
            "shipped profile of the machine that runs name."
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option(help="Of runs: of the new profile; if absent, the server's.")
    ] = None
    scenario: Annotated[
        Path | None, typer.Option(help="Of runs: a new file for a scenario with this server.")
    ] = None
    of_runs: OfRuns


@grouped
def calibrate(
    measured: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER|RUNS...",
            help="A machine's folder, as `measure` makes it; or runs that were observed of one "
            "server: files, or folders with runs.jsonl.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(help="The profile; if absent, .toml behind the folder's or server's name."),
    ] = None,
    of_server: OfServer,
) -> None:
    """Fit a profile of costs: of a machine to what was measured in FOLDER, of a server to RUNS.

    Of runs it says what a request and a connection take, with intervals, and which further run
    would shrink those most; and it prints a scenario for the commands that ask questions.
    """
    if not _is_machine(measured):
        _calibrate_server(measured, of_server, output)
        return
    check_absent(options_given(of_server), "for a machine's folder, it is for RUNS")
    _calibrate_machine(measured[0], output)


def _is_machine(measured: Sequence[Path]) -> bool:
    """Return whether *measured* is one folder, and none of observed runs."""
    from ..calibration.observed.run_files import RUNS_FILE

    if len(measured) > 1 or measured[0].is_file() or measured[0].suffix == ".jsonl":
        return False
    return not (measured[0] / RUNS_FILE).is_file()


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
    fit = fit_application(
        machine,
        runs,
        habits,
        name=own,
        say=lambda sentence: notes().print(sentence, style="dim", markup=False),
    )
    first = next(iter(fit.points))
    closes = next((r.server.closes_first for r in runs if r.server.closes_first is not None), None)
    beside = Path(os.path.relpath(target, scenario.parent)) if scenario else target
    text = scenario_text(fit, closes_first=closes, profile_path=beside)
    Scenario.check(tomllib.loads(text), str(scenario or "the scenario"))
    unsure = machine.not_measured(first.server.mechanism)
    instead = ", instead of the one before" if target.exists() else ""
    fit.profile.write(target)
    if scenario is not None:
        write_whole(scenario, text)
    _print_fit(fit, label, machine.name, [*notices, *([unsure] if unsure else []), *taken])
    people().print(f"\n{target}: profile {own}{instead}", markup=False)
    asked = scenario or Path(f"{own}_scenario.toml")
    if scenario is None:
        people().print(
            f"A scenario with it, which --scenario {asked} writes:\n\n{text}", markup=False
        )
    people().print(
        f'Then: dispatchsim run {asked}; dispatchsim capacity {asked} --p99 "50 ms"',
        markup=False,
        soft_wrap=True,
    )


def _short(command: str) -> str:
    """Return the name of a server's program, fit for a file's name."""
    words = [word for word in command.split() if "=" not in word and word != "env"]
    return Path(words[0] if words else "server").name


def _print_fit(fit: ApplicationFit, server: str, machine: str, notices: Sequence[str]) -> None:
    """Print what was found, from what, how sure that is, and what would make it surer."""
    console = people()
    console.print(f"{server}\nat the prices of {machine}\n", markup=False)
    application = fit.profile.cost["application"]

    def takes(words: str, key: str) -> tuple[str, str, str]:
        if key not in application:
            return words, "unknown", "what requests take may be of connections"
        cost = application[key]
        low, high = time_text(cost.low[0]), time_text(cost.high[0])
        return words, time_text(cost.value[0]), f"{low} to {high}"

    rows = [takes("a request", "request_ns"), takes("a connection", "connection_ns")]
    costs = Table.of_cells("", ("takes for", "", "95% interval"), rows)
    columns: list[Column[Point]] = [
        Column("fitted to", lambda point: point.label, words=True),
        Column("runs", lambda point: fit.points[point]),
        Column("answered", lambda point: rate_text(fit.rates_per_s[point])),
        Column("simulated", lambda point: f"{fit.misfits[point]:+.1%}"),
    ]
    for table in (costs, Table.of("", fit.points, columns)):
        console.print(rich_table(table))
        console.print()
    known = f"repeats of theirs scatter by {fit.scatter.relative:.1%}"
    expected = f"nothing was repeated; runs are taken to scatter by {fit.scatter.relative:.1%}"
    console.print(known if fit.scatter.n_repeats else expected, markup=False)
    for note in (*notices, *fit.notes):
        notes().print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
    console.print(f"\n{next_run_text(fit)}", markup=False, soft_wrap=True)


def next_run_text(fit: ApplicationFit) -> str:
    """Return a sentence: which further run would tell most, and how much."""
    found = fit.next_run
    known = found.requests in [point.load.requests for point in fit.points]
    count = f"{found.requests} request{'s' if found.requests > 1 else ''} a connection"
    what = f"{'another run' if known else 'a run'} of {count}"
    request = f"±{time_text(found.before.request_ns)} to ±{time_text(found.after.request_ns)}"
    if math.isinf(found.before.connection_ns):
        if math.isinf(found.after.connection_ns):
            return f"What would tell most: {what}, the request's interval from {request}."
        return (
            f"What would tell most: {what}, which tells a connection from a request, to "
            f"±{time_text(found.after.connection_ns)}; now all counts as of the request."
        )
    return (
        f"What would tell most: {what}, the interval of a request from {request}, of a connection "
        f"from ±{time_text(found.before.connection_ns)} to ±{time_text(found.after.connection_ns)}."
    )


def _calibrate_machine(folder: Path, output: Path | None) -> None:
    """Fit a profile to micro and fit runs of a machine, and floods."""
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
    try:
        profile = fit_profile(
            facts,
            micro.rows,
            judged_by_file(runs.rows),
            floods.rows,
            name=target.stem,
            report=lambda sentence: notes().print(sentence, markup=False),
        )
    except FitError as error:
        if not (missing := missing_commands(micro.rows)):
            raise
        raise UserError(
            f"{error} (the round is not whole, {len(missing)} of its microbenchmarks were not "
            "measured yet: the same `dispatchsim measure` command goes on)"
        ) from None
    instead = ", instead of the one before" if target.exists() else ""
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
