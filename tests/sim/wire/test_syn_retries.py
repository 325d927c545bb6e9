"""SYNs without an answer: when they are repeated, and when connect() fails (ETIMEDOUT)."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import Engine, simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace, closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import NONE, Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS

DELAY_NS = 3 * MILLISECOND_NS
LATE_NS = 30 * MILLISECOND_NS
FULL = on_server(backlog=1, accept_limit=1, read_after_accept=True)
SYNS_S = {0: (0, 1, 3, 7, 15, 31, 63), 4: (0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67)}
FAILS_S = {0: 127, 4: 131}


def crowded(
    duration_ns: int,
    linear: int = 0,
    *,
    trace: Trace | None = None,
    delay_ns: int = DELAY_NS,
    engine: Engine = "reference",
    first_s: int = 1,
) -> Outcome:
    """Let one be served for an hour and two wait: whoever comes later finds the queue full."""
    return simulate(
        "epoll_level",
        trace or arrivals(*(i * 10 * MILLISECOND_NS for i in range(3)), LATE_NS),
        toy_costs("epoll_level", application=ApplicationCosts(3600 * SECOND_NS)),
        RunSettings(
            **FULL,
            network=NetworkSettings(delay_ns=delay_ns),
            client=ClientSettings(linear_syn_timeouts=linear, syn_timeout_ns=first_s * SECOND_NS),
            duration_ns=duration_ns,
            sample_every_ns=0,
        ),
        engine=engine,
    )


@pytest.mark.parametrize("linear", SYNS_S)
def test_syns_are_repeated_when_linux_repeats_them(linear: int) -> None:
    # As captured on Linux 6.12 with 4: 5 gaps of 1 s, then 2, 4, 8, 16 and 32 s.
    for n_before, second in enumerate(SYNS_S[linear]):
        at_ns = LATE_NS + second * SECOND_NS + DELAY_NS
        assert crowded(at_ns - 1, linear).counts[Count.SYN_DROPS] == n_before
        assert crowded(at_ns, linear).counts[Count.SYN_DROPS] == n_before + 1


def test_kernels_before_2011_wait_three_seconds_at_first() -> None:
    for n_before, second in enumerate((0, 3, 9, 21)):
        at_ns = LATE_NS + second * SECOND_NS + DELAY_NS
        assert crowded(at_ns - 1, first_s=3).counts[Count.SYN_DROPS] == n_before
        assert crowded(at_ns, first_s=3).counts[Count.SYN_DROPS] == n_before + 1
    trace = closed_loop(users=6, connections=60, think_ns=SECOND_NS)
    reference, fast = (
        crowded(100 * SECOND_NS, trace=trace, delay_ns=0, engine=engine, first_s=3)
        for engine in ("reference", "fast")
    )
    assert reference.same_as(fast)


@pytest.mark.parametrize("linear", SYNS_S)
def test_connect_fails_after_the_last_time_out(linear: int) -> None:
    fails_ns = LATE_NS + FAILS_S[linear] * SECOND_NS
    before, after = crowded(fails_ns - 1, linear), crowded(200 * SECOND_NS, linear)
    assert (before.status[3], before.done_ns[3]) == (Status.OPEN, NONE)
    assert (after.status[3], after.done_ns[3]) == (Status.DROPPED, fails_ns)
    assert after.connected_ns[3] == NONE
    assert after.counts[Count.SYN_DROPS] == len(SYNS_S[linear])


@pytest.mark.parametrize("linear", SYNS_S)
def test_both_engines_give_up_at_once(linear: int) -> None:
    trace = closed_loop(users=6, connections=60, think_ns=SECOND_NS)
    reference, fast = (
        crowded(500 * SECOND_NS, linear, trace=trace, delay_ns=0, engine=engine)
        for engine in ("reference", "fast")
    )
    assert (reference.status == Status.DROPPED).sum() > 6
    assert reference.same_as(fast)


def test_a_user_of_a_closed_loop_comes_again() -> None:
    outcome = crowded(400 * SECOND_NS, trace=closed_loop(users=4, connections=9), delay_ns=0)
    dropped = outcome.status == Status.DROPPED
    begun_ns, ended_ns = outcome.intended_ns[dropped], outcome.done_ns[dropped]
    assert (ended_ns - begun_ns).tolist() == [127 * SECOND_NS] * 3
    # Without a pause, but not within the same nanosecond.
    assert begun_ns[1:].tolist() == (ended_ns[:-1] + 1).tolist()
    assert outcome.status[-1] == Status.OPEN


def test_an_idle_client_tries_again() -> None:
    # Eight whose SYNs meet under way are all let in, and keep the server above its bound.
    settings = RunSettings(
        **on_server(drop_above=2),
        network=NetworkSettings(delay_ns=DELAY_NS),
        client=ClientSettings(idle=1, idle_life_ns=SECOND_NS),
        duration_ns=400 * SECOND_NS,
        sample_every_ns=0,
    )
    trace = arrivals(*[0] * 8, requests=2, think_ns=3600 * SECOND_NS)
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), settings)
    # Three times 127 s and a life of some seconds, each with all its SYNs.
    assert 3 * 7 <= outcome.counts[Count.SYN_DROPS] <= 4 * 7
    assert outcome.counts[Count.CONNECTIONS_OPEN] == 8


def test_more_linear_time_outs_than_can_be_counted_are_refused() -> None:
    with pytest.raises(ValueError, match="linear_syn_timeouts must be at most 100, got 101"):
        crowded(SECOND_NS, 101)
