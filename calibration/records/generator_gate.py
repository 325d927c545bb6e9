"""The gate of the load generator: a run counts if its whole load was offered, in time.

    connections (or requests) begun / requested    >= 0.97   else the run shows a smaller load
    p99 of the generator's lateness                <= p99 of the response times / 10
                                                             else the run shows the generator's p99

The load of a closed loop, and of clients that retry, depends on the server. So only open loops
without retries and kept connections are judged.
"""

from __future__ import annotations

from typing import Literal

from ...sim.state.units import SECOND_NS
from ..points.point import Point, StoredPoint, trace_to_replay
from .measured_runs import RunRecord, Unjudged

OFFERED_LEAST = 0.97
"""The share of the requested connections that the load generator must begin."""
LAG_SHARE_MOST = 0.1
"""The largest p99 of the generator's lateness, relative to the p99 of response times."""


GENERATOR_FILE = "generator.jsonl"


class GeneratorRecord(Unjudged):
    """The best share of a point's load that the load generator began in brief runs.

    `machine` is the id of the folder's machine.json.
    """

    format: Literal["dispatchsim-generator/1"] = "dispatchsim-generator/1"
    date: str
    machine: str
    point: StoredPoint
    offered_share: float


def judged(run: RunRecord) -> RunRecord:
    """Return *run*, rejected if its load generator offered too little or began too late."""
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
    """Return whether the load generator has a schedule at *point*."""
    return (point.load.loop == "open" or point.keeps) and not point.load.retries


def generator_fault(
    n_asked: int, n_begun: int, *, lag_p99_ns: int | None, p99_ns: float | None
) -> str:
    """Return why a run is rejected because of its load generator, or an empty string.

    Parameters
    ----------
    n_asked, n_begun:
        Connections (or requests) of the window that were requested, and that were begun.
    lag_p99_ns:
        Lateness of the generator; None if not recorded.
    p99_ns:
        Response time of the run; None without replies.
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
    """Return the share of the connections requested in the window that were begun.

    A connection without a free descriptor counts as not begun. With kept connections it is a share
    of requests.
    """
    return _share(*_asked_and_begun(run))


def _share(n_asked: int, n_begun: int) -> float:
    return n_begun / n_asked if n_asked else 1.0


def _asked_and_begun(run: RunRecord) -> tuple[int, int]:
    end_ns = run.warm_up_ns + run.window_ns
    # Equally spaced arrivals end with the last whole distance.
    gap_s = run.point.burst / run.point.rate_per_s
    trace = trace_to_replay(run.point, run.seed, end_ns / SECOND_NS + gap_s)
    at_ns = trace.arrival_ns if run.point.keeps else trace.at_ns
    n_asked = int(((at_ns >= run.warm_up_ns) & (at_ns < end_ns)).sum())
    return n_asked, run.result.offered - run.result.errors.descriptors
