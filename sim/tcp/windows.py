"""Windows and acknowledgements: the part of a reply that may be in flight, and its ACKs.

    write() ─► send buffer ─► flight: as much as the window allows ─► client
                    ▲                                                    │ acknowledges every second
                    └─ next flight, of a window that has grown ◄─────────┘ segment

A reply that fits the window is sent at once, without waiting for acknowledgements. A longer reply
takes round trips: a window of ten segments doubles with each (slow start), up to the client's
receive window. Flights follow one another. In reality the acknowledgements of one flight start the
next while the first still arrives; the end is the same. A write that finds room in the window while
a flight is under way joins it.

The send buffer grows with the window: 45 KiB at first, then twice the window, each segment counted
with its headers. It grows when an acknowledgement finds the window not full. A write that begins an
sk_buff fills it, beyond the buffer's size. A descriptor is reported writable once a third of the
buffer is free. A server may fix the size (SO_SNDBUF).

A window shrinks when a segment is lost: to half after duplicate acknowledgements, to one segment
after a time-out. From half of its old size it grows by a segment a round trip. An idle window is
halved for each time-out without sending, down to its initial size.

Sources: RFC 6928 (ten segments), RFC 5681 (slow start; an acknowledgement for every second
segment), sections 3.1, 3.2 and 4.1 (a loss, idleness); Linux net/ipv4/tcp_output.c
tcp_write_xmit(), tcp_cwnd_restart() (tcp_slow_start_after_idle = 1), tcp_cong.c tcp_slow_start(),
tcp_reno_ssthresh(); of the send buffer tcp.c tcp_sendmsg_locked(), tcp_bound_to_half_wnd(),
tcp_input.c tcp_new_space(), tcp_sndbuf_expand(), include/net/sock.h __sk_stream_is_writeable().
Left out: memory that an sk_buff takes beside its data; that CUBIC, Linux's choice, falls by 0.3 and
not by half, and rises faster after that; that some of a flight is sent anew behind a time-out.

The server acknowledges a request at once, or with its reply:

    request ─► acknowledgement ─► reply              a connection's first, and after a late reply
    request ─► reply, which acknowledges it          after a reply within 40 ms of its request

A connection counts as interactive once a reply has left soon after its request: Linux then delays
acknowledgements for up to 40 ms, and the reply carries them. A server that takes longer, for lack
of CPU, sends one more packet for every request: overload increases itself. Left out:
acknowledgements by a timer, when the reply of such a connection, or the next part of a request, is
late. Sources: Linux net/ipv4/tcp_output.c tcp_event_data_sent(), tcp_input.c
tcp_event_data_recv(), __tcp_ack_snd_check(), tcp_timer.c tcp_delack_timer_handler();
include/net/tcp.h TCP_ATO_MIN.
"""

from __future__ import annotations

from ..clients.clients import reply_arrives
from ..clients.slow_clients import read_ns, room_of, taken_ns
from ..state.event_calendar import is_led, post, schedule
from ..state.kernel_settings import SEND_BUFFER_MAX
from ..state.kinds import IS_GONE, NONE, WRITABLE, occurrence, stage
from ..state.world import World
from ..wire.network import send_down, send_up
from ..wire.paths import BY_TIMER
from ..wire.retransmission import DELAYED_ACK_NS, data_retry_ns
from ..wire.way import SEGMENT_BYTES, n_segments_of


def request_price_ns(world: World, c: int) -> int:
    """Return the CPU time of handling a request of *c*, and its acknowledgement if it is sent."""
    costs = world.costs.interrupt
    return max(0, costs.data_ns - (costs.data_saved_ns if world.converses[c] else 0))


def request_came(world: World, c: int) -> None:
    """Note that a request of *c* is in its receive buffer."""
    world.asked_ns[c] = world.now_ns


def reply_leaves(world: World, c: int) -> None:
    """Record that a reply to *c*, or part of it, is sent; the first part sets its delay."""
    if world.asked_ns[c] != NONE:
        world.converses[c] = 1 if world.now_ns - world.asked_ns[c] < DELAYED_ACK_NS else 0
        world.asked_ns[c] = NONE


