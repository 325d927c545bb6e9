"""The gate of the load generator: a run counts if all was offered that was asked for, in time.

    connections (or requests) begun / asked for    >= 0.97   else the run shows a smaller load
    lateness of the generator at p99               <= p99 of the response times / 10
                                                             else the run shows the generator's p99

Loads of closed loops are what comes of them, and so are those of clients that try again: only open
loops without retries and kept connections are judged.
"""

from __future__ import annotations

from typing import Literal

from ...sim.state.units import SECOND_NS
from ..points.point import Point, StoredPoint, trace_to_replay
from .measured_runs import RunRecord, Unjudged

OFFERED_LEAST = 0.97
"""Share of the connections asked for that the load generator must have begun."""
LAG_SHARE_MOST = 0.1
"""Lateness of the generator at p99, over the p99 that a run reports, at most."""


GENERATOR_FILE = "generator.jsonl"


class GeneratorRecord(Unjudged):
    """Which share of the load of a point the load generator began in brief runs, at best.

    `machine` is the id of the folder's machine.json.
    """

    format: Literal["dispatchsim-generator/1"] = "dispatchsim-generator/1"
    date: str
    machine: str
    point: StoredPoint
    offered_share: float


def judged(run: RunRecord) -> RunRecord:
    """Return *run*, rejected if its load generator offered too little or was too late."""
    if not is_timed(run.point):
        return run
    latency = run.result.latency_ns
    fault = generator_fault(
        *_asked_and_begun(run),
        lag_p99_ns=run.result.client.lag_p99_ns,
        p99_ns=latency.p99 if latency else None,
    )
    return run.rejected(fault) if fault else run


def is_timed(point: Point) -> bool:
    """Return whether a load generator begins things at times of its own at *point*."""
    return (point.load.loop == "open" or point.keeps) and not point.load.retries


def generator_fault(
    n_asked: int, n_begun: int, *, lag_p99_ns: int | None, p99_ns: float | None
) -> str:
    """Return the reason to reject a run because of its load generator, or an empty string.

    Parameters
    ----------
    n_asked, n_begun:
        Connections (or requests) of the window that were asked for, and that were begun.
    lag_p99_ns:
        Lateness of the generator; None where it was not recorded.
    p99_ns:
        Response time that the run reports; None where nothing was replied to.
    """
    share = _share(n_asked, n_begun)
    if share < OFFERED_LEAST:
        return f"offered_share must be at least {OFFERED_LEAST}, got {share:.3f}"
    if lag_p99_ns is None or p99_ns is None or lag_p99_ns <= LAG_SHARE_MOST * p99_ns:
        return ""
    return (
        f"lag_p99_ns must be at most {LAG_SHARE_MOST:.0%} of the p99 of {p99_ns:.0f}, "
        f"got {lag_p99_ns}"
    )


def offered_share(run: RunRecord) -> float:
    """Return which share of the connections asked for in the window were begun.

    One that found no descriptor was not. Where connections are kept, it is a share of requests.
    """
    return _share(*_asked_and_begun(run))


def _share(n_asked: int, n_begun: int) -> float:
    return n_begun / n_asked if n_asked else 1.0


def _asked_and_begun(run: RunRecord) -> tuple[int, int]:
    end_ns = run.warm_up_ns + run.window_ns
    # Arrivals at equal distances end with the last whole one.
    gap_s = run.point.burst / run.point.rate_per_s
    trace = trace_to_replay(run.point, run.seed, end_ns / SECOND_NS + gap_s)
    at_ns = trace.arrival_ns if run.point.keeps else trace.at_ns
    n_asked = int(((at_ns >= run.warm_up_ns) & (at_ns < end_ns)).sum())
    return n_asked, run.result.offered - run.result.errors.descriptors
