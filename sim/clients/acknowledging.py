"""Acknowledgements of replies, where clients send them as packets of their own.

    reply ─► client ─► acknowledgement            the first sixteen, and replies of several segments
                  └──► request, carries it        of a client that answers within 40 ms
                  └──► 40 ms ─► acknowledgement   of one that turned out not to

A client's kernel on the server's CPU acknowledges within the server's write, whose cost includes
it. A client behind a network card, or one that builds its own packets, sends a packet that
interrupts the server. A request that follows within 40 ms of a reply carries the acknowledgement,
so connections with longer pauses have one for each reply. The last reply of a connection has none,
as the client's reset acknowledges it. Those of a reply beyond the window start its next flight
(sim/tcp/windows.py).

Sources: Linux net/ipv4/tcp_input.c tcp_event_data_recv(), __tcp_ack_snd_check(), tcp_output.c
tcp_event_data_sent(), tcp_timer.c tcp_delack_timer_handler(); include/net/tcp.h TCP_MAX_QUICKACKS,
TCP_DELACK_MIN.
"""

from __future__ import annotations

from ..state.event_calendar import is_led, schedule
from ..state.kinds import NONE, occurrence, status
from ..state.units import MILLISECOND_NS
from ..state.world import World
from ..wire.network import send_up
from ..wire.way import SEGMENT_BYTES
from .client_gaps import client_turn

DELAYED_NS = 40 * MILLISECOND_NS
"""The delay of an acknowledgement, and the longest time to a request of a client that answers."""
_QUICK_MAX = 16


def reply_heard(world: World, c: int, at_ns: int) -> None:
    """Let the client of *c*, which gets a whole reply at *at_ns*, acknowledge it now or later."""
    window = world.network.window_segments
    n_bytes = world.reply_bytes[c]
    if is_led(world, c) or (window > 0 and n_bytes > window * SEGMENT_BYTES):
        return
    if world.n_quick[c] == NONE:
        world.n_quick[c] = _QUICK_MAX
    world.heard_ns[c] = at_ns
    world.owes_ack[c] = 1
    if n_bytes > SEGMENT_BYTES or (world.n_quick[c] > 0 and not world.answers[c]):
        _acknowledge(world, c, at_ns)
    else:
        schedule(world, at_ns + DELAYED_NS, occurrence.ACK_DUE, c)


def request_leaves(world: World, c: int, at_ns: int) -> None:
    """Note that the client of *c* sends a request at *at_ns*, which acknowledges what it heard."""
    if world.n_quick[c] != NONE and at_ns - world.heard_ns[c] < DELAYED_NS:
        world.answers[c] = 1
        world.owes_ack[c] = 0


def ack_due(world: World, c: int) -> None:
    """Let the client of *c* acknowledge a reply of 40 ms ago, unless a request has done so."""
    is_due = world.heard_ns[c] + DELAYED_NS <= world.now_ns
    if is_due and world.owes_ack[c] and world.status[c] == status.OPEN:
        _acknowledge(world, c, world.now_ns)


def _acknowledge(world: World, c: int, at_ns: int) -> None:
    world.owes_ack[c] = 0
    world.n_quick[c] -= 1 if world.n_quick[c] > 0 else 0
    sent_ns = client_turn(world, at_ns, world.costs.client.ack_ns)
    schedule(world, send_up(world, c, sent_ns, 0), occurrence.LAST_ACK, c)
