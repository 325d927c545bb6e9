"""The first pictures of a report: forecast errors at a glance.

predicted against measured     a mark for each point, bars: noise of repeats; lines: 1:1 and ±15%
heat maps                      the median error of a response time, by server and load
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ..scoring.knee import Knee, knees
from ..scoring.regimes import CAPACITY, CPU, value_of
from ..scoring.scoring import LOAD_TOLERANCE, PointScore
from ..scoring.value_verdicts import WITHIN, signed
from .figures import NOTE_POINTS, in_order, legend, server_name, server_names, style
from .looks import look_of

_BAR_ALPHA = 0.45
_FACTOR_MAX = 4.0
"""Largest error of a heat map's colours; errors beyond have one colour and are in the text."""
LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, math.inf)
"""Upper ends of the columns of a heat map, as shares of the capacity."""


class Spot(NamedTuple):
    """A measured value and its forecast, in the unit of the panel; NaN ends: one run, or no bar."""

    mechanism: str
    measured: float
    forecast: float
    low: float
    high: float


class _Panel(NamedTuple):
    title: str
    unit: str
    spots: list[Spot]
    is_log: bool = True


def accuracy_figures(scores: Sequence[PointScore]) -> dict[str, Figure]:
    """Return the pictures of the held-out points of *scores*, by file name."""
    held_out = [score for score in scores if score.role != "fit"]
    drawn = {}
    with style():
        if held_out:
            drawn["predicted_measured"] = predicted_against_measured(held_out)
        if any(score.load_share is not None for score in held_out):
            drawn["error_by_load"] = error_by_load(held_out)
    return drawn


def predicted_against_measured(scores: Sequence[PointScore]) -> Figure:
    """Return panels of forecast against measured knee, capacity, CPU, p50 and p99."""
    panels = [
        panel
        for panel in (
            _Panel("Load at which p99 exceeds a bound", "connections/s", _knee_spots(scores)),
            _Panel("Capacity", "replies/s", _spots(scores, CAPACITY)),
            _Panel("CPU busy", "%", _spots(scores, CPU, scale=100), is_log=False),
            _Panel("p50", "ms", _spots(scores, "p50_ns", scale=1e-6)),
            _Panel("p99", "ms", _spots(scores, "p99_ns", scale=1e-6)),
        )
        if panel.spots
    ]
    n_columns = min(3, len(panels))
    n_rows = -(-len(panels) // n_columns)
    figure = Figure(figsize=(3.7 * n_columns, 3.7 * n_rows + 0.7), layout="constrained")
    grid = list(figure.subplots(n_rows, n_columns, squeeze=False).flat)
    for axes, panel in zip(grid, panels, strict=False):
        _draw_panel(axes, panel)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    shown = in_order(spot.mechanism for panel in panels for spot in panel.spots)
    legend(figure, {name: look_of(name)._replace(dashes="none") for name in shown})
    return figure


def _spots(scores: Sequence[PointScore], figure: str, *, scale: float = 1.0) -> list[Spot]:
    """Return the scored values above zero of one metric, times *scale*."""
    spots = []
    for score in scores:
        forecast = getattr(score.forecast.central, figure)
        if value_of(score, figure) is not None and forecast > 0:
            noise = getattr(score.measured.spread, figure)
            values = getattr(score.measured.median, figure), forecast, noise.low, noise.high
            mechanism = score.measured.point.server.mechanism
            spots.append(Spot(mechanism, *(scale * value for value in values)))
    return spots


def _knee_spots(scores: Sequence[PointScore]) -> list[Spot]:
    """Return the knees where both curves pass the bound; open noise intervals have no bar end."""
    return [
        Spot(
            knee.server.server.mechanism,
            knee.measured_per_s,
            knee.forecast_per_s,
            *_ends(knee, knee.measured_per_s),
        )
        for knee in knees(scores)
        if knee.measured_per_s is not None and knee.forecast_per_s is not None
    ]


def _ends(knee: Knee, middle: float) -> tuple[float, float]:
    low = middle if knee.low_per_s is None else knee.low_per_s
    high = middle if knee.high_per_s is None else knee.high_per_s
    return low, high


def _draw_panel(axes: Axes, panel: _Panel) -> None:
    values = [v for s in panel.spots for v in (s.measured, s.forecast, s.low, s.high) if v > 0]
    if panel.is_log:
        ends = min(values) / 1.25, max(values) * 1.25
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        ends = 0.0, 1.05 * max(values)
    line = np.array(ends)
    axes.fill_between(line, line * (1 - WITHIN), line * (1 + WITHIN), color="0.9", linewidth=0)
    axes.plot(line, line, color="0.4", linewidth=0.8)
    for mechanism in in_order(spot.mechanism for spot in panel.spots):
        own = [spot for spot in panel.spots if spot.mechanism == mechanism]
        look = look_of(mechanism)
        measured = np.array([spot.measured for spot in own])
        # An interval that begins below zero is drawn from the beginning of the axis.
        bars = np.array(
            [(s.measured - max(s.low, ends[0]), max(s.high - s.measured, 0)) for s in own]
        ).T
        forecast = [spot.forecast for spot in own]
        axes.errorbar(
            measured, forecast, xerr=np.nan_to_num(bars), color=look.colour,
            alpha=_BAR_ALPHA, linestyle="none", elinewidth=0.8,
        )  # fmt: skip
        axes.plot(
            measured, forecast, look.marker, color=look.colour, markersize=4,
            markeredgecolor="white", markeredgewidth=0.4,
        )  # fmt: skip
    axes.set(xlim=ends, ylim=ends, title=panel.title, aspect="equal")
    axes.set_xlabel(f"measured ({panel.unit})")
    axes.set_ylabel(f"forecast ({panel.unit})")
    if panel.is_log:
        # On an axis of many decades, labels at 2 and 5 would overlap.
        subs = (1.0, 2.0, 5.0) if ends[1] / ends[0] < 50 else (1.0,)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=subs))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())


