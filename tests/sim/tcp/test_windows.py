"""How long replies take that do not fit a window, and what their acknowledgements cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import NetworkSettings, PathSettings
from dispatchsim.sim.state.kinds import WRITABLE, Activity, count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.tcp.windows import acked_handled
from dispatchsim.validation.rules.bench import Bench

WRITTEN_NS = 29_440
"""When the reply of a connection of 10000 is in the send buffer, 5000 from its client."""


def run_of(trace: Trace, network: NetworkSettings, duration_ns: int) -> Outcome:
    """Return the outcome that both engines agree on."""
    run = RunSettings(network=network, duration_ns=duration_ns, sample_every_ns=0)
    _, outcome = timeline("epoll_level", trace, run)
    fast = simulate("epoll_level", trace, toy_costs("epoll_level"), run, engine="fast")
    assert fast.same_as(outcome)
    return outcome


def sent(reply_bytes: int, send_buffer_bytes: int = 10**6, **network: Any) -> Outcome:
    """Return what becomes of one reply; both engines agree."""
    trace = arrivals(10_000, reply_bytes=reply_bytes)
    run = RunSettings(
        **on_server(send_buffer_bytes=send_buffer_bytes),
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


@pytest.mark.parametrize(
    ("think_ns", "round_trips"),
    [(100_000, 0), (199_000_000, 0), (201_000_000, 1), (500_000_000, 2)],
)
def test_idleness_halves_a_window_for_each_time_out(think_ns: int, round_trips: int) -> None:
    # The first reply has let the window grow from one segment to five; four are enough. The
    # time-out is 200 ms and a round trip of 10 us.
    took_ns = []
    for window in (1, 0):
        trace = arrivals(10_000, requests=2, reply_bytes=5_000, think_ns=think_ns)
        outcome = run_of(trace, NetworkSettings(5_000, window_segments=window), 10**9)
        took_ns.append((outcome.reply_ns - outcome.due_ns).tolist())
    assert took_ns[0][0] - took_ns[1][0] == 2 * 10_000
    assert took_ns[0][1] - took_ns[1][1] == round_trips * 10_000


@pytest.mark.parametrize(
    ("lost", "later_ns"),
    [
        # Eight segments in flights of 4 and 4; then twelve may be under way. The second request
        # comes with the acknowledgements of the last flight: 50, and 35 for a further one.
        ((), (20_000_000, 50 + 35)),
        # The first of four is lost: a round trip. The window falls to 2 and grows by one a flight:
        # 4, 3 and 1; then 5 and 3.
        ((5,), (60_000_000, 20_000_000 + 50)),
        # The last of four is: a time-out. From one segment it is at once back to half: 4, 2 and 2;
        # then 4 and 4.
        ((8,), (260_000_000, 20_000_000 + 50)),
    ],
)
def test_a_loss_takes_from_the_window(
    monkeypatch: pytest.MonkeyPatch, lost: tuple[int, ...], later_ns: tuple[int, int]
) -> None:
    # Draws: 1 to 4 for the packets of the client and the SYN-ACK, from 5 on for the reply.
    draws = np.full(256, 999_999, np.int64)
    draws[[*lost]] = 0
    monkeypatch.setattr("dispatchsim.sim.assembly.build.loss_draws", lambda *_: draws)
    path = PathSettings(1_000, 10_000_000, loss_millionths=1)
    trace = arrivals(10_000, requests=2, reply_bytes=8 * 1_448)
    took_ns = [
        outcome.reply_ns - outcome.due_ns
        for network in (
            NetworkSettings(window_segments=4, paths=(path,)),
            NetworkSettings(paths=(path._replace(loss_millionths=0),)),
        )
        for outcome in [run_of(trace, network, 10**9)]
    ]
    assert (took_ns[0] - took_ns[1]).tolist() == [*later_ns]


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


CHUNK = 22 * 1_448
"""An sk_buff of whole segments, at most half of a client's window of 64256 bytes."""


def test_a_growing_send_buffer_takes_whole_chunks_and_reports_room_once_it_has_grown() -> None:
    network = NetworkSettings(5_000, window_segments=10, receive_window_bytes=64_256)
    bench = Bench(reply_bytes=65_536, network=network)
    fd, world = bench.accepted(), bench.world
    c = world.connection_of[fd]
    bench.request()
    bench.read(fd)
    # 2 x 10 x 2304 = 46080 bytes: one chunk leaves room, two do not.
    assert bench.write(fd) == 2 * CHUNK
    assert world.under_way[c] == 10 * 1_448
    # After 10 segments 20 more leave, a full window: the buffer stays as it is.
    acked_handled(world, c)
    assert world.under_way[c] == 20 * 1_448
    assert not world.state[fd] & WRITABLE
    # After 20 more the rest leaves, and a window of 40 is not full: 2 x 40 x 2304 bytes.
    acked_handled(world, c)
    rest = 2 * CHUNK - 30 * 1_448
    assert world.under_way[c] == rest
    assert world.state[fd] & WRITABLE
    # The rest of the reply fits the window, and joins what is under way.
    assert bench.write(fd) == 65_536 - 2 * CHUNK
    assert world.under_way[c] == rest + 65_536 - 2 * CHUNK
    acked_handled(world, c)
    assert world.under_way[c] == 65_536 - 2 * CHUNK
    acked_handled(world, c)
    assert world.unacked[c] == 0


@pytest.mark.parametrize(
    ("reply_bytes", "n_writes"),
    [(46_080, 1), (2 * CHUNK, 1), (2 * CHUNK + 1, 2), (4 * CHUNK, 2)],
)
def test_a_long_reply_takes_few_writes_as_its_buffer_grows(reply_bytes: int, n_writes: int) -> None:
    outcome = sent(
        reply_bytes, send_buffer_bytes=0, window_segments=10, receive_window_bytes=64_256
    )
    assert outcome.counts[count.WRITES] == n_writes
    assert outcome.counts[count.WRITE_SHORT] == n_writes - 1
    assert outcome.status.tolist() == [0]


def test_without_windows_a_growing_buffer_is_as_large_as_it_gets() -> None:
    assert sent(4_194_304, send_buffer_bytes=0).counts[count.WRITES] == 1
    assert sent(4_194_305, send_buffer_bytes=0).counts[count.WRITES] == 2


def test_a_fixed_buffer_reports_room_once_a_third_of_it_is_free() -> None:
    network = NetworkSettings(5_000, window_segments=1)
    bench = Bench(reply_bytes=60_000, network=network, send_buffer_bytes=30_000)
    fd, world = bench.accepted(), bench.world
    c = world.connection_of[fd]
    bench.request()
    bench.read(fd)
    assert bench.write(fd) == 30_000
    # Flights of 1, 2 and 4 segments: 20000 bytes may be left, and 19864 are.
    n_left = []
    while not world.state[fd] & WRITABLE:
        acked_handled(world, c)
        n_left.append(world.unacked[c])
    assert n_left == [28_552, 25_656, 19_864]
