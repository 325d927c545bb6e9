"""What is compared of one run on the target without noise, measured and simulated alike.

    RunFigures    what was promised: CPU, waits, events per wait, latency, throughput
    counts        what tells which structure is wrong: everything counted, per request

A request is a reply that the server wrote within the window. Latency is of connections that were
due in the window and answered before its end, which is the end of the run on both sides.
"""

from __future__ import annotations

from typing import NamedTuple

from ...calibration.records.measured_runs import RunRecord
from ...calibration.records.run_result import LEVELS
from ...sim.figures.metrics import Summary
from ...sim.state.units import SECOND_NS
from ..points.measured_points import ratio

_NAN = float("nan")

COUNTED = {"interrupts": "interrupts", "packets": "packets_in", "switches": "switches"}
"""Field of a run's result by the name of the count that it is compared with."""
_NOT_SERVING = ("idle", "connect")
_SIMULATED = {"switches": "sleeps"}
"""Counter of the simulator where it has another name: the server is switched out to sleep."""


class RunFigures(NamedTuple):
    """The figures of one run; NaN where there is none.

    Attributes
    ----------
    cpu_ns_per_request:
        Time in which the server's CPU was not idle, per request.
    waits_per_request, events_per_wait:
        Calls that wait for events per request, and what each returned.
    mean_ns, p99_ns:
        Latency of a connection, from when it was due to the last byte of its last reply.
    throughput_per_s:
        Requests per second of the window.
    """

    cpu_ns_per_request: float
    waits_per_request: float
    events_per_wait: float
    mean_ns: float
    p99_ns: float
    throughput_per_s: float


Counts = dict[str, float]
"""Numbers per request, by name of the counter."""


def measured_figures(record: RunRecord) -> RunFigures:
    """Return the figures of a measured run."""
    result = record.result
    replies = result.calls.get("replies", 0)
    waits = result.calls.get("waits", 0)
    return RunFigures(
        cpu_ns_per_request=ratio(result.cpu.busy_ns, replies),
        waits_per_request=ratio(waits, replies),
        events_per_wait=ratio(result.calls.get("events", 0), waits),
        mean_ns=result.latency_ns.mean if result.latency_ns else _NAN,
        p99_ns=result.latency_ns.p99 if result.latency_ns else _NAN,
        throughput_per_s=replies * SECOND_NS / record.window_ns,
    )


def measured_counts(record: RunRecord) -> Counts:
    """Return everything that was counted in a measured run, per request."""
    result = record.result
    own = {name: getattr(result, field) for name, field in COUNTED.items()}
    counted = {**result.calls, **{name: n for name, n in own.items() if n is not None}}
    if record.point.blocks:
        # The kernel's count is that of the thread that began the others, which sleeps all the time.
        counted.pop("switches", None)
    return _per_request(counted)


def simulated_figures(summary: Summary) -> RunFigures:
    """Return the figures of a simulated run."""
    replies, waits = summary.calls["replies"], summary.calls["waits"]
    return RunFigures(
        cpu_ns_per_request=ratio(summary.cpu.busy_ns, replies),
        waits_per_request=ratio(waits, replies),
        events_per_wait=ratio(summary.calls["events"], waits),
        mean_ns=summary.latency_ns.mean,
        p99_ns=summary.latency_ns.p99,
        throughput_per_s=replies * SECOND_NS / summary.window_ns,
    )


def simulated_counts(summary: Summary) -> Counts:
    """Return everything that was counted in a simulated run, per request, by measured names."""
    renamed = {name: summary.calls[ours] for name, ours in _SIMULATED.items()}
    return _per_request({**summary.calls, **renamed})


def simulated_ledger(summary: Summary) -> dict[str, float]:
    """Return the nanoseconds per request of what a server does but idling, by lower-case name."""
    replies = summary.calls["replies"]
    spent_ns = summary.cpu.by_activity_ns
    return {name: ratio(ns, replies) for name, ns in spent_ns.items() if name not in _NOT_SERVING}


def _per_request(counted: dict[str, int]) -> Counts:
    replies = counted.get("replies", 0)
    return {name: ratio(n, replies) for name, n in counted.items() if name not in LEVELS}
