"""Retransmission of lost packets: a SYN by its client's timer, all others by TCP's timers.

    SYN-ACK        1 s, then twice as long each time: after 1, 3, 7, 15 and 31 s, by the server's
                   timer of a half-open connection (sim/tcp/handshake.py); a cookie's never
    SYN            1 s (five times in Linux since 6.5), then twice as long each time;
                   3 s first until RFC 6298 of 2011 (ClientSettings.syn_timeout_ns)
    data, FIN      the round trip and 200 ms, as long again (the first is a probe of Linux since
                   3.10, after which its time-out begins), then twice as long each time, up to two
                   minutes; after 15 times TCP gives up
    a reset        never: it has no acknowledgement

The round trip has been measured by the handshake, and hardly varies: what is added to it is at its
least. Wires that are busy do not lengthen it here.

A kernel's timer goes off at a tick, and the later it is due the coarser:

    due after    63    504   4,032   32,256 ticks
    level     0     1      2       3         4
    in steps  1     8     64     512     4,096 ticks     always the next step, never before its time

All SYNs lost within 8 ticks are resent at one instant, newest first: 1 s is 250 ticks of a kernel
with 250 Hz, and fires in steps of 32 ms. An overflowed queue gets them all at once, so a client
that has waited long finds the queue full again. A few microseconds per timer keep that order, less
than the kernel takes to send the packets.

Sources: RFC 6298; RFC 8985 (tail loss probe); Linux include/net/tcp.h (TCP_RTO_MIN,
TCP_TIMEOUT_INIT, __tcp_set_rto()); net/ipv4/tcp_input.c tcp_rtt_estimator() (rttvar is at least
TCP_RTO_MIN); net/ipv4/tcp_timer.c, tcp_output.c tcp_schedule_loss_probe(); kernel/time/timer.c
calc_index(), calc_wheel_index(), "The granularity of the wheel", enqueue_timer() (a timer goes to
the head of its list), expire_timers().
"""

from __future__ import annotations

from ..state.client_settings import Closing
from ..state.event_calendar import is_led, schedule
from ..state.kinds import NONE, RESET_LOST, occurrence, stage
from ..state.units import MILLISECOND_NS, SECOND_NS
from ..state.world import World
from .way import round_trip_ns

DELAYED_ACK_NS = 40 * MILLISECOND_NS
"""Delay of a delayed acknowledgement. A side that sends data sooner counts as interactive."""

_LEVEL_BITS = 3
_FIRST_LEVEL_END = 63
_ORDER_BITS = 16  # timers set 66 us apart go off a nanosecond apart


