"""Acknowledgements that clients send as packets of their own, by hand.

Undisturbed, a connection of 10000 is handled by 11430 (tests/models/test_interrupt_ways.py).
"""

from __future__ import annotations

import pytest
from tests.toy import INTERRUPT, arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, Costs
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS

WHILE = RunSettings(duration_ns=2_000 * MILLISECOND_NS, sample_every_ns=0)
BESIDE = NO_CLIENT._replace(again_ns=1)
"""Clients on the machine of the server, who cost it nothing but what is under test."""
ACKED = INTERRUPT._replace(reply_acked_ns=70)


def both(trace: Trace, costs: Costs, settings: RunSettings = WHILE) -> Outcome:
    """Return the run on both engines, which agree."""
    reference, fast = (
        simulate("epoll_level", trace, costs, settings, engine=engine)
        for engine in ("reference", "fast")
    )
    assert reference.same_as(fast)
    return reference


def n_more(trace: Trace, settings: RunSettings = WHILE, *, of: Count = Count.PACKETS) -> int:
    """Return how many more packets there are with acknowledgements of replies than without."""
    without, acked = (
        both(trace, toy_costs("epoll_level", BESIDE, interrupt=interrupt), settings)
        for interrupt in (INTERRUPT, ACKED)
    )
    assert (without.done_ns > 0).all()
    return int(acked.counts[of] - without.counts[of])


def test_a_client_that_acknowledges_itself_sends_a_packet_before_its_request() -> None:
    plain, acked = (
        both(arrivals(10_000), toy_costs("epoll_level", client))
        for client in (BESIDE, BESIDE._replace(ack_ns=200))
    )
    # The SYN-ACK leaves at 11300. 200 later the acknowledgement finds the CPU idle again, which it
    # leaves in 1000, and interrupts anew, which takes 100.
    assert acked.connected_ns.tolist() == [11_500]
    assert (acked.done_ns - plain.done_ns).tolist() == [1_300]
    assert acked.counts[Count.INTERRUPTS] - plain.counts[Count.INTERRUPTS] == 1
    assert acked.counts[Count.PACKETS] == plain.counts[Count.PACKETS] == 4


@pytest.mark.parametrize(
    ("n_requests", "pause_ms", "n"),
    [
        (1, 1, 0),  # the client's reset acknowledges its last reply
        (4, 1, 1),  # the second request shows that this client answers
        (4, 39, 1),
        (4, 41, 3),  # each reply at once
        (20, 41, 19),  # sixteen at once, the others 40 ms later
    ],
)
def test_replies_are_acknowledged_unless_a_request_follows_soon(
    n_requests: int, pause_ms: int, n: int
) -> None:
    trace = arrivals(10_000, requests=n_requests, think_ns=pause_ms * MILLISECOND_NS)
    assert n_more(trace) == n
    assert n_more(trace, of=Count.INTERRUPTS) == n


def test_a_reply_of_several_segments_is_acknowledged_at_once() -> None:
    trace = arrivals(10_000, requests=4, think_ns=MILLISECOND_NS, reply_bytes=3_000)
    assert n_more(trace) == 3


def test_a_reply_beyond_the_window_is_acknowledged_by_its_flights() -> None:
    trace = arrivals(10_000, requests=4, think_ns=MILLISECOND_NS, reply_bytes=30_000)
    windowed = WHILE._replace(network=NetworkSettings(delay_ns=10_000, window_segments=10))
    assert n_more(trace, windowed) == 0


def test_clients_without_costs_acknowledge_alike() -> None:
    trace = arrivals(10_000, requests=20, think_ns=41 * MILLISECOND_NS)
    without, acked = (
        both(trace, toy_costs("epoll_level", interrupt=interrupt))
        for interrupt in (INTERRUPT, ACKED)
    )
    assert acked.counts[Count.PACKETS] - without.counts[Count.PACKETS] == 19
