"""The commands that doubt: which cost an answer hangs on, and whether a run is long enough."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..scenario.metrics import check_metric
from ..studies.sensitivity import SAMPLES
from ..studies.sensitivity import sensitivity as ask_sensitivity
from ..studies.steady import RUNS
from ..studies.steady import steady as ask_steady
from .door import people
from .options import (
    Changes,
    EngineName,
    FigureName,
    Place,
    ScenarioName,
    Vary,
    Wanted,
    Workers,
    grouped,
)
from .rendering_studies import print_sensitivity, print_steady
from .working import asked_of, check_plot, deliver, working


@grouped
def sensitivity(
    scenario: ScenarioName,
    *,
    vary: Vary = None,
    costs: Annotated[
        str | None,
        typer.Option(
            help="Costs of the profile, with commas between, such as call.accept_ns; "
            "all that are not known exactly if absent."
        ),
    ] = None,
    figure: FigureName = "p99_answered_ns",
    samples: Annotated[
        int, typer.Option(help="A power of 2; so many times as many runs as there are costs.")
    ] = SAMPLES,
    changes: Changes,
    engine: EngineName = None,
    place: Place,
    store: Annotated[
        Path | None,
        typer.Option(help="A folder that keeps every run; each has costs, and a line, of its own."),
    ] = None,
    wanted: Wanted,
) -> None:
    """Say which costs and settings a figure of a SCENARIO hangs on (Sobol's indices)."""
    check_plot(wanted.plot)
    check_metric(figure, "--figure")
    asked = asked_of(scenario, changes, engine=engine)
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
    runs: Annotated[int, typer.Option(max=1000, help="With other arrivals each.")] = RUNS,
    changes: Changes,
    engine: EngineName = None,
    workers: Workers = None,
    wanted: Wanted,
) -> None:
    """Say whether a SCENARIO has a steady state, and how long its warm-up must be."""
    check_plot(wanted.plot)
    asked = asked_of(scenario, changes, engine=engine)
    with working("simulating", asked, Place(workers=workers)) as where:
        answer = ask_steady(
            asked.scenario, runs=runs, profile=asked.profile, executor=where.executor
        )
    deliver(answer, lambda: print_steady(people(), answer), wanted)
