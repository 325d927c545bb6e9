"""Pictures of a report: measured points with error bars over forecast lines with bands."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from ...scenario.formats import time_text
from ...sim.files.whole_files import write_whole
from ..forecast.baselines import BASELINES
from ..points.measured_points import Spread
from ..scoring.scoring import PointScore
from ..scoring.targets import OURS
from .looks import OKABE_ITO, Look, look_of, nth_look

_COLUMNS_MAX = 4
_IDLE_LINEAR = 250  # below this, the logarithmic axis of idle connections is linear
_ERROR_MAX = 0.6
_BIN_WIDTH = 0.025
SMALL_POINTS = 8.0
"""Size of legends within axes, and of long or many names."""
NOTE_POINTS = 7.0
"""Size of notes below a picture, and of text in bars."""
_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names are plain text, with any characters
}

# Matplotlib's settings belong to the process. Two threads that changed them at the same time would
# draw with each other's settings and restore wrong ones. A thread may hold the lock twice.
_DRAWING = threading.RLock()


class ShownFigure(Figure):
    """A picture that a notebook shows even without pyplot."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def figures(scores: Sequence[PointScore]) -> dict[str, Figure]:
    """Return the pictures for which *scores* have points, by file name."""
    free = [s for s in scores if s.measured.point.server.accept_limit == 0]
    closed = [s for s in free if s.measured.point.load.loop == "closed"]
    opened = [
        s
        for s in free
        if s.measured.point.load.loop == "open"
        # These servers differ from the server of the curve, and have other rates.
        and not s.measured.point.keeps
        and not s.measured.point.server.request_cpu
    ]
    held_out = [s for s in scores if s.role == "capacity"]
    drawn = {}
    with style():
        if closed:
            drawn["closed_throughput"] = closed_throughput(closed)
        if opened:
            drawn["open_curves"] = open_curves(opened)
        if held_out:
            drawn["error_histogram"] = error_histogram(held_out)
    return drawn


