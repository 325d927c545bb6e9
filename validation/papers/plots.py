"""The figures of a paper, redrawn from the simulation in the paper's own axes.

medians over the draws ─► line, 5 to 95% shaded
and, over time         ─► bars of the deviation, minimum and maximum of the intervals of a run
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from ...sim.figures.tally import REPLY_INTERVAL_NS
from ...sim.state.units import SECOND_NS
from ..drawing.figures import SMALL_POINTS, style
from ..drawing.looks import Look, nth_look
from .paper import Plot
from .quantities import OVER_TIME
from .scoring import PaperResult

_SIZE = (4.8, 3.5)
"""In inches: a telephone shows it at three quarters."""
_HEADROOM = 1.06
"""A curve that is as high as it can be is not on the frame."""
_TICKS = 7
_LONG_LABEL = 15
"""In characters: longer ones do not fit three to a row."""


def drawn_plots(result: PaperResult) -> dict[str, Figure]:
    """Return the figures of *result* by file name: medians over the draws."""
    names = [f"{result.paper.name}_{number}" for number in range(1, len(result.paper.plots) + 1)]
    return {
        name: _drawn(result, plot) for name, plot in zip(names, result.paper.plots, strict=True)
    }


def _drawn(result: PaperResult, plot: Plot) -> Figure:
    condition = next(c for c in result.paper.all_conditions if c.name == plot.condition)
    servers = plot.servers or tuple(condition.servers)
    with style():
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.subplots()
        for number, server in enumerate(servers):
            look = nth_look(number)
            _draw_band(axes, result, plot, server, look)
            if plot.over_time:
                _draw_over_time(axes, result, plot, server, look)
        axes.set(xlabel=plot.x_label, ylabel=plot.y_label, title=plot.title)
        axes.xaxis.set_major_locator(MaxNLocator(_TICKS, steps=(1, 2, 5, 10)))
        if plot.logarithmic:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.set_ylim(0, _HEADROOM * axes.dataLim.ymax)
        entries, labels = axes.get_legend_handles_labels()
        n_columns = 2 if max(map(len, labels)) > _LONG_LABEL else 3
        figure.legend(
            entries, labels, loc="outside lower center", ncols=n_columns, fontsize=SMALL_POINTS
        )
    return figure


def _draw_band(axes: Axes, result: PaperResult, plot: Plot, server: str, look: Look) -> None:
    at, low, middle, high = result.band(plot.condition, server, plot.figure)
    axes.plot(
        at,
        middle * plot.scale,
        color=look.colour,
        marker=look.marker,
        linestyle=look.dashes,
        markersize=4,
        label=server,
    )
    axes.fill_between(at, low * plot.scale, high * plot.scale, color=look.colour, alpha=0.15, lw=0)


def _draw_over_time(axes: Axes, result: PaperResult, plot: Plot, server: str, look: Look) -> None:
    """Draw how the reply rate spreads over the intervals of a run."""
    at, _, mean, _ = result.band(plot.condition, server, plot.figure)
    least, deviation, most = (
        result.band(plot.condition, server, figure)[2] * plot.scale for figure in OVER_TIME
    )
    axes.errorbar(
        at,
        mean * plot.scale,
        yerr=deviation,
        color=look.colour,
        linestyle="none",
        capsize=3,
        label="deviation",
    )
    for values, marker, name in ((most, "v", "maximum"), (least, "^", "minimum")):
        axes.plot(
            at,
            values,
            color="0.45",
            marker=marker,
            markersize=4,
            markerfacecolor="none",
            linestyle=":",
            linewidth=0.8,
            label=f"{name} of {REPLY_INTERVAL_NS / SECOND_NS:g} s",
        )
