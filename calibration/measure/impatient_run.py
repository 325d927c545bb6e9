"""Run one operating point of clients that give up, on the real machine.

A client without a reply in time resets its connection. If the load generator falls behind, it
offers less load than the point has, and the run does not count. The limit of the median start delay
is higher than for other runs: 5 ms is a tenth of the shortest time-out, which begins at the
intended start.

The run sets the port range of the client's side, so it needs namespaces.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from ...sim.state.units import MILLISECOND_NS
from ..points.point import Point
from ..records.measured_runs import RunRecord
from ..records.noise import Series, limits_for
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .macro import run_point
from .overload_run import set_client

IMPATIENT_FILE = "impatient.jsonl"
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
        If a process of the run ends early, does not answer in time, or has no namespaces.
    """
    set_client(testbed, point.network.linear_syn_timeouts)
    limits = replace(
        limits_for(point),
        server_delay_share_max=inf,  # softirqs delay the server, too
        lag_p50_ns_max=_LAG_P50_NS_MAX,
    )
    return run_point(
        point,
        repeat,
        testbed=testbed,
        programs=programs,
        series=series,
        limits=limits,
    )
