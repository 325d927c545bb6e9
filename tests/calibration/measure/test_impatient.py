"""Runs of clients that give up: which points, and which runs count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.validation.synthetic_runs import SHORT, synthetic_run, toy_profile

from dispatchsim.calibration.measure import impatient_run
from dispatchsim.calibration.measure.impatient_run import (
    IMPATIENT_FILE,
    run_impatient,
)
from dispatchsim.calibration.measure.machine_campaigns import measure_points
from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.points.points import IMPATIENT
from dispatchsim.calibration.records.generator_gate import judged, offered_share
from dispatchsim.calibration.records.measured_runs import RunRecord, read_rows
from dispatchsim.calibration.records.noise import NoiseLimits

POINT = point_at(
    mechanism="epoll_level", loop="open", rate_per_s=5_000, request_work_ns=20_000,
    timeout_ns=50_000_000,
)  # fmt: skip


def run_of(point: Point, repeat: int = 0, *, missing: int = 0, descriptors: int = 0) -> RunRecord:
    """Return a run of which *missing* connections were not begun, others had no descriptor."""
    run = synthetic_run(point, toy_profile(), repeat=repeat)
    end_ns = run.warm_up_ns + run.window_ns
    at_ns = point.trace(run.seed, end_ns / 1e9).at_ns
    asked = int(((at_ns >= run.warm_up_ns) & (at_ns < end_ns)).sum())
    errors = run.result.errors.model_copy(update={"descriptors": descriptors})
    result = run.result.model_copy(update={"offered": asked - missing, "errors": errors})
    return run.model_copy(update={"result": result})


def test_loads_are_shares_of_a_capacity_and_one_server_is_told_all() -> None:
    (closed,) = IMPATIENT.points("capacity")
    points = IMPATIENT.points("open", capacity_per_s=20_000)
    assert {(p.server, p.idle) for p in points} == {(closed.server, closed.idle)}
    assert closed.server.request_cpu == 20_000
    assert {p.load.timeout for p in points} == {50_000_000, 4_000_000_000}
    assert min(p.rate_per_s for p in points) == 16_000
    assert max(p.rate_per_s for p in points) == 30_000


def test_what_was_offered_is_a_share_of_what_was_asked_for() -> None:
    n = run_of(POINT).result.offered
    assert offered_share(run_of(POINT)) == 1
    # One that found no descriptor was not begun either.
    run = run_of(POINT, missing=20, descriptors=10)
    assert offered_share(run) == pytest.approx(1 - 30 / n)
    # Of these 60 ms of a Poisson process: within six standard deviations.
    assert abs(n - 5_000 * SHORT.window_ns / 1e9) < 6 * n**0.5


@pytest.mark.parametrize(("missing", "counts"), [(0, True), (5, True), (30, False)])
def test_a_run_counts_if_its_generator_offered_enough(
    missing: int, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[NoiseLimits] = []

    def measured(point: Point, repeat: int, **told: Any) -> RunRecord:
        limits.append(told["limits"])
        return judged(run_of(point, repeat, missing=missing))

    monkeypatch.setattr(impatient_run, "set_client", lambda *_: None)
    monkeypatch.setattr(impatient_run, "run_point", measured)
    others: dict[str, Any] = {"testbed": None, "programs": None, "series": None}
    run = run_impatient(POINT, 0, **others)
    assert run.accepted is counts
    assert run.reason.startswith("" if counts else "offered_share must be at least 0.97, got 0.")
    assert limits[0].lag_p50_ns_max == 5_000_000


def test_a_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    points = [POINT, point_at(POINT, rate_per_s=6_000)]
    asked = []

    def measure(point: Point, repeat: int) -> RunRecord:
        asked.append((point.rate_per_s, repeat))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return run_of(point, repeat)

    path = tmp_path / IMPATIENT_FILE
    assert measure_points(path, RunRecord, measure, [points]).interrupted
    again = measure_points(path, RunRecord, measure, [points])
    assert (again.measured, again.skipped) == (1, 1)
    assert {run.point for run in read_rows(path, RunRecord).rows} == set(points)
