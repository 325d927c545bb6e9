"""The picture of a recording: lanes of CPUs and threads, arrivals and replies, and queues.

arrivals        |  | ||          |            ticks
CPU 0           │accept│read│write│▨ idle ▨│wake│epoll_wait│
  interrupts      ▮  ▮          ▮
worker 0        one lane per thread, if there are several
replies              |      | |
accept queue    ──┐__┌────                    steps, with their unit
ready           ───┐__┌───

A lane shows spans as bars, or as shares of columns if bars would be under a pixel wide:

few spans     │ epoll_wait │ read │ user      │ write │▨ idle ▨▨▨▨│
very many     ▂▃▅▃▂▇▂▃   each column is a stretch of time, each colour a share of it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ..scenario.quantities import DURATION
from ..sim.figures.recording import Span
from ..sim.state.kinds import NONE, Activity, Occurrence
from ..sim.state.units import MICROSECOND_NS, MILLISECOND_NS
from ..validation.drawing.figures import NOTE_POINTS, ShownFigure, style
from ..validation.drawing.looks import OKABE_ITO, colour_of, is_dark
from .recorded import IN_INTERRUPT, Recorded

SPANS_MAX = 800
"""Most spans of a lane drawn one by one: on a wide page each has over a pixel on average."""
TICKS_MAX = 300
STEPS_MAX = 1_500
COLUMNS = 250
"""Stretches of time of a lane with more spans."""
_HALF = 0.4
_CHARACTER_POINTS = 4.6
_QUIET = frozenset({"IDLE"})
Shares = NDArray[np.float64]


class Window(NamedTuple):
    """The part of the run that is drawn, the unit of its axis in ns, and its width in points."""

    begin_ns: int
    end_ns: int
    unit_ns: int
    width_points: float

    def at(self, at_ns: float) -> float:
        """Return the position of *at_ns* on the axis."""
        return (at_ns - self.begin_ns) / self.unit_ns

    @property
    def column_ns(self) -> float:
        """The length of a column in ns."""
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
    """Return the number of events in each column; empty if each can have a tick of its own."""
    if len(times_ns) <= TICKS_MAX:
        return np.zeros(0, np.int64)
    ends = (window.begin_ns, window.end_ns)
    return np.histogram(times_ns, bins=COLUMNS, range=ends)[0].astype(np.int64)


def draw_ticks(axes: Axes, row: float, times_ns: Sequence[int], window: Window) -> None:
    """Draw a tick per event, or the number of events in each column, up to the largest."""
    counts = counts_of(times_ns, window)
    if counts.size == 0:
        at = [window.at(at_ns) for at_ns in times_ns]
        axes.vlines(at, row - _HALF, row + _HALF, color="#000000", linewidth=1)
        return
    edges = np.linspace(0, window.at(window.end_ns), COLUMNS + 1)
    tops = row + _HALF - 2 * _HALF * counts / counts.max()
    axes.stairs(tops, edges, baseline=row + _HALF, fill=True, color="#000000")


class Extremes(NamedTuple):
    """The least, mean and greatest length of a queue in each column."""

    least: NDArray[np.float64]
    mean: NDArray[np.float64]
    greatest: NDArray[np.float64]


def extremes(at_ns: Sequence[int], lengths: Sequence[int], window: Window) -> Extremes:
    """Return the extremes of a queue, whose lengths hold from each *at_ns* on, by column.

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
        # The length at the beginning of the column, and all later ones in it.
        part = values[at_edge[column] : at_edge[column + 1] + 1]
        least[column], greatest[column] = part.min(), part.max()
    return Extremes(least, np.diff(integral) / window.column_ns, greatest)


