"""Runs of a server that the simulator made and that look observed: what a perfect model sees."""

from __future__ import annotations

from typing import Any

import numpy as np

from dispatchsim.calibration.observed.observed_run import ObservedRun, observed_run
from dispatchsim.calibration.points.point import Point
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.preparation import job_of, run_job
from dispatchsim.sim.load.streams import generator
from dispatchsim.validation.forecast.forecast import Lengths

LENGTHS = Lengths(warm_up_ns=20_000_000, window_ns=100_000_000)
MACHINE = "toy-machine"
COMMAND = "toy-server --port 8080"


def observed(
    point: Point, profile: Profile, *, repeat: int = 0, noise: float = 0.0, **changes: Any
) -> ObservedRun:
    """Return a run of *point* at the costs of *profile*, its rate off by a relative *noise*."""
    summary = run_job(job_of(point.lasting(*LENGTHS), profile, point.seed(repeat))).summary
    off = 1 + noise * generator(repeat, point.label).standard_normal()
    replied = summary.calls["replies"] if point.load.requests > 1 else summary.replied
    is_open = point.load.loop == "open"
    quantiles = {"0.5": summary.latency_ns.p50, "0.99": summary.latency_ns.p99}
    content: dict[str, Any] = {
        "source": {
            "tool": "dispatchsim",
            "date": f"2026-01-02T03:04:{repeat:02}+00:00",
            "machine": MACHINE,
        },
        "server": {
            "name": "toy-server",
            "command": COMMAND,
            "mechanism": point.server.mechanism,
            "accept_limit": point.server.accept_limit,
            "reads_after_accept": point.server.read_after_accept,
            "workers": 1,
        },
        "load": {
            "loop": point.load.loop,
            "rate_per_s": point.rate_per_s if is_open else None,
            "users": None if is_open else point.users,
            "requests": point.load.requests,
            "idle": point.idle.connections,
            "think_ns": point.load.think_time,
        },
        "window_ns": LENGTHS.window_ns,
        "offered": summary.offered,
        "replied": round(replied * (1.0 if is_open else off)),
        "errors": {
            name: summary.errors[name]
            for name in ("timeout", "refused", "reset", "dropped")
            if summary.errors[name]
        },
        "latency_ns": {
            "since": "intended",
            "quantiles": quantiles,
            "mean": summary.latency_ns.mean,
        }
        if np.isfinite(summary.latency_ns.mean)
        else None,
        "busy_share": min(1.0, summary.cpu_busy),
        "process_ns": summary.cpu.process_ns,
        "warm_up_ns": LENGTHS.warm_up_ns,
        "seed": point.seed(repeat),
    }
    return observed_run("a run", content | changes)


def with_application(machine: Profile, request_ns: int, connection_ns: int) -> Profile:
    """Return *machine* with a server that takes so long for a request and a connection."""
    own = machine.cost["application"]["request_ns"]
    tables = {
        **machine.cost,
        "application": {
            name: own.model_copy(
                update={"value": (float(ns),), "low": (ns * 0.95,), "high": (ns * 1.05,)}
            )
            for name, ns in (("request_ns", request_ns), ("connection_ns", connection_ns))
        },
    }
    facts = {**machine.machine, "id": MACHINE}
    return machine.model_copy(update={"cost": tables, "machine": facts})
