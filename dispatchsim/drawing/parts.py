"""What all pictures of answers share: sizes, units on axes, notes at the foot."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ..validation.drawing.figures import NOTE_POINTS

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
    """Return what a figure is divided by for an axis, and what the axis is called."""
    names = {
        "p99_due_ns": "99 % latency of all due",
        "throughput_per_s": "answered",
        "cpu_busy": "CPU busy",
    }
    if figure.endswith("_ns"):
        words = names.get(figure, figure.removesuffix("_ns").replace("_", " "))
        return NS_PER_MS, f"{words} (ms)"
    if figure.endswith("_per_s"):
        return 1.0, f"{names.get(figure, figure.removesuffix('_per_s').replace('_', ' '))} (1/s)"
    return 1.0, names.get(figure, figure.replace("_", " "))


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