def shares(spans: Sequence[Span], window: Window) -> dict[str, Shares]:
    """Return the share of each column's time by activity; their sum is at most 1."""
    edges = np.linspace(window.begin_ns, window.end_ns, COLUMNS + 1)
    found: dict[str, Shares] = {}
    for name in dict.fromkeys(Activity(span.activity).name for span in spans):
        own = [span for span in spans if Activity(span.activity).name == name]
        begins = np.array([span.begin_ns for span in own], float)
        lengths = np.array([span.end_ns - span.begin_ns for span in own], float)
        order = np.argsort(begins)
        begins, lengths = begins[order], lengths[order]
        # Time spent until each edge: all spans that ended, and the elapsed part of the last.
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


_WIDTH = 11.0
_AXES_POINTS = 0.86 * _WIDTH * 72
_FAINT = "#CFE3F0"
_LANE = 0.42
_PANEL = 0.85
_THREADS_MAX = 12
_IN_MS_FROM_NS = 5 * MILLISECOND_NS
_QUEUES = {
    "accept_queue": "accept queue\n(connections)",
    "ready": "ready\n(descriptors)",
    "told": "not yet fetched\n(notifications)",
    "connections_open": "open\n(connections)",
    "half_open": "half open\n(connections)",
    "runnable": "waiting for a CPU\n(threads)",
    "packets_waiting": "waiting for the\nkernel (packets)",
}
_ALWAYS = ("accept_queue", "ready", "connections_open")
_ARRIVALS = (Occurrence.SYN, Occurrence.REQUEST)
_LABELS = {
    "watching": (Activity.WATCH, Activity.REWATCH, Activity.UNWATCH),
    "sleep, wake": (Activity.SLEEP, Activity.WAKE),
    "interrupt": tuple(IN_INTERRUPT),
}
"""The common label of activities of one colour."""
Draw = Callable[[Axes, float], object]


def timeline_figure(recording: Recorded) -> Figure:
    """Return the picture of *recording*."""
    length_ns = recording.end_ns - recording.begin_ns
    unit_ns = MICROSECOND_NS if length_ns < _IN_MS_FROM_NS else MILLISECOND_NS
    window = Window(recording.begin_ns, recording.end_ns, unit_ns, _AXES_POINTS)
    lanes = _lanes(recording, window)
    queues = _queues(recording)
    heights = [_LANE * len(lanes), *[_PANEL] * len(queues)]
    with style():
        drawing = ShownFigure(figsize=(_WIDTH, sum(heights) + 1.5), layout="constrained")
        panels = drawing.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        top = panels[0]
        for row, (_, draw) in enumerate(lanes):
            draw(top, row)
        top.set_yticks(range(len(lanes)), [name for name, _ in lanes])
        top.set(xlim=(0, window.at(window.end_ns)), ylim=(len(lanes) - 0.4, -0.6))
        top.grid(visible=False)
        top.tick_params(left=False)
        top.set_title(_title(recording, window), loc="left")
        for axes, (column, label) in zip(panels[1:], queues, strict=True):
            _draw_queue(axes, recording, window, column)
            axes.set_ylabel(label, rotation=0, ha="right", va="center")
        unit = "µs" if unit_ns == MICROSECOND_NS else "ms"
        begin = DURATION.format(recording.begin_ns)
        panels[-1].set_xlabel(f"time from {begin} of the run ({unit})")
        drawing.legend(handles=_key(recording), loc="outside lower center", ncols=8)
    return drawing


def _title(recording: Recorded, window: Window) -> str:
    name = recording.scenario.server.mechanism
    if max(_spans_of_cpus(recording), default=0) <= SPANS_MAX:
        return name
    column = f"{window.column_ns / MICROSECOND_NS:.3g} µs"
    return f"{name}: shares of each {column}; queues: mean and range in each {column}"


def _spans_of_cpus(recording: Recorded) -> list[int]:
    return [sum(span.cpu == cpu for span in recording.spans) for cpu in range(recording.n_cpus)]


