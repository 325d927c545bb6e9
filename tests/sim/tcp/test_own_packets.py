"""Packets of the server's own CPU in their turn, acknowledgements held back, requests repeated."""

from __future__ import annotations

import numpy as np
import pytest
from tests.served import Served, on_server
from tests.toy import INTERRUPT, arrivals, on_both, toy_costs

from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts, ClientCosts, Costs
from dispatchsim.sim.state.kinds import NONE, Activity, Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS


def outcome_of(
    trace: Trace,
    costs: Costs,
    server: Served,
    *,
    delay_ns: int = 0,
    patience_ns: int = 0,
    duration_ns: int = 5 * SECOND_NS,
) -> Outcome:
    """Return the run on both engines, which agree."""
    settings = RunSettings(
        **server,
        network=NetworkSettings(delay_ns=delay_ns, one_machine=True),
        client=ClientSettings(timeout_ns=patience_ns),
        duration_ns=duration_ns,
        sample_every_ns=0,
    )
    return on_both(trace, costs, settings)


def test_a_burst_is_half_open_as_a_whole_before_the_first_is_acknowledged() -> None:
    server = on_server(backlog=3, syn_cookies=False)
    together = outcome_of(arrivals(*[0] * 8), toy_costs("epoll_level"), server)
    # Four are half open at once (backlog + 1), the others come again after 1 s, where four do too.
    assert together.counts[Count.SYN_DROPS] == 4
    assert (together.done_ns // SECOND_NS).tolist() == [0] * 4 + [1] * 4
    apart = arrivals(*(i * MILLISECOND_NS for i in range(8)))
    assert outcome_of(apart, toy_costs("epoll_level"), server).counts[Count.SYN_DROPS] == 0


def test_syn_acks_and_acknowledgements_wait_for_what_came_before() -> None:
    # Two SYNs at one instant: both are answered before the first handshake is over.
    costs = toy_costs("epoll_level")
    one, two = (outcome_of(arrivals(*[0] * n), costs, on_server()).connected_ns for n in (1, 2))
    assert two[0] - one[0] == INTERRUPT.syn_ns  # the second one's, which is ahead of its SYN-ACK
    assert two[1] == two[0]


def test_a_client_that_gave_up_under_way_resets_the_half_open_connection() -> None:
    costs = toy_costs("epoll_level")
    patience_ns = INTERRUPT.entry_ns + INTERRUPT.syn_ns // 2  # ends while its SYN is being handled
    server = on_server(backlog=1, syn_cookies=False)
    found = outcome_of(
        arrivals(0, 0, SECOND_NS, SECOND_NS),
        costs,
        server,
        patience_ns=patience_ns,
        duration_ns=2 * SECOND_NS,
    )
    assert found.status.tolist() == [Status.TIMEOUT] * 4
    # Nobody is left half open: the later ones find room.
    assert found.counts[Count.SYN_DROPS] == 0


# An acknowledgement is held back for 40 ms, include/net/tcp.h: TCP_DELACK_MIN.
@pytest.mark.parametrize(("late_ns", "n_saved"), [(0, 2), (40_000_000, 0)])
def test_requests_are_acknowledged_apart_where_replies_are_late(late_ns: int, n_saved: int) -> None:
    def busy_ns(saved_ns: int) -> int:
        costs = toy_costs(
            "epoll_level",
            application=ApplicationCosts(late_ns),
            interrupt=INTERRUPT._replace(data_saved_ns=saved_ns),
        )
        outcome = outcome_of(arrivals(0, requests=3), costs, on_server())
        assert outcome.counts[Count.REPLIES] == 3
        return int(outcome.ledger_ns.sum() - outcome.ledger_ns[Activity.IDLE])

    assert busy_ns(0) - busy_ns(1) == n_saved


def test_a_probe_comes_before_time_outs_that_double() -> None:
    # Two wait in the queue of a server that is busy for an hour; the last one's request is lost
    # with the end of its handshake: at 0, 0.2, 0.4, 0.8, 1.6 and 3.2 s.
    costs = toy_costs("epoll_level", application=ApplicationCosts(3600 * SECOND_NS))
    server = on_server(backlog=1, accept_limit=1, read_after_accept=True)
    drops = [
        outcome_of(arrivals(*[0] * 4), costs, server, duration_ns=ms * MILLISECOND_NS).counts[
            Count.ACK_DROPS
        ]
        for ms in (100, 300, 500, 900, 1700, 3300)
    ]
    assert drops == [2, 3, 4, 5, 6, 7]  # of two at first, one of which gets in after 0.2 s


def test_requests_for_connections_are_repeated_one_after_the_other() -> None:
    again_ns = 50_000
    costs = toy_costs("epoll_level", client=ClientCosts(0, 0, 0, 0, again_ns))
    server = on_server(backlog=1, syn_cookies=False)
    outcome = outcome_of(arrivals(*[0] * 5), costs, server)
    later_ns = np.sort(outcome.connected_ns)
    assert (later_ns != NONE).all()
    # Two at once; the others a second later, each when the clients' CPU has sent it.
    assert (np.diff(later_ns[2:]) >= again_ns).all()
    assert later_ns[2] > SECOND_NS + again_ns
