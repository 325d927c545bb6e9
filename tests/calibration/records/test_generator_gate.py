"""Which runs the gate of the load generator lets through, and what it says of the others."""

from __future__ import annotations

import pytest
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.records.generator_gate import judged
from dispatchsim.calibration.records.measured_runs import Latency, RunRecord

OPEN = point_at(mechanism="epoll_level", loop="open", rate_per_s=5_000)
CLOSED = point_at(mechanism="epoll_level", loop="closed", users=4)


def late_run(point: Point, lag_p99_ns: int | None, p99: float | None) -> RunRecord:
    """Return a run that offered what was asked, with this lateness and this p99."""
    run = synthetic_run(point, toy_profile(), repeat=0)
    latency = None if p99 is None else Latency(mean=1, p50=1, p90=1, p99=p99, max=p99)
    client = run.result.client.model_copy(update={"lag_p99_ns": lag_p99_ns})
    result = run.result.model_copy(update={"client": client, "latency_ns": latency})
    return run.model_copy(update={"result": result})


@pytest.mark.parametrize(
    ("lag_p99_ns", "p99", "accepted"),
    [(20_000, 200_000.0, True), (20_001, 200_000.0, False), (None, 1.0, True), (9, None, True)],
)
def test_a_generator_may_be_late_by_a_tenth_of_what_it_reports(
    lag_p99_ns: int | None, p99: float | None, accepted: bool
) -> None:
    run = judged(late_run(OPEN, lag_p99_ns, p99))
    assert run.accepted is accepted
    said = "lag_p99_ns must be at most 10% of the p99 of 200000, got 20001"
    assert run.reason == ("" if accepted else said)


def test_a_closed_loop_is_not_judged_by_its_lateness() -> None:
    assert judged(late_run(CLOSED, 10**9, 1.0)).accepted


def test_noise_stays_the_reason_of_a_run_that_was_late_too() -> None:
    run = late_run(OPEN, 10**9, 1.0).model_copy(update={"accepted": False, "reason": "noise"})
    assert judged(run).reason == "noise"
