"""Pictures of runs without noise: errors run by run, load curves, the CPU ledger.

There are no error bars: repeats do not scatter, and every run has its own forecast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ...calibration.points.point import FDS_MAX, Point, point_at
from ...calibration.points.points import FIT_WORKERS, SIGNALS_QUEUE
from ..drawing.figures import in_order, legend, style
from ..drawing.looks import OKABE_ITO, Look, look_of
from ..noise_free.ledger import ACTIVITIES, Ledger
from ..noise_free.promises import LIMITS, NAMES
from ..noise_free.scoring import RunScore, by_point
from ..points.figures import median

CAPTIONS = {
    "errors": "Relative error of the forecast of every held-out run: one row for each idle count, "
    "one colour for each mechanism. Grey: the promised limit; triangles: number beyond the axis.",
    "curves": "Open loop: metrics against offered load, as a share of the server's own capacity. "
    "Points: measured, median over the arrival seeds; lines: forecast of the same runs.",
    "ledger": "CPU time of a request by activity. Left of each pair: measured instructions, summed "
    "over kernel functions. Right, hatched: the simulator's ledger.",
}
_AXIS_LIMITS = 3.0  # an error axis ends at this multiple of the promised limit
_CURVES = {
    "cpu_ns_per_request": ("CPU per request (µs)", 1e-3, "log"),
    "waits_per_request": ("waits per request", 1.0, "linear"),
    "mean_ns": ("mean latency (ms)", 1e-6, "log"),
    "p99_ns": ("p99 latency (ms)", 1e-6, "log"),
}
_LEDGER_COLOURS = (
    *OKABE_ITO,
    "#F0E442",
    "#999999",
    "#8C564B",
    "#BDBDBD",
    "#C7B5A0",
    "#B5C7A0",
    "#A0B5C7",
    "#E3E3E3",
)


def noise_free_figures(scores: Sequence[RunScore], ledgers: Sequence[Ledger]) -> dict[str, Figure]:
    """Return the pictures for which *scores* and *ledgers* have data, by name."""
    unseen = [s for s in scores if not s.seen]
    curves = [s for s in scores if s.load_share is not None and _differs_by_load(s.point)]
    drawn = {}
    with style():
        if unseen:
            drawn["errors"] = error_strips(unseen)
        if curves:
            drawn["curves"] = load_curves(curves)
        if ledgers:
            drawn["ledger"] = ledger_bars(ledgers)
    return drawn


def _differs_by_load(point: Point) -> bool:
    """Return whether a point differs from others of its server and idle count in load only."""
    plain = point_at(
        mechanism=point.server.mechanism,
        idle=point.idle.connections,
        loop=point.load.loop,
        rate_per_s=point.rate_per_s,
        users=point.users,
        fd_limit=point.server.descriptors,
        signal_queue=0 if point.server.signal_queue == FDS_MAX else SIGNALS_QUEUE,
        workers=FIT_WORKERS if point.blocks else 0,
    )
    return point == plain


def error_strips(scores: Sequence[RunScore]) -> Figure:
    """Return the errors of single runs: a panel for each metric, a row for each idle count."""
    mechanisms = in_order(s.point.server.mechanism for s in scores)
    idle_counts = sorted({s.point.idle.connections for s in scores})
    height = 1.1 + 0.13 * len(mechanisms) * len(idle_counts)
    figure = Figure(figsize=(10.5, 2 * height + 1.0), layout="constrained")
    panels = figure.subplots(2, 3, sharey=True)
    for axes, (name, limit) in zip(panels.flat, LIMITS.items(), strict=True):
        edge = _AXIS_LIMITS * limit
        axes.axvspan(-100 * limit, 100 * limit, color="0.9", linewidth=0, zorder=0)
        axes.axvline(0, color="0.4", linewidth=0.8, zorder=1)
        for i, mechanism in enumerate(mechanisms):
            own = [
                (s.point.idle.connections, error)
                for s in scores
                if s.point.server.mechanism == mechanism
                and (error := getattr(s.errors, name)) is not None
            ]
            if own:
                rows = np.array([idle_counts.index(idle) for idle, _ in own], dtype=float)
                rows += (i + 0.5) / len(mechanisms) * 0.8 - 0.4
                _draw_errors(axes, np.array([e for _, e in own]), rows, edge, look_of(mechanism))
        n_all = sum(getattr(s.errors, name) is not None for s in scores)
        axes.set_title(f"{NAMES[name]}: ±{limit:.1%}, {n_all} runs", loc="left")
        axes.set_xlim(-120 * edge, 120 * edge)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+g}%"))
        axes.set_yticks(range(len(idle_counts)), [str(n) for n in idle_counts])
        axes.set_ylim(-0.5, len(idle_counts) - 0.5)
        axes.grid(visible=False, axis="y")
    for axes in panels[1]:
        axes.set_xlabel("error of the forecast")
    figure.supylabel("idle connections", fontsize="medium")
    legend(figure, {name: look_of(name)._replace(dashes="none") for name in mechanisms})
    return figure


def _draw_errors(axes: Axes, errors: np.ndarray, rows: np.ndarray, edge: float, look: Look) -> None:
    """Draw one mechanism's errors; errors beyond the axis are triangles at its end."""
    inside = np.abs(errors) <= edge
    marks: Any = {"color": look.colour, "linestyle": "none", "markersize": 3.5, "alpha": 0.75}
    axes.plot(100 * errors[inside], rows[inside], marker=look.marker, **marks)
    for sign, marker in ((1, ">"), (-1, "<")):
        beyond = rows[sign * errors > edge]
        if beyond.size:
            at = np.full(beyond.size, sign * 106 * edge)
            axes.plot(at, beyond, marker=marker, **{**marks, "markersize": 5})
        for row in np.unique(beyond):
            axes.annotate(
                str(int((beyond == row).sum())), (sign * 110 * edge, row), fontsize=6,
                ha="left" if sign > 0 else "right", va="center_baseline", annotation_clip=False,
            )  # fmt: skip


