"""A first look, soon: one planner's question at three servers, measured and forecast.

    at which load does p99 exceed 5 ms?  ─┬─ runs measured on the machine ─┬─► three rows, one
                                          └─ the same runs simulated ──────┘   picture, one sentence

The sentence names the worst forecast, which is wrong on the shipped runs. The next one gives the
reason if the load has little effect on p99. `dispatchsim validate machine` compares all points,
with intervals.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from rich.console import Console

from .. import calibration
from ..calibration.points.point import point_at
from ..calibration.profiles.choosing import example_profile
from ..calibration.profiles.cost_profile import Profile
from ..calibration.running.compiling import Side, compile_engines
from ..scenario.errors import UserError
from ..scenario.formats import number_text, rate_text, time_text
from ..sim.engine.workers import workers_for
from ..sim.files.tables import Column, Table, rich_table
from ..sim.files.whole_files import write_whole
from ..sim.state.units import MILLISECOND_NS
from ..validation.drawing.figures import style, to_png
from ..validation.drawing.looks import look_of
from ..validation.forecast.forecast import Lengths, Request, forecasts
from ..validation.points.measured_points import MeasuredPoint, group, held_out_runs
from ..validation.scoring.knee import Knee, knees
from ..validation.scoring.scoring import PointScore, score
from ..validation.scoring.value_verdicts import WITHIN
from .door import compiling, notes, progress_bar

SERVERS = (("epoll_level", 6000), ("poll", 0), ("select", 6000))
"""The servers of the question: a mechanism, and how many idle connections it has."""
BOUND_NS = 5 * MILLISECOND_NS
LENGTHS = Lengths(warm_up_ns=150 * MILLISECOND_NS, window_ns=300 * MILLISECOND_NS)
"""Short runs, for the tutorial. The demo simulates runs as long as they were measured."""

Progress = Callable[[int, int], None]


def demonstrate(output: Path, console: Console, *, workers: int) -> None:
    """Print three forecasts beside measured values, and write their picture into *output*.

    Raises
    ------
    UserError
        If no measured runs are shipped for the example profile.
    """
    began_s = time.monotonic()
    profile = example_profile()
    measured = _measured_points(profile)
    mechanisms = dict.fromkeys(entry.point.server.mechanism for entry in measured)
    compile_engines(list(mechanisms), profile, side=Side.of_testbed(), telling=compiling)
    with workers_for("auto", workers) as executor, progress_bar("forecasting") as progress:
        scores = _scores(measured, profile, executor, progress)
    found = [knee for knee in knees(scores, [BOUND_NS]) if knee.least_shift is not None]
    if not found:
        raise UserError(f"demo: must have runs in which p99 exceeds {_bound()}, got none")
    console.print(
        f"At which load does p99 exceed {_bound()}? Measured on {_machine_text(profile)}; "
        "forecast from its profile, whose fit has not seen these runs.",
        markup=False,
    )
    console.print(rich_table(knee_table(found)))
    console.print(sentence_of(found), style="bold", markup=False)
    if reason := reason_of(worst_of(found), scores):
        console.print(reason, markup=False)
    output.mkdir(parents=True, exist_ok=True)
    path = output / "demo.png"
    write_whole(path, to_png(picture(scores)))
    console.print(f"picture: {path}", markup=False)
    notes().print(f"done in {time.monotonic() - began_s:.0f} s")


def knee_table(found: Sequence[Knee]) -> Table:
    """Return one row per server: the measured load, the forecast, and its error."""
    columns: list[Column[Knee]] = [
        Column("server", lambda knee: _server_text(knee.server), words=True),
        Column("measured", lambda knee: _load_text(knee.measured_per_s, knee.loads_per_s[0])),
        Column("forecast", lambda knee: _load_text(knee.forecast_per_s, knee.loads_per_s[1])),
        Column("error", lambda knee: f"{knee.least_shift or 0.0:+.0%}"),
    ]
    return Table.of("", found, columns)


def sentence_of(found: Sequence[Knee]) -> str:
    """Return how many forecasts are right, and which one is the worst."""
    worst = worst_of(found)
    n_right = sum(_size(knee) <= WITHIN for knee in found)
    measured, forecast = map(rate_text, worst.loads_per_s)
    judged = "is wrong" if _size(worst) > WITHIN else "is the worst"
    return (
        f"{n_right} of {len(found)} forecasts are within {WITHIN:.0%}; the forecast for "
        f"{_server_text(worst.server)} {judged}: {forecast}, where {measured} were measured."
    )


def worst_of(found: Sequence[Knee]) -> Knee:
    """Return the knee with the largest error."""
    return max(found, key=_size)


def _size(knee: Knee) -> float:
    return abs(knee.least_shift or 0.0)


def reason_of(knee: Knee, scores: Sequence[PointScore]) -> str:
    """Return why the load is wrong by a larger factor than p99 at loads in between, or ""."""
    low_per_s, high_per_s = sorted(knee.loads_per_s)
    between = [
        (each.measured.median.p99_ns, each.forecast.central.p99_ns)
        for each in scores
        if low_per_s <= each.measured.point.rate_per_s <= high_per_s
        and point_at(each.measured.point, rate_per_s=knee.server.rate_per_s) == knee.server
    ]
    factor = max((max(pair) / min(pair) for pair in between), default=math.inf)
    has_all = not any(math.isnan(p99_ns) for pair in between for p99_ns in pair)
    if _size(knee) <= WITHIN or not has_all or factor >= high_per_s / low_per_s:
        return ""
    measured, forecast = (
        " to ".join(time_text(end) for end in (min(p99s_ns), max(p99s_ns)))
        for p99s_ns in zip(*between, strict=True)
    )
    return (
        f"Between {rate_text(low_per_s)} and {rate_text(high_per_s)} p99 hardly changes with the "
        f"load (measured {measured}, forecast {forecast}). So p99 is wrong by a factor of at most "
        f"{number_text(factor)}, but the load at which it exceeds {_bound()} is wrong by a factor "
        f"of {number_text(high_per_s / low_per_s)}."
    )


def picture(scores: Sequence[PointScore]) -> Any:
    """Return p99 against load: a point for each measured value, a line for the forecast."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    with style():
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        for mechanism, idle in SERVERS:
            own = [
                each
                for each in scores
                if (each.measured.point.server.mechanism, each.measured.point.idle.connections)
                == (mechanism, idle)
            ]
            if not own:
                continue
            own.sort(key=lambda each: each.measured.point.rate_per_s)
            rates = [each.measured.point.rate_per_s for each in own]
            look = look_of(mechanism)
            label = _server_text(own[0].measured.point)
            axes.plot(
                rates,
                [each.forecast.central.p99_ns / MILLISECOND_NS for each in own],
                color=look.colour,
                label=f"{label}, forecast",
            )
            axes.plot(
                rates,
                [each.measured.median.p99_ns / MILLISECOND_NS for each in own],
                color=look.colour,
                marker=look.marker,
                linestyle="none",
                label=f"{label}, measured",
            )
        axes.axhline(BOUND_NS / MILLISECOND_NS, color="black", linewidth=0.8, linestyle=":")
        axes.set(
            title=f"At which load does p99 exceed {_bound()}?",
            xlabel="load (connections/s)",
            ylabel="p99 (ms, logarithmic)",
            yscale="log",
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.legend(loc="upper left")
    return figure


def measured_folder() -> Path:
    """Return the folder of the raw results that come with the package."""
    return Path(calibration.__file__).parent / "measured"


def _measured_points(profile: Profile) -> list[MeasuredPoint]:
    """Return the shipped open loops of the `SERVERS` on the machine of *profile*."""
    folder = measured_folder() / profile.name
    if not (folder / "heldout.jsonl").is_file():
        raise UserError(f"demo: no measured runs of {profile.name} are shipped with this version")
    points = [entry for entry in group(held_out_runs(folder)) if entry.measured]
    found = [entry for entry in points if _chosen(entry.point)]
    if not found:
        raise UserError(f"{folder}: must hold open loops of the demo's servers, got none")
    order = [each for each, _ in SERVERS]
    return sorted(found, key=lambda entry: order.index(entry.point.server.mechanism))


def _chosen(point: Any) -> bool:
    return (
        point.load.loop == "open"
        and (point.server.mechanism, point.idle.connections) in SERVERS
        and point.server.accept_limit == 0
        and point.load.requests == 1
    )


def _scores(
    measured: list[MeasuredPoint],
    profile: Profile,
    executor: Executor | None,
    progress: Progress | None,
) -> list[PointScore]:
    requests = [
        Request(entry.point, entry.seeds[:1], 0, Lengths(entry.warm_up_ns, entry.window_ns))
        for entry in measured
    ]
    made = forecasts(requests, profile, executor=executor, progress=progress)
    found = {request.point: forecast for request, forecast in made}
    return score(measured, found, {})


def _bound() -> str:
    return time_text(BOUND_NS, trim=True)


def _load_text(load_per_s: float | None, end_per_s: float) -> str:
    """Return a load; an end of the measured loads if p99 exceeds the bound beyond it."""
    return rate_text(end_per_s) if load_per_s is not None else f"beyond {rate_text(end_per_s)}"


def _server_text(point: Any) -> str:
    return f"{point.server.mechanism}, {point.idle.connections:,} idle connections"


def _machine_text(profile: Profile) -> str:
    facts = [str(profile.machine[key]) for key in ("cpu_model", "kernel") if key in profile.machine]
    return ", ".join([profile.name, *facts])
