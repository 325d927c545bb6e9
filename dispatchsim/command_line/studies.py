"""The studies: capacity, sweep, tune and forecast to plan; sensitivity and steady to check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..scenario.errors import UserError
from ..scenario.metrics import LEVEL_METRIC, check_metric
from ..scenario.presets import command_in
from ..scenario.quantities import DURATION
from ..sim.files.parallel import cpu_count
from ..studies.capacity import capacity as ask_capacity
from ..studies.forecast import DRAWS, LEVELS
from ..studies.forecast import forecast as ask_forecast
from ..studies.sensitivity import SAMPLES
from ..studies.sensitivity import sensitivity as ask_sensitivity
from ..studies.steady import RUNS
from ..studies.steady import steady as ask_steady
from ..studies.sweep import sweep as ask_sweep
from ..studies.tune import MATTERS, REPLICATIONS_MAX
from ..studies.tune import tune as ask_tune
from ..validation.scoring.misses import LEVEL
from .door import notes, people
from .help_page import RARE
from .options import (
    Bounds,
    Changes,
    CostSamples,
    EngineName,
    Kept,
    MetricName,
    Place,
    Replications,
    Samples,
    ScenarioName,
    Study,
    Vary,
    Wanted,
    Within,
    Workers,
    grouped,
)
from .rendering_studies import (
    print_capacity,
    print_forecast,
    print_sensitivity,
    print_steady,
    print_sweep,
    print_tuning,
)
from .working import (
    asked_of,
    check_vary,
    check_wanted,
    deliver,
    forced,
    note_profile,
    profile_text,
    quantity,
    share_of,
    study_of,
    varied_mechanisms,
    with_replications,
    working,
)

_MINUTE_S = 60.0


def _written_for(scenario: str) -> str:
    """Return the command that `new` wrote into the file *scenario*, as the end of an error."""
    path = Path(scenario)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    command = command_in(text)
    return f"; {path} was written for `{command}`" if command else ""


@grouped
def capacity(
    scenario: ScenarioName,
    *,
    bounds: Bounds,
    objective: Annotated[
        str | None,
        typer.Option(
            help='Other bounds: "p99 < 50 ms and errors < 0.1%", "p97.5 < 20 ms", "cpu_busiest < '
            '80%" ...'
        ),
    ] = None,
    of: Annotated[
        str, typer.Option(help="Field to increase, such as idle.connections.")
    ] = "load.rate",
    replications: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            help="Number of searches: the first with the fitted costs, the others with costs drawn "
            "from their intervals. Each has its own arrivals.",
        ),
    ] = 6,
    minutes: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=10_000,
            help="Wall time after which a search ends.",
            rich_help_panel=RARE,
        ),
    ] = 5,
    study: Study,
    kept: Kept,
    wanted: Wanted,
) -> None:
    """Find the load at which a latency bound is violated.

    dispatchsim capacity poll_10k_idle --p99 "50 ms"

    The answer is an interval. It combines random arrivals, uncertain costs and past forecast
    errors. It is shifted by the median past error.
    """
    check_wanted(wanted)
    if not bounds.given and objective is None:
        raise UserError(
            'a bound must be given: --p99 "50 ms", or one of --p50, --p90, --p95, --p99.9 and '
            f"--objective{_written_for(scenario)}"
        )
    if bounds.given and objective is not None:
        given = ", ".join(f"--{name}" for name in bounds.given)
        raise UserError(f"--objective: must be absent with {given}")
    for name, bound in bounds.given.items():
        if quantity(f"--{name}", DURATION.parse, bound) <= 0:
            raise UserError(f'--{name}: must be above 0, got "{bound}"')
    asked = study_of(scenario, study)
    n_workers = min(study.place.workers or cpu_count(), replications)
    searches = "1 search" if replications == 1 else f"{replications} searches"
    notes().print(f"{profile_text(asked)}, {searches}", markup=False, soft_wrap=True)
    place = replace(study.place, workers=n_workers)
    named = _named_by(bounds)
    with named, working("searching", asked, place, folder=kept.folder) as where:
        answer = ask_capacity(
            asked.scenario,
            objective or " and ".join(f"{name} < {x}" for name, x in bounds.given.items()),
            of=of,
            profile=asked.profile,
            replications=replications,
            seconds_max=_MINUTE_S * minutes,
            store=where.store,
            executor=where.executor,
            progress=where.bar,
        )
    deliver(answer, lambda: print_capacity(people(), answer), wanted)


@contextlib.contextmanager
def _named_by(bounds: Bounds) -> Iterator[None]:
    """Name the option of a bound in mistakes about it: "--p99: ...", not "objective: p99: ..."."""
    try:
        yield
    except UserError as error:
        found = error.mistakes
        for name in bounds.given:
            found = [each.replace(f"objective: {name}: ", f"--{name}: ", 1) for each in found]
        if found == error.mistakes:
            raise
        raise UserError(*found) from None


@grouped
def sweep(
    scenario: ScenarioName,
    *,
    vary: Vary = None,
    samples: Samples = None,
    figure: MetricName = LEVEL_METRIC,
    within: Within = None,
    replications: Replications = None,
    draws: CostSamples = 0,
    study: Study,
    kept: Kept,
    wanted: Wanted,
) -> None:
    """Simulate every combination of values of some fields.

    dispatchsim sweep poll_10k_idle --vary load.rate=5000/s..20000/s:4

    Every run is kept in the --store as it finishes. The same command resumes a stopped sweep. Runs
    that other commands stored there are reused. `dispatchsim results` lists and exports them.
    """
    check_wanted(wanted)
    check_metric(figure, "--metric")
    check_vary(vary)
    asked = with_replications(study_of(scenario, study), replications, within)
    mechanisms = varied_mechanisms(vary)
    note_profile(asked, vary)
    with working("sweeping", asked, study.place, mechanisms, folder=kept.folder) as where:
        answer = ask_sweep(
            asked.scenario,
            vary or [],
            samples=samples,
            within=share_of(within),
            figure=figure,
            draws=draws,
            profile=forced(asked, study.changes.profile, vary),
            store=where.store,
            executor=where.executor,
            progress=where.progress,
        )
    deliver(answer, lambda: print_sweep(people(), answer, figure), wanted)


@grouped
def tune(
    scenario: ScenarioName,
    *,
    vary: Vary = None,
    samples: Samples = None,
    minimise: Annotated[
        str | None,
        typer.Option(help="Metric to minimise: p99, p50, mean, errors, cpu ... Default: p99."),
    ] = None,
    maximise: Annotated[
        str | None, typer.Option(help="Metric to maximise, such as throughput.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(help='Bounds that each combination must meet: "errors < 0.1%".')
    ] = None,
    matters: Annotated[
        str,
        typer.Option(help="Treat results that differ by less than this as equal."),
    ] = f"{MATTERS:.0%}",
    replications: Annotated[
        int, typer.Option(min=1, max=10_000, help="Maximum replications of a combination.")
    ] = REPLICATIONS_MAX,
    study: Study,
    kept: Kept,
    wanted: Wanted,
) -> None:
    """Find the best values of some fields.

    dispatchsim tune poll_10k_idle --vary server.accept_limit=0,1,16
    """
    check_wanted(wanted)
    check_vary(vary)
    asked = study_of(scenario, study)
    mechanisms = varied_mechanisms(vary)
    note_profile(asked, vary)
    with working("tuning", asked, study.place, mechanisms, folder=kept.folder) as where:
        answer = ask_tune(
            asked.scenario,
            vary or [],
            minimise=minimise,
            maximise=maximise,
            objective=objective,
            samples=samples,
            matters=share_of(matters, "--matters") or MATTERS,
            replications_max=replications,
            profile=forced(asked, study.changes.profile, vary),
            store=where.store,
            executor=where.executor,
            progress=where.progress,
        )
    deliver(answer, lambda: print_tuning(people(), answer), wanted)


@grouped
def forecast(
    scenario: ScenarioName,
    *,
    level: Annotated[str, typer.Option(help="Confidence level of the intervals.")] = f"{LEVEL:.0%}",
    draws: Annotated[
        int,
        typer.Option(
            "--cost-samples",
            min=3,
            max=10_000,
            help="Number of runs, each with its own arrivals and costs drawn from their intervals.",
        ),
    ] = DRAWS,
    study: Study,
    kept: Kept,
    wanted: Wanted,
) -> None:
    """Predict the interval in which a measurement will fall.

    dispatchsim forecast poll_10k_idle --set load.rate=10000/s

    The interval combines random arrivals, uncertain costs and past forecast errors.
    """
    check_wanted(wanted)
    share = share_of(level, "--level", "a level such as 90% or 0.9") or LEVEL
    low, high = LEVELS
    if not low <= share <= high:
        raise UserError(f"--level: must be from {low:.0%} to {high:.0%}, got {level}")
    asked = study_of(scenario, study)
    note_profile(asked)
    with working("forecasting", asked, study.place, folder=kept.folder) as where:
        answer = ask_forecast(
            asked.scenario,
            level=share,
            draws=draws,
            profile=asked.profile,
            store=where.store,
            executor=where.executor,
            progress=where.progress,
        )
    deliver(answer, lambda: print_forecast(people(), answer), wanted)


@grouped
def sensitivity(
    scenario: ScenarioName,
    *,
    vary: Vary = None,
    costs: Annotated[
        str | None,
        typer.Option(
            help="Costs to rank, separated by commas, such as call.accept_ns. Default: all "
            "uncertain costs."
        ),
    ] = None,
    figure: MetricName = "p99_answered_ns",
    samples: Annotated[
        int,
        typer.Option(
            help="Base sample size N, a power of 2. Number of runs: N x (costs + fields + 2)."
        ),
    ] = SAMPLES,
    changes: Changes,
    engine: EngineName = None,
    place: Place,
    store: Annotated[
        Path | None,
        typer.Option(help="Keep runs in this folder, to resume a stopped study."),
    ] = None,
    wanted: Wanted,
) -> None:
    """Rank the costs and fields that a metric depends on.

    dispatchsim sensitivity poll_10k_idle --costs poll.scan,poll.register

    Costs and fields are ranked by their share of the metric's variance (Sobol index).
    """
    check_wanted(wanted)
    check_metric(figure, "--metric")
    asked = asked_of(scenario, changes, engine=engine)
    note_profile(asked)
    with working("simulating", asked, place, folder=store) as where:
        answer = ask_sensitivity(
            asked.scenario,
            vary or [],
            figure=figure,
            costs=None if costs is None else [c.strip() for c in costs.split(",")],
            samples=samples,
            profile=asked.profile,
            store=where.store,
            executor=where.executor,
            progress=where.progress,
        )
    deliver(answer, lambda: print_sensitivity(people(), answer), wanted)


@grouped
def steady(
    scenario: ScenarioName,
    *,
    runs: Annotated[
        int,
        typer.Option(
            "--runs",
            "--replications",
            max=1000,
            help="Number of runs, each with its own arrivals.",
        ),
    ] = RUNS,
    changes: Changes,
    engine: EngineName = None,
    workers: Workers = None,
    wanted: Wanted,
) -> None:
    """Test for a steady state; recommend a warm-up.

    dispatchsim steady poll_10k_idle
    """
    check_wanted(wanted)
    asked = asked_of(scenario, changes, engine=engine)
    note_profile(asked)
    with working("simulating", asked, Place(workers=workers)) as where:
        answer = ask_steady(
            asked.scenario, runs=runs, profile=asked.profile, executor=where.executor
        )
    deliver(answer, lambda: print_steady(people(), answer), wanted)
