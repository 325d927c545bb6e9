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
        If a process of the run ends early or does not answer in time, or without namespaces.
    """
    set_client(testbed, point.network.linear_syn_timeouts)
    limits = replace(
        limits_for(point),
        server_delay_share_max=inf,  # softirqs delay it, too
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
