"""Runs of kept connections: which points, what a run holds, and which runs count."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.measure import kept_run
from dispatchsim.calibration.measure.kept_run import run_kept
from dispatchsim.calibration.measure.macro import Timing, run_point
from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.points.points import KEPT
from dispatchsim.calibration.records.generator_gate import judged, offered_share
from dispatchsim.calibration.records.measured_runs import RunRecord
from dispatchsim.calibration.records.noise import NoiseLimits, Series
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.testbed import Testbed

POINT = point_at(
    mechanism="epoll_level", loop="open", connections=8, rate_per_s=5_000, request_work_ns=20_000
)
TIMING = Timing(warm_up_s=0.05, window_s=0.2, after_s=0.05, calibration_ms=5)


def run_of(point: Point, repeat: int = 0, *, missing: int = 0, failed: int = 0) -> RunRecord:
    """Return a run of which *missing* requests were not begun and *failed* connections failed."""
    run = synthetic_run(point, toy_profile(), repeat=repeat)
    end_ns = run.warm_up_ns + run.window_ns
    at_ns = point.trace(run.seed, end_ns / 1e9).arrival_ns
    asked = int(((at_ns >= run.warm_up_ns) & (at_ns < end_ns)).sum())
    result = run.result.model_copy(
        update={"offered": asked - missing, "connections_failed": failed}
    )
    return run.model_copy(update={"result": result})


def test_each_server_keeps_few_and_many_connections_at_all_loads() -> None:
    points = KEPT.points("open", capacity_per_s=20_000)
    servers = {(p.server.mechanism, p.load.connections) for p in points}
    names = ("epoll_level", "poll", "blocking")
    assert servers == {(name, n) for name in names for n in (64, 1000, 6000)}
    assert len(points) == len(servers) * 4
    assert {p.rate_per_s for p in points} == {6_000, 12_000, 16_000, 19_000}
    assert {(p.server.request_cpu, p.replies_each, p.keeps) for p in points} == {(20_000, 1, True)}
    # A thread for each connection: with fewer, some would never be served.
    blocking = [p for p in points if p.blocks]
    assert all(p.server.workers == p.load.connections for p in blocking)


@pytest.mark.parametrize(
    ("missing", "failed", "n_open", "reason"),
    [
        (0, 0, 8, ""),
        (5, 0, 9, ""),
        (60, 0, 8, "offered_share must be at least 0.97, got 0."),
        (0, 2, 8, "connections_failed must be 0, got 2"),
        (0, 0, 7, "connections_open must be at least 8, got 7"),
        (60, 2, 7, "offered_share must be at least 0.97, got 0."),
    ],
)
def test_a_run_counts_if_all_was_offered_over_all_connections(
    missing: int, failed: int, n_open: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[NoiseLimits] = []

    def measured(point: Point, repeat: int, **others: Any) -> RunRecord:
        limits.append(others["limits"])
        run = run_of(point, repeat, missing=missing, failed=failed)
        calls = run.result.calls | {"connections_open": n_open}
        result = run.result.model_copy(update={"calls": calls})
        return judged(run.model_copy(update={"result": result}))

    monkeypatch.setattr(kept_run, "run_point", measured)
    others: dict[str, Any] = {"testbed": None, "programs": None, "series": None}
    run = run_kept(POINT, 0, **others)
    assert run.accepted is (not reason)
    assert run.reason.startswith(reason)
    # What others do in the server's idle time spoils no response time.
    assert limits[0].foreign_share_max == math.inf
    assert limits[0].client_delay_share_max == NoiseLimits().client_delay_share_max


def test_the_noise_of_a_run_is_its_first_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(point: Point, repeat: int, **_: Any) -> RunRecord:
        run = run_of(point, repeat, failed=1)
        return run.model_copy(update={"accepted": False, "reason": "steal_share"})

    monkeypatch.setattr(kept_run, "run_point", measured)
    others: dict[str, Any] = {"testbed": None, "programs": None, "series": None}
    assert run_kept(POINT, 0, **others).reason == "steal_share"


@pytest.mark.parametrize(
    "fields",
    [{}, {"mechanism": "blocking", "workers": 8}, {"idle": 5, "arrivals": "constant"}],
)
def test_a_run_has_requests_over_connections_that_were_open_before(
    fields: dict[str, Any], c_programs: Programs
) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("a run needs two CPUs")
    point = point_at(POINT, rate_per_s=500, **fields)
    testbed = Testbed("loopback", "127.0.0.1", server_cpu=cpus[0], client_cpu=cpus[1])
    run = run_point(point, 0, testbed=testbed, programs=c_programs, series=Series(), timing=TIMING)
    # All were accepted before the load began, so none was in the window, however late that was.
    assert run.result.accepted == 0
    assert run.result.connections_failed == 0
    assert run.untimed_ns == 5_000_000
    assert offered_share(run) <= 1
    assert run.result.replied <= run.result.calls["replies"] + 8
