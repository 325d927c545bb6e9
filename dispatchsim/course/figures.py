"""What the lessons say of a run: each figure with its unit, as its axis and its column are called.

Summary ──► FIGURES[name].of(summary) ──► a column of an experiment, an axis of its picture
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..scenario.errors import UserError, unknown_key
from ..sim.figures.metrics import Summary
from ..sim.state.units import SECOND_NS

_NAN = float("nan")
_US, _MS = 1e3, 1e6


class CourseFigure(NamedTuple):
    """A figure of a run: what it is called, its unit included, and where it comes from."""

    label: str
    of: Callable[[Summary], float]
    is_log: bool = False
    top: float | None = None  # of the axis


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
    "latency_mean_us": CourseFigure("mean latency (µs)", lambda s: s.latency_ns.mean / _US, True),
    "latency_p50_us": CourseFigure("median latency (µs)", lambda s: s.latency_ns.p50 / _US, True),
    "latency_p99_us": CourseFigure("99 % latency (µs)", lambda s: s.latency_ns.p99 / _US, True),
    "latency_p50_ms": CourseFigure("median latency (ms)", lambda s: s.latency_ns.p50 / _MS, True),
    "latency_p99_ms": CourseFigure("99 % latency (ms)", lambda s: s.latency_ns.p99 / _MS, True),
    "request_p50_us": CourseFigure(
        "median latency of a request (µs)", lambda s: s.request_latency_ns.p50 / _US
    ),
    "answered_per_s": CourseFigure("answered (requests/s)", _answered_per_s),
    "cpu_busy_percent": CourseFigure("CPU busy (%)", lambda s: 100 * s.cpu_busy, top=105),
    "cpu_us_per_request": CourseFigure("CPU time for a request (µs)", _cpu_us_per_request),
    "events_per_wait": CourseFigure("events per wait", lambda s: s.events_per_wait, True),
    "scanned_per_wait": CourseFigure("descriptors looked at per wait", _each("scanned", "waits")),
    "registered_per_wait": CourseFigure(
        "wait queues joined per wait", _each("registered", "waits")
    ),
    "waits_per_request": CourseFigure("waits per request", _each("waits", "replies")),
    "syn_drops": CourseFigure("connection requests dropped", _count("syn_drops")),
    "packet_drops": CourseFigure("packets dropped", _count("packet_drops")),
    "interrupts": CourseFigure("interrupts", _count("interrupts")),
    "recoveries": CourseFigure("recoveries by a poll of all", _count("overflows")),
    "stranded": CourseFigure(
        "connections stranded at the end", lambda s: float(sum(s.stranded.values()))
    ),
    "failed_percent": CourseFigure(
        "failed (%)",
        lambda s: 100 * sum(s.errors.values()) / s.offered if s.offered else _NAN,
        top=105,
    ),
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
