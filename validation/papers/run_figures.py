"""The figures of a run that claims speak of, by name, from its summary."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...sim.figures.metrics import Summary
from ...sim.state.units import MILLISECOND_NS, SECOND_NS


def _rate(name: str) -> Callable[[Summary], float]:
    return lambda s: s.calls[name] * SECOND_NS / s.window_ns


def _share(*activities: str) -> Callable[[Summary], float]:
    """Return the figure: what part of the CPU's busy time went into *activities*."""

    def figure(s: Summary) -> float:
        spent = s.cpu.by_activity_ns
        return sum(spent[name] for name in activities) / max(1, s.cpu.busy_ns)

    return figure


FIGURES: dict[str, Callable[[Summary], float]] = {
    # replies to requests, as httperf counts them: of several on a connection each one
    "reply_rate": _rate("replies"),
    "reply_rate_min": lambda s: s.reply_rate_per_s.min,
    "reply_rate_max": lambda s: s.reply_rate_per_s.max,
    "reply_rate_sd": lambda s: s.reply_rate_per_s.sd,
    "connection_rate": lambda s: s.throughput_per_s,
    "cpu": lambda s: s.cpu_busy,
    "process_cpu": lambda s: s.cpu.process_ns / s.window_ns,
    "process_ns_per_reply": lambda s: s.cpu.process_ns / max(1, s.calls["replies"]),
    "response_ms": lambda s: s.latency_ns.mean / MILLISECOND_NS,
    "request_response_ms": lambda s: s.request_latency_ns.mean / MILLISECOND_NS,
    "error_share": lambda s: sum(s.errors.values()) / max(1, s.offered),
    "events_per_wait": lambda s: s.events_per_wait,
    "waits_per_reply": lambda s: s.calls["waits"] / max(1, s.calls["replies"]),
    "changes_per_reply": lambda s: (
        (s.calls["watches"] + s.calls["rewatches"] + s.calls["unwatches"])
        / max(1, s.calls["replies"])
    ),
    "change_calls_per_reply": lambda s: s.calls["updates"] / max(1, s.calls["replies"]),
    "notices": _rate("notices"),
    "overflows": _rate("overflows"),
    # sigwaitinfo: one signal a call, SIGIO among them
    "signal_calls": lambda s: _rate("notices")(s) + _rate("overflows")(s),
    "asks": _rate("asks"),
    "datagrams": _rate("datagrams"),
    "other_cpu": lambda s: s.cpu.by_activity_ns["other"] / s.window_ns,
    "scanned_per_reply": lambda s: s.calls["scanned"] / max(1, s.calls["replies"]),
    "ns_per_wait": lambda s: s.cpu.by_activity_ns["wait"] / max(1, s.calls["waits"]),
    "asked_per_reply": lambda s: s.calls["rechecked"] / max(1, s.calls["replies"]),
    "user_share": _share("user"),
    "wait_share": _share("wait"),
    "obtain_share": _share("wait", "sleep", "wake"),
    "accept_share": _share("accept"),
    "read_share": _share("read"),
    "write_share": _share("write"),
    "close_share": _share("close"),
    "change_share": _share("watch", "rewatch", "unwatch"),
    "unwatch_share": _share("unwatch"),
    "interrupt_share": _share("interrupt", "interrupt_idle", "ksoftirqd", "interrupt_other"),
}
"""Rates are per second, shares of the CPU's busy time or of what was offered."""
OVER_TIME = ("reply_rate_min", "reply_rate_sd", "reply_rate_max")
"""Of FIGURES, beside the mean: of the replies in each interval of a run."""


def figures_of(summary: Summary) -> dict[str, float]:
    """Return all of FIGURES of *summary*."""
    found = {name: float(figure(summary)) for name, figure in FIGURES.items()}
    if summary.offered > 0:
        # Who is not answered before the end waits for ever, as far as anybody knows.
        found |= {
            name: math.inf for name in found if "response" in name and math.isnan(found[name])
        }
    return found
