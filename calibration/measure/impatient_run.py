"""Run one operating point of clients that give up, on the real machine.

A client that has no reply in time resets its connection. A load generator that falls behind offers
less than it was asked for, and its runs show another load than their point has: they do not count.
Their median lateness may be more than that of other runs: patience begins with the intended start,
so a lateness of 5 ms takes a tenth of the shortest.

The client's side has its range of ports set, so this needs namespaces.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ...sim.state.units import MILLISECOND_NS, SECOND_NS
from ..points.point import Point, trace_to_replay
from ..records.measured_runs import RunRecord
from ..records.noise import Series, limits_for
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .macro import run_point
from .overload_run import set_client

IMPATIENT_FILE = "impatient.jsonl"
OFFERED_LEAST = 0.97
"""Share of the connections asked for that the load generator must have begun."""
_LAG_P50_NS_MAX = 5 * MILLISECOND_NS


def run_impatient(
    point: Point,
    repeat: int,
    *,
    testbed: Testbed,
    programs: Programs,
    series: Series,
) -> RunRecord:
    """Measure one repeat of *point*, and judge its noise and its load generator.

    Raises
    ------
    RunError
        If a process of the run ends early or does not answer in time, or without namespaces.
    """
    set_client(testbed, point.network.linear_syn_timeouts)
    limits = replace(
        limits_for(point),
        server_delay_share_max=inf,  # softirqs delay it, too
        lag_p50_ns_max=_LAG_P50_NS_MAX,
    )
    run = run_point(
        point,
        repeat,
        testbed=testbed,
        programs=programs,
        series=series,
        limits=limits,
    )
    return counted_if_offered(run)


def counted_if_offered(run: RunRecord) -> RunRecord:
    """Return *run*, rejected if its load generator offered too little."""
    share = offered_share(run)
    if share >= OFFERED_LEAST:
        return run
    return rejected(run, f"offered_share must be at least {OFFERED_LEAST}, got {share:.3f}")


def rejected(run: RunRecord, reason: str) -> RunRecord:
    """Return *run*, which does not count for that *reason*, unless it has one already."""
    return run.model_copy(update={"accepted": False, "reason": run.reason or reason})


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
