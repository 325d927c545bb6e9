"""Runs that the simulator made and that look measured: what a perfect model would be scored on."""

from __future__ import annotations

import math

from dispatchsim.calibration.points.point import Point
from dispatchsim.calibration.profiles.cost import Cost
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import (
    ClientTimes,
    CpuTimes,
    ErrorCounts,
    Latency,
    Noise,
    ReplyRate,
    RunRecord,
    RunResult,
)
from dispatchsim.calibration.running.preparation import open_connections, settings_at
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import Summary, summarise
from dispatchsim.sim.load.workload import Trace, closed_loop, open_loop
from dispatchsim.validation.forecast.forecast import Lengths

SHORT = Lengths(warm_up_ns=20_000_000, window_ns=60_000_000)
"""Long enough for thousands of events, short enough for a test."""

_FLAT: dict[str, dict[str, int]] = {
    "interrupt": {
        "entry_ns": 1_300, "syn_ns": 2_500, "ack_ns": 1_500, "data_ns": 3_000, "reset_ns": 3_000,
        "idle_exit_ns": 8_000, "sleep_ns": 1_000, "wake_ns": 6_000,
    },
    "call": {
        "accept_ns": 4_000, "accept_again_ns": 600, "read_ns": 1_500, "read_again_ns": 300,
        "write_ns": 9_000, "write_kib_ns": 200, "close_ns": 9_000,
    },
    "application": {"request_ns": 1_000},
    "client": {"connect_ns": 6_000, "send_ns": 3_000, "receive_ns": 4_000, "close_ns": 4_000},
    "network": {"delay_ns": 5_000},
    "select": {"call_ns": 300, "event_ns": 20},
    "poll": {"call_ns": 300, "event_ns": 20},
    "epoll_level": {
        "call_ns": 300, "event_ns": 115, "recheck_ns": 100, "add_ns": 700, "modify_ns": 240,
        "delete_ns": 700,
    },
}  # fmt: skip
_SCAN = {0: 0, 500: 31_500, 1_000: 66_000, 4_000: 310_000, 6_000: 480_000, 10_000: 820_000}
_REGISTER = {0: 0, 10_000: 1_100_000}


def toy_profile(*, name: str = "toy", scale: float = 1.0, half_width: float = 0.05) -> Profile:
    """Return a profile whose server costs are multiplied by *scale*."""

    def cost(points: dict[int, int], unit: str = "ns", factor: float = scale) -> Cost:
        value = tuple(ns * factor for ns in points.values())
        return Cost(
            unit=unit,
            at=tuple(points),
            value=value,
            low=tuple(ns * (1 - half_width) for ns in value),
            high=tuple(ns * (1 + half_width) for ns in value),
            residual=0.01,
            source="a test",
        )

    tables = {
        table: {
            field: cost(
                {0: ns},
                "ns/KiB" if field == "write_kib_ns" else "ns",
                1.0 if table in ("client", "network") else scale,
            )
            for field, ns in fields.items()
        }
        for table, fields in _FLAT.items()
    }
    for table in ("select", "poll"):
        tables[table] |= {"scan": cost(_SCAN), "register": cost(_REGISTER)}
    tables["select"]["bitmap"] = cost({0: 0, 10_000: 3_000})
    content = {"name": name, "range": {"open_connections_max": 10_000}, "cost": tables}
    return Profile.model_validate(content)


def synthetic_run(
    point: Point,
    profile: Profile,
    *,
    repeat: int = 0,
    lengths: Lengths = SHORT,
    reason: str = "",
) -> RunRecord:
    """Return the record of a simulated run; with *reason* it was rejected for it."""
    outcome = simulated(point, profile, repeat=repeat, lengths=lengths)
    return record_of(summarise(outcome), point, repeat=repeat, lengths=lengths, reason=reason)


def simulated(
    point: Point,
    profile: Profile,
    *,
    repeat: int = 0,
    lengths: Lengths = SHORT,
) -> Outcome:
    """Return the outcome of a run that is to look measured."""
    costs = profile.costs(point.server.mechanism, open_connections=open_connections(point))
    settings = settings_at(point.lasting(*lengths), profile.network_delay_ns)
    trace = _trace(point, point.seed(repeat), lengths)
    return simulate(point.server.mechanism, trace, costs, settings)


def record_of(
    summary: Summary, point: Point, *, repeat: int, lengths: Lengths, reason: str = ""
) -> RunRecord:
    """Return the record of a run at *point* that had these figures."""
    return RunRecord(
        date="2026-01-02T03:04:05+00:00",
        code="c-0123456789ab",
        steering="namespaces",
        point=point,
        repeat=repeat,
        seed=point.seed(repeat),
        warm_up_ns=lengths.warm_up_ns + 12_345,
        window_ns=lengths.window_ns,
        result=_result(summary),
        noise=Noise(
            server_delay_share=0.01,
            client_delay_share=0.01,
            steal_share=0.0,
            spin_ratio=1.0,
            memory_ratio=1.0,
        ),
        accepted=not reason,
        reason=reason,
    )


def _trace(point: Point, seed: int, lengths: Lengths) -> Trace:
    seconds = (lengths.warm_up_ns + lengths.window_ns) / 1e9
    if point.keeps:
        return point.trace(seed, seconds, point.load.connections or 0)
    if point.load.loop == "open":
        return open_loop(rate_per_s=point.rate_per_s, seconds=seconds, seed=seed)
    return closed_loop(users=point.users, connections=round(60_000 * seconds) + 4 * point.users)


def _result(summary: Summary) -> RunResult:
    latency = summary.latency_ns
    rate = summary.reply_rate_per_s
    return RunResult(
        offered=summary.offered,
        accepted=summary.accepted,
        replied=summary.replied,
        # The load generator has one word for a connect() and a patience that run out.
        errors=ErrorCounts(
            **{
                name: summary.errors[name] for name in ErrorCounts.model_fields if name != "timeout"
            },
            timeout=summary.errors["timeout"] + summary.errors["dropped"],
        ),
        latency_ns=None
        if math.isnan(latency.mean)
        else Latency(
            mean=latency.mean, p50=latency.p50, p90=latency.p90, p99=latency.p99, max=latency.max
        ),
        reply_rate_per_s=ReplyRate(min=rate.min, mean=rate.mean, max=rate.max, sd=rate.sd),
        calls=summary.calls,
        cpu=CpuTimes(
            process_ns=summary.cpu.process_ns,
            busy_ns=summary.cpu.busy_ns,
            softirq_ns=0,
            n_calls=summary.calls["interrupts"],
        ),
        client=ClientTimes(cpu_ns=0, lag_p50_ns=0, lag_max_ns=0),
    )
