"""Acknowledgements of replies, where clients send them as packets of their own.

    reply ─► client ─┬─ at once                       the first sixteen, replies of several segments
                     ├─ with a request within 40 ms   the client counts as interactive from then on
                     └─ after 40 ms                   it does not any more

A client's kernel on the server's CPU acknowledges within the server's write, whose cost includes
it. A client behind a network card, or one that builds its own packets, sends a packet that
interrupts the server. Connections with longer pauses than 40 ms have one for each reply.

The cost of a client's reset includes the acknowledgement of its last reply, as both are sent
together. If the server begins its close before the reset comes, its FIN leaves. The client has no
such connection any more, and answers the FIN by another reset. (All clients of Linux do. Where
their kernel is on the server's CPU, the answer is part of the close.) Acknowledgements of a reply
longer than the window start its next flight (sim/tcp/windows.py). Left out: acknowledgements by
hosted clients, the client's time to acknowledge a repeated SYN-ACK, and that a FIN leaves before
its close ends.

Sources: Linux net/ipv4/tcp_input.c tcp_event_data_recv(), __tcp_ack_snd_check(), tcp_output.c
tcp_event_data_sent(), tcp_timer.c tcp_delack_timer_handler(); include/net/tcp.h TCP_MAX_QUICKACKS,
TCP_DELACK_MIN; tcp.c __tcp_close(), tcp_ipv4.c tcp_v4_rcv() (no_tcp_socket).
"""

from __future__ import annotations

from ..state.event_calendar import is_led, schedule
from ..state.kinds import NONE, occurrence, status
from ..state.world import World
from ..wire.network import send_up
from ..wire.retransmission import DELAYED_ACK_NS
from ..wire.way import SEGMENT_BYTES
from .client_gaps import client_turn

_QUICK_MAX = 16


def reply_received(world: World, c: int, at_ns: int) -> None:
    """Let the client of *c*, which gets a whole reply at *at_ns*, acknowledge it now or later."""
    if is_led(world, c):
        return
    if world.n_quick[c] == NONE:
        world.n_quick[c] = _QUICK_MAX
    world.received_ns[c] = at_ns
    if world.under_way[c] > 0:
        return  # it came in flights
    world.owes_ack[c] = 1
    if world.reply_bytes[c] > SEGMENT_BYTES or (world.n_quick[c] > 0 and not world.answers[c]):
        _acknowledge(world, c, at_ns)
    else:
        schedule(world, at_ns + DELAYED_ACK_NS, occurrence.ACK_DUE, c)


def request_leaves(world: World, c: int, at_ns: int) -> None:
    """Note that the client of *c* sends a request at *at_ns*, with an acknowledgement if due."""
    if not world.replies_acked or world.n_quick[c] == NONE:
        return
    if at_ns - world.received_ns[c] < DELAYED_ACK_NS:
        world.answers[c] = 1
        world.owes_ack[c] = 0


def ack_due(world: World, c: int) -> None:
    """Let the client of *c* acknowledge a reply of 40 ms ago, unless a request has done so."""
    is_due = world.received_ns[c] + DELAYED_ACK_NS <= world.now_ns
    if is_due and world.owes_ack[c] and world.status[c] == status.OPEN:
        world.answers[c] = 0
        _acknowledge(world, c, world.now_ns)


def _acknowledge(world: World, c: int, at_ns: int) -> None:
    world.owes_ack[c] = 0
    world.n_quick[c] -= 1 if world.n_quick[c] > 0 else 0
    sent_ns = client_turn(world, at_ns, world.costs.client.ack_ns)
    schedule(world, send_up(world, c, sent_ns, 0), occurrence.REPLY_ACK, c)