def save_figures(drawn: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Write the pictures *drawn* into *folder* as PNG and SVG; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, figure in drawn.items():
        for suffix, content in ((".png", to_png(figure)), (".svg", to_svg(figure, name).encode())):
            write_whole(folder / f"{name}{suffix}", content)
            paths.append(folder / f"{name}{suffix}")
    return paths


def to_svg(figure: Figure, name: str) -> str:
    """Return a picture as SVG; *name* makes its identifiers unique within a page."""
    buffer = io.BytesIO()
    with style(), mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().decode()


def to_png(figure: Figure) -> bytes:
    """Return a picture as PNG."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def to_pdf(figure: Figure) -> bytes:
    """Return a picture as PDF."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


@contextmanager
def style() -> Iterator[None]:
    """Set the style of all pictures of a report; one thread at a time."""
    with _DRAWING, mpl.rc_context(_STYLE):
        yield


def closed_throughput(scores: Sequence[PointScore]) -> Figure:
    """Return throughput against idle connections: panels are servers, colours user counts."""
    names = server_names(scores)
    users = sorted({s.measured.point.users for s in scores})
    n_columns = min(_COLUMNS_MAX, len(names))
    n_rows = -(-len(names) // n_columns)
    figure = Figure(figsize=(3.4 * n_columns + 0.6, 3.4 * n_rows + 0.4), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    idle_counts = sorted({s.measured.point.idle.connections for s in scores})
    for axes in panels.flat[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(panels.flat, names, strict=False):
        own = [s for s in scores if server_name(s) == name]
        for i, n_users in enumerate(users):
            row = [s for s in own if s.measured.point.users == n_users]
            _draw(
                axes,
                row,
                "throughput_per_s",
                nth_look(i),
                lambda s: s.measured.point.idle.connections,
            )
        axes.set(title=name, xlabel="idle connections", yscale="log")
        axes.set_xscale("symlog", linthresh=_IDLE_LINEAR)
        axes.set_xlim(0, 1.3 * max(_IDLE_LINEAR, *idle_counts))
        axes.set_xticks(idle_counts, [str(n) for n in idle_counts])
        axes.minorticks_off()
        _readable_log(axes)
    for row_of_panels in panels:
        row_of_panels[0].set_ylabel("replies per second")
    legend(figure, {f"{n} users": nth_look(i) for i, n in enumerate(users)})
    return figure


def server_name(score: PointScore) -> str:
    """Return the name of a server in pictures: its mechanism and unusual settings."""
    point = score.measured.point
    parts = [point.server.mechanism]
    parts += [point.server.threads] if point.blocks else []
    parts += [f"{point.load.connections} kept"] if point.keeps else []
    parts += [f"work {time_text(point.server.request_cpu)}"] if point.server.request_cpu else []
    return ", ".join(parts)


def server_names(scores: Sequence[PointScore]) -> list[str]:
    """Return the names of the servers, in the order of their mechanisms."""
    order = in_order(s.measured.point.server.mechanism for s in scores)
    ranked = sorted(scores, key=lambda s: order.index(s.measured.point.server.mechanism))
    return list(dict.fromkeys(map(server_name, ranked)))


def open_curves(scores: Sequence[PointScore]) -> Figure:
    """Return CPU and p50 against offered rate: columns are idle counts, colours mechanisms."""
    mechanisms = in_order(s.measured.point.server.mechanism for s in scores)
    idle_counts = sorted({s.measured.point.idle.connections for s in scores})
    figure = Figure(figsize=(4.4 * len(idle_counts) + 0.6, 6.2), layout="constrained")
    panels = figure.subplots(2, len(idle_counts), sharex=True, sharey="row", squeeze=False)
    for column, idle in enumerate(idle_counts):
        cpu, p50 = panels[0][column], panels[1][column]
        for mechanism in mechanisms:
            row = [
                s
                for s in scores
                if s.measured.point.idle.connections == idle
                and s.measured.point.server.mechanism == mechanism
            ]
            row.sort(key=_rate)
            _draw(cpu, row, "cpu_busy", look_of(mechanism), _rate, scale=100)
            _draw(p50, row, "p50_ns", look_of(mechanism), _rate, scale=1e-6)
        cpu.set(title=f"{idle} idle connections", ylim=(0, 105))
        p50.set(xlabel="offered rate (connections/s)", yscale="log")
        p50.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        p50.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panels[0][0].set_ylabel("CPU busy (%)")
    panels[1][0].set_ylabel("p50 latency (ms)")
    legend(figure, {name: look_of(name) for name in mechanisms})
    return figure


def error_histogram(scores: Sequence[PointScore]) -> Figure:
    """Return the distribution of throughput errors, a panel for each predictor."""
    names = [OURS, *BASELINES]
    figure = Figure(figsize=(7.2, 1.35 * len(names) + 0.6), layout="constrained")
    panels = figure.subplots(len(names), 1, sharex=True, sharey=True)
    n_bins = round(2 * _ERROR_MAX / _BIN_WIDTH)
    for i, (axes, name) in enumerate(zip(panels, names, strict=True)):
        errors = [
            (s.errors if name == OURS else s.baseline_errors[name]).throughput
            for s in scores
            if name == OURS or name in s.baseline_errors
        ]
        known = np.array([value for value in errors if value is not None])
        limit = 100 * _ERROR_MAX
        clipped = np.clip(100 * known, -limit + 1e-6, limit - 1e-6)
        axes.hist(
            clipped, bins=n_bins, range=(-limit, limit), color=OKABE_ITO[i], edgecolor="white"
        )
        for edge in (-10, 10):
            axes.axvline(edge, color="0.4", linewidth=0.8, linestyle="--")
        middle = f"median |error| {100 * np.median(np.abs(known)):.1f}%" if known.size else "none"
        worst = f", worst {100 * known[np.abs(known).argmax()]:+.0f}%" if known.size else ""
        axes.set_title(f"{name}: {known.size} points, {middle}{worst}", loc="left")
    figure.supylabel("points", fontsize="medium")
    panels[-1].set_xlabel(
        f"relative error of throughput (%); outer bins: all errors beyond ±{100 * _ERROR_MAX:.0f}%"
    )
    return figure


def _draw(
    axes: Axes,
    scores: Sequence[PointScore],
    figure: str,
    look: Look,
    position: Callable[[PointScore], float],
    *,
    scale: float = 1.0,
) -> None:
    """Draw one series: forecast line and band, measured points with their intervals."""
    scores = sorted(scores, key=position)
    at = [position(s) for s in scores]
    central = [scale * getattr(s.forecast.central, figure) for s in scores]
    low = [scale * getattr(s.forecast.low, figure) for s in scores]
    high = [scale * getattr(s.forecast.high, figure) for s in scores]
    axes.fill_between(at, low, high, color=look.colour, alpha=0.18, linewidth=0)
    axes.plot(at, central, color=look.colour, linestyle=look.dashes, linewidth=1.3)
    values = np.array([scale * getattr(s.measured.median, figure) for s in scores])
    bars = np.array([_bars(getattr(s.measured.spread, figure), scale) for s in scores])
    if bars.size:
        bars = np.abs(np.stack([values - bars[:, 0], bars[:, 1] - values]))
        axes.errorbar(
            at, values, yerr=np.nan_to_num(bars), color=look.colour, capsize=2, linestyle="none",
            marker=look.marker, markersize=4, markeredgecolor="white", markeredgewidth=0.5,
            elinewidth=1, clip_on=False,  # markers at the edge of an axis are drawn whole
        )  # fmt: skip


def _bars(spread: Spread, scale: float) -> tuple[float, float]:
    return scale * spread.low, scale * spread.high


_LEGEND_ENTRY_INCHES = 1.5


def legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    """Draw the legend of colours, markers and dashes below a picture."""
    handles = [
        Line2D(
            [], [], color=look.colour, linestyle=look.dashes, marker=look.marker, markersize=5,
            label=label,
        )
        for label, look in looks.items()
    ]  # fmt: skip
    fit = int(figure.get_figwidth() / _LEGEND_ENTRY_INCHES)
    ncols = max(1, min(len(handles), fit))
    figure.legend(handles=handles, loc="outside lower center", ncols=ncols)


def _readable_log(axes: Axes) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade in whole numbers."""
    axes.yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _rate(score: PointScore) -> float:
    return score.measured.point.rate_per_s


def in_order(names: Iterable[str]) -> list[str]:
    """Return the different *names* in order of first appearance."""
    return list(dict.fromkeys(names))