class ErrorGrid(NamedTuple):
    """Median relative errors with their sign; rows are servers, columns loads; NaN: no point."""

    servers: list[str]
    loads: list[str]
    errors: list[list[float]]


def error_grid(scores: Sequence[PointScore], figure: str) -> ErrorGrid:
    """Return the errors of one metric in the open loops of *scores*, by server and load."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    opened = [score for score in scores if score.load_share is not None]
    for score in opened:
        value, share = value_of(score, figure), score.load_share
        if value is not None and share is not None and not math.isnan(value.error):
            column = next(i for i, end in enumerate(LOADS) if share <= end * LOAD_TOLERANCE)
            found[server_name(score), column].append(value.error)
    servers = [name for name in server_names(opened) if any(row == name for row, _ in found)]
    return ErrorGrid(
        servers,
        [_load_text(i) for i in range(len(LOADS))],
        [
            [
                float(np.median(found[server, i])) if (server, i) in found else math.nan
                for i in range(len(LOADS))
            ]
            for server in servers
        ],
    )


def _load_text(column: int) -> str:
    if math.isinf(LOADS[column]):
        return f"past {LOADS[column - 1]:.0%}"
    return f"up to {LOADS[column]:.0%}"


def error_by_load(scores: Sequence[PointScore]) -> Figure:
    """Return heat maps of the errors of p99 and p50: rows are servers, columns loads."""
    grids = {name: error_grid(scores, f"{name}_ns") for name in ("p99", "p50")}
    n_rows = max(len(grid.servers) for grid in grids.values())
    figure = Figure(figsize=(11.1, 0.3 * n_rows + 1.6), layout="constrained")
    panels = figure.subplots(1, len(grids), sharey=True)
    for axes, (name, grid) in zip(panels, grids.items(), strict=True):
        _draw_grid(axes, grid, f"Median error of {name} (+: forecast too high)")
    panels[0].set_ylabel("server")
    return figure


def _draw_grid(axes: Axes, grid: ErrorGrid, title: str) -> None:
    errors = np.array(grid.errors)
    ends = 1 / _FACTOR_MAX, _FACTOR_MAX
    shades = np.log(np.clip(1 + errors, *ends)) / math.log(_FACTOR_MAX)
    axes.imshow(shades, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
    for row, values in enumerate(grid.errors):
        for column, error in enumerate(values):
            if not math.isnan(error):
                dark = abs(shades[row][column]) > 0.55
                axes.text(
                    column, row, signed(error), ha="center", va="center", fontsize=NOTE_POINTS,
                    color="white" if dark else "black",
                )  # fmt: skip
    axes.set_xticks(range(len(grid.loads)), grid.loads, rotation=30, ha="right")
    axes.set_yticks(range(len(grid.servers)), grid.servers)
    axes.set_title(title, loc="left")
    axes.set_xlabel("offered load (share of the measured capacity)")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
