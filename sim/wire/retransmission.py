"""What was lost is sent again: a connection request by its client's timer, all else by TCP's.

    SYN            1 s (so many times, Linux since 6.5), then twice as long each time;
                   3 s first until RFC 6298 of 2011 (ClientSettings.syn_timeout_ns)
    all else       the round trip and 200 ms, as long again (the first is a probe of Linux since
                   3.10, after which its time-out begins), then twice as long each time

The round trip has been measured by the handshake, and hardly varies: what is added to it is at its
least. Wires that are busy do not lengthen it here.

Sources: RFC 6298; RFC 8985 (tail loss probe); Linux include/net/tcp.h (TCP_RTO_MIN,
TCP_TIMEOUT_INIT, __tcp_set_rto()); net/ipv4/tcp_input.c tcp_rtt_estimator() (rttvar is at least
TCP_RTO_MIN); net/ipv4/tcp_timer.c, tcp_output.c tcp_schedule_loss_probe().
"""

from __future__ import annotations

from ..state import occurrence
from ..state.event_calendar import schedule
from ..state.units import MILLISECOND_NS
from ..state.world import World
from .round_trips import round_trip_ns
from .timer_wheel import goes_off_ns

SYN_RETRIES_MAX = 6
"""Linux net.ipv4.tcp_syn_retries, besides those of linear time-outs."""
DATA_RETRY_NS = 200 * MILLISECOND_NS
"""Retransmission time-out of data, less the round trip: Linux TCP_RTO_MIN."""
DOUBLINGS_MAX = 6


def data_retry_ns(world: World, c: int, tries: int) -> int:
    """Return how long a sender of data waits on *c* after so many *tries* before it sends again."""
    return (DATA_RETRY_NS + round_trip_ns(world, c)) << max(0, min(tries, DOUBLINGS_MAX) - 1)


def syn_retry_ns(world: World, tries: int) -> int:
    """Return how long a client waits after so many *tries* before it repeats its SYN."""
    return world.client.syn_timeout_ns << max(0, tries - world.client.linear_syn_timeouts)


def syn_ack_retry_ns(world: World, tries: int) -> int:
    """Return how long a server waits after so many *tries* before it repeats its SYN-ACK."""
    return world.client.syn_timeout_ns << min(tries, DOUBLINGS_MAX)


def syn_retries_max(world: World) -> int:
    """Return how often a client repeats its SYN before it gives up."""
    return SYN_RETRIES_MAX + world.client.linear_syn_timeouts


def timer_ns(world: World, now_ns: int, after_ns: int) -> int:
    """Return when a timer of either kernel goes off that is set at *now_ns* for *after_ns*."""
    return goes_off_ns(now_ns, after_ns, world.network.timer_tick_ns)


def syn_lost(world: World, c: int) -> None:
    """Plan when the client of *c* has waited long enough for an answer to its SYN."""
    sent_ns = world.now_ns - round_trip_ns(world, c) // 2
    again_ns = timer_ns(world, sent_ns, syn_retry_ns(world, world.tries[c]))
    schedule(world, again_ns, occurrence.SYN_AGAIN, c)


def sent_again(world: World, kind: int, c: int) -> None:
    """Have whoever sent a packet of that *kind* to *c* send it again: it was lost on its way in."""
    if kind == occurrence.SYN:
        syn_lost(world, c)
        return
    tries = world.tries[c]
    wait_ns = (
        syn_ack_retry_ns(world, tries)
        if kind == occurrence.SYN_ACK
        else data_retry_ns(world, c, tries)
    )
    repeated_after(world, kind, c, wait_ns)


def repeated_after(world: World, kind: int, c: int, wait_ns: int) -> None:
    """Have a packet of that *kind* to *c* come once more by a timer that is set for *wait_ns*."""
    schedule(world, timer_ns(world, world.now_ns, wait_ns), kind, c)
    world.tries[c] = min(world.tries[c] + 1, DOUBLINGS_MAX)
