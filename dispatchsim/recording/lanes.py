"""Lanes of the timeline: spans as bars; where these would be under a pixel, shares of columns.

few spans     │ epoll_wait │ read │ user      │ write │▨ idle ▨▨▨▨│
very many     ▂▃▅▃▂▇▂▃   each column is a stretch of time, each colour its share of it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import NDArray

from ..sim.figures.recording import Span
from ..sim.state.kinds import Activity
from ..validation.drawing.figures import NOTE_POINTS
from ..validation.drawing.looks import colour_of, is_dark

SPANS_MAX = 800
"""Of a lane that are drawn one by one: on a wide page each has more than a pixel, on average."""
TICKS_MAX = 300
STEPS_MAX = 1_500
COLUMNS = 250
"""Stretches of time that a lane is divided into where there is more to draw."""
_HALF = 0.4
_CHARACTER_POINTS = 4.6
_QUIET = frozenset({"IDLE"})
Shares = NDArray[np.float64]


class Window(NamedTuple):
    """What of the run is drawn, and the unit of its axis in ns; width of the axes in points."""

    begin_ns: int
    end_ns: int
    unit_ns: int
    width_points: float

    def at(self, at_ns: float) -> float:
        """Return where *at_ns* is on the axis."""
        return (at_ns - self.begin_ns) / self.unit_ns

    @property
    def column_ns(self) -> float:
        """How long one of the columns is."""
        return (self.end_ns - self.begin_ns) / COLUMNS


def draw_spans(
    axes: Axes, row: float, spans: Sequence[Span], window: Window, name_of: Callable[[Span], str]
) -> None:
    """Draw *spans*, which do not overlap, as the lane *row*; very many as shares of columns."""
    if len(spans) > SPANS_MAX:
        _draw_shares(axes, row, spans, window)
        return
    for name in sorted({Activity(span.activity).name for span in spans}):
        own = [span for span in spans if Activity(span.activity).name == name]
        boxes = [_box(row, span, window) for span in own]
        bars = PolyCollection(
            boxes, facecolors=colour_of(name), edgecolors="#00000055", linewidths=0.3
        )
        if name in _QUIET:
            bars.set(hatch="////", facecolor="white", edgecolor="#BBBBBB", linewidth=0)
        axes.add_collection(bars)
    for span in spans:
        _write(axes, row, span, window, name_of(span))


def counts_of(times_ns: Sequence[int], window: Window) -> NDArray[np.int64]:
    """Return how much happens in each column; nothing, if each can have a tick of its own."""
    if len(times_ns) <= TICKS_MAX:
        return np.zeros(0, np.int64)
    ends = (window.begin_ns, window.end_ns)
    return np.histogram(times_ns, bins=COLUMNS, range=ends)[0].astype(np.int64)


def draw_ticks(axes: Axes, row: float, times_ns: Sequence[int], window: Window) -> None:
    """Draw what happens at points in time, or how often in each column, up to the greatest."""
    counts = counts_of(times_ns, window)
    if counts.size == 0:
        at = [window.at(at_ns) for at_ns in times_ns]
        axes.vlines(at, row - _HALF, row + _HALF, color="#000000", linewidth=1)
        return
    edges = np.linspace(0, window.at(window.end_ns), COLUMNS + 1)
    tops = row + _HALF - 2 * _HALF * counts / counts.max()
    axes.stairs(tops, edges, baseline=row + _HALF, fill=True, color="#000000")


class Extremes(NamedTuple):
    """Of each column: the least and the greatest length of a queue, and its mean over time."""

    least: NDArray[np.float64]
    mean: NDArray[np.float64]
    greatest: NDArray[np.float64]


def extremes(at_ns: Sequence[int], lengths: Sequence[int], window: Window) -> Extremes:
    """Return what the steps of a queue, from each *at_ns* on, come to in each column.

    The first step is at the beginning of the window, or before.
    """
    edges = np.linspace(window.begin_ns, window.end_ns, COLUMNS + 1)
    times, values = np.array(at_ns, float), np.array(lengths, float)
    at_edge = np.searchsorted(times, edges, side="right") - 1
    until = np.append(times[1:], window.end_ns)
    area = np.concatenate([[0.0], np.cumsum(values * (until - times))])
    integral = area[at_edge] + values[at_edge] * (edges - times[at_edge])
    least, greatest = np.empty(COLUMNS), np.empty(COLUMNS)
    for column in range(COLUMNS):
        # What the column begins with, and all that it changes to.
        part = values[at_edge[column] : at_edge[column + 1] + 1]
        least[column], greatest[column] = part.min(), part.max()
    return Extremes(least, np.diff(integral) / window.column_ns, greatest)


def shares(spans: Sequence[Span], window: Window) -> dict[str, Shares]:
    """Return the share of each column's time by the name of an activity; 1 in all, or less."""
    edges = np.linspace(window.begin_ns, window.end_ns, COLUMNS + 1)
    found: dict[str, Shares] = {}
    for name in dict.fromkeys(Activity(span.activity).name for span in spans):
        own = [span for span in spans if Activity(span.activity).name == name]
        begins = np.array([span.begin_ns for span in own], float)
        lengths = np.array([span.end_ns - span.begin_ns for span in own], float)
        order = np.argsort(begins)
        begins, lengths = begins[order], lengths[order]
        # Time spent until each edge: all spans that have ended, and of the last what has passed.
        done = np.concatenate([[0.0], np.cumsum(lengths)])
        last = np.searchsorted(begins, edges, side="right") - 1
        passed = np.clip(edges - begins[np.maximum(last, 0)], 0, lengths[np.maximum(last, 0)])
        until = np.where(last < 0, 0.0, done[np.maximum(last, 0)] + passed)
        found[name] = np.diff(until) / window.column_ns
    return found


def _draw_shares(axes: Axes, row: float, spans: Sequence[Span], window: Window) -> None:
    edges = np.linspace(0, window.at(window.end_ns), COLUMNS + 1)
    bottom = np.full(COLUMNS, row + _HALF)
    found = shares(spans, window)
    for activity in Activity:
        if activity.name not in found or activity.name in _QUIET:
            continue
        top = bottom - 2 * _HALF * found[activity.name]
        axes.stairs(top, edges, baseline=bottom, fill=True, color=colour_of(activity.name))
        bottom = top
    axes.hlines([row - _HALF], 0, edges[-1], color="#BBBBBB", linewidth=0.5)


def _box(row: float, span: Span, window: Window) -> list[tuple[float, float]]:
    left, right = window.at(span.begin_ns), window.at(span.end_ns)
    return [
        (left, row - _HALF), (right, row - _HALF), (right, row + _HALF), (left, row + _HALF),
    ]  # fmt: skip


def _write(axes: Axes, row: float, span: Span, window: Window, name: str) -> None:
    """Write the name of a span into it, if it fits."""
    share = (span.end_ns - span.begin_ns) / (window.end_ns - window.begin_ns)
    if share * window.width_points < (len(name) + 1) * _CHARACTER_POINTS:
        return
    colour = colour_of(Activity(span.activity).name)
    axes.text(
        window.at((span.begin_ns + span.end_ns) / 2), row, name, fontsize=NOTE_POINTS,
        ha="center", va="center", color="white" if is_dark(colour) else "black",
    )  # fmt: skip
