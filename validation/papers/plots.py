"""The figures of a paper, redrawn from the simulation in the paper's own axes."""

from __future__ import annotations

from matplotlib.figure import Figure

from ..figures import style
from ..looks import nth_look
from .paper import Plot
from .result import PaperResult

_SIZE = (6.4, 3.8)


def drawn_plots(result: PaperResult) -> dict[str, Figure]:
    """Return the figures of *result* by file name: medians over the draws, 5 to 95% shaded."""
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
            at, low, middle, high = result.band(plot.condition, server, plot.figure)
            look = nth_look(number)
            axes.plot(
                at,
                middle * plot.scale,
                color=look.colour,
                marker=look.marker,
                linestyle=look.dashes,
                markersize=4,
                label=server,
            )
            axes.fill_between(
                at, low * plot.scale, high * plot.scale, color=look.colour, alpha=0.15, lw=0
            )
        axes.set(xlabel=plot.x_label, ylabel=plot.y_label, title=plot.title)
        if plot.logarithmic:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
    return figure
