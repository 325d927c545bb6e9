"""A perfect model scores 0; a cost that is wrong by a known factor shows with its sign."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.validation.synthetic_runs import SHORT, synthetic_run, toy_profile

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.points.points import FIT_POINT
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.validation.forecast.baselines import BASELINES, Baseline
from dispatchsim.validation.forecast.forecast import Request, forecasts, neighbours_of
from dispatchsim.validation.points.figures import Figures
from dispatchsim.validation.points.measured_points import group
from dispatchsim.validation.scoring.scoring import (
    PointScore,
    capacity_per_s,
    load_shift,
    score,
    verdicts_agree,
)
from dispatchsim.validation.scoring.targets import OURS, targets

CLOSED = point_at(mechanism="poll", idle=200, users=8)
RATES = (8_000, 16_000, 30_000)
OPEN = [point_at(mechanism="epoll_level", loop="open", rate_per_s=rate) for rate in RATES]


def scores_of(points: Sequence[Point], truth: Profile, model: Profile) -> list[PointScore]:
    """Return the scores of *model*'s forecasts against runs on *truth*."""
    measured = group([synthetic_run(point, truth) for point in points])
    requests = [Request(e.point, e.seeds, 4, SHORT) for e in measured]
    requests += [near for request in requests for near in neighbours_of(request)]
    found = {request.point: made for request, made in forecasts(requests, model)}
    answers = {e.point: {BASELINES[0]: Baseline(1e4, 0.5, None)} for e in measured}
    return score(measured, found, answers)


@pytest.fixture(scope="module")
def perfect(profile: Profile) -> list[PointScore]:
    return scores_of([CLOSED, *OPEN, FIT_POINT], profile, profile)


@pytest.fixture(scope="module")
def cheap(profile: Profile) -> list[PointScore]:
    """Return the scores of a model whose server costs are 10% too low."""
    return scores_of([CLOSED, *OPEN], profile, toy_profile(scale=0.9))


def test_a_perfect_model_has_no_error(perfect: list[PointScore]) -> None:
    for entry in perfect:
        assert entry.errors == (0, 0, 0)
        assert verdicts_agree(entry)
    for entry in perfect[1:3]:
        assert entry.load_shift_p50 == pytest.approx(0)
        assert entry.p50_at_equal_cpu == pytest.approx(0)


def test_costs_that_are_too_low_promise_too_much(cheap: list[PointScore]) -> None:
    closed, low, middle, _ = cheap
    assert closed.errors.throughput == pytest.approx(0.11, abs=0.02)
    assert closed.inside.throughput is False
    assert low.errors.cpu is not None
    assert low.errors.cpu < 0
    assert middle.errors.p50 is not None
    assert middle.errors.p50 < 0
    assert middle.load_shift_cpu == pytest.approx(0.11, abs=0.03)
    # At equal utilisation the latencies nearly agree: it is a wrong cost, not a wrong shape.
    assert middle.p50_at_equal_cpu is not None
    assert abs(middle.p50_at_equal_cpu) < abs(middle.errors.p50)


def test_closed_loops_have_no_curve_to_shift_along(cheap: list[PointScore]) -> None:
    closed = cheap[0]
    assert (closed.load_share, closed.load_shift_cpu, closed.load_shift_p50) == (None, None, None)
    assert closed.p50_at_equal_cpu is None


def test_roles_tell_what_throughput_says(perfect: list[PointScore]) -> None:
    roles = [entry.role for entry in perfect]
    assert roles == ["capacity", "offered", "offered", "capacity", "fit"]


def test_capacity_is_what_an_overloaded_open_loop_delivered(perfect: list[PointScore]) -> None:
    measured = [entry.measured for entry in perfect]
    capacity = capacity_per_s(OPEN[0], measured)
    assert capacity == measured[3].median.throughput_per_s
    assert [entry.p50_counts for entry in perfect] == [False, True, True, False, False]


def test_without_overload_capacity_is_that_of_the_fit_point(perfect: list[PointScore]) -> None:
    measured = [entry.measured for entry in perfect]
    fit_per_s = measured[4].median.throughput_per_s
    assert capacity_per_s(OPEN[0], [*measured[:3], measured[4]]) == fit_per_s
    assert capacity_per_s(OPEN[0], measured[1:3]) is None


def curve(*p50_ns: float) -> list[tuple[float, Figures]]:
    """Return a curve at 1000, 2000, ... connections per second."""
    return [
        (1_000.0 * n, Figures(0, 0.1 * n, 0, value, value, 0))
        for n, value in enumerate(p50_ns, start=1)
    ]


def test_the_nearest_of_several_crossings_is_the_load_shift() -> None:
    point = point_at(mechanism="poll", loop="open", rate_per_s=3_000)
    shape = curve(100, 400, 100, 1_600)
    assert load_shift(point, shape, "p50_ns", 200) == pytest.approx(0.25 / 3)
    assert load_shift(point, shape, "p50_ns", 50) is None
    assert load_shift(point, curve(), "p50_ns", 200) is None


def test_a_shift_beyond_half_the_rate_says_nothing() -> None:
    point = point_at(mechanism="poll", loop="open", rate_per_s=1_000)
    assert load_shift(point, curve(100, 100, 200), "p50_ns", 180) is None


def test_targets_take_held_out_points_only(perfect: list[PointScore]) -> None:
    found = targets(perfect)
    assert [t.n_points[OURS] for t in found] == [2, 2, 4, 2]
    assert [t.verdict for t in found] == ["reached"] * 4
    assert found[0].values[BASELINES[0]] is not None
    assert found[3].values[BASELINES[0]] is None


def test_one_bad_point_misses_the_worst_case(cheap: list[PointScore]) -> None:
    worst = next(t for t in targets(cheap) if t.name == "capacity" and t.statistic == "worst")
    assert worst.verdict == "missed"
    assert worst.n_within < worst.n_points[OURS]


def test_a_target_without_points_is_not_reached() -> None:
    assert {t.verdict for t in targets([])} == {"not measured"}


def test_many_idle_connections_are_outside_the_targets(profile: Profile) -> None:
    beyond = scores_of([point_at(mechanism="poll", idle=6_001, users=8)], profile, profile)
    assert targets(beyond)[0].n_points[OURS] == 0
