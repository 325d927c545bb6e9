"""What all pictures of answers share: sizes, units on axes, notes at the foot."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from ..scenario.metrics import METRICS, Kind
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
