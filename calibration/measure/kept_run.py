"""Run one operating point of kept connections on the real machine.

    open all connections ─► warm-up ─► window ─► requests of the window ─► does the run count?

Requests come at a fixed rate, each over one of the connections. If the load generator falls behind
or a connection is lost, the load is not that of the point, and the run does not count. Programs of
lower priority may use the CPU while the server is idle. The run then counts, but the CPU's busy
time is not the server's; the server's process has its own clock.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ..points.point import Point
from ..records.measured_runs import RunRecord
from ..records.noise import Series, limits_for
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .macro import Timing, run_point

KEPT_FILE = "kept.jsonl"
TIMING = Timing(warm_up_s=0.4, window_s=1.0, calibration_ms=50)


def run_kept(
    point: Point,
    repeat: int,
    *,
    testbed: Testbed,
    programs: Programs,
    series: Series,
    timing: Timing = TIMING,
) -> RunRecord:
    """Measure one repeat of *point*, and judge its noise, its load generator and its connections.

    Raises
    ------
    RunError
        If a process of the run ends early or does not answer in time.
    """
    limits = replace(
        limits_for(point),
        foreign_share_max=inf,
        server_delay_share_max=inf,  # softirqs delay the server, too
    )
    run = run_point(
        point,
        repeat,
        testbed=testbed,
        programs=programs,
        series=series,
        timing=timing,
        limits=limits,
    )
    return counted_if_kept(run)


def counted_if_kept(run: RunRecord) -> RunRecord:
    """Return *run*, rejected if a connection was lost or was not open at the window's end."""
    result, load = run.result, run.point.load
    if result.connections_failed:
        return run.rejected(f"connections_failed must be 0, got {result.connections_failed}")
    least = run.point.idle.connections + (load.connections or 0)
    n_open = result.calls["connections_open"]
    # A connection that its client closes after its last request is replaced a little later.
    if n_open < least and load.keeps_for_ever:
        return run.rejected(f"connections_open must be at least {least}, got {n_open}")
    return run
