"""One operating point in a guest: its job, and its result.

    Point ─► trace, server's options, lengths ─► Job ─► guest ─► frames ─► RunResult

The window ends with the run, as in the simulator: a connection whose replies come later counts as
open. The guest runs a moment longer, because reading its counters takes some microseconds.
"""

from __future__ import annotations

import math
from pathlib import Path

from ...sim.state.units import SECOND_NS
from ..points.point import Point, server_options, trace_to_replay
from ..records.measured_runs import CpuTimes, RunResult
from ..records.run_result import LEVELS, Window, difference, result_of
from ..testbed.processes import RunError
from .guest_run import COUNTERS_PATH, SERVER_ADDRESS, Job, MacroFrames, MacroLoad, macro_job
from .run_lengths import DELAY_NS, RunLengths, expected_rate_per_s

_PORT = 8080
_AFTER_NS = 1_000_000
_SECONDS_MAX = 3600  # of the guest's clock: the server's own limit, far beyond any run
_RECORDS_MARGIN = 5  # how many times faster than expected a closed loop may be


def job_of(
    point: Point,
    seed: int,
    lengths: RunLengths,
    *,
    server: Path,
    modules: tuple[Path, ...],
) -> Job:
    """Return the job of a guest that runs *point* with the arrivals of *seed*."""
    seconds = (lengths.warm_up_ns + lengths.window_ns + _AFTER_NS) / SECOND_NS
    trace = trace_to_replay(point, seed, seconds)
    records_max = len(trace)
    if point.load.loop == "closed":
        expected = expected_rate_per_s(point) * seconds
        records_max = point.users + _RECORDS_MARGIN * math.ceil(expected)
    load = MacroLoad(
        trace=trace.text().encode(),
        records_max=records_max,
        warm_up_ns=lengths.warm_up_ns,
        window_ns=lengths.window_ns,
        after_ns=_AFTER_NS,
        drain_ns=0,
        timeout_ns=point.load.timeout,
        idle=point.idle.connections,
        delay_ns=DELAY_NS,
        port=_PORT,
    )
    arguments = (
        "--address", SERVER_ADDRESS, "--port", str(_PORT), *server_options(point),
        "--fd-limit", str(point.server.descriptors), "--counters", COUNTERS_PATH,
        "--seconds-max", str(_SECONDS_MAX),
    )  # fmt: skip
    return macro_job(server, arguments, load, modules)


def result_of_frames(
    frames: MacroFrames, point: Point, *, records_max: int
) -> tuple[Window, RunResult]:
    """Return the result of a run's window, from the begin of its load.

    Raises
    ------
    RunError
        If the wire lost packets, or the load reached its limit of connections.
    """
    if frames.wire_end["n_lost"]:
        raise RunError(f"the wire had no memory for {frames.wire_end['n_lost']} packets")
    if point.load.loop == "closed" and frames.wire_end["n_started"] >= records_max:
        raise RunError(f"the users reached the limit of {records_max} connections")
    begin_ns = frames.times["begin_ns"]
    window = Window(frames.wire_before["now_ns"] - begin_ns, frames.wire_after["now_ns"] - begin_ns)
    wire = difference(frames.wire_before, frames.wire_after)
    usage = difference(frames.usage_before, frames.usage_after)
    result = result_of(
        frames.records.until(window.end_ns),
        window,
        calls=difference(frames.counters_before, frames.counters_after, levels=LEVELS),
        cpu=CpuTimes(
            process_ns=usage["run_ns"],
            busy_ns=window.length_ns - wire["idle_ns"],
            softirq_ns=0,  # the kernel of the target does not account it
        ),
        client_cpu_ns=0,
        requests=point.load.requests,
    )
    counted = {
        "interrupts": wire["n_interrupts"],
        "polls": wire["n_polls"],
        "packets_in": wire["n_packets_to_server"],
        "packets_out": wire["n_packets_from_server"],
        "switches": usage["n_switches_voluntary"],
        "switches_involuntary": usage["n_switches_involuntary"],
    }
    return window, result.model_copy(update=counted)
