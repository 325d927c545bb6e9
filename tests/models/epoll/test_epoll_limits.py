"""What bounds the descriptors that epoll watches: memory and the system's caps, no constant."""

from __future__ import annotations

from typing import Any

import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings

BOUNDED = ("epoll_level", "epoll_edge", "epoll_once")
FATES = [Count.ACCEPTS, Count.WATCH_NO_SPACE, Count.REPLIES]


def outcome_with(mechanism: str, *at_ns: int, idle: int = 0, **server: Any) -> Outcome:
    """Return the outcome of connections of two requests each, on both engines."""
    run = RunSettings(
        **on_server(**server),
        client=ClientSettings(idle=idle),
        duration_ns=1_000_000,
        sample_every_ns=0,
    )
    trace = arrivals(*at_ns, requests=2, think_ns=100_000)
    costs = toy_costs(mechanism)
    outcome = simulate(mechanism, trace, costs, run, engine="reference")
    assert simulate(mechanism, trace, costs, run, engine="fast").same_as(outcome)
    return outcome


def test_b19_24_what_cannot_be_watched_is_closed_and_counted() -> None:
    # The listener, and one connection.
    run = RunSettings(**on_server(epoll_watches=2), duration_ns=30_000, sample_every_ns=0)
    trace = arrivals(10_000, 10_000, requests=2, think_ns=100_000)
    steps, outcome = timeline("epoll_level", trace, run)
    first = next(i for i, step in enumerate(steps) if step[2] == "WAKE")
    assert steps[first : first + 8] == [
        (11_760, 12_260, "WAKE"),
        (12_260, 12_290, "WAIT"),
        (12_290, 12_590, "ACCEPT"),
        (12_590, 12_700, "WATCH"),
        (12_700, 13_000, "ACCEPT"),
        (13_000, 13_110, "WATCH"),  # ENOSPC
        (13_110, 13_360, "CLOSE"),
        (13_360, 13_460, "ACCEPT"),  # EAGAIN
    ]
    assert outcome.counts[FATES].tolist() == [2, 1, 1]
    assert outcome.status.tolist() == [Status.OPEN, Status.RESET]
    assert outcome.done_ns[1] == 13_360


@pytest.mark.parametrize("mechanism", BOUNDED)
def test_b19_24_the_bound_is_that_of_all_sets_and_of_what_is_open(mechanism: str) -> None:
    three = (10_000, 10_000, 500_000)
    unbounded = outcome_with(mechanism, *three, idle=7)
    assert unbounded.counts[FATES].tolist() == [3, 0, 6]
    # Seven idle ones, a listener, and room for one: when that is closed there is room again.
    one_set = outcome_with(mechanism, *three, idle=7, epoll_watches=9)
    assert one_set.counts[FATES].tolist() == [3, 1, 4]
    assert one_set.status.tolist() == [Status.REPLIED, Status.RESET, Status.REPLIED]
    # Each worker's set has a listener of its own.
    two_sets = outcome_with(mechanism, *three, idle=7, workers=2, epoll_watches=10)
    assert two_sets.counts[FATES].tolist() == [3, 1, 4]


@pytest.mark.parametrize("mechanism", ["poll", "rt_signals"])
def test_the_bounds_are_epolls_alone(mechanism: str) -> None:
    outcome = outcome_with(mechanism, 10_000, 10_000, epoll_watches=1)
    assert outcome.counts[FATES].tolist() == [2, 0, 4]


@pytest.mark.parametrize(
    ("mechanism", "server", "idle", "message"),
    [
        (
            "epoll_level",
            {"workers": 3, "epoll_instances": 2},
            0,
            "epoll_instances must be 0 or at least 3 .*EMFILE otherwise, got 2",
        ),
        ("epoll_level", {"epoll_watches": 10}, 10, "epoll_watches must be at least 11, .* got 10"),
        (
            "epoll_level",
            {"workers": 3, "epoll_watches": 2},
            0,
            "epoll_watches must be at least 3, .* got 2",
        ),
        ("epoll_ctlv", {"epoll_watches": 10}, 0, "epoll_watches must be 0 with epoll_ctlv"),
        ("epoll_level", {"epoll_watches": -1}, 0, "epoll_watches must be at least 0, got -1"),
        ("epoll_level", {"epoll_instances": -1}, 0, "epoll_instances must be at least 0, got -1"),
    ],
)
def test_a_server_that_cannot_start_is_refused(
    mechanism: str, server: dict[str, Any], idle: int, message: str
) -> None:
    run = RunSettings(**on_server(**server), client=ClientSettings(idle=idle))
    with pytest.raises(ValueError, match=message):
        simulate(mechanism, arrivals(10_000), toy_costs(mechanism), run)


def test_a_shared_set_is_one_instance() -> None:
    outcome = outcome_with(
        "epoll_level",
        10_000,
        10_000,
        workers=3,
        sharing=int(Sharing.READY_LIST),
        epoll_instances=1,
        epoll_watches=2,
    )
    assert outcome.counts[FATES].tolist() == [2, 1, 2]


def test_a_list_longer_than_a_wait_may_return_comes_round_part_by_part() -> None:
    # Of sixty idle connections, which can be written, each wait of 130 tells of two.
    run = RunSettings(
        **on_server(max_events=2),
        client=ClientSettings(idle=60),
        duration_ns=1_000_000,
        sample_every_ns=0,
    )
    costs = toy_costs("epoll_once")
    outcome = simulate("epoll_once", arrivals(10_000), costs, run, engine="reference")
    assert simulate("epoll_once", arrivals(10_000), costs, run, engine="fast").same_as(outcome)
    # Twice round the list, for the listener and for the connection: 31 waits and 32, at most.
    own_ns = 430 + 300 + 100 + 110 + 200 + 150 + 400
    assert 0 < outcome.reply_ns[0] - outcome.due_ns[0] <= own_ns + 63 * 130
