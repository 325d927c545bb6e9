"""What befalls connections: drops and their 1 s, 3 s, 7 s, refusals, time-outs, limits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import MECHANISMS, arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts, ClientCosts
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.program_settings import Sharing, Wakes
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS

SLOW = ApplicationCosts(8 * SECOND_NS)  # one request keeps the server for eight seconds


def run(settings: RunSettings, *at_ns: int, application: ApplicationCosts | None = None) -> Outcome:
    costs = toy_costs("epoll_level", application=application or ApplicationCosts(150))
    return simulate("epoll_level", arrivals(*at_ns), costs, settings)


def test_a_dropped_syn_comes_again_after_1_3_7_and_15_seconds() -> None:
    # A backlog of 1 lets two connections queue (the queue is full above the backlog).
    server = on_server(backlog=1, accept_limit=1, read_after_accept=True)
    outcome = run(
        RunSettings(**server, duration_ns=40 * SECOND_NS, sample_every_ns=0),
        *(10_000, 20_000, 20_001, 30_000),
        application=SLOW,
    )
    assert outcome.counts[Count.SYN_DROPS] == 4
    # At 1 s, 3 s and 7 s the queue is as full; at 15 s one has been taken from it.
    assert outcome.connected_ns[3] // 1_000 == (30_000 + 15 * SECOND_NS + 300) // 1_000


def test_a_full_queue_can_refuse_instead() -> None:
    server = on_server(backlog=1, accept_limit=1, read_after_accept=True, refuse=True)
    outcome = run(
        RunSettings(**server, duration_ns=SECOND_NS, sample_every_ns=0),
        *(10_000, 20_000, 20_001, 30_000),
        application=SLOW,
    )
    assert outcome.status[3] == Status.REFUSED
    assert outcome.done_ns[3] == 30_300


def test_clients_lose_patience_in_order_and_the_server_finds_out() -> None:
    outcome = run(
        RunSettings(
            client=ClientSettings(timeout_ns=100 * MILLISECOND_NS),
            duration_ns=30 * SECOND_NS,
            sample_every_ns=0,
        ),
        *(10_000, 20_000, 60_000_000),
        application=SLOW,
    )
    assert outcome.status.tolist() == [Status.TIMEOUT] * 3
    assert (outcome.done_ns - outcome.intended_ns).tolist() == [100 * MILLISECOND_NS] * 3
    # All three requests are read, for a reset leaves them where they are; the writes fail.
    assert outcome.counts[[Count.REPLIES, Count.WRITE_FAILED]].tolist() == [0, 3]
    assert outcome.counts[Count.CLOSES] == 3


def test_a_server_without_descriptors_leaves_connections_queued() -> None:
    # 0-2, listener, epoll: two connections fit.
    outcome = run(
        RunSettings(**on_server(fd_limit=8), client=ClientSettings(idle=2), duration_ns=10**6),
        *(10_000, 10_001, 10_002),
    )
    assert outcome.counts[Count.ACCEPT_NO_FD] > 0
    assert outcome.counts[Count.REPLIES] == 3  # one after the other, through one descriptor


def test_a_client_without_descriptors_counts_it() -> None:
    outcome = run(
        RunSettings(client=ClientSettings(fd_limit=2), duration_ns=SECOND_NS),
        *range(10_000, 10_005),
        application=ApplicationCosts(1_000_000),
    )
    assert outcome.status.tolist() == [0, 0] + [Status.DESCRIPTORS] * 3


def test_too_many_idle_for_the_server_are_refused_before_the_run() -> None:
    with pytest.raises(ValueError, match="need 15 descriptors, fd_limit is 10"):
        run(RunSettings(**on_server(fd_limit=10), client=ClientSettings(idle=9)), 1)


def test_stock_select_ends_at_fd_setsize() -> None:
    settings = RunSettings(**on_server(fd_setsize=1024), client=ClientSettings(idle=1_021))
    with pytest.raises(ValueError, match="fd_limit is 1024"):
        simulate("select", arrivals(1), toy_costs("select"), settings)
    with_room = settings._replace(client=ClientSettings(idle=1_000), duration_ns=10**8)
    assert simulate("select", arrivals(1), toy_costs("select"), with_room).status.tolist() == [0]


def test_a_bad_setting_is_refused_by_name_rule_and_value() -> None:
    with pytest.raises(ValueError, match="backlog must be at least 1, got 0"):
        run(RunSettings(**on_server(backlog=0)), 1)
    with pytest.raises(ValueError, match="warm_up_ns must be below duration_ns"):
        run(RunSettings(duration_ns=5, warm_up_ns=5), 1)


@pytest.mark.parametrize("mechanism", ["select", "poll"])
def test_what_only_epoll_has_is_refused_for_others(mechanism: str) -> None:
    two = on_server(workers=2, cpus=2)
    for server, rule in (
        (two.but(wakes=int(Wakes.ONE)), f"wakes must not be 2 with {mechanism}"),
        (two.but(sharing=int(Sharing.READY_LIST)), f"sharing must not be 2 with {mechanism}"),
    ):
        with pytest.raises(ValueError, match=rule):
            simulate(mechanism, arrivals(1), toy_costs(mechanism), RunSettings(**server))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_idle_connections_that_leave_come_back(mechanism: str) -> None:
    settings = RunSettings(
        client=ClientSettings(idle=50, idle_life_ns=10 * MILLISECOND_NS),
        duration_ns=100 * MILLISECOND_NS,
    )
    outcome = simulate(mechanism, arrivals(1), toy_costs(mechanism), settings)
    # Each closes about ten times; the standard deviation of the sum is some twenty.
    assert 300 < outcome.counts[Count.CLOSES] < 900
    assert 45 <= outcome.counts[Count.CONNECTIONS_OPEN] <= 50


def test_a_wire_is_shared_first_come_first_served() -> None:
    # 1448 bytes and a frame of 90 are 1538 byte times: 123.04 us at 100 Mbit/s.
    network = NetworkSettings(delay_ns=1_000, down_bits_per_s=100_000_000)
    settings = RunSettings(network=network, duration_ns=SECOND_NS, sample_every_ns=0)
    trace = arrivals(10_000, 10_001, 10_002, reply_bytes=1448)
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), settings)
    assert np.diff(np.sort(outcome.done_ns)).tolist() == [123_040, 123_040]


def test_a_busy_client_is_a_queue_of_its_own() -> None:
    client = ClientCosts(connect_ns=10_000, send_ns=0, receive_ns=0, close_ns=0)
    settings = RunSettings(duration_ns=SECOND_NS)
    outcome = simulate("epoll_level", arrivals(0, 0, 0), toy_costs("epoll_level", client), settings)
    assert outcome.started_ns.tolist() == [0, 10_000, 20_000]


def test_users_of_a_closed_loop_never_exceed_their_number() -> None:
    outcome = simulate(
        "poll",
        closed_loop(users=7, connections=500),
        toy_costs("poll"),
        RunSettings(duration_ns=SECOND_NS),
    )
    assert outcome.status.tolist() == [0] * 500
    begun, ended = np.sort(outcome.intended_ns), np.sort(outcome.done_ns)
    in_flight = np.searchsorted(begun, ended, "left") - np.arange(500)
    assert in_flight.max() <= 7
