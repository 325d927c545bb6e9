"""Clients that run out of ports: each is in use until its connection ends, and a while after."""

from __future__ import annotations

import pytest
from tests.served import Served, on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS


def outcome_of(trace: Trace, server: Served | None = None, **client: int) -> Outcome:
    """Return the outcome that both engines agree on, of a server that works 1 us for a request."""
    run = RunSettings(
        **server or on_server(),
        client=ClientSettings(**client),
        duration_ns=SECOND_NS,
        sample_every_ns=0,
    )
    costs = toy_costs("epoll_level", application=ApplicationCosts(1_000))
    outcome = simulate("epoll_level", trace, costs, run, engine="reference")
    assert simulate("epoll_level", trace, costs, run, engine="fast").same_as(outcome)
    return outcome


def test_a_port_is_kept_in_time_wait_to_the_nanosecond() -> None:
    wait_ns = 5 * MILLISECOND_NS
    first = outcome_of(arrivals(10_000), ports=1, time_wait_ns=wait_ns)
    free_ns = int(first.done_ns[0]) + wait_ns
    # The port is free behind all else that happens at that nanosecond.
    trace = arrivals(10_000, free_ns - 1, free_ns, free_ns + 1)
    outcome = outcome_of(trace, ports=1, time_wait_ns=wait_ns)
    assert outcome.status.tolist() == [
        Status.REPLIED,
        Status.PORTS,
        Status.PORTS,
        Status.REPLIED,
    ]
    assert outcome.done_ns[1:3].tolist() == [free_ns - 1, free_ns]


def test_clients_that_reset_use_a_port_again_at_once() -> None:
    trace = arrivals(*range(0, 100 * MILLISECOND_NS, MILLISECOND_NS))
    assert (outcome_of(trace, ports=1).status == Status.REPLIED).all()


def test_so_many_connections_fit_as_there_are_ports_in_a_time_wait() -> None:
    trace = arrivals(*range(0, 900 * MILLISECOND_NS, MILLISECOND_NS))
    outcome = outcome_of(trace, ports=10, time_wait_ns=60 * SECOND_NS)
    assert (outcome.status == Status.REPLIED).sum() == 10
    assert (outcome.status == Status.PORTS).sum() == 890
    outcome = outcome_of(trace, ports=10, time_wait_ns=100 * MILLISECOND_NS)
    # Ten in a tenth of a second and what a connection takes, so ten in 101 milliseconds.
    assert (outcome.status == Status.REPLIED).sum() == 90


def test_who_is_refused_gives_its_port_back() -> None:
    server = on_server(backlog=1, accept_limit=1, refuse=True)
    trace = arrivals(*[10_000] * 6, 900_000)
    outcome = outcome_of(trace, server, ports=6, time_wait_ns=60 * SECOND_NS)
    assert (outcome.status == Status.REFUSED).sum() > 0
    assert outcome.status[-1] == Status.REPLIED


def test_a_user_without_a_port_tries_again_and_time_passes() -> None:
    trace = closed_loop(users=2, connections=10)
    outcome = outcome_of(trace, ports=1, time_wait_ns=60 * SECOND_NS)
    assert outcome.status.tolist().count(Status.REPLIED) == 1
    assert outcome.status.tolist().count(Status.PORTS) == 9


def test_ports_have_a_bound() -> None:
    with pytest.raises(ValueError, match="ports must be at least 0, got -1"):
        outcome_of(arrivals(1), ports=-1)
