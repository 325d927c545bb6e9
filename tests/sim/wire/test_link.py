"""How busy a link of finite bandwidth is, by hand, on both engines."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.state.client_settings import NetworkSettings
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS

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
