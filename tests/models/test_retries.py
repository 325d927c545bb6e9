"""Clients who try again: when, how often, and what a connection of several attempts comes to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.served import Served, on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.catalogue import client_with
from dispatchsim.models.simulate import prepare_world, simulate
from dispatchsim.sim.clients.retries import JITTER_BITS, pause_ns
from dispatchsim.sim.figures.outcome import Outcome, last_attempts
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.client_settings import PAUSE_MAX_NS, ClientSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import NONE, Count, Status
from dispatchsim.sim.state.laws import Law, Laws
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.state.world import World

REFUSING = on_server(backlog=1, accept_limit=1, read_after_accept=True, refuse=True)
"""Two connections wait to be accepted beside the one that is served: the others are refused."""
SLOW = ApplicationCosts(8 * SECOND_NS)


def outcome_of(
    trace: Trace,
    client: ClientSettings,
    server: Served = REFUSING,
    application: ApplicationCosts = SLOW,
    duration_ns: int = SECOND_NS,
) -> Outcome:
    """Return the outcome that both engines agree on."""
    run = RunSettings(**server, client=client, duration_ns=duration_ns, sample_every_ns=0)
    costs = toy_costs("epoll_level", application=application)
    outcome = simulate("epoll_level", trace, costs, run, engine="reference")
    assert simulate("epoll_level", trace, costs, run, engine="fast").same_as(outcome)
    return outcome


def test_a_refused_client_doubles_its_pauses_up_to_their_bound() -> None:
    client = ClientSettings(retries=4, retry_pause_ns=1_000, retry_pause_max_ns=3_000)
    outcome = outcome_of(arrivals(10_000, 20_000, 20_001, 30_000), client)
    # Each attempt learns of its refusal when the interrupt is over (300), and pauses for 1000,
    # 2000, 3000 and 3000: it comes at 30000, 31300, 33600, 36900 and 40200.
    assert outcome.attempts.tolist() == [1, 1, 1, 5]
    assert outcome.intended_ns[3] == outcome.started_ns[3] == 30_000
    assert outcome.done_ns[3] == 40_500
    assert outcome.status[3] == Status.REFUSED
    assert outcome.counts[Count.RETRIES] == 4
    assert outcome.counts[Count.SYN_DROPS] == 5


def test_a_request_that_is_tried_again_takes_what_it_took() -> None:
    # Half of the requests take a millisecond, twice as long as clients wait: each of their
    # attempts fails, also where requests before had replies on another connection.
    law = Law("samples", samples_ns=(1_000, MILLISECOND_NS))
    trace = arrivals(*range(0, 400 * MILLISECOND_NS, 10 * MILLISECOND_NS), requests=3)
    run = RunSettings(
        **on_server(request_cpu_drawn=True),
        laws=Laws(request_cpu=law),
        client=ClientSettings(timeout_ns=MILLISECOND_NS // 2, retries=2, retry_pause_ns=1_000_000),
        duration_ns=SECOND_NS,
        sample_every_ns=0,
    )
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), run)
    n_replied = np.bincount(outcome.asked_on[outcome.reply_ns != NONE], minlength=len(trace))
    assert set(n_replied) == {0, 1, 2, 3}
    assert (outcome.attempts == np.where(n_replied == 3, 1, 3)).all()


def test_who_pauses_for_no_time_comes_a_nanosecond_later() -> None:
    outcome = outcome_of(arrivals(10_000, 20_000, 20_001, 30_000), ClientSettings(retries=2))
    assert outcome.done_ns[3] == 30_000 + 3 * 300 + 2
    assert outcome.attempts[3] == 3


def test_the_second_attempt_is_served_and_its_reply_is_for_the_first() -> None:
    client = ClientSettings(timeout_ns=1_500_000, retries=1, retry_pause_ns=500_000)
    # What came first keeps the server for a millisecond each.
    trace = arrivals(10_000, 20_000)
    outcome = outcome_of(trace, client, on_server(), ApplicationCosts(1_000_000))
    assert outcome.status.tolist() == [Status.REPLIED] * 2
    assert outcome.attempts.tolist() == [1, 2]
    # The reset comes at 1520000 while the server works for the first client. It reads the request
    # of the second nevertheless, and works in vain until its write fails; the second attempt comes
    # at 2020000 meanwhile.
    assert outcome.started_ns[1] == 20_000
    assert outcome.due_ns.tolist() == [10_000, 20_000]
    assert outcome.reply_ns.tolist() == outcome.done_ns.tolist()
    assert 3_020_000 < outcome.done_ns[1] < 3_030_000
    assert outcome.counts[[Count.REPLIES, Count.WRITE_FAILED]].tolist() == [2, 1]


def test_each_attempt_has_the_whole_time_out() -> None:
    client = ClientSettings(timeout_ns=100 * MILLISECOND_NS, retries=2, retry_pause_ns=7)
    outcome = outcome_of(arrivals(10_000, 20_000), client, on_server())
    assert outcome.status.tolist() == [Status.TIMEOUT] * 2
    assert (outcome.done_ns - outcome.intended_ns).tolist() == [300 * MILLISECOND_NS + 14] * 2


def test_a_user_of_a_closed_loop_goes_on_when_it_gives_up() -> None:
    trace = closed_loop(users=1, connections=2, think_ns=0)
    client = ClientSettings(timeout_ns=100 * MILLISECOND_NS, retries=1)
    outcome = outcome_of(trace, client, on_server())
    # A nanosecond, at least, after each of the two attempts that timed out.
    assert outcome.intended_ns.tolist() == [0, 200 * MILLISECOND_NS + 2]
    assert outcome.attempts.tolist() == [2, 2]


def test_an_attempt_that_is_to_come_leaves_its_connection_open() -> None:
    client = ClientSettings(timeout_ns=1_000, retries=1, retry_pause_ns=10 * SECOND_NS)
    outcome = outcome_of(arrivals(10_000), client)
    assert outcome.status.tolist() == [Status.OPEN]
    assert outcome.attempts.tolist() == [2]
    assert outcome.counts[Count.RETRIES] == 0


def test_a_budget_bounds_what_all_repeat() -> None:
    # Ten are refused. Thirteen begin, a fifth of a token each; every repetition takes one.
    client = ClientSettings(retries=1, retry_pause_ns=1_000, retry_budget_permille=200)
    trace = arrivals(10_000, 20_000, 20_001, *range(30_000, 40_000, 1_000))
    outcome = outcome_of(trace, client)
    assert outcome.counts[Count.RETRIES] == 2  # the second as the tenth begins
    assert outcome.attempts.tolist() == [1] * 4 + [2] + [1] * 4 + [2] + [1] * 3


def world_of(**client: int) -> World:
    settings = RunSettings(client=ClientSettings(**client))
    return prepare_world("poll", arrivals(*range(100)), toy_costs("poll"), settings)


def test_jitter_shortens_pauses_by_a_share_that_is_drawn_before_the_run() -> None:
    client = {"retries": 9, "retry_pause_ns": 1_000_000, "retry_jitter_permille": 500}
    world = world_of(**client)
    pauses = [pause_ns(world, c, 0) for c in range(1_000)]
    assert 500_000 <= min(pauses) < 510_000
    assert 990_000 < max(pauses) <= 1_000_000
    assert np.mean(pauses) == pytest.approx(750_000, rel=0.02)
    assert [pause_ns(world_of(**client), c, 0) for c in range(1_000)] == pauses
    assert max(world.retry_draws) < 1 << JITTER_BITS


def test_the_longest_pause_is_reached_and_not_passed() -> None:
    world = world_of(retries=30, retry_pause_ns=3, retry_pause_max_ns=PAUSE_MAX_NS)
    assert [pause_ns(world, 0, attempt) for attempt in (0, 1, 29)] == [3, 6, 3 << 29]
    world = world_of(
        retries=30,
        retry_pause_ns=PAUSE_MAX_NS - 1,
        retry_pause_max_ns=PAUSE_MAX_NS,
        retry_jitter_permille=1_000,
    )
    assert min(pause_ns(world, c, 29) for c in range(100)) >= 0
    assert max(pause_ns(world, c, 29) for c in range(100)) <= PAUSE_MAX_NS


def test_rows_of_attempts_become_connections() -> None:
    # Two connections of three attempts: the second was planned twice, of two requests each.
    intended_ns = np.array([5, -1, -1, 6, 9, -1])
    assert last_attempts(intended_ns, 3).tolist() == [0, 4]


@pytest.mark.parametrize(
    ("client", "rule"),
    [
        ({"retries": 31}, "retries must be at most 30, got 31"),
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"retry_jitter_permille": 1_001}, "retry_jitter_permille must be at most 1000"),
        ({"retry_pause_ns": PAUSE_MAX_NS + 1}, "retry_pause_ns must be at most"),
    ],
)
def test_what_no_client_does_is_refused(client: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        world_of(**client)


def test_a_client_that_is_simulated_itself_does_not_try_again() -> None:
    settings = RunSettings(client=ClientSettings(retries=1))
    with pytest.raises(ValueError, match="retries must be 0 with a client"):
        simulate(
            client_with("poll"), closed_loop(users=1, connections=1), toy_costs("poll"), settings
        )
