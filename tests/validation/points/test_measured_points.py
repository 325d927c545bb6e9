"""Runs are grouped by point; medians and their scatter are over the accepted ones."""

from __future__ import annotations

import math

import pytest
from tests.validation.synthetic_runs import SHORT, synthetic_run

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.validation.points.measured_points import (
    figures_of_run,
    group,
    spread,
    verdict_of_run,
)

CLOSED = point_at(mechanism="poll", idle=100, users=8)
OPEN = point_at(mechanism="epoll_level", loop="open", rate_per_s=5_000)


def test_the_figures_of_a_run_are_rates_shares_and_quantiles(profile: Profile) -> None:
    run = synthetic_run(CLOSED, profile)
    figures = figures_of_run(run)
    assert figures.throughput_per_s == pytest.approx(run.result.replied / 0.06)
    assert figures.cpu_busy == run.result.cpu.busy_ns / SHORT.window_ns
    assert figures.process_ns_per_request == run.result.cpu.process_ns / run.result.replied
    assert figures.events_per_wait == run.result.calls["events"] / run.result.calls["waits"]


def test_rejected_repeats_are_counted_and_left_out(profile: Profile) -> None:
    good = synthetic_run(CLOSED, profile)
    bad = good.model_copy(update={"accepted": False, "repeat": 1, "window_ns": 1})
    (entry,) = group([bad, good])
    assert (entry.n_accepted, entry.n_rejected) == (1, 1)
    assert entry.median == figures_of_run(good)
    assert (entry.warm_up_ns, entry.window_ns) == SHORT


def test_a_point_whose_repeats_were_all_rejected_is_not_measured(profile: Profile) -> None:
    (entry,) = group([synthetic_run(CLOSED, profile, reason="steal_share must be ...")])
    assert not entry.measured
    assert math.isnan(entry.median.throughput_per_s)
    assert entry.seeds == (CLOSED.seed(0),)


def test_points_keep_the_order_in_which_they_were_measured(profile: Profile) -> None:
    runs = [synthetic_run(point, profile) for point in (OPEN, CLOSED, OPEN)]
    assert [entry.point for entry in group(runs)] == [OPEN, CLOSED]


def test_the_median_lies_within_its_interval() -> None:
    found = spread([9.0, 10.0, 11.0, 10.0, 30.0])
    assert found.low <= 10.0 <= found.high
    assert found.cv == pytest.approx(8.97 / 14, rel=1e-3)


def test_one_value_has_no_scatter() -> None:
    assert all(math.isnan(value) for value in spread([1.0, float("nan")]))


@pytest.mark.parametrize(
    ("rate_per_s", "verdict"), [(5_000, Verdict.STABLE), (60_000, Verdict.OVERLOADED)]
)
def test_a_measured_run_is_judged_from_its_totals(
    profile: Profile, rate_per_s: float, verdict: Verdict
) -> None:
    point = point_at(mechanism="epoll_level", loop="open", rate_per_s=rate_per_s)
    assert verdict_of_run(synthetic_run(point, profile)) == verdict
