"""Servers that go through the signals that a call returned, and accept one connection for each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenes import Scene, comes_at, on_fast, on_reference
from tests.served import on_server
from tests.toy import SIGNALLED, arrivals, timeline

from dispatchsim.models.catalogue import CATALOGUE
from dispatchsim.models.suitable_settings import ignored_settings
from dispatchsim.sim.state.family_settings import Recovery
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings

AT_ONCE = arrivals(10_000, 10_000, 10_000, 10_000)


def activities(mechanism: str, **server: Any) -> list[str]:
    """Return what a server does with four connections that come in one softirq, in order."""
    settings = RunSettings(**on_server(**server), duration_ns=60_000, sample_every_ns=0)
    steps, outcome = timeline(mechanism, AT_ONCE, settings)
    assert (outcome.status == Status.REPLIED).all()
    return [what for _, _, what in steps if what in ("ACCEPT", "WRITE")]


def test_one_signal_is_one_connection_and_the_next_is_served_before_another_call() -> None:
    each = activities(
        "rt_signals", accept_each_signal=True, read_after_accept=True, remembers=False
    )
    assert each[1:] == ["ACCEPT", "WRITE"] * 4  # the first finds that nobody has come yet


def test_a_call_that_returns_many_has_as_many_accepted_and_no_more() -> None:
    two = {"max_events": 2, "read_after_accept": True, "remembers": False}
    each = activities("sigtimedwait4", accept_each_signal=True, **two)
    assert each[1:] == ["ACCEPT", "WRITE"] * 4
    drained = activities("sigtimedwait4", **two)
    assert drained.count("ACCEPT") > each.count("ACCEPT")  # looks again, in vain


def test_signals_stay_queued_so_that_a_limiter_can_see_them() -> None:
    # 60 connections, faster than they can be served: who drains the queue never calls again.
    counts = {}
    for each in (False, True):
        server = on_server(accept_each_signal=each, read_after_accept=True, max_events=23)
        run = RunSettings(**server, duration_ns=80_000, sample_every_ns=0)
        scene = Scene("sigtimedwait4", comes_at(*range(10_000, 70_000, 1_000)), run)
        outcome, _ = on_reference(scene)
        counts[each] = outcome.counts
    assert counts[True][Count.ASKS] > counts[False][Count.ASKS]
    assert counts[True][Count.NOTICES] > counts[False][Count.NOTICES]


@pytest.mark.parametrize("mechanism", SIGNALLED)
@pytest.mark.parametrize("recovery", [r for r in Recovery if r is not Recovery.NOTHING])
def test_connections_whose_signals_were_lost_are_accepted_all_the_same(
    mechanism: str, recovery: Recovery
) -> None:
    server = on_server(accept_each_signal=True, signal_queue=2, recovery=int(recovery))
    run = RunSettings(**server, duration_ns=3_000_000, sample_every_ns=0)
    outcome, _ = on_reference(Scene(mechanism, comes_at(*[10_000] * 30), run))
    assert (outcome.status == Status.REPLIED).all()


@given(
    st.sampled_from(["rt_signals", "sigtimedwait4", "signal_per_fd"]),
    st.lists(st.integers(0, 40), min_size=1, max_size=40),
    st.sampled_from([1, 3, 1024]),
    st.integers(0, 3),
    st.booleans(),
)
def test_engines_agree(
    mechanism: str, at: list[int], queue: int, accept_limit: int, reads: bool
) -> None:
    server = on_server(
        accept_each_signal=True,
        signal_queue=queue,
        accept_limit=accept_limit,
        read_after_accept=reads,
        backlog=3,
    )
    run = RunSettings(**server, duration_ns=400_000, sample_every_ns=0)
    scene = Scene(mechanism, comes_at(*(1_000 * tick for tick in at)), run)
    outcome, _ = on_reference(scene)
    assert outcome.same_as(on_fast(scene))


def test_servers_that_no_signal_tells_do_not_look_at_it() -> None:
    settings = RunSettings(**on_server(accept_each_signal=True))
    assert ignored_settings(CATALOGUE["poll"], settings) == ["accept_each_signal"]
    assert ignored_settings(CATALOGUE["rt_signals"], settings) == []


def test_after_a_drain_one_accept_a_signal_again() -> None:
    # Twelve come at once and overflow the queue; two later ones are accepted one by one, without a
    # look in vain: those before are of the recovery.
    late = arrivals(*[10_000] * 12, 5_000_000, 6_000_000)
    run = RunSettings(
        **on_server(signal_queue=3, accept_each_signal=True, remembers=False),
        duration_ns=10_000_000,
        sample_every_ns=0,
    )
    _, outcome = timeline("rt_signals", late, run)
    assert outcome.counts[[Count.OVERFLOWS, Count.REPLIES]].tolist() == [1, 14]
    assert outcome.counts[Count.ACCEPT_AGAIN] == 2
    assert outcome.counts[Count.NOTICES] == 2
