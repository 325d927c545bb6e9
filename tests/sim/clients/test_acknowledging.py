"""Acknowledgements that clients send as packets of their own, by hand.

Undisturbed, a connection of 10000 is handled by 11430 (tests/models/test_interrupt_ways.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.toy import INTERRUPT, Steps, arrivals, on_both, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import NO_CLIENT, ClientCosts, Costs
from dispatchsim.sim.state.kinds import Activity, Count, occurrence
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS
from dispatchsim.sim.state.world import World

WHILE = RunSettings(duration_ns=2_000 * MILLISECOND_NS, sample_every_ns=0)
BESIDE = NO_CLIENT._replace(again_ns=1)
"""Clients on the server's machine, whose only cost is the one under test."""
ACKED = INTERRUPT._replace(reply_acked_ns=70)


def both(trace: Trace, costs: Costs, settings: RunSettings = WHILE) -> Outcome:
    """Return the run on both engines, which agree."""
    return on_both(trace, costs, settings)


def without_and_with(
    trace: Trace, settings: RunSettings = WHILE, client: ClientCosts = BESIDE
) -> tuple[Outcome, Outcome]:
    """Return the runs without and with packets that acknowledge replies."""
    costs = (toy_costs("epoll_level", client, interrupt=each) for each in (INTERRUPT, ACKED))
    without, acked = (both(trace, each, settings) for each in costs)
    assert (without.done_ns > 0).all()
    return without, acked


def n_more(trace: Trace, settings: RunSettings = WHILE, *, of: Count = Count.PACKETS) -> int:
    """Return how many more packets there are with acknowledgements of replies than without."""
    without, acked = without_and_with(trace, settings)
    return int(acked.counts[of] - without.counts[of])


def test_a_client_that_acknowledges_itself_sends_a_packet_before_its_request() -> None:
    plain, acked = (
        both(arrivals(10_000), toy_costs("epoll_level", client))
        for client in (BESIDE, BESIDE._replace(ack_ns=200))
    )
    # 200 after the SYN-ACK the acknowledgement finds the CPU idle again, which it leaves in 1000,
    # and interrupts anew, which takes 100.
    assert acked.connected_ns.tolist() == [11_300]
    assert (acked.done_ns - plain.done_ns).tolist() == [1_300]
    assert acked.counts[Count.INTERRUPTS] - plain.counts[Count.INTERRUPTS] == 1
    assert acked.counts[Count.PACKETS] == plain.counts[Count.PACKETS] == 4


def test_a_client_is_not_busy_before_a_syn_ack_has_come() -> None:
    far = WHILE._replace(network=NetworkSettings(delay_ns=MILLISECOND_NS))
    costs = toy_costs("epoll_level", BESIDE._replace(ack_ns=200))
    # The first SYN-ACK comes 2 ms later. A client that is due meanwhile begins at once.
    found = both(arrivals(10_000, 1_500_000), costs, far)
    assert found.started_ns.tolist() == [10_000, 1_500_000]


@pytest.mark.parametrize(
    ("n_requests", "pause_ms", "n"),
    [
        (1, 1, 0),  # the client's reset acknowledges its last reply
        (4, 1, 1),  # the second request shows that this client answers
        (4, 39, 1),
        (4, 41, 3),  # each reply at once
        (20, 41, 19),  # sixteen at once, the others 40 ms later: see below
    ],
)
def test_replies_are_acknowledged_unless_a_request_follows_soon(
    n_requests: int, pause_ms: int, n: int
) -> None:
    trace = arrivals(10_000, requests=n_requests, think_ns=pause_ms * MILLISECOND_NS)
    assert n_more(trace) == n
    assert n_more(trace, of=Count.INTERRUPTS) == n


@pytest.mark.parametrize(("receive_ns", "n"), [(0, 0), (50_000, 1)])
def test_a_client_replies_by_a_reset_to_a_fin_that_left_before_its_own(
    receive_ns: int, n: int
) -> None:
    # The close takes a few microseconds. The client still reads the reply when it begins, or has
    # sent its reset before.
    trace, client = arrivals(10_000), BESIDE._replace(receive_ns=receive_ns)
    without, acked = without_and_with(trace, client=client)
    assert acked.counts[Count.PACKETS] - without.counts[Count.PACKETS] == n


class Replies(Steps):
    """When replies came, and their acknowledgements after the last of them."""

    def __init__(self) -> None:
        super().__init__()
        self.replied_ns = 0
        self.later_ns: list[int] = []

    def happened(self, world: World, kind: int, subject: int) -> None:
        """Note a reply, or an acknowledgement."""
        if kind == occurrence.REPLY:
            self.replied_ns = world.now_ns
        elif kind == occurrence.REPLY_ACK:
            self.later_ns.append(world.now_ns - self.replied_ns)


def delays_ns(trace: Trace) -> list[int]:
    """Return how long after its reply each acknowledgement interrupts the server."""
    seen = Replies()
    costs = toy_costs("epoll_level", BESIDE, interrupt=ACKED)
    simulate("epoll_level", trace, costs, WHILE, engine="reference", observe=seen)
    return seen.later_ns


def kept_open(*due_ns: int) -> Trace:
    """Return a client that keeps one connection, with requests due at these times."""
    due = np.array(due_ns, np.int64)
    row = arrivals(0, requests=1_000)
    return replace(row, loop="kept", users=1, arrival_ns=due, arrival_user=np.zeros_like(due))


def test_sixteen_acknowledgements_come_at_once() -> None:
    trace = arrivals(10_000, requests=20, think_ns=41 * MILLISECOND_NS)
    assert delays_ns(trace) == [0] * 16 + [40 * MILLISECOND_NS] * 3


def test_a_client_that_stops_answering_acknowledges_at_once_again() -> None:
    # The second request follows a reply soon, so the second reply is acknowledged late. That ends
    # the delays (tcp_delack_timer_handler).
    due_ms = (0, 1, 60, 120)
    trace = kept_open(*(ms * MILLISECOND_NS for ms in due_ms))
    assert delays_ns(trace) == [0, 40 * MILLISECOND_NS, 0, 0]


def test_an_acknowledgement_has_a_price_of_its_own() -> None:
    trace = arrivals(10_000, requests=2, think_ns=MILLISECOND_NS)
    without, acked = without_and_with(trace)
    rows = (Activity.INTERRUPT, Activity.INTERRUPT_IDLE)
    more_ns = sum(int((acked.ledger_ns - without.ledger_ns)[..., row].sum()) for row in rows)
    assert more_ns == 100 + 70  # entering the interrupt, and the packet


def test_a_reply_of_several_segments_is_acknowledged_at_once() -> None:
    trace = arrivals(10_000, requests=4, think_ns=MILLISECOND_NS, reply_bytes=3_000)
    assert n_more(trace) == 3


def test_a_reply_beyond_the_window_is_acknowledged_by_its_flights() -> None:
    trace = arrivals(10_000, requests=4, think_ns=MILLISECOND_NS, reply_bytes=30_000)
    windowed = WHILE._replace(network=NetworkSettings(delay_ns=10_000, window_segments=10))
    # The first of three: the window has grown for the others. The server's FIN leaves while the
    # last reply is on its way, so another reset comes.
    assert n_more(trace, windowed) == 2 + 1


def test_clients_without_costs_acknowledge_alike() -> None:
    trace = arrivals(10_000, requests=20, think_ns=41 * MILLISECOND_NS)
    without, acked = without_and_with(trace, client=NO_CLIENT)
    assert acked.counts[Count.PACKETS] - without.counts[Count.PACKETS] == 19
