"""The commands that plan: capacity, sweep, tune, forecast."""

from __future__ import annotations

from typing import Annotated

import typer

from ..scenario.errors import UserError
from ..scenario.metrics import LEVEL_METRIC, check_metric
from ..scenario.quantities import DURATION
from ..sim.files.parallel import cpu_count
from ..store.work import Progress
from ..studies.capacity import capacity as ask_capacity
from ..studies.forecast import DRAWS, LEVEL
from ..studies.forecast import forecast as ask_forecast
from ..studies.sweep import sweep as ask_sweep
from ..studies.tune import MATTERS, REPLICATIONS_MAX
from ..studies.tune import tune as ask_tune
from .door import notes, people
from .options import (
    STORE,
    Answer,
    AsJson,
    Clock,
    ClusterAddress,
    Cpus,
    Crossing,
    EngineName,
    FigureName,
    Link,
    MechanismName,
    NoStore,
    Plot,
    ProfileName,
    Samples,
    ScenarioName,
    Settings,
    StoreFolder,
    Vary,
    Within,
    Workers,
)
from .rendering_studies import (
    print_capacity,
    print_forecast,
    print_sweep,
    print_tuning,
)
from .working import (
    Hardware,
    asked_of,
    check_plot,
    deliver,
    forced,
    quantity,
    share_of,
    working,
)

_MINUTE_S = 60.0


def capacity(
    scenario: ScenarioName,
    *,
    p99: Annotated[
        str | None,
        typer.Option(
            help='The bound on the 99 % latency, such as "50 ms"; who fails counts as late.'
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help='Instead of --p99: "p99 < 50 ms and errors < 0.1%", "cpu < 80%" ... All but p99 '
            "are of those that are answered."
        ),
    ] = None,
    of: Annotated[
        str, typer.Option(help="What grows: load.rate, idle.connections, or another number.")
    ] = "load.rate",
    replications: Annotated[
        int, typer.Option(min=1, max=1000, help="Searches, each with other arrivals and costs.")
    ] = 6,
    minutes: Annotated[
        float, typer.Option(min=0.01, max=10_000, help="Wall time after which a search ends.")
    ] = 5,
    settings: Settings = None,
    mechanism: MechanismName = None,
    profile: ProfileName = None,
    clock: Clock = None,
    crossing: Crossing = None,
    cpus: Cpus = None,
    link: Link = None,
    engine: EngineName = None,
    workers: Workers = None,
    cluster_address: ClusterAddress = None,
    plot: Plot = None,
    output: Answer = None,
    as_json: AsJson = False,
) -> None:
    """Find the load at which a SCENARIO breaks an objective: a range, not a number."""
    check_plot(plot)
    if (p99 is None) == (objective is None):
        raise UserError('--p99 or --objective: must be given, such as --p99 "50 ms", and not both')
    if p99 is not None:
        quantity("--p99", DURATION.parse, p99)
    hardware = Hardware(clock, crossing, cpus, link)
    asked = asked_of(
        scenario,
        profile=profile,
        mechanism=mechanism,
        engine=engine,
        settings=settings,
        hardware=hardware,
    )
    n_workers = min(workers or cpu_count(), replications)
    notes().print(f"profile {asked.profile.name}, {replications} searches", markup=False)
    with (
        working(
            "searching",
            asked,
            folder=None,
            workers=n_workers,
            address=cluster_address,
        ) as where,
    ):

        def tell(done: int, total: int) -> None:
            where.progress(Progress(done, total, 0, float("nan")))

        answer = ask_capacity(
            asked.scenario,
            objective or f"p99 < {p99}",
            of=of,
            profile=asked.profile,
            replications=replications,
            seconds_max=_MINUTE_S * minutes,
            executor=where.executor,
            progress=tell,
        )
    deliver(
        answer,
        lambda: print_capacity(people(), answer),
        plot=plot,
        output=output,
        as_json=as_json,
    )


