"""Records of floods that no machine measured."""

from __future__ import annotations

from dispatchsim.calibration.points.flood_points import FloodPoint
from dispatchsim.calibration.records.flood_records import (
    FloodRecord,
    Kernel,
    Quantiles,
    Sender,
    Train,
    Victim,
)
from dispatchsim.calibration.records.noise import QUIET


def quantiles(value: float, n: int = 100) -> Quantiles:
    """Return the quantiles of *n* equal values."""
    return Quantiles(n=n, p10=value, p50=value, p90=value, mean=value)


def flood_record(
    point: FloodPoint,
    repeat: int,
    *,
    progress: float = 0.9,
    taken_ns: float = 8_000,
    delay_ns: float = 6_000,
    call_ns: tuple[float, float] = (2_100, 8_000),
    sent: int = 1000,
    calls: int = 1000,
    accepted: bool = True,
    reason: str = "",
) -> FloodRecord:
    """Return a record of a flood of 0.6 s; *call_ns* are the shortest and the median call."""
    return FloodRecord(
        date="2026-01-01",
        code="c-0",
        point=point,
        repeat=repeat,
        seed=point.seed(repeat),
        window_ns=600_000_000,
        sender=Sender(
            due=sent,
            sent=sent,
            refused=0,
            elapsed_ns=600_000_000,
            lag_ns=quantiles(0),
            call_ns=Quantiles(
                n=sent, p10=call_ns[0], p50=call_ns[1], p90=call_ns[1], mean=call_ns[1]
            ),
        ),
        victim=Victim(
            quiet_per_s=5e6,
            quiet_after_per_s=5e6,
            flood_per_s=progress * 5e6,
            progress=progress,
            cpu_share=1,
            taken_ns=quantiles(taken_ns),
            taken_quiet_ns=quantiles(0, 0),
        ),
        train=Train(taken_ns=quantiles(taken_ns), delay_ns=quantiles(delay_ns))
        if point.use == "calibration" and point.steered
        else None,
        kernel=Kernel(
            softirq_ns=0,
            steal_ns=0,
            calls=calls,
            processed=sent,
            dropped=0,
            squeezed=0,
            socket_drops=sent,
            ksoftirqd_ns=0,
        ),
        noise=QUIET.model_copy(update={"spin_ns": 200}),
        accepted=accepted,
        reason=reason,
    )
