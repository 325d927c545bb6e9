"""Saturated points against runs with other arrivals: ranges, medians, the share expected inside."""

from __future__ import annotations

import random

import pytest
from tests.validation.emulated_runs import emulated_run

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.validation.noise_free.repeated import (
    N_REPEATED,
    RepeatedPoint,
    repeated_points,
    summary_of,
)
from dispatchsim.validation.noise_free.run_forecast import repeating, run_forecasts
from dispatchsim.validation.noise_free.scoring import score_runs

FULL = point_at(mechanism="epoll_level", loop="open", rate_per_s=60_000)
CALM = point_at(mechanism="epoll_level", loop="open", rate_per_s=2_000)


def test_a_run_is_inside_from_the_lowest_to_the_highest_simulated_one() -> None:
    found = RepeatedPoint(FULL, (90.0, 100.0, 110.0, 111.0), (100.0, 105.0, 110.0))
    assert found.n_inside == 2
    assert found.width == pytest.approx(0.1)
    assert found.error == pytest.approx(0.0)  # medians: 105 of 105


def test_a_point_without_a_reply_has_an_endless_range() -> None:
    found = RepeatedPoint(FULL, (90.0,), (0.0, 100.0))
    assert found.width == float("inf")
    assert found.n_inside == 1


def test_runs_of_the_model_itself_are_inside_as_often_as_expected() -> None:
    draws = random.Random(1)

    def rates(n: int) -> tuple[float, ...]:
        return tuple(draws.gauss(100, 5) for _ in range(n))

    points = [RepeatedPoint(FULL, rates(3), rates(N_REPEATED)) for _ in range(2_000)]
    found = summary_of(points, 0.015)
    assert found.n_runs == 6_000
    assert found.n_inside / found.n_runs == pytest.approx(11 / 13, abs=0.02)
    assert found.expected == 11 / 13


def test_no_points_have_no_median() -> None:
    found = summary_of([], 0.015)
    assert (found.n_points, found.median_error, found.median_width) == (0, None, None)


def test_only_held_out_points_from_the_capacity_on_are_repeated(profile: Profile) -> None:
    runs = [emulated_run(FULL, profile), emulated_run(CALM, profile)]
    forecasts = run_forecasts([repeating(run, profile) for run in runs])
    scores = score_runs(runs, forecasts, {}, seen=())
    (found,) = repeated_points(scores, profile)
    assert found.point == FULL
    assert found.measured_per_s == (scores[0].measured.throughput_per_s,)
    assert len(found.simulated_per_s) == N_REPEATED
    assert len(set(found.simulated_per_s)) > 1  # other arrivals
    assert repeated_points(score_runs(runs, forecasts, {}, seen={FULL}), profile) == []
