"""Commands that run one scenario, with one mechanism or with several; and the demo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..calibration.running.preparation import (
    Replication,
    StoppedJob,
    check_mechanisms,
    comparable,
    effort,
    job_of,
    record_job,
    with_engine,
)
from ..recording.tool_reports import TOOLS, check_loop, seen_by_clients, tool_report
from ..scenario.errors import UserError
from ..scenario.examples import scenario_path
from ..scenario.metrics import LEVEL_METRIC, check_metric
from ..scenario.quantities import DURATION
from ..scenario.scenario import Scenario
from ..sim.engine.workers import worker_for
from ..sim.files.parallel import Worker, cpu_count
from ..sim.files.whole_files import to_json, write_json
from ..sim.state.units import SECOND_NS
from ..studies.comparison import Comparison, variants_of
from ..studies.comparison import compare as compare_mechanisms
from ..studies.result import part_to_dict, replication_to_dict
from .door import Stopped, keeping, notes, people
from .options import (
    AsJson,
    Changes,
    CostSamples,
    EngineName,
    Hardware,
    Kept,
    MetricName,
    Output,
    Place,
    Plot,
    ProfileName,
    Replications,
    ScenarioName,
    Settings,
    Vary,
    Verbose,
    Wanted,
    Within,
    Workers,
    grouped,
)
from .recordings import Trace
from .rendering import print_comparison, print_part, print_result
from .working import (
    Asked,
    asked_of,
    check_new_folder,
    check_plot,
    deliver,
    forced,
    note_aliases,
    note_profile,
    on_hardware,
    profile_text,
    share_of,
    with_replications,
    with_settings,
    working,
    writable,
)

LONG_S = 30.0
"""Longer simulations are announced, in seconds."""

_WORTH_PROCESSES_S = 2.0
"""Simulating for longer than this is worth starting processes, which takes a second."""
_SEVERAL: dict[Worker, str] = {"thread": "threads", "process": "processes"}

ToolChoice = StrEnum("ToolChoice", TOOLS)  # type: ignore[misc]
ReportName = Annotated[
    ToolChoice | None,
    typer.Option("--report", help="Print the first run as this load generator would report it."),
]


@grouped
def run(
    scenario: ScenarioName,
    *,
    changes: Changes,
    hardware: Hardware,
    replications: Replications = None,
    draws: CostSamples = 10,
    engine: EngineName = None,
    workers: Workers = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    report: ReportName = None,
    trace: Trace,
) -> None:
    """Simulate a scenario and print its metrics with intervals.

    dispatchsim run poll_10k_idle --set load.rate=5000/s

    ± is the 95% interval of the mean over random arrivals. The column "10 cost samples" is
    how far a metric varies because costs are uncertain: a 95% range, estimated from 10 runs. Each
    of these runs takes its costs at random from their measured intervals.

    The first run of a mechanism compiles a simulator of it (about 2 seconds) into the folder of
    DISPATCHSIM_CACHE_DIR, or into the user's cache folder. Ctrl-C keeps the finished runs in
    --output.
    """
    asked = with_replications(asked_of(scenario, changes, hardware, engine=engine), replications)
    trace.check()
    trace.save(asked)
    if report is not None:
        if as_json or output is not None:
            raise UserError("--report: must be absent with --json or --output")
        typer.echo(_tool_report(report, asked))
        return
    name = asked.scenario.server.mechanism
    result = _simulate(
        asked, [name], draws, Place(workers=workers), output, as_json=as_json
    ).results[name]
    wanted = _wanted(output, "result", as_json=as_json, verbose=verbose)
    deliver(result, lambda: print_result(people(), result), wanted)


def _wanted(
    output: Path | None, name: str, *, as_json: bool, verbose: bool, plot: Path | None = None
) -> Wanted:
    """Return what is delivered: in the folder *output*, the answer under that *name*."""
    path = output and output / f"{name}.json"
    return Wanted(plot=plot, output=path, as_json=as_json, verbose=verbose)


def _tool_report(tool: str, asked: Asked) -> str:
    """Return the first run of what is *asked* as *tool* would report it."""
    scenario, profile = asked.scenario, asked.profile
    check_loop(tool, scenario)
    trace, outcome = record_job(job_of(scenario, profile, scenario.run.seed))
    sizes = trace.request_bytes, trace.reply_bytes
    return tool_report(tool, scenario, seen_by_clients(outcome, sizes))


@grouped
def compare(
    scenario: ScenarioName,
    *,
    mechanisms: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas; the first is the baseline. Default: all that suit "
            "the scenario and have measured costs."
        ),
    ] = None,
    settings: Settings = None,
    hardware: Hardware,
    vary: Vary = None,
    figure: MetricName = LEVEL_METRIC,
    within: Within = None,
    profile: ProfileName = None,
    replications: Replications = None,
    draws: CostSamples = 0,
    engine: EngineName = None,
    place: Place,
    kept: Kept,
    plot: Plot = None,
    output: Output = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Compare dispatch mechanisms, such as poll and io_uring.

    dispatchsim compare poll_10k_idle --mechanisms poll,epoll_level

    All mechanisms get the same arrivals. With --vary, print the best mechanism at each combination
    of values. Without --vary, no runs are kept in the --store.
    """
    asked = with_settings(with_engine(read_scenario(scenario), engine), settings)
    note_aliases([asked.alias])
    known = on_hardware(asked, hardware, profile)
    known = with_replications(known, replications, within)
    if mechanisms is None:
        names = _comparable(known)
    else:
        called = [name.strip() for name in mechanisms.split(",")]
        names = check_mechanisms(called, "--mechanisms")
        note_aliases(called)
    of_levels = {
        "--metric": figure != LEVEL_METRIC,
        "--within": within,
        "--plot": plot,
        "--cluster": place.cluster_address,
    }
    given = ", ".join(name for name, value in of_levels.items() if value)
    if given and not vary:
        raise UserError(f"{given}: needs --vary, such as --vary load.rate=1000/s..8000/s:8")
    if vary:
        from ..studies.comparison import contest
        from .rendering_studies import print_contest

        if draws > 0:
            raise UserError(f"--cost-samples: must be absent with --vary, got {draws}")
        if output is not None:
            check_new_folder(output)
        check_plot(plot)
        check_metric(figure, "--metric")
        note_profile(known, vary)
        with working("comparing", known, place, names, folder=kept.folder) as where:
            found = contest(
                known.scenario,
                names,
                vary,
                figure=figure,
                within=share_of(within),
                profile=forced(known, profile, vary),
                store=where.store,
                executor=where.executor,
                progress=where.progress,
            )
        wanted = _wanted(output, "contest", as_json=as_json, verbose=verbose, plot=plot)
        deliver(found, lambda: print_contest(people(), found), wanted)
        return
    comparison = _simulate(known, names, draws, place, output, as_json=as_json)
    wanted = _wanted(output, "comparison", as_json=as_json, verbose=verbose)
    deliver(comparison, lambda: print_comparison(people(), comparison), wanted)


