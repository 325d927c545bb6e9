"""The emulated target's points: what the fit may not see, and how long each is run."""

import pytest

from dispatchsim.calibration.emulated.grid import blocking_points, held_out, lengths_of, ring_points
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.points.points import FIT_POINTS_OF, RINGS

CAPACITY_PER_S = 22_000


def test_no_fit_point_is_held_out() -> None:
    assert not set(FIT_POINTS_OF["emulated"]) & set(held_out(0, CAPACITY_PER_S, quick=False))


def test_a_later_round_has_what_its_arrivals_decide() -> None:
    first, later = (set(held_out(index, CAPACITY_PER_S, quick=False)) for index in (0, 1))
    assert later < first
    assert {point.load.loop for point in later} == {"open"}
    assert len(later) == 3 * 4 * 9
    assert sum(point.server.accept_limit > 0 for point in first) == 12


def test_threads_that_block_have_a_grid_of_their_own() -> None:
    points = blocking_points(20_000)
    assert len(set(points)) == 16
    assert all(point.blocks for point in points)
    assert {point.server.threads for point in points} == {"pool", "on demand", "processes"}
    assert set(points) <= set(held_out(0, 20_000, quick=False))


def test_each_ring_has_loads_idle_connections_and_several_requests() -> None:
    points = ring_points(20_000)
    assert len(set(points)) == len(points) == 28
    for name in RINGS:
        own = [point for point in points if point.server.mechanism == name]
        assert {point.idle.connections for point in own} == {0, 4000}
        assert {point.users for point in own} == {0, 4, 64, 256}
        assert {point.load.requests for point in own} == {1, 4}
    assert set(points) <= set(held_out(0, 20_000, quick=False))
    assert not set(points) & set(held_out(1, 20_000, quick=False))


def test_the_quick_points_are_few_of_the_same() -> None:
    points, quick = (set(held_out(0, CAPACITY_PER_S, quick=quick)) for quick in (False, True))
    assert quick < points
    assert {point.load.loop for point in quick} == {"open", "closed"}


@pytest.mark.parametrize("rate_per_s", [4_400, 28_600])
def test_a_window_holds_some_4000_requests(rate_per_s: float) -> None:
    lengths = lengths_of(point_at(mechanism="poll", loop="open", rate_per_s=rate_per_s))
    assert 4_000 <= lengths.window_ns * rate_per_s / 1e9 <= 4_300
    assert 500 <= lengths.warm_up_ns * rate_per_s / 1e9 <= 800


def test_many_users_warm_up_longer() -> None:
    few, many = (lengths_of(point_at(mechanism="poll", users=users)) for users in (4, 256))
    assert many.warm_up_ns * 20_000 / 1e9 >= 1_000
    assert few.window_ns > many.window_ns
