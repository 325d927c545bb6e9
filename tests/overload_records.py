"""A record of overload as a campaign writes it, made by hand."""

from __future__ import annotations

from dispatchsim.calibration.points.overload_points import OverloadPoint
from dispatchsim.calibration.records.measured_runs import (
    ClientTimes,
    CpuTimes,
    ErrorCounts,
    ReplyRate,
    RunResult,
)
from dispatchsim.calibration.records.noise import QUIET
from dispatchsim.calibration.records.overload_records import Delays, KernelCounts, OverloadRecord

MS = 1_000_000


def record_of(point: OverloadPoint, repeat: int, *, accepted: bool = True) -> OverloadRecord:
    """Return a record of *point* in which nothing happened."""
    return OverloadRecord(
        date="2026-11-22T15:00:00+00:00",
        code="c-0",
        steering="namespaces",
        point=point,
        repeat=repeat,
        seed=point.seed(repeat),
        capacity_before_per_s=1_000,
        capacity_after_per_s=1_200,
        rate_per_s=1_320,
        run_ns=8_000 * MS,
        warm_up_ns=1_000 * MS,
        window_ns=6_900 * MS,
        result=RunResult(
            offered=0,
            accepted=0,
            replied=0,
            errors=ErrorCounts(),
            latency_ns=None,
            reply_rate_per_s=ReplyRate(min=0, mean=0, max=0, sd=0),
            calls={},
            cpu=CpuTimes(process_ns=0, busy_ns=0, softirq_ns=0),
            client=ClientTimes(cpu_ns=0, lag_p50_ns=0, lag_max_ns=0),
        ),
        delays=Delays(
            begin_ns=1_000 * MS,
            end_ns=4_500 * MS,
            n=100,
            n_without_descriptor=0,
            connect_bins=[80, *[0] * 9, 10, *[0] * 69],
            reply_bins=[80, *[0] * 79],
        ),
        started=[],
        replied=[],
        kernel=KernelCounts(server={}, client={}, softnet_drops=0),
        noise=QUIET,
        accepted=accepted,
        reason="" if accepted else "noise",
    )
