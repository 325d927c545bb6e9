"""What is said of one run: figures by name, with their unit at the end of it.

Summary ─┬─ FIGURES      rates, latencies, shares: what tables show and intervals are made of
└─ figures_of   these, and counts, errors, CPU shares and calls: a row of the store
"""

from __future__ import annotations

from collections.abc import Callable

from ..scenario.errors import UserError
from ..scenario.near_names import unknown_key
from ..sim.figures.metrics import Summary
from ..sim.figures.tally import FAILURES
from ..sim.state.kinds import Activity, Count

LEVEL_FIGURE = "p99_due_ns"
"""What studies look at unless asked for another: who fails counts as late."""
_NAN = float("nan")

FIGURES: dict[str, Callable[[Summary], float]] = {
    "throughput_per_s": lambda s: s.throughput_per_s,
    "latency_mean_ns": lambda s: s.latency_ns.mean,
    "latency_p50_ns": lambda s: s.latency_ns.p50,
    "latency_p90_ns": lambda s: s.latency_ns.p90,
    "latency_p99_ns": lambda s: s.latency_ns.p99,
    "latency_p999_ns": lambda s: s.latency_ns.p999,
    "latency_max_ns": lambda s: s.latency_ns.max,
    "request_latency_p50_ns": lambda s: s.request_latency_ns.p50,
    "request_latency_p99_ns": lambda s: s.request_latency_ns.p99,
    "cpu_busy": lambda s: s.cpu_busy,
    "events_per_wait": lambda s: s.events_per_wait,
    "failed_share": lambda s: sum(s.errors.values()) / s.offered if s.offered else _NAN,
}
"""What is said of a run, by name and unit."""

_NOT_CALLS = {"replies", "connections_open"}  # of these a reply is one, and the other a level


def figures_of(summary: Summary) -> dict[str, float]:
    """Return all figures of one run by name, the same names for every run.

    Besides `FIGURES`: `p99_due_ns` (infinite where more than 1% failed), the counts `offered`,
    `replied` and `failed`, one `error_...` a kind, the share of all CPU time in each activity
    (`cpu_accept`; `cpu_busy` is all but `cpu_idle`), and what was counted for each reply of a
    request (`waits_per_reply`; NaN where there was none).
    """
    cpu, calls = summary.cpu, summary.calls
    cpu_ns = cpu.busy_ns + cpu.idle_ns
    replies = calls["replies"]
    return {
        **{name: float(figure(summary)) for name, figure in FIGURES.items()},
        "p99_due_ns": float(summary.p99_due_ns),
        "offered": float(summary.offered),
        "replied": float(summary.replied),
        "failed": float(sum(summary.errors.values())),
        **{f"error_{kind}": float(n) for kind, n in summary.errors.items()},
        **{f"cpu_{name}": ns / cpu_ns for name, ns in cpu.by_activity_ns.items()},
        **{
            f"{name}_per_reply": n / replies if replies else _NAN
            for name, n in calls.items()
            if name not in _NOT_CALLS
        },
    }


def check_figure(name: str, key: str = "figure") -> None:
    """Refuse a name that is no figure of a run; *key* is what the user gave it as.

    Raises
    ------
    UserError
        With what was perhaps meant.
    """
    known = figure_names()
    if name not in known:
        raise UserError(f"{key}: {unknown_key(name, known)}, got {name}")


def figure_names() -> list[str]:
    """Return the names of all figures."""
    return [
        *FIGURES,
        *("p99_due_ns", "offered", "replied", "failed"),
        *(f"error_{status.name.lower()}" for status in FAILURES),
        *(f"cpu_{activity.name.lower()}" for activity in Activity),
        *(f"{c.name.lower()}_per_reply" for c in Count if c.name.lower() not in _NOT_CALLS),
    ]
