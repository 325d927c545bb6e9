"""The pictures of a result and of a comparison: latencies with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..drawing.parts import HEIGHT, NS_PER_MS, WIDTH, log_if_wide, noted, scale_of
from ..validation.drawing.figures import SMALL_POINTS, ShownFigure, style
from ..validation.drawing.looks import OKABE_ITO, look_of
from .estimates import Estimate

_QUANTILES = {
    "median": "p50_ns",
    "90%": "p90_ns",
    "99%": "p99_ns",
    "99.9%": "p999_ns",
    "worst": "max_answered_ns",
}


def result_figure(
    estimates: Mapping[str, Estimate], *, title: str, warnings: Sequence[str]
) -> Figure:
    """Return the quantiles of the latency of a result, with both kinds of interval."""
    with style():
        drawing = ShownFigure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = drawing.subplots()
        for row, name in enumerate(_QUANTILES.values()):
            _interval(axes, row, estimates[name], OKABE_ITO[0], NS_PER_MS)
        axes.set_yticks(range(len(_QUANTILES)), list(_QUANTILES))
        axes.invert_yaxis()
        axes.set_xlabel("latency (ms)")
        axes.set_title(title)
        axes.legend(fontsize=SMALL_POINTS)
        log_if_wide(axes, axis="x")
    return noted(drawing, warnings)


def comparison_figure(
    results: Mapping[str, Estimate], figure: str, *, warnings: Sequence[str]
) -> Figure:
    """Return *figure* of each mechanism, the best at the top."""
    scale, label = scale_of(figure)
    order = sorted(results, key=lambda name: results[name].mean)
    with style():
        drawing = ShownFigure(figsize=(WIDTH, 1.4 + 0.35 * len(order)), layout="constrained")
        axes = drawing.subplots()
        for row, name in enumerate(order):
            _interval(axes, row, results[name], look_of(name).colour, scale)
        axes.set_yticks(range(len(order)), order)
        axes.invert_yaxis()
        axes.set_xlabel(label)
        axes.legend(fontsize=SMALL_POINTS)
        log_if_wide(axes, axis="x")
    return noted(drawing, warnings)


def _interval(axes: Axes, row: int, known: Estimate, colour: str, scale: float) -> None:
    is_first = row == 0
    if not math.isnan(known.low):
        axes.plot(
            *([known.low / scale, known.high / scale], [row, row]),
            color="#BBBBBB",
            linewidth=7,
            solid_capstyle="butt",
            label="runs at drawn costs, 95 %" if is_first else None,
        )
    axes.errorbar(
        *(known.mean / scale, row),
        xerr=0.0 if math.isnan(known.half_width) else known.half_width / scale,
        fmt="o",
        color=colour,
        capsize=2,
        label="mean, 95 %" if is_first else None,
    )