def _lanes(recording: Recorded, window: Window) -> list[tuple[str, Draw]]:
    """Return the names of the lanes from top to bottom, each with its drawing function."""
    arrivals = [e.at_ns for e in recording.events if e.kind in _ARRIVALS]
    replies = [r.end_ns for r in recording.requests if r.replied]
    lanes: list[tuple[str, Draw]] = [_ticks("arrivals", arrivals, window)]
    for cpu in range(recording.n_cpus):
        own = [span for span in recording.spans if span.cpu == cpu]
        by_interrupt = [span for span in own if span.activity in IN_INTERRUPT]
        lanes.append((f"CPU {cpu}", _bars(recording, own, window)))
        if by_interrupt:
            lanes.append(("interrupts", _bars(recording, by_interrupt, window)))
    threads = sorted({span.thread for span in recording.spans if span.step != NONE})
    if len(threads) > 1:
        for thread in threads[:_THREADS_MAX]:
            steps = [s for s in recording.spans if s.thread == thread and s.step != NONE]
            lanes.append((recording.thread_name(thread), _bars(recording, steps, window)))
    lanes.append(_ticks("replies", replies, window))
    return lanes


def _bars(recording: Recorded, spans: Sequence[Span], window: Window) -> Draw:
    def name_of(span: Span) -> str:
        if span.activity in IN_INTERRUPT and span.kind != NONE:
            return str(Occurrence(span.kind).name)
        return recording.name_of(span.activity)

    return lambda axes, row: draw_spans(axes, row, spans, window, name_of)


def _ticks(name: str, times_ns: Sequence[int], window: Window) -> tuple[str, Draw]:
    counts = counts_of(times_ns, window)
    label = f"{name}\n(≤ {counts.max()} per column)" if counts.size else name
    return label, lambda axes, row: draw_ticks(axes, row, times_ns, window)


def _queues(recording: Recorded) -> list[tuple[int, str]]:
    """Return the columns of the queues that are drawn, with their labels."""
    found = []
    for name, label in _QUEUES.items():
        if name not in recording.queue_names:
            continue
        column = recording.queue_names.index(name)
        if name == "runnable" and recording.n_cpus == recording.n_workers == 1:
            continue  # only the waking server
        if name in _ALWAYS or any(row.lengths[column] for row in recording.lengths):
            found.append((column, label))
    return found


def _draw_queue(axes: Axes, recording: Recorded, window: Window, column: int) -> None:
    lengths = [row.lengths[column] for row in recording.lengths]
    if len(lengths) > STEPS_MAX:
        at_ns = [row.at_ns for row in recording.lengths]
        found = extremes(at_ns, lengths, window)
        edges = np.linspace(0, window.at(window.end_ns), COLUMNS + 1)
        axes.stairs(found.greatest, edges, baseline=found.least, fill=True, color=_FAINT)
        axes.stairs(found.mean, edges, baseline=None, color=OKABE_ITO[0], linewidth=1)
    elif lengths:
        at = [window.at(row.at_ns) for row in recording.lengths] + [window.at(window.end_ns)]
        steps = [*lengths, lengths[-1]]
        axes.step(at, steps, where="post", color=OKABE_ITO[0], linewidth=1)
        axes.fill_between(at, steps, step="post", color=_FAINT, linewidth=0)
    top = max([1, *lengths])
    axes.set_yticks(sorted({0, top // 2, top}))
    axes.set_ylim(0, 1.1 * top)


def _key(recording: Recorded) -> list[Patch]:
    """Return the legend of the colours that are drawn."""
    used = sorted({Activity(span.activity) for span in recording.spans})
    together = {activity: label for label, group in _LABELS.items() for activity in group}
    names: dict[str, IntEnum] = {}
    for activity in used:
        names.setdefault(together.get(activity, recording.name_of(activity)), activity)
    return [
        Patch(
            facecolor=colour_of(activity.name), edgecolor="#BBBBBB", label=label,
            hatch="////" if activity is Activity.IDLE else None,
        )
        for label, activity in names.items()
    ]  # fmt: skip