def goes_off_ns(now_ns: int, after_ns: int, tick_ns: int) -> int:
    """Return when a timer goes off that is set at *now_ns* for *after_ns*; without ticks (0) then.

    >>> goes_off_ns(0, 1_000_000_000, 4_000_000)
    1024015625
    >>> goes_off_ns(5_000_000, 8_000_000, 4_000_000)
    16000167
    """
    if tick_ns == 0:
        return now_ns + after_ns
    n_ticks = (after_ns + tick_ns - 1) // tick_ns
    shift = 0
    while n_ticks >= _FIRST_LEVEL_END << shift:
        shift += _LEVEL_BITS
    step = ((now_ns // tick_ns + n_ticks) >> shift) + 1
    at_ns = (step << shift) * tick_ns
    return at_ns + ((at_ns - now_ns) >> _ORDER_BITS)


SYN_RETRIES_MAX = 6
"""Linux net.ipv4.tcp_syn_retries, besides those of linear time-outs."""
DATA_RETRY_NS = 200 * MILLISECOND_NS
"""Retransmission time-out of data, less the round trip: Linux TCP_RTO_MIN."""
DATA_RETRIES_MAX = 15
"""Linux net.ipv4.tcp_retries2. Left out: the error that the sender's program has then."""
RETRY_MAX_NS = 120 * SECOND_NS
"""No time-out is longer: Linux TCP_RTO_MAX."""


def data_retry_ns(world: World, c: int, tries: int) -> int:
    """Return the time-out of a sender of data on *c* after *tries* transmissions."""
    first_ns = DATA_RETRY_NS + round_trip_ns(world, c)
    return min(RETRY_MAX_NS, first_ns << max(0, tries - 1))


def syn_retry_ns(world: World, tries: int) -> int:
    """Return the time-out of a client's SYN after *tries* transmissions."""
    doublings = max(0, tries - world.client.linear_syn_timeouts)
    return min(RETRY_MAX_NS, world.client.syn_timeout_ns << doublings)


def syn_ack_retry_ns(world: World, tries: int) -> int:
    """Return the time-out of a server's SYN-ACK after *tries* transmissions."""
    return min(RETRY_MAX_NS, world.client.syn_timeout_ns << tries)


def syn_retries_max(world: World) -> int:
    """Return how often a client repeats its SYN before it gives up."""
    return SYN_RETRIES_MAX + world.client.linear_syn_timeouts


def timer_ns(world: World, now_ns: int, after_ns: int) -> int:
    """Return when a timer of either kernel goes off that is set at *now_ns* for *after_ns*."""
    return goes_off_ns(now_ns, after_ns, world.network.timer_tick_ns)


def awaits_ack(world: World, c: int) -> None:
    """Have the server's timer run for the half-open connection *c*, unless it does.

    It was set when the SYN-ACK left. An acknowledgement at once stops it, so that it needs no
    occurrence there.
    """
    if world.syn_acks[c] > 0:
        return
    sent_ns = world.now_ns
    if world.connected_ns[c] != NONE:
        sent_ns = world.connected_ns[c] - round_trip_ns(world, c) // 2
    world.syn_acks[c] = 1
    due_ns = timer_ns(world, sent_ns, syn_ack_retry_ns(world, 0))
    schedule(world, max(world.now_ns, due_ns), occurrence.SYN_ACK_TIMER, c)


def syn_lost(world: World, c: int) -> None:
    """Plan when the client of *c* has waited long enough for an answer to its SYN."""
    sent_ns = world.now_ns - round_trip_ns(world, c) // 2
    again_ns = timer_ns(world, sent_ns, syn_retry_ns(world, world.tries[c]))
    schedule(world, again_ns, occurrence.SYN_AGAIN, c)


def sent_again(world: World, kind: int, c: int) -> None:
    """Let the sender of a packet of that *kind* to *c* repeat it: it was lost on its way in.

    A reset is not repeated, nor an acknowledgement without data: a SYN-ACK that is repeated has the
    client acknowledge anew (sim/tcp/handshake.py). An idle client's GONE is an orderly close.
    """
    if kind == occurrence.REPLY_ACK or (kind == occurrence.LAST_ACK and _answers_fin(world, c)):
        return
    if kind == occurrence.SYN:
        syn_lost(world, c)
        return
    if kind == occurrence.GONE and world.requests[c] > 0:
        world.ending[c] |= RESET_LOST
        return
    if kind in (occurrence.ACK, occurrence.SYN_ACK) and world.stage[c] != stage.CALLING:
        _handshake_goes_on(world, kind, c)
    else:
        _data_sent_again(world, kind, c)


def _answers_fin(world: World, c: int) -> bool:
    """Return whether the last packet of the client of *c* is a reset (`clients.server_closed`)."""
    is_reset = world.client.closing == Closing.RESET and world.requests[c] > 0
    return world.replies_acked and is_reset


def _handshake_goes_on(world: World, kind: int, c: int) -> None:
    """Continue the handshake of *c* after the loss of its SYN-ACK or last packet."""
    if world.stage[c] == stage.HALF_OPEN:
        awaits_ack(world, c)
    elif kind == occurrence.SYN_ACK and world.stage[c] == stage.BY_COOKIE:
        world.stage[c] = stage.NONE  # only the client remembers
        syn_lost(world, c)
    if kind == occurrence.ACK and ack_has_request(world, c):
        _data_sent_again(world, occurrence.REQUEST, c)


def ack_has_request(world: World, c: int) -> bool:
    """Return whether the last packet of the handshake of *c* brings its request along."""
    asks_at_once = world.free_clients and world.requests[c] > 0 and not is_led(world, c)
    return asks_at_once and world.tries[c] == 0


def _data_sent_again(world: World, kind: int, c: int) -> None:
    """Have a packet of that *kind*, which its sender repeats by a timer, come once more."""
    tries = world.tries[c]
    if tries < DATA_RETRIES_MAX:
        again_ns = timer_ns(world, world.now_ns, data_retry_ns(world, c, tries))
        schedule(world, again_ns, kind, c)
        world.tries[c] = tries + 1
