"""How busy a link of finite bandwidth is, by hand, and which message waits for which."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import prepare_world, program_of, simulate
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.state.world import World
from dispatchsim.sim.wire.link import DOWN, PERIODS, UP, free_from_ns, leaves_ns

BYTE_NS = 80
"""Of 100 Mbit/s."""
REQUEST_BYTES, REPLY_BYTES, FRAME_BYTES = 64, 3_000, 90


@pytest.mark.parametrize("engine", ["reference", "fast"])
def test_messages_take_the_link_as_long_as_their_bytes_do(
    engine: Literal["reference", "fast"],
) -> None:
    network = NetworkSettings(up_bits_per_s=100_000_000, down_bits_per_s=100_000_000)
    run = RunSettings(network=network, duration_ns=10 * MILLISECOND_NS)
    trace = arrivals(0, MILLISECOND_NS, reply_bytes=REPLY_BYTES)
    outcome = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine=engine)
    assert outcome.counts[Count.REPLIES] == 2
    # Up: SYN, last packet of the handshake, request, reset.
    up_bytes = 4 * FRAME_BYTES + REQUEST_BYTES
    # Down: SYN-ACK, a reply of three segments.
    down_bytes = FRAME_BYTES + REPLY_BYTES + 3 * FRAME_BYTES
    assert outcome.counts[Count.LINK_UP_NS] == 2 * up_bytes * BYTE_NS
    assert outcome.counts[Count.LINK_DOWN_NS] == 2 * down_bytes * BYTE_NS
    assert summarise(outcome).link_busy == 2 * down_bytes * BYTE_NS / run.duration_ns


def test_a_link_without_a_bandwidth_is_never_busy_and_none_is_busier_than_always() -> None:
    trace = arrivals(0, reply_bytes=1_000_000)
    costs = toy_costs("epoll_level")
    free = simulate("epoll_level", trace, costs, RunSettings(duration_ns=10 * MILLISECOND_NS))
    assert summarise(free).link_busy == 0
    # A megabyte takes 80 ms.
    slow = RunSettings(
        network=NetworkSettings(down_bits_per_s=100_000_000), duration_ns=10 * MILLISECOND_NS
    )
    assert summarise(simulate("epoll_level", trace, costs, slow)).link_busy == 1


def test_what_is_planned_ahead_delays_nothing_that_is_sent_before() -> None:
    # Clients 20 ms away: each packet of theirs is planned 20 ms before it is sent. Of three
    # requests the first takes two round trips, the others one.
    delay_ns = 20 * MILLISECOND_NS
    bounded = NetworkSettings(
        delay_ns, up_bits_per_s=10_000_000_000, down_bits_per_s=10_000_000_000
    )
    trace = arrivals(*range(0, SECOND_NS, 5 * MILLISECOND_NS), requests=3)
    costs = toy_costs("epoll_level")

    def reply_ns(network: NetworkSettings) -> NDArray[np.int64]:
        run = RunSettings(network=network, duration_ns=2 * SECOND_NS)
        outcome = simulate("epoll_level", trace, costs, run)
        assert simulate("epoll_level", trace, costs, run, engine="fast").same_as(outcome)
        return outcome.reply_ns - outcome.due_ns

    later_ns = reply_ns(bounded) - reply_ns(NetworkSettings(delay_ns))
    # At most five packets with 64 and 128 bytes of payload, of 0.8 ns a byte; and nobody waits
    # longer than for one of another connection at each.
    assert (later_ns >= 0).all()
    assert later_ns.max() > 0
    assert (later_ns <= 2 * 5 * (FRAME_BYTES + 128) * 8 // 10).all()


Messages = list[tuple[int, int, int]]
"""How much later each is planned than the one before, how far ahead, and how long it takes."""


@st.composite
def messages(draw: st.DrawFn) -> Messages:
    later, ahead = st.integers(0, 40), st.sampled_from([0, 0, 3, 100, 101, 150])
    return draw(st.lists(st.tuples(later, ahead, st.integers(1, 30)), max_size=60))


@settings(max_examples=300, deadline=None)
@given(planned=messages())
def test_each_message_has_the_first_gap_that_is_long_enough(planned: Messages) -> None:
    world = empty_world()
    busy: list[tuple[int, int]] = []  # all that there ever was: nothing is forgotten, or merged
    for later, ahead, takes in planned:
        world.now_ns += later
        at = world.now_ns + ahead
        begins = [at, *(end for _, end in busy if end > at)]
        begin = min(b for b in begins if all(end <= b or first >= b + takes for first, end in busy))
        busy.append((begin, begin + takes))
        assert leaves_ns(world, DOWN, at, takes) == begin + takes
        assert world.n_busy[UP] == 0
        probe = world.now_ns + 50
        ends = [end for first, end in busy if first <= probe < end]
        # Without a bound nothing is carried one by one, and behind one message is behind all.
        assert (free_from_ns(world, DOWN, probe) > probe) == bool(ends)


@settings(max_examples=100, deadline=None)
@given(planned=messages())
def test_with_too_many_periods_gaps_count_as_busy(planned: Messages) -> None:
    world = empty_world(periods=4)
    for later, ahead, takes in planned:
        world.now_ns += later
        at = world.now_ns + ahead
        assert leaves_ns(world, UP, at, takes) >= at + takes
        n, first = world.n_busy[UP], world.first_busy[UP]
        places = [(first + i) % 4 for i in range(n)]
        ends = [each for p in places for each in (world.busy_begin_ns[p], world.busy_end_ns[p])]
        assert n <= 4
        assert ends == sorted(ends)


def empty_world(periods: int = PERIODS) -> World:
    """Return a world in which nothing was sent, with room for so many busy periods."""
    run = RunSettings(network=NetworkSettings(down_bits_per_s=1_000))
    costs = toy_costs("epoll_level")
    world = prepare_world(program_of("epoll_level"), arrivals(0), costs, run)
    world.busy_begin_ns, world.busy_end_ns = [0] * (2 * periods), [0] * (2 * periods)
    return world