WINDOW_MAX = 1 << 20
"""Segments: more than any link here holds."""
_LEAST_HALF = 2  # segments


_SEGMENT_IN_BUFFER = 2_304
"""Bytes of a growing send buffer for a segment of the window, counted twice: 1460 and headers,
rounded up to a power of two, and an sk_buff (Linux net/ipv4/tcp_input.c tcp_sndbuf_expand())."""
_BUFFER_SEGMENTS_MIN = 10  # TCP_INIT_CWND
_CHUNK_SEGMENTS = 45  # in 64 KiB, the most of an sk_buff


def room_in_buffer(world: World, c: int) -> int:
    """Return how many bytes more the send buffer of *c* takes, or enough for its reply."""
    free = _buffer_bytes(world, c) - world.unacked[c]
    if free >= world.unsent[c] or not _grows(world):
        return free
    # The last sk_buff is begun if there is any room at all, and filled.
    chunk = _chunk_bytes(world)
    return (free + chunk - 1) // chunk * chunk if free > 0 else 0


def _grows(world: World) -> bool:
    """Return whether send buffers grow: no size was fixed, and there are windows to follow."""
    return world.limits.send_buffer_bytes == 0 and world.network.window_segments > 0


def _chunk_bytes(world: World) -> int:
    """Return the data of an sk_buff: whole segments, at most half of the client's window."""
    segments = _CHUNK_SEGMENTS
    if world.network.receive_window_bytes > 0:
        segments = min(segments, world.network.receive_window_bytes // 2 // SEGMENT_BYTES)
    return max(1, segments) * SEGMENT_BYTES


def _buffer_bytes(world: World, c: int) -> int:
    if not _grows(world):
        fixed = world.limits.send_buffer_bytes
        return fixed if fixed > 0 else SEND_BUFFER_MAX
    segments = max(_BUFFER_SEGMENTS_MIN, world.network.window_segments, world.buffer_segments[c])
    return min(SEND_BUFFER_MAX, 2 * segments * _SEGMENT_IN_BUFFER)


def _grow_buffer(world: World, c: int) -> None:
    """Let the send buffer of *c* follow its window, unless what is under way fills the window."""
    if world.under_way[c] < _window_bytes(world, c):
        world.buffer_segments[c] = max(world.buffer_segments[c], _window(world, c))


def _reports_room(world: World, c: int) -> bool:
    """Return whether the kernel reports *c* writable: a third of its send buffer is free."""
    return 2 * (_buffer_bytes(world, c) - world.unacked[c]) >= world.unacked[c]


def goes_in_flights(world: World, c: int, n_bytes: int) -> bool:
    """Return whether *n_bytes* more on *c* exceed the window."""
    if world.network.window_segments == 0:
        return False
    if world.window_grown[c] > 0 and world.unacked[c] == 0:
        _fall_with_idleness(world, c)
    return world.unacked[c] > 0 or world.unsent[c] + n_bytes > _window_bytes(world, c)


def _window(world: World, c: int) -> int:
    return world.network.window_segments + world.window_grown[c]


def _window_bytes(world: World, c: int) -> int:
    n_bytes = _window(world, c) * SEGMENT_BYTES
    if world.network.receive_window_bytes > 0:
        return min(n_bytes, world.network.receive_window_bytes)
    return n_bytes


def buffered(world: World, c: int, n_bytes: int) -> None:
    """Note *n_bytes* more in the send buffer of *c*, or less; a client's reset has emptied it."""
    world.unacked[c] += n_bytes
    if world.ended[c] != IS_GONE:
        world.n_unacked += n_bytes


def put_in_buffer(world: World, c: int, n_bytes: int) -> None:
    """Put *n_bytes* of the reply of *c* behind what its send buffer holds, and send what may be."""
    buffered(world, c, n_bytes)
    if world.joined[c] == 0:
        _send_more(world, c)


def _send_more(world: World, c: int) -> None:
    """Send as much of the buffer of *c* as its window allows; the last of it ends the reply.

    It is a flight of its own, or joins the one that is under way.
    """
    under_way = world.under_way[c]
    n_bytes = min(world.unacked[c], _window_bytes(world, c)) - under_way
    if n_bytes <= 0 or world.ended[c] == IS_GONE:
        return
    room = room_of(world, c, n_bytes)
    if room == 0 and under_way > 0:
        return
    # Without room they go all, and wait.
    n_bytes = room if room > 0 else n_bytes
    at_client_ns = reply_at_client_ns(world, c, n_bytes)
    if under_way > 0:
        world.joined[c] = n_bytes
        at_client_ns = max(at_client_ns, world.all_there_ns[c])
    world.under_way[c] += n_bytes
    world.all_there_ns[c] = at_client_ns
    acked_ns = taken_ns(world, c, n_bytes, at_client_ns)
    schedule(world, send_up(world, c, acked_ns, 0), occurrence.ACKED, c)
    if world.under_way[c] == world.unacked[c] and world.unsent[c] == 0:
        reply_ends(world, c, at_client_ns)


def acked_handled(world: World, c: int) -> None:
    """Empty the send buffer of *c*, as its client has acknowledged all that it was sent."""
    if world.under_way[c] > 0:
        _flight_acked(world, c)
    else:
        # All that was sent before is acknowledged: the wire keeps order, and a server that waits
        # for room has filled the buffer in one go.
        buffered(world, c, -world.unacked[c])
    if world.stage[c] == stage.ACCEPTED and world.unsent[c] > 0:
        _grow_buffer(world, c)
        if _reports_room(world, c):
            post(world, world.fd_of[c], WRITABLE)


def _flight_acked(world: World, c: int) -> None:
    """Take a flight off the send buffer of *c*; the window grows, more may follow."""
    n_bytes = world.under_way[c] - world.joined[c]
    n_segments = n_segments_of(n_bytes)
    window = _window(world, c)
    most = WINDOW_MAX if world.slow_until[c] == 0 else max(world.slow_until[c], window + 1)
    world.window_grown[c] = min(window + n_segments, most) - world.network.window_segments
    buffered(world, c, -n_bytes)
    world.under_way[c] = world.joined[c]
    world.joined[c] = 0
    _send_more(world, c)


def _fall_with_idleness(world: World, c: int) -> None:
    """Halve the window of *c* for each time-out that its server has sent nothing."""
    time_out_ns = data_retry_ns(world, c, 0)
    idle_ns = world.now_ns - world.sent_ns[c] - time_out_ns
    while idle_ns > 0 and world.window_grown[c] > 0:
        least = world.network.window_segments
        world.window_grown[c] = max(least, _window(world, c) // 2) - least
        idle_ns -= time_out_ns


def _fall_with_loss(world: World, c: int) -> None:
    """Shrink the window of *c* after the loss of a segment that was just sent."""
    half = max(_LEAST_HALF, _window(world, c) // 2)
    world.slow_until[c] = half
    left = 1 if world.lost_by == BY_TIMER else half
    world.window_grown[c] = left - world.network.window_segments


def acknowledging_ns(world: World, c: int) -> int:
    """Return the CPU time of the acknowledgements of the flight to *c*."""
    costs = world.costs.interrupt
    n_more = max(0, n_segments_of(world.under_way[c] - world.joined[c]) // 2 - 1)
    return costs.ack_ns + n_more * costs.acked_ns


def reply_at_client_ns(world: World, c: int, n_bytes: int) -> int:
    """Send *n_bytes* of a reply now; return when they are all at the client of *c*."""
    at_client_ns = send_down(world, c, world.now_ns, n_bytes)
    if world.n_paths > 0:
        # Where the SYN-ACK was lost, what was sent behind it waits for it.
        at_client_ns = max(at_client_ns, world.connected_ns[c])
    if world.network.window_segments > 0:
        world.sent_ns[c] = world.now_ns
        if world.lost_by > 0:
            _fall_with_loss(world, c)
    return at_client_ns


def reply_ends(world: World, c: int, at_client_ns: int) -> None:
    """Have the client of *c* take its whole reply at *at_client_ns*, or when it reads on."""
    if world.free_clients and not is_led(world, c):
        reply_arrives(world, c, at_client_ns)
    else:
        schedule(world, read_ns(world, c, at_client_ns), occurrence.REPLY, c)
