"""The picture of a recording: what each CPU did, and how long queues were.

cpu 0      │accept│read│write│ sleep ▒▒▒ idle ▒▒▒ │wake│epoll_wait│
packets        ▮  ▮            ▮                ▮
accept     ──┐__┌────
ready      ───┐__┌───
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..picture_parts import WIDTH
from ..quantities import DURATION
from ..sim.kinds import Activity
from ..validation.figures import style
from ..validation.looks import OKABE_ITO

if TYPE_CHECKING:
    from .recording import Recording

_COLOURS = {
    Activity.WAIT: OKABE_ITO[0],
    Activity.ACCEPT: OKABE_ITO[2],
    Activity.READ: OKABE_ITO[5],
    Activity.WRITE: OKABE_ITO[3],
    Activity.CLOSE: "#999999",
    Activity.USER: OKABE_ITO[4],
    Activity.INTERRUPT: OKABE_ITO[1],
    Activity.INTERRUPT_IDLE: OKABE_ITO[1],
    Activity.INTERRUPT_OTHER: OKABE_ITO[1],
    Activity.IDLE: "#FFFFFF",
}
_OTHER = "#555555"


def timeline_figure(recording: Recording) -> Figure:
    """Return the picture of *recording*."""
    shown = [n for n in ("accept_queue", "ready", "connections_open") if n in recording.queue_names]
    with style():
        drawing = Figure(
            figsize=(WIDTH * 1.5, 1.2 + 0.7 * recording.n_cpus + 0.9 * len(shown)),
            layout="constrained",
        )
        ratios = [0.8 * recording.n_cpus, *[1.0] * len(shown)]
        panels = drawing.subplots(1 + len(shown), 1, sharex=True, height_ratios=ratios)
        _draw_cpus(panels[0], recording)
        for axes, name in zip(panels[1:], shown, strict=True):
            _draw_queue(axes, recording, name)
        panels[-1].set_xlabel(f"time from {DURATION.format(recording.begin_ns)} of the run (us)")
        panels[0].set_title(f"{recording.scenario.server.mechanism}")
    return drawing


def _us(recording: Recording, at_ns: int) -> float:
    return (at_ns - recording.begin_ns) / 1e3


def _draw_cpus(axes: Axes, recording: Recording) -> None:
    used: dict[str, Any] = {}
    for cpu in range(recording.n_cpus):
        by_activity: dict[int, list[tuple[float, float]]] = {}
        for span in recording.spans:
            if span.cpu == cpu and span.activity != Activity.IDLE:
                begin = _us(recording, span.begin_ns)
                width = (span.end_ns - span.begin_ns) / 1e3
                by_activity.setdefault(span.activity, []).append((begin, width))
        for activity, bars in sorted(by_activity.items()):
            colour = _COLOURS.get(Activity(activity), _OTHER)
            axes.broken_barh(bars, (cpu - 0.4, 0.8), facecolors=colour, linewidth=0)
            used[Activity(activity).name.lower()] = colour
    axes.set_yticks(range(recording.n_cpus), [f"CPU {n}" for n in range(recording.n_cpus)])
    axes.set_xlim(0, _us(recording, recording.end_ns))
    axes.set_ylim(recording.n_cpus - 0.5, -0.5)
    handles = [Patch(facecolor=colour, label=name) for name, colour in used.items()]
    axes.figure.legend(handles=handles, loc="outside lower center", ncols=8, fontsize=7)


def _draw_queue(axes: Axes, recording: Recording, name: str) -> None:
    column = recording.queue_names.index(name)
    at: Sequence[float] = [_us(recording, row.at_ns) for row in recording.lengths]
    values = [row.lengths[column] for row in recording.lengths]
    if at:
        axes.step([*at, _us(recording, recording.end_ns)], [*values, values[-1]], where="post")
    axes.set_ylabel(name.replace("_", "\n"))
    axes.set_ylim(bottom=0)
