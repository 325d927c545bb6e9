"""The gate of the load generator: a run counts if all was offered that was asked for, in time.

    connections (or requests) begun / asked for    >= 0.97   else the run shows a smaller load
    lateness of the generator at p99               <= p99 of the response times / 10
                                                             else the run shows the generator's p99

Loads of closed loops are what comes of them, and so are those of clients that try again: only open
loops without retries and kept connections are judged.
"""

from __future__ import annotations

from ...sim.state.units import SECOND_NS
from ..points.point import Point, trace_to_replay
from .measured_runs import RunRecord

OFFERED_LEAST = 0.97
"""Share of the connections asked for that the load generator must have begun."""
LAG_SHARE_MOST = 0.1
"""Of the p99 that a run reports: so late may the generator be at its own p99."""


def judged(run: RunRecord) -> RunRecord:
    """Return *run*, rejected if its load generator offered too little or was too late."""
    if not is_timed(run.point):
        return run
    return counted_if_punctual(counted_if_offered(run))


def is_timed(point: Point) -> bool:
    """Return whether a load generator begins things at times of its own at *point*."""
    return point.load.loop == "open" or point.keeps


def counted_if_offered(run: RunRecord) -> RunRecord:
    """Return *run*, rejected if its load generator offered too little."""
    fault = offered_fault(offered_share(run))
    return run.rejected(fault) if fault else run


def counted_if_punctual(run: RunRecord) -> RunRecord:
    """Return *run*, rejected if its load generator was late by much of what it reports."""
    latency, lag_ns = run.result.latency_ns, run.result.client.lag_p99_ns
    if latency is None or lag_ns is None:
        return run
    fault = lateness_fault(lag_ns, latency.p99)
    return run.rejected(fault) if fault else run


def offered_fault(share: float) -> str:
    """Return why a run does not count of whose connections this *share* was begun, or nothing."""
    if share >= OFFERED_LEAST:
        return ""
    return f"offered_share must be at least {OFFERED_LEAST}, got {share:.3f}"


def lateness_fault(lag_ns: int, p99_ns: float) -> str:
    """Return why a run does not count whose generator was so late at p99, or nothing."""
    if lag_ns <= LAG_SHARE_MOST * p99_ns:
        return ""
    return (
        f"lag_p99_ns must be at most {LAG_SHARE_MOST:.0%} of the p99 of {p99_ns:.0f}, got {lag_ns}"
    )


def offered_share(run: RunRecord) -> float:
    """Return which share of the connections asked for in the window were begun.

    One that found no descriptor was not. Where connections are kept, it is a share of requests.
    """
    end_ns = run.warm_up_ns + run.window_ns
    # Arrivals at equal distances end with the last whole one.
    gap_s = run.point.burst / run.point.rate_per_s
    trace = trace_to_replay(run.point, run.seed, end_ns / SECOND_NS + gap_s)
    at_ns = trace.arrival_ns if run.point.keeps else trace.at_ns
    n_asked = int(((at_ns >= run.warm_up_ns) & (at_ns < end_ns)).sum())
    n_begun = run.result.offered - run.result.errors.descriptors
    return n_begun / n_asked if n_asked else 1.0
