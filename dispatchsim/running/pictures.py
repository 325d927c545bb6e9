"""The pictures of a result and of a comparison, and what all pictures of answers share.

Shared are sizes, the units on axes, and the notes at the foot.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ..scenario.metrics import METRICS, Kind
from ..validation.drawing.figures import NOTE_POINTS, SMALL_POINTS, ShownFigure, style
from ..validation.drawing.looks import OKABE_ITO, look_of
from .estimates import Estimate

WIDTH, HEIGHT = 7.0, 4.2
"""Of a picture, in inches."""
NS_PER_MS = 1e6
_NOTE_WIDTH = 120
_WIDE = 30


def noted(drawing: Figure, warnings: Sequence[str]) -> Figure:
    """Write what is to be known before one believes a picture into it, at its foot."""
    lines = [line for warning in warnings for line in textwrap.wrap(warning, _NOTE_WIDTH)]
    if lines:
        drawing.supxlabel("\n".join(lines), fontsize=NOTE_POINTS, color="#A04000")
    return drawing


def scale_of(figure: str) -> tuple[float, str]:
    """Return the divisor of a metric's values for an axis, and the name of the axis."""
    known = METRICS[figure]
    if known.kind is Kind.TIME:
        return NS_PER_MS, f"{known.heading} (ms)"
    return 1.0, f"{known.label} (1/s)" if known.kind is Kind.RATE else known.heading


def log_if_wide(axes: Axes, axis: str = "y") -> None:
    """Use a logarithmic scale where values span more than a factor of thirty."""
    data = [line.get_ydata() if axis == "y" else line.get_xdata() for line in axes.lines]
    found = np.concatenate([np.asarray(values, dtype=float) for values in data])
    found = found[np.isfinite(found) & (found > 0)]
    if found.size and found.max() > _WIDE * found.min():
        (axes.set_yscale if axis == "y" else axes.set_xscale)("log")
        # Names are taken as they are (no mathematics in texts), so powers cannot be drawn as such.
        which = axes.yaxis if axis == "y" else axes.xaxis
        which.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


_QUANTILES = {
    "median": "p50_ns",
    "90%": "p90_ns",
    "99%": "p99_ns",
    "99.9%": "p999_ns",
    "worst of the answered": "max_answered_ns",
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
