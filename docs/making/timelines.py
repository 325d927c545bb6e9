"""The picture of the README: the same arrivals at a server with poll and at one with epoll.

scenario, mechanism ─► reference engine ─► Recording ─┐
the same with epoll_level ────────────────────────────┴─► docs/_static/poll_and_epoll.png

python -m docs.making.timelines    write the picture anew
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import dispatchsim as ds
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.recording.recorded import IN_INTERRUPT
from dispatchsim.recording.recording import Recording
from dispatchsim.recording.timeline import Window, draw_spans, draw_ticks
from dispatchsim.sim.figures.recording import Span
from dispatchsim.sim.files.whole_files import write_whole
from dispatchsim.sim.state.kinds import Activity, Occurrence
from dispatchsim.sim.state.units import MICROSECOND_NS
from dispatchsim.validation.drawing.figures import style, to_png
from dispatchsim.validation.drawing.looks import colour_of

PICTURE = Path(__file__).parents[1] / "_static" / "poll_and_epoll.png"
IDLE = 1000
RATE = "12000/s"
BEGIN, LENGTH = "20 ms", "2 ms"
_RUN_TO = "30 ms"
_WIDTH, _HEIGHT = 11.0, 4.4
_AXES_POINTS = 0.9 * _WIDTH * 72
_TITLES = {
    "poll": f"poll checks all {IDLE:,} idle connections in each call",
    "epoll_level": "epoll returns ready connections only",
}
_KEY = {
    "poll or epoll_wait": "WAIT",
    "accept": "ACCEPT",
    "read": "READ",
    "application": "USER",
    "write": "WRITE",
    "close": "CLOSE",
    "epoll_ctl": "WATCH",
    "sleep, wake": "SLEEP",
    "interrupt": "INTERRUPT",
    "idle": "IDLE",
}


def recorded(mechanism: str) -> Recording:
    """Return the recorded run of *mechanism*; the arrivals are the same for all mechanisms."""
    scenario = ds.Scenario.of(
        server={"mechanism": mechanism},
        load={"loop": "open", "rate": RATE},
        idle={"connections": IDLE},
        run={"duration": _RUN_TO, "warm_up": "10 ms"},
    )
    return ds.record(scenario, profile=example_profile(), begin=BEGIN, length=LENGTH)


def two_timelines() -> Figure:
    """Return the picture: a panel for each server, on one time axis."""
    with style():
        figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        panels = figure.subplots(2, 1, sharex=True)
        for axes, (mechanism, title) in zip(panels, _TITLES.items(), strict=True):
            run = recorded(mechanism)
            window = Window(run.begin_ns, run.end_ns, MICROSECOND_NS, _AXES_POINTS)
            arrivals = [e.at_ns for e in run.events if e.kind == Occurrence.SYN]
            replies = [each.end_ns for each in run.requests if each.replied]
            draw_ticks(axes, 0, arrivals, window)
            draw_spans(axes, 1, run.spans, window, functools.partial(_label_of, run))
            draw_ticks(axes, 2, replies, window)
            axes.set_yticks(range(3), ["arrivals", "server's CPU", "replies"])
            axes.set(xlim=(0, window.at(run.end_ns)), ylim=(2.6, -0.6))
            axes.grid(visible=False)
            axes.tick_params(left=False)
            axes.set_title(f"{title}: {facts(run)}", loc="left")
        panels[-1].set_xlabel("time (µs)")
        key = [
            Patch(
                facecolor=colour_of(activity), edgecolor="#BBBBBB", label=label,
                hatch="////" if activity == "IDLE" else None,
            )
            for label, activity in _KEY.items()
        ]  # fmt: skip
        figure.legend(handles=key, loc="outside lower center", ncols=len(key), fontsize=8)
    return figure


def facts(run: Recording) -> str:
    """Return how busy the CPU is in *run* and the median response time, as the title has them."""
    idle_ns = sum(s.end_ns - s.begin_ns for s in run.spans if s.activity == Activity.IDLE)
    busy = 1 - idle_ns / (run.end_ns - run.begin_ns)
    responses_ns = [each.end_ns - each.due_ns for each in run.requests if each.replied]
    response_us = np.median(responses_ns) / MICROSECOND_NS
    return f"CPU {busy:.0%} busy, a reply comes after {response_us:.0f} µs (median)"


def _label_of(run: Recording, span: Span) -> str:
    return "" if span.activity in IN_INTERRUPT else run.name_of(span.activity)


def main() -> None:
    """Write the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    write_whole(PICTURE, to_png(two_timelines()))
    print(PICTURE)


if __name__ == "__main__":
    main()