def sweep(
    scenario: ScenarioName,
    *,
    vary: Vary = None,
    samples: Samples = None,
    figure: FigureName = LEVEL_METRIC,
    within: Within = None,
    draws: Annotated[
        int,
        typer.Option(min=0, max=10_000, help="Further runs of each point, at drawn costs."),
    ] = 0,
    settings: Settings = None,
    mechanism: MechanismName = None,
    profile: ProfileName = None,
    clock: Clock = None,
    crossing: Crossing = None,
    cpus: Cpus = None,
    link: Link = None,
    engine: EngineName = None,
    workers: Workers = None,
    cluster_address: ClusterAddress = None,
    store: StoreFolder = STORE,
    no_store: NoStore = False,
    plot: Plot = None,
    output: Answer = None,
    as_json: AsJson = False,
) -> None:
    """Run a SCENARIO at every combination of the fields that --vary names.

    Every run is kept in the --store as it finishes: a sweep that was stopped goes on where it was,
    and what another one has run is not run again. `dispatchsim results` lists and exports them.
    """
    check_plot(plot)
    check_metric(figure, "--figure")
    asked = asked_of(
        scenario,
        profile=profile,
        mechanism=mechanism,
        engine=engine,
        settings=settings,
        hardware=Hardware(clock, crossing, cpus, link),
    )
    folder = None if no_store else store
    with working(
        "sweeping",
        asked,
        vary,
        folder=folder,
        workers=workers,
        address=cluster_address,
    ) as where:
        answer = ask_sweep(
            asked.scenario,
            vary or [],
            samples=samples,
            within=share_of(within),
            figure=figure,
            draws=draws,
            profile=forced(asked, profile, vary),
            store=where.store,
            executor=where.executor,
            progress=where.progress,
        )
    deliver(
        answer,
        lambda: print_sweep(people(), answer, figure),
        plot=plot,
        output=output,
        as_json=as_json,
    )


def tune(
    scenario: ScenarioName,
    *,
    vary: Vary = None,
    samples: Samples = None,
    minimise: Annotated[
        str | None, typer.Option(help="p99 (if nothing is said), p50, mean, errors, cpu ...")
    ] = None,
    maximise: Annotated[str | None, typer.Option(help="throughput ...")] = None,
    objective: Annotated[
        str | None, typer.Option(help='What an option must keep: "errors < 0.1%".')
    ] = None,
    matters: Annotated[
        str, typer.Option(help="The smallest difference worth telling apart.")
    ] = f"{MATTERS:.0%}",
    replications: Annotated[
        int, typer.Option(min=1, max=10_000, help="Of an option, at the most.")
    ] = REPLICATIONS_MAX,
    settings: Settings = None,
    mechanism: MechanismName = None,
    profile: ProfileName = None,
    clock: Clock = None,
    crossing: Crossing = None,
    cpus: Cpus = None,
    link: Link = None,
    engine: EngineName = None,
    workers: Workers = None,
    cluster_address: ClusterAddress = None,
    store: StoreFolder = STORE,
    no_store: NoStore = False,
    plot: Plot = None,
    output: Answer = None,
    as_json: AsJson = False,
) -> None:
    """Find the best of the settings that --vary names, under a SCENARIO."""
    check_plot(plot)
    asked = asked_of(
        scenario,
        profile=profile,
        mechanism=mechanism,
        engine=engine,
        settings=settings,
        hardware=Hardware(clock, crossing, cpus, link),
    )
    folder = None if no_store else store
    with working(
        "tuning",
        asked,
        vary,
        folder=folder,
        workers=workers,
        address=cluster_address,
    ) as where:
        answer = ask_tune(
            asked.scenario,
            vary or [],
            minimise=minimise,
            maximise=maximise,
            objective=objective,
            samples=samples,
            matters=share_of(matters, "--matters") or MATTERS,
            replications_max=replications,
            profile=forced(asked, profile, vary),
            store=where.store,
            executor=where.executor,
            progress=where.progress,
        )
    deliver(
        answer,
        lambda: print_tuning(people(), answer),
        plot=plot,
        output=output,
        as_json=as_json,
    )


def forecast(
    scenario: ScenarioName,
    *,
    level: Annotated[str, typer.Option(help="Of the intervals.")] = f"{LEVEL:.0%}",
    draws: Annotated[
        int, typer.Option(max=10_000, help="Runs, each at other costs and arrivals.")
    ] = DRAWS,
    settings: Settings = None,
    mechanism: MechanismName = None,
    profile: ProfileName = None,
    clock: Clock = None,
    crossing: Crossing = None,
    cpus: Cpus = None,
    link: Link = None,
    engine: EngineName = None,
    workers: Workers = None,
    cluster_address: ClusterAddress = None,
    store: StoreFolder = STORE,
    no_store: NoStore = False,
    plot: Plot = None,
    output: Answer = None,
    as_json: AsJson = False,
) -> None:
    """Say between what a measured run of a SCENARIO will lie, all doubts together."""
    check_plot(plot)
    asked = asked_of(
        scenario,
        profile=profile,
        mechanism=mechanism,
        engine=engine,
        settings=settings,
        hardware=Hardware(clock, crossing, cpus, link),
    )
    folder = None if no_store else store
    with working(
        "forecasting",
        asked,
        folder=folder,
        workers=workers,
        address=cluster_address,
    ) as where:
        answer = ask_forecast(
            asked.scenario,
            level=share_of(level, "--level") or LEVEL,
            draws=draws,
            profile=asked.profile,
            store=where.store,
            executor=where.executor,
            progress=where.progress,
        )
    deliver(
        answer,
        lambda: print_forecast(people(), answer),
        plot=plot,
        output=output,
        as_json=as_json,
    )
