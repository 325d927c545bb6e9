"""How long replies take that do not fit a window, and what their acknowledgements cost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.kinds import Activity
from dispatchsim.sim.outcome import Outcome
from dispatchsim.sim.settings import NetworkSettings, RunSettings, ServerSettings

WRITTEN_NS = 29_440
"""When the reply of a connection of 10000 is in the send buffer, 5000 from its client."""


def sent(reply_bytes: int, send_buffer_bytes: int = 10**6, **network: Any) -> Outcome:
    """Return what becomes of one reply; both engines agree."""
    trace = arrivals(10_000, reply_bytes=reply_bytes)
    run = RunSettings(
        server=ServerSettings(send_buffer_bytes=send_buffer_bytes),
        network=NetworkSettings(5_000, **network),
        duration_ns=200_000,
        sample_every_ns=0,
    )
    _, outcome = timeline("epoll_level", trace, run)
    fast = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")
    assert fast.same_as(outcome)
    return outcome


@pytest.mark.parametrize(
    ("reply_bytes", "round_trips"),
    [(1_448, 0), (1_449, 1), (3 * 1_448, 1), (3 * 1_448 + 1, 2), (5_000, 2), (7 * 1_448 + 1, 3)],
)
def test_a_window_of_one_segment_doubles_with_each_round_trip(
    reply_bytes: int, round_trips: int
) -> None:
    outcome = sent(reply_bytes, window_segments=1)
    assert outcome.done_ns.tolist() == [WRITTEN_NS + 5_000 + round_trips * 10_000]
    assert sent(reply_bytes).done_ns.tolist() == [WRITTEN_NS + 5_000]


def test_a_receive_window_bounds_what_may_be_under_way() -> None:
    # Segments of 1448: one, two, and then 3000 bytes each time: 4344, 7344, 10344.
    outcome = sent(10_345, window_segments=1, receive_window_bytes=3_000)
    assert outcome.done_ns.tolist() == [WRITTEN_NS + 5_000 + 4 * 10_000]


def test_every_second_segment_is_acknowledged_at_a_price() -> None:
    # Flights of 10, 20 and 40 segments: 5, 10 and 20 acknowledgements, 50 of the first of each and
    # 35 of the others; each flight's come together, to an idle CPU (100), but those of the last
    # come with the reset, which has paid for that without windows, too.
    plain, windowed = sent(100_000), sent(100_000, window_segments=10)
    assert windowed.done_ns[0] - plain.done_ns[0] == 20_000
    more_ns = windowed.ledger_ns - plain.ledger_ns
    assert more_ns[Activity.INTERRUPT_IDLE] == 2 * 100 + 3 * 50 + (4 + 9 + 19) * 35
    assert more_ns[Activity.WRITE] == 0


def test_a_short_write_goes_on_when_a_flight_was_acknowledged() -> None:
    outcome = sent(5_000, send_buffer_bytes=2_000, window_segments=1)
    # 1448 are under way, 552 wait in the buffer. Their acknowledgement at 39440 lets these go, and
    # the server write 1448 more, and so on: all 5000 take at least three round trips.
    assert outcome.done_ns[0] > WRITTEN_NS + 5_000 + 2 * 10_000
    assert outcome.status.tolist() == [0]
