"""A first look, soon: forecasts beside measured runs, a figure, one what-if.

Shortened: one window of a fraction of a second a point, few draws. `dispatchsim validate` takes
the time to do it properly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from rich.console import Console

from .. import calibration
from ..calibration.profiles.choosing import example_profile
from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.compiling import Side, compile_engines
from ..scenario.errors import UserError
from ..scenario.examples import example_scenarios
from ..scenario.scenario import Scenario
from ..sim.engine.workers import workers_for
from ..sim.files.tables import rich_table
from ..sim.files.whole_files import write_whole
from ..sim.state.units import MILLISECOND_NS
from ..studies.capacity import Capacity, capacity
from ..validation.drawing.figures import figures, to_png, to_svg
from ..validation.forecast.forecast import Lengths, Request, forecasts
from ..validation.points.measured_points import MeasuredPoint, group, held_out_runs
from ..validation.report.point_tables import score_tables
from ..validation.scoring.scoring import PointScore, score
from .door import compiling, notes, progress_bar

IDLE_COUNTS = (0, 1000, 6000)
USERS = 64
DRAWS = 6
LENGTHS = Lengths(warm_up_ns=150 * MILLISECOND_NS, window_ns=300 * MILLISECOND_NS)
SEARCHES = 4
SEARCH_SECONDS = 15.0  # of wall time each; two at once on two CPUs
OBJECTIVE = "p99 < 50 ms"

Progress = Callable[[int, int], None]


def demonstrate(output: Path, console: Console, *, workers: int) -> None:
    """Print forecasts beside measured runs, write the figure into *output*, answer one what-if.

    Raises
    ------
    UserError
        If no measured runs are shipped for the default profile.
    """
    began_s = time.monotonic()
    profile = example_profile()
    measured = _measured_points(profile)
    console.print(f"Costs: {_machine_text(profile)}", markup=False)
    console.print(
        f"Runs: {len(measured)} points measured on that machine, none of which the fit has seen.",
        markup=False,
    )
    mechanisms = dict.fromkeys(entry.point.server.mechanism for entry in measured)
    compile_engines(list(mechanisms), profile, side=Side.of_testbed(), telling=compiling)
    with workers_for("auto", workers) as executor:
        with progress_bar("forecasting") as progress:
            scores = _scores(measured, profile, executor, progress)
        for table in score_tables(scores):
            console.print(rich_table(table))
        for path in _write_figure(scores, output):
            console.print(f"figure: {path}", markup=False)
        console.print()
        console.print("What if poll had 10,000 idle connections: at what rate does p99 pass 50 ms?")
        with progress_bar("searching") as progress:
            answer = what_if(profile, executor, progress)
    console.print(answer.sentence, style="bold")
    for warning in answer.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)
    notes().print(f"done in {time.monotonic() - began_s:.0f} s")


def what_if(
    profile: Profile, executor: Executor | None = None, progress: Progress | None = None
) -> Capacity:
    """Return the rate at which the p99 of poll with 10,000 idle connections passes 50 ms."""
    scenario = Scenario.read(example_scenarios()["poll_10k_idle"])
    short = scenario.with_values(run={"duration": "1200 ms", "warm_up": "200 ms"})
    return capacity(
        short,
        OBJECTIVE,
        profile=profile,
        replications=SEARCHES,
        seconds_max=SEARCH_SECONDS,
        executor=executor,
        progress=progress,
    )


def measured_folder() -> Path:
    """Return the folder of the raw results that come with the package."""
    return Path(calibration.__file__).parent / "measured"


def _measured_points(profile: Profile) -> list[MeasuredPoint]:
    """Return a few shipped points of the machine of *profile* that its fit has not seen."""
    folder = measured_folder() / profile.name
    if not (folder / "heldout.jsonl").is_file():
        raise UserError(f"demo: no measured runs of {profile.name} are shipped with this version")
    points = [entry for entry in group(held_out_runs(folder)) if entry.measured]
    found = [entry for entry in points if _chosen(entry.point)]
    if not found:
        raise UserError(f"{folder}: holds no closed loop of {USERS} users, which the demo shows")
    return sorted(found, key=lambda entry: entry.point.idle.connections)


def _chosen(point: Any) -> bool:
    return (
        point.load.loop == "closed"
        and point.users == USERS
        and point.idle.connections in IDLE_COUNTS
        and point.server.accept_limit == 0
        and point.load.requests == 1
    )


def _scores(
    measured: list[MeasuredPoint],
    profile: Profile,
    executor: Executor | None,
    progress: Progress | None,
) -> list[PointScore]:
    requests = [Request(entry.point, (1,), DRAWS, LENGTHS) for entry in measured]
    made = forecasts(requests, profile, executor=executor, progress=progress)
    found = {request.point: forecast for request, forecast in made}
    return score(measured, found, {})


def _write_figure(scores: list[PointScore], output: Path) -> list[Path]:
    """Write the figure as PNG and SVG into *output*; return the paths."""
    figure = figures(scores)["closed_throughput"]
    output.mkdir(parents=True, exist_ok=True)
    paths = [output / "demo.png", output / "demo.svg"]
    write_whole(paths[0], to_png(figure))
    write_whole(paths[1], to_svg(figure, "demo"))
    return paths


def _machine_text(profile: Profile) -> str:
    facts = [str(profile.machine[key]) for key in ("cpu_model", "kernel") if key in profile.machine]
    return ", ".join([profile.name, *facts])