def load_curves(scores: Sequence[RunScore]) -> Figure:
    """Return metrics against load: columns are idle counts, rows metrics, colours mechanisms."""
    mechanisms = in_order(s.point.server.mechanism for s in scores)
    idle_counts = sorted({s.point.idle.connections for s in scores})
    figure = Figure(figsize=(2.9 * len(idle_counts) + 0.8, 8.4), layout="constrained")
    panels = figure.subplots(
        len(_CURVES), len(idle_counts), sharex=True, sharey="row", squeeze=False
    )
    for row, (name, (label, scale, kind)) in enumerate(_CURVES.items()):
        for column, idle in enumerate(idle_counts):
            axes = panels[row][column]
            for mechanism in mechanisms:
                own = [
                    s
                    for s in scores
                    if (s.point.server.mechanism, s.point.idle.connections) == (mechanism, idle)
                ]
                _draw_curve(axes, own, name, scale, look_of(mechanism))
            axes.set_yscale(kind)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            if kind == "log":
                axes.yaxis.set_minor_formatter(FuncFormatter(_one_two_five))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
            if row == 0:
                axes.set_title(f"{idle} idle connections")
            if row == len(_CURVES) - 1:
                axes.set_xlabel("offered load / capacity")
        panels[row][0].set_ylabel(label)
    legend(figure, {name: look_of(name) for name in mechanisms})
    return figure


def _draw_curve(
    axes: Axes, scores: Sequence[RunScore], name: str, scale: float, look: Look
) -> None:
    """Draw one server's curve: forecast line, measured marks."""
    curve = sorted(
        (
            runs[0].load_share or 0.0,
            scale * median([getattr(s.measured, name) for s in runs]),
            scale * median([getattr(s.forecast, name) for s in runs]),
        )
        for runs in by_point(scores).values()
    )
    if not curve:
        return
    share, measured, forecast = zip(*curve, strict=True)
    axes.plot(share, forecast, color=look.colour, linestyle=look.dashes, linewidth=1.2)
    axes.plot(
        share, measured, color=look.colour, linestyle="none", marker=look.marker,
        markersize=4, markeredgecolor="white", markeredgewidth=0.5,
    )  # fmt: skip


def ledger_bars(ledgers: Sequence[Ledger]) -> Figure:
    """Return two stacked bars for each point: instructions and simulated nanoseconds."""
    figure = Figure(figsize=(2.6 + 1.9 * len(ledgers), 4.6), layout="constrained")
    axes = figure.subplots()
    for side, hatch in ((-0.2, ""), (0.2, "///")):
        bottom = np.zeros(len(ledgers))
        for name, colour in zip(ACTIVITIES, _LEDGER_COLOURS, strict=True):
            spent = [entry.measured if side < 0 else entry.simulated for entry in ledgers]
            # Scans make points differ widely, so each pair is relative to its measured side.
            whole = np.array([sum(entry.measured.values()) for entry in ledgers])
            height = 100 * np.array([activity[name] for activity in spent]) / whole
            axes.bar(
                np.arange(len(ledgers)) + side, height, 0.36, bottom=bottom, color=colour,
                edgecolor="white", linewidth=0.5, hatch=hatch, label="" if side > 0 else name,
            )  # fmt: skip
            bottom += height
    axes.axhline(100, color="0.4", linewidth=0.8, linestyle="--")
    labels = [
        entry.point.label.replace(" idle ", "\nidle ").replace(" open ", "\nopen ")
        .replace(" closed ", "\nclosed ") for entry in ledgers
    ]  # fmt: skip
    axes.set_xticks(range(len(ledgers)), labels)
    axes.set_ylabel("share of the measured instructions (%)")
    axes.grid(visible=False, axis="x")
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside right center")
    return figure


def _one_two_five(value: float, _position: int) -> str:
    """Return the label of a minor tick of a logarithmic axis if it begins with 2 or 5."""
    text = f"{value:g}"
    return text if text.strip("0.")[:1] in ("2", "5") and len(text.strip("0.")) == 1 else ""
