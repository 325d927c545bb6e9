"""The formulae on the back of the envelope, computed by hand."""

from __future__ import annotations

import pytest

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.validation.forecast.baselines import (
    BASELINES,
    NOTHING,
    baselines,
    fixed_cost_ns,
    full_wait_ns,
    outside_ns,
    processor_sharing,
    shared_wait_ns,
    single_server,
)

POLL = point_at(mechanism="poll", idle=5_999, users=64)
EPOLL = point_at(mechanism="epoll_level", idle=5_999, users=64)
OPEN = point_at(mechanism="poll", loop="open", rate_per_s=10_000)
# accept, close, read, write, user code; SYN, ACK, data, reset; four entries
FIXED_NS = 4_000 + 9_000 + 1_500 + 9_000 + 25 + 1_000 + 10_000 + 4 * 1_300


def test_a_connection_costs_its_calls_and_interrupts(profile: Profile) -> None:
    costs = profile.costs("poll", open_connections=0)
    assert fixed_cost_ns(POLL, costs) == FIXED_NS
    epoll = profile.costs("epoll_level", open_connections=0)
    assert fixed_cost_ns(EPOLL, epoll) == FIXED_NS + 700 + 700
    working = point_at(EPOLL, request_work_ns=20_000)
    assert fixed_cost_ns(working, epoll) == FIXED_NS + 700 + 700 + 20_000


def test_kept_connections_share_what_a_connection_costs(profile: Profile) -> None:
    costs = profile.costs("poll", open_connections=0)
    kept = point_at(mechanism="poll", users=64, requests=10)
    assert fixed_cost_ns(kept, costs) == 11_525 + (FIXED_NS - 11_525) / 10


def test_a_full_wait_scans_and_registers_all_descriptors(profile: Profile) -> None:
    costs = profile.costs("poll", open_connections=0)
    assert full_wait_ns(POLL, costs) == 300 + 480_000 + 660_000 + 20
    assert full_wait_ns(EPOLL, profile.costs("epoll_level", open_connections=0)) == 415


def test_a_shared_wait_is_flat_and_divided_by_half_the_users(profile: Profile) -> None:
    costs = profile.costs("poll", open_connections=0)
    assert shared_wait_ns(POLL, costs) == pytest.approx((300 + (63 + 110) * 6_000) / 32 + 20)
    one = point_at(mechanism="poll", idle=5_999, loop="open", rate_per_s=1000)
    assert shared_wait_ns(one, costs) == pytest.approx(300 + (63 + 110) * 6_000 + 20)


def test_what_is_outside_the_server_is_two_round_trips_and_the_client(profile: Profile) -> None:
    costs = profile.costs("poll", open_connections=0)
    assert outside_ns(costs, 5_000) == 4 * 5_000 + 6_000 + 3_000 + 4_000


def test_many_users_keep_a_server_busy_and_few_wait_for_the_network() -> None:
    many = single_server(POLL, 50_000, 30_000)
    assert many == pytest.approx((20_000, 1.0, 3_200_000))
    few = single_server(point_at(mechanism="poll", users=1), 50_000, 30_000)
    assert few == pytest.approx((12_500, 0.625, 80_000))


def test_an_open_loop_queues_by_pollaczek_and_khinchine() -> None:
    found = single_server(OPEN, 50_000, 30_000)  # rho 0.5: half a service of waiting
    assert found == pytest.approx((10_000, 0.5, 50_000 + 25_000 + 30_000))
    assert single_server(OPEN, 200_000, 0) == (5_000, 1.0, None)


def test_processor_sharing_stretches_service_by_what_is_left() -> None:
    assert processor_sharing(OPEN, 50_000, 30_000) == pytest.approx((10_000, 0.5, 130_000))
    assert processor_sharing(OPEN, 200_000, 0) == (5_000, 1.0, None)


def test_processor_sharing_needs_the_fit_point(profile: Profile) -> None:
    costs = profile.costs("poll", open_connections=0)
    answers = baselines(OPEN, costs, 5_000, None)
    assert tuple(answers) == BASELINES
    assert answers[BASELINES[2]] == NOTHING
    assert baselines(OPEN, costs, 5_000, 40_000)[BASELINES[2]].cpu_busy == pytest.approx(0.4)
