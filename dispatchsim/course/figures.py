"""What the lessons say of a run: each figure with its unit, as its axis and its column are called.

A figure that is a metric of the library's table (scenario/metrics.py) has its words and its value
from there; the others are of the lessons alone.

Summary ──► FIGURES[name].of(summary) ──► a column of an experiment, an axis of its picture
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..scenario.errors import UserError, unknown_key
from ..scenario.metrics import METRICS
from ..sim.figures.metrics import Summary
from ..sim.state.units import SECOND_NS

_NAN = float("nan")
_US = 1e3
_SHOWN_IN: dict[str, Callable[[float], float]] = {
    "µs": lambda ns: ns / _US,
    "ms": lambda ns: ns / 1e6,
    "%": lambda share: 100 * share,
    "": lambda number: number,
}


class CourseFigure(NamedTuple):
    """A figure of a run: what it is called, its unit included, and where it comes from."""

    label: str
    of: Callable[[Summary], float]
    is_log: bool = False
    top: float | None = None  # of the axis


def _metric(
    name: str, unit: str = "", *, is_log: bool = False, top: float | None = None
) -> CourseFigure:
    """Return a metric of the library's table as lessons have it, in *unit*."""
    metric = METRICS[name]
    label = f"{metric.heading} ({unit})" if unit else metric.heading
    return CourseFigure(label, lambda s: _SHOWN_IN[unit](metric.of(s)), is_log, top)


def _each(count: str, other: str) -> Callable[[Summary], float]:
    def ratio(summary: Summary) -> float:
        n = summary.calls[other]
        return summary.calls[count] / n if n else _NAN

    return ratio


def _count(name: str) -> Callable[[Summary], float]:
    return lambda summary: float(summary.calls[name])


def _answered_per_s(summary: Summary) -> float:
    return summary.calls["replies"] * SECOND_NS / summary.window_ns


def _cpu_us_per_request(summary: Summary) -> float:
    n = summary.calls["replies"]
    return summary.cpu.busy_ns / n / _US if n else _NAN


FIGURES: dict[str, CourseFigure] = {
    "latency_mean_us": _metric("mean_answered_ns", "µs", is_log=True),
    "latency_p50_us": _metric("p50_answered_ns", "µs", is_log=True),
    "latency_p99_us": _metric("p99_answered_ns", "µs", is_log=True),
    "latency_p50_ms": _metric("p50_answered_ns", "ms", is_log=True),
    "latency_p99_ms": _metric("p99_answered_ns", "ms", is_log=True),
    "request_p50_us": _metric("request_p50_answered_ns", "µs"),
    "answered_per_s": CourseFigure("answered (requests/s)", _answered_per_s),
    "cpu_busy_percent": _metric("cpu_busy", "%", top=105),
    "cpu_us_per_request": CourseFigure("CPU time for a request (µs)", _cpu_us_per_request),
    "events_per_wait": _metric("events_per_wait", is_log=True),
    "scanned_per_wait": CourseFigure("descriptors looked at per wait", _each("scanned", "waits")),
    "registered_per_wait": CourseFigure(
        "wait queues joined per wait", _each("registered", "waits")
    ),
    "waits_per_request": _metric("waits_per_reply"),
    "syn_drops": CourseFigure("connection requests dropped", _count("syn_drops")),
    "packet_drops": CourseFigure("packets dropped", _count("packet_drops")),
    "interrupts": CourseFigure("interrupts", _count("interrupts")),
    "recoveries": CourseFigure("recoveries by a poll of all", _count("overflows")),
    "stranded": CourseFigure(
        "connections stranded at the end", lambda s: float(sum(s.stranded.values()))
    ),
    "failed_percent": _metric("failed_share", "%", top=105),
}
"""By name; the last word of a name is the unit."""


def figure_called(name: str) -> CourseFigure:
    """Return the figure called *name*.

    Raises
    ------
    UserError
        With what was perhaps meant.
    """
    if name not in FIGURES:
        raise UserError(f"figure: {unknown_key(name, FIGURES)}, got {name}")
    return FIGURES[name]
