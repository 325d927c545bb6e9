"""Interrupts that are on their way for a while, and writes beside which none is needed, by hand.

Undisturbed, a connection of 10000 is handled by 11430 and its reply is written from 12940 to 13340
(tests/models/test_timelines.py).
"""

from __future__ import annotations

import pytest
from tests.toy import CALL, INTERRUPT, WAY, arrivals, on_both, timeline, toy_costs

from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, ClientCosts, Costs, flat
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.settings import RunSettings

WHILE = RunSettings(duration_ns=40_000, sample_every_ns=0)
ON_ITS_WAY = INTERRUPT._replace(way=flat(120))
DELIVERS = CALL._replace(delivery_ns=250, delivery_after_ns=40)
BESIDE = NO_CLIENT._replace(again_ns=1)
"""Clients on the machine of the server, who cost it nothing but what is under test."""


def both(trace: Trace, costs: Costs, settings: RunSettings = WHILE) -> Outcome:
    """Return the run on both engines, which agree."""
    return on_both(trace, costs, settings)


def test_an_interrupt_comes_when_it_has_been_on_its_way() -> None:
    costs = toy_costs("epoll_level", interrupt=ON_ITS_WAY)
    steps, _ = timeline("epoll_level", arrivals(10_000), WHILE, costs)
    assert steps[2:5] == [
        (11_550, 12_050, "WAKE"),  # 120 later, and one way for what is handled in one go
        (12_050, 12_080, "WAIT"),
        (12_080, 12_380, "ACCEPT"),
    ]
    # The reset of 13460 interrupts at 13580: the call that it came in is over at 13520.
    assert steps[11:14] == [
        (13_060, 13_460, "WRITE"),
        (13_460, 13_520, "UNWATCH"),
        (13_520, 13_930, "CLOSE"),  # 250, lengthened by 160
    ]


def test_what_comes_while_an_interrupt_is_on_its_way_needs_none_of_its_own() -> None:
    # Each handshake with its request takes 430: at once, that of 12100 is over at 12530.
    trace = arrivals(10_000, 12_100, 12_540)
    one_by_one = both(trace, toy_costs("epoll_level"))
    together = both(trace, toy_costs("epoll_level", interrupt=ON_ITS_WAY))
    assert one_by_one.counts[Count.INTERRUPTS] - together.counts[Count.INTERRUPTS] == 1
    assert one_by_one.counts[Count.PACKETS] == together.counts[Count.PACKETS]


def test_a_write_that_handles_its_own_reply_handles_what_comes_meanwhile() -> None:
    costs = toy_costs("epoll_level", BESIDE, call=DELIVERS)
    alone = both(arrivals(10_000), costs)
    for at_ns, n_more in ((13_089, 2), (13_090, 1), (13_300, 1), (13_301, 2)):
        # From 13090 to 13300 nobody has to interrupt for the SYN; its reset does so later.
        found = both(arrivals(10_000, at_ns), costs)
        assert found.counts[Count.INTERRUPTS] - alone.counts[Count.INTERRUPTS] == n_more, at_ns


def test_a_write_to_another_machine_handles_no_replies() -> None:
    far = WHILE._replace(network=NetworkSettings(delay_ns=1))
    for settings, client in ((far, BESIDE), (WHILE, NO_CLIENT)):
        plain, delivering = (
            both(arrivals(10_000, 13_150), toy_costs("epoll_level", client, call=call), settings)
            for call in (CALL, DELIVERS)
        )
        assert plain.same_as(delivering)


def test_who_interrupts_is_busy_with_it() -> None:
    interrupting = BESIDE._replace(interrupt_ns=5_000)
    assert isinstance(interrupting, ClientCosts)
    # The second client wants to begin at 10100, but the first one's SYN has to interrupt first.
    for call in (CALL, DELIVERS):
        found = both(
            arrivals(10_000, 10_100),
            toy_costs("epoll_level", interrupting, interrupt=ON_ITS_WAY, call=call),
        )
        assert found.started_ns.tolist() == [10_000, 15_000]


@pytest.mark.parametrize("n", [1, 40])
def test_ways_that_vary_are_within_their_curve(n: int) -> None:
    trace = arrivals(*(10_000 + 20_000 * i for i in range(n)))
    settings = WHILE._replace(duration_ns=20_000 * (n + 2))
    fixed, varied = (
        both(
            trace, toy_costs("epoll_level", interrupt=INTERRUPT._replace(way=way)), settings
        ).done_ns
        for way in (flat(0), WAY)
    )
    later_ns = varied - fixed
    assert (later_ns >= WAY.ns[0]).all()
    assert (later_ns <= WAY.ns[-1]).all()
    assert n == 1 or len(set(later_ns.tolist())) > n // 2


def test_a_close_handles_what_comes_while_it_handles_its_own_fin() -> None:
    closing = CALL._replace(close_delivery_ns=200, close_delivery_after_ns=50)
    late = toy_costs("epoll_level", BESIDE._replace(close_ns=10_000))
    steps, _ = timeline("epoll_level", arrivals(10_000), WHILE, late)
    replied_ns, end_ns = (
        next(end for _, end, name in steps if name == call) for call in ("WRITE", "CLOSE")
    )
    for reset_ns, saved in (
        (end_ns - 200, 0),
        (end_ns - 199, 1),
        (end_ns - 50, 1),
        (end_ns - 49, 0),
    ):
        client = BESIDE._replace(close_ns=reset_ns - replied_ns)
        alone, beside = (
            both(arrivals(10_000), toy_costs("epoll_level", client, call=call)).counts
            for call in (CALL, closing)
        )
        assert alone[Count.INTERRUPTS] - beside[Count.INTERRUPTS] == saved, reset_ns - end_ns


def test_the_close_of_a_connection_that_was_reset_sends_nothing() -> None:
    # The reset arrives 60 after the reply, while the descriptor is taken out of the set.
    closing = CALL._replace(close_delivery_ns=200, close_delivery_after_ns=50)
    costs = toy_costs("epoll_level", BESIDE._replace(close_ns=30), call=closing)
    steps, _ = timeline("epoll_level", arrivals(10_000), WHILE, costs)
    _, end_ns = next((b, e) for b, e, name in steps if name == "CLOSE")
    plain = toy_costs("epoll_level", BESIDE._replace(close_ns=30))
    counts = [both(arrivals(10_000, end_ns - 100), of).counts for of in (plain, costs)]
    assert counts[0][Count.INTERRUPTS] == counts[1][Count.INTERRUPTS]


def test_packets_leave_before_the_clients_call_is_over() -> None:
    client = BESIDE._replace(connect_ns=700, close_ns=900)
    early = client._replace(connect_after_ns=300, close_after_ns=400)
    later, sooner = (
        both(arrivals(10_000, 25_000), toy_costs("epoll_level", of)) for of in (client, early)
    )
    assert (later.connected_ns - sooner.connected_ns).tolist() == [300, 300]
    begun = [
        timeline("epoll_level", arrivals(10_000), WHILE, toy_costs("epoll_level", of))[0]
        for of in (client, early)
    ]
    # The handshake is 300 sooner, and the reset 400 after that.
    closes = [next(begin for begin, _, name in steps if name == "CLOSE") for steps in begun]
    assert closes[0] - closes[1] == 300
