"""The picture of a recording: what CPUs and threads did, what came and left, and the queues.

arrivals        |  | ||          |            ticks
CPU 0           │accept│read│write│▨ idle ▨│wake│epoll_wait│
  interrupts      ▮  ▮          ▮
worker 0        a lane each, where there are several
replies              |      | |
accept queue    ──┐__┌────                    steps, with what they count
ready           ───┐__┌───
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from ..scenario.quantities import DURATION
from ..sim.figures.recording import Span
from ..sim.state.kinds import NONE, Activity, Occurrence
from ..sim.state.units import MICROSECOND_NS, MILLISECOND_NS
from ..validation.drawing.figures import ShownFigure, style
from ..validation.drawing.looks import OKABE_ITO, colour_of
from .lanes import (
    COLUMNS,
    SPANS_MAX,
    STEPS_MAX,
    Window,
    counts_of,
    draw_spans,
    draw_ticks,
    extremes,
)
from .recorded import Recorded

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
    "told": "told, not taken\n(notices)",
    "connections_open": "open\n(connections)",
    "half_open": "half open\n(connections)",
    "runnable": "wait for a CPU\n(threads)",
    "packets_waiting": "wait for the\nkernel (packets)",
}
_ALWAYS = ("accept_queue", "ready", "connections_open")
_INTERRUPTS = (Activity.INTERRUPT, Activity.INTERRUPT_IDLE, Activity.INTERRUPT_OTHER)
_ARRIVALS = (Occurrence.SYN, Occurrence.REQUEST)
_LABELS = {
    "watching": (Activity.WATCH, Activity.REWATCH, Activity.UNWATCH),
    "sleep, wake": (Activity.SLEEP, Activity.WAKE),
    "interrupt": _INTERRUPTS,
}
"""What activities of one colour are called together."""
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
    return f"{name}: shares of each {column}; queues: mean in each {column}, least to greatest"


def _spans_of_cpus(recording: Recorded) -> list[int]:
    return [sum(span.cpu == cpu for span in recording.spans) for cpu in range(recording.n_cpus)]


def _lanes(recording: Recorded, window: Window) -> list[tuple[str, Draw]]:
    """Return the names of the lanes from top to bottom, and how each is drawn."""
    arrivals = [e.at_ns for e in recording.events if e.kind in _ARRIVALS]
    replies = [r.end_ns for r in recording.requests if r.replied]
    lanes: list[tuple[str, Draw]] = [_ticks("arrivals", arrivals, window)]
    for cpu in range(recording.n_cpus):
        own = [span for span in recording.spans if span.cpu == cpu]
        by_interrupt = [span for span in own if span.activity in _INTERRUPTS]
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
        if span.activity in _INTERRUPTS and span.kind != NONE:
            return str(Occurrence(span.kind).name)
        return recording.name_of(span.activity)

    return lambda axes, row: draw_spans(axes, row, spans, window, name_of)


def _ticks(name: str, times_ns: Sequence[int], window: Window) -> tuple[str, Draw]:
    counts = counts_of(times_ns, window)
    label = f"{name}\n(≤ {counts.max()} a column)" if counts.size else name
    return label, lambda axes, row: draw_ticks(axes, row, times_ns, window)


def _queues(recording: Recorded) -> list[tuple[int, str]]:
    """Return the columns of the queues that are drawn, with their labels."""
    found = []
    for name, label in _QUEUES.items():
        if name not in recording.queue_names:
            continue
        column = recording.queue_names.index(name)
        if name == "runnable" and recording.n_cpus == recording.n_workers == 1:
            continue  # it is the server that wakes up
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
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axes.set_ylim(0, 1.1 * max([1, *lengths]))


def _key(recording: Recorded) -> list[Patch]:
    """Return what the colours stand for, of those that are drawn."""
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
