"""Timers that count ticks, beside the kernel's arithmetic and in a run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.wire.retransmission import goes_off_ns

TICK_NS = 4 * MILLISECOND_NS
LEVEL_ENDS = (63, 504, 4_032, 32_256, 258_048, 2_064_384)  # LVL_START(1) ... of 64 buckets a level


@given(now=st.integers(0, 10**12), after=st.integers(0, 3_000 * SECOND_NS))
def test_a_timer_goes_off_when_the_kernel_says(now: int, after: int) -> None:
    expires = now // TICK_NS + -(-after // TICK_NS)
    delta = expires - now // TICK_NS
    level = sum(delta >= end for end in LEVEL_ENDS)
    bucket = (expires >> 3 * level) + 1  # calc_index()
    tick_of = (bucket << 3 * level) * TICK_NS
    goes_off = goes_off_ns(now, after, TICK_NS)
    assert goes_off == tick_of + (tick_of - now) // 65_536
    assert goes_off >= now + after
    assert goes_off_ns(now, after, 0) == now + after


def test_syns_lost_at_different_times_are_repeated_at_once() -> None:
    """One is served for an hour, two wait; five more come within 8 ms, one after 32 ms."""
    lost_ms = (30, 31, 33, 35, 37, 70)
    trace = arrivals(*(i * 10 * MILLISECOND_NS for i in range(3)), *(ms * 10**6 for ms in lost_ms))

    def dropped_by(at_ns: int, tick_ns: int) -> int:
        outcome = simulate(
            "epoll_level",
            trace,
            toy_costs("epoll_level", application=ApplicationCosts(3600 * SECOND_NS)),
            RunSettings(
                **on_server(backlog=1, accept_limit=1, read_after_accept=True),
                network=NetworkSettings(timer_tick_ns=tick_ns),
                duration_ns=at_ns,
                sample_every_ns=0,
            ),
            engine="reference",
        )
        return int(outcome.counts[Count.SYN_DROPS])

    # A second is 250 ticks, in steps of 8. Those of ticks 7 to 9 expire at 257 to 259 and go off at
    # 264; the one of tick 17 expires at 267 and goes off at 272.
    # The last of them goes first: it has waited 1,019 ms, which is 15,548 times 65,536 ns.
    burst_ns, last_ns = 264 * TICK_NS + 15_548, 272 * TICK_NS
    assert [dropped_by(ns, TICK_NS) for ns in (burst_ns - 1, burst_ns)] == [6, 7]
    assert [dropped_by(ns, TICK_NS) for ns in (burst_ns + 200, last_ns)] == [11, 11]
    assert dropped_by(last_ns + 20_000, TICK_NS) == 12
    assert [dropped_by(1_000_000_000 + ms * 10**6, 0) for ms in lost_ms] == [7, 8, 9, 10, 11, 12]


def test_a_tick_is_not_negative() -> None:
    settings = RunSettings(network=NetworkSettings(timer_tick_ns=-1))
    with pytest.raises(ValueError, match="timer_tick_ns must be at least 0, got -1"):
        simulate("epoll_level", arrivals(0), toy_costs("epoll_level"), settings)