def demo(
    *,
    output: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("demo"),
    workers: Workers = None,
) -> None:
    """Compare three forecasts with measured runs.

    dispatchsim demo

    It takes under a minute; the first call compiles engines.
    """
    from .demonstration import demonstrate

    writable(output, "--output")
    with keeping(output):
        demonstrate(output, people(), workers=workers or cpu_count())


def read_scenario(name: str) -> Scenario:
    """Return the scenario in the file *name*, or the example of that name."""
    return Scenario.read(scenario_path(name))


def _comparable(asked: Asked) -> list[str]:
    """Return the mechanisms to compare; print which are left out."""
    names, left_out = comparable(asked.scenario, asked.profile)
    for why, who in left_out.items():
        notes().print(f"left out: {', '.join(who)}: {why}", markup=False)
    return names


def _simulate(
    asked: Asked,
    mechanisms: Sequence[str],
    draws: int,
    place: Place,
    output: Path | None,
    *,
    as_json: bool,
) -> Comparison:
    """Simulate what is asked, with each run kept in *output*; print a first unfinished one."""
    scenario, profile = asked.scenario, asked.profile
    if output is not None:
        check_new_folder(output)
    variants_of(scenario, mechanisms)  # mistakes are errors before anything is compiled
    n_runs = len(mechanisms) * (len(scenario.seeds) + draws)
    n_done = 0

    def keep(mechanism: str, replication: Replication) -> None:
        nonlocal n_done
        n_done += 1
        if output is not None:
            draw = "" if replication.draw is None else f"-draw-{replication.draw}"
            path = output / f"{mechanism}-seed-{replication.seed}{draw}.json"
            write_json(path, replication_to_dict(replication))

    def workers() -> int:
        kind = worker_for(scenario.run.engine)
        n = min(place.workers or _workers_for(scenario, n_runs), n_runs)
        seeds = scenario.seeds
        notes().print(
            f"{profile_text(asked)}, seeds {seeds[0]} to {seeds[-1]}, {draws} cost samples, "
            f"{n} {kind if n == 1 else _SEVERAL[kind]}",
            markup=False,
            soft_wrap=True,
        )
        _tell_effort(scenario, n_runs, n)
        return n

    part: StoppedJob | None = None
    hint = " (--output FOLDER keeps each run as it finishes)"
    try:
        with working(
            "simulating", asked, place, mechanisms, output=output, hint=hint, workers=workers
        ) as where:
            try:
                return compare_mechanisms(
                    scenario,
                    mechanisms,
                    profile=profile,
                    draws=draws,
                    executor=where.executor,
                    progress=where.progress,
                    keep=keep,
                )
            except StoppedJob as stop:
                part = stop
                raise
    except Stopped:
        if part is not None and n_done == 0:
            _tell_part(part, as_json=as_json)
        raise


def _tell_part(part: StoppedJob, *, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(part_to_dict(part)))
    else:
        print_part(people(), part)


def _workers_for(scenario: Scenario, n_runs: int) -> int:
    """Return how many workers are worth starting: a process takes a second to begin."""
    known = effort(scenario)
    is_short = known is not None and known[1] * n_runs < _WORTH_PROCESSES_S
    if is_short and worker_for(scenario.run.engine) == "process":
        return 1
    return cpu_count()


def _tell_effort(scenario: Scenario, n_runs: int, n_workers: int) -> None:
    """Warn before a long wait: a rate may be legal and far more than any server can do."""
    known = effort(scenario)
    if known is None:
        return
    n_requests, seconds = known
    wall_s = seconds * math.ceil(n_runs / n_workers)
    if wall_s > LONG_S:
        notes().print(
            f"{n_runs * n_requests:,} requests to simulate, about "
            f"{DURATION.format(60 * SECOND_NS * math.ceil(wall_s / 60))} "
            "(a shorter run.duration, fewer run.replications or --cost-samples take less)",
            markup=False,
        )
