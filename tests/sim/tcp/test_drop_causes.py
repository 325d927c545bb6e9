"""Packets dropped by cause: each is counted once, and the causes add up."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import prepare_world, simulate
from dispatchsim.scenario.metrics import METRICS
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import DROPS, summarise
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings, PathSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kernel_settings import KernelSettings, Packets
from dispatchsim.sim.state.kinds import NONE, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.tcp.listen_queue import why_dropped

FOUR = arrivals(10_000, 20_000, 20_001, 30_000)
SIX = arrivals(*[10_000] * 6, requests=2, think_ns=SECOND_NS // 2)
"""Six connections that come at once, and stay for half a second."""
CASES = {
    # A backlog of 1 lets two connections queue while the server is busy for 8 s. The fourth finds
    # it full at once, and after 1, 3 and 7 s; at 15 s it does not.
    "accept_queue": (FOUR, RunSettings(**on_server(backlog=1, accept_limit=1)), 4),
    # Three are open or queued, which is more than two: three are dropped, and fit a second later.
    "drop_above": (SIX, RunSettings(**on_server(drop_above=2)), 3),
    # Two fit beside three idle ones. Of the four others two fit a second later, the last after 3 s.
    "memory": (
        SIX,
        RunSettings(
            kernel=KernelSettings(memory_bytes=5_000, connection_bytes=1_000),
            client=ClientSettings(idle=3),
        ),
        4 + 2,
    ),
    # Of 1,000,000 segments 999,999 are lost: the SYNs of 0, 1, 3, 7, 15 and 31 s.
    "paths": (
        arrivals(10_000),
        RunSettings(
            network=NetworkSettings(paths=(PathSettings(1_000, 0, loss_millionths=999_999),))
        ),
        6,
    ),
}


def outcome_of(cause: str) -> Outcome:
    """Return the outcome of a case, of both engines."""
    trace, settings, _ = CASES[cause]
    application = ApplicationCosts(8 * SECOND_NS if cause == "accept_queue" else 150)
    costs = toy_costs("epoll_level", application=application)
    settings = settings._replace(duration_ns=40 * SECOND_NS, sample_every_ns=0)
    outcome = simulate("epoll_level", trace, costs, settings, engine="reference")
    assert simulate("epoll_level", trace, costs, settings, engine="fast").same_as(outcome)
    return outcome


@pytest.mark.parametrize("cause", CASES)
def test_each_packet_is_dropped_for_one_cause(cause: str) -> None:
    n = CASES[cause][2]
    outcome = outcome_of(cause)
    summary = summarise(outcome)
    assert summary.dropped == dict.fromkeys(DROPS, 0) | {cause: n}
    assert METRICS["packets_dropped"].of(summary) == n
    assert outcome.counts[Count.SYN_DROPS] == (0 if cause == "paths" else n)


def test_too_many_half_open_ones_are_a_cause_of_their_own() -> None:
    settings = RunSettings(
        **on_server(backlog=1, syn_cookies=False),
        network=NetworkSettings(delay_ns=MILLISECOND_NS),
        duration_ns=40 * SECOND_NS,
        sample_every_ns=0,
    )
    for engine in ("reference", "fast"):
        outcome = simulate(
            "epoll_level",
            arrivals(*[10_000] * 6),
            toy_costs("epoll_level"),
            settings,
            engine=engine,
        )
        dropped = summarise(outcome).dropped
        n = int(outcome.counts[Count.SYN_DROPS])
        assert n > 0
        assert dropped["half_open"] + dropped["accept_queue"] == n
        assert dropped["half_open"] >= 3  # of six at once, a bound of 1 lets no more than three in


def test_where_both_queues_are_full_too_many_half_open_ones_are_the_cause() -> None:
    """Linux tcp_conn_request() asks inet_csk_reqsk_queue_is_full() before sk_acceptq_is_full()."""
    settings = RunSettings(**on_server(backlog=1, syn_cookies=False))
    world = prepare_world("epoll_level", arrivals(10_000), toy_costs("epoll_level"), settings)
    listener = world.listeners[0]
    causes = []
    for listener.n_half, listener.n_queued in ((1, 1), (1, 2), (2, 1), (2, 2)):
        causes.append(why_dropped(world, listener))
    half_open, queue = Count.SYN_DROPS_HALF_OPEN, Count.SYN_DROPS_ACCEPT_QUEUE
    assert causes == [NONE, queue, half_open, half_open]


def test_a_receive_queue_without_room_is_a_cause_of_its_own() -> None:
    # A hundred SYNs at once, of which each interrupts: room for ten waits until the last has.
    kernel = KernelSettings(packets=int(Packets.INTERRUPTS), receive_queue=10)
    settings = RunSettings(kernel=kernel, duration_ns=SECOND_NS // 2, sample_every_ns=0)
    costs = toy_costs("epoll_level")
    outcome = simulate("epoll_level", arrivals(*[10_000] * 100), costs, settings)
    dropped = summarise(outcome).dropped
    assert dropped["receive_queue"] == outcome.counts[Count.PACKET_DROPS] > 0
    assert sum(dropped.values()) == dropped["receive_queue"]


def test_the_last_packet_of_a_handshake_at_a_full_queue_is_a_cause_of_its_own() -> None:
    # A backlog of 3 lets four connections queue. The first is served for 8 s, two wait behind it.
    # Of four SYNs that come together, when none fills the queue yet, two find room at last. The
    # run ends before anything is sent again.
    settings = RunSettings(
        **on_server(backlog=3, accept_limit=1, read_after_accept=True),
        network=NetworkSettings(delay_ns=MILLISECOND_NS),
        duration_ns=1_100 * MILLISECOND_NS,
        sample_every_ns=0,
    )
    costs = toy_costs("epoll_level", application=ApplicationCosts(8 * SECOND_NS))
    trace = arrivals(0, *[MILLISECOND_NS] * 2, *[SECOND_NS] * 4)
    outcome = simulate("epoll_level", trace, costs, settings, engine="reference")
    assert simulate("epoll_level", trace, costs, settings, engine="fast").same_as(outcome)
    assert summarise(outcome).dropped == dict.fromkeys(DROPS, 0) | {"last_ack": 2}
