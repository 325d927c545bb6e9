"""When the server acknowledges a request: at once, or with its reply.

    request ─► acknowledgement ─► reply              a connection's first, and after a late reply
    request ─► reply, which acknowledges it          after a reply within 40 ms of its request

A connection is taken for a conversation once a reply has left soon after its request: Linux then
holds acknowledgements back for up to 40 ms, and the reply carries them. A server that takes longer,
for want of CPU, pays for one more packet with every request: what overloads it overloads it more.
Left out: those that a timer sends, where the reply of a conversation is late, or the next part of a
request.

Sources: Linux net/ipv4/tcp_output.c tcp_event_data_sent(), tcp_input.c tcp_event_data_recv(),
__tcp_ack_snd_check(), tcp_timer.c tcp_delack_timer_handler(); include/net/tcp.h TCP_ATO_MIN.
"""

from __future__ import annotations

from ..state.kinds import NONE
from ..state.units import MILLISECOND_NS
from ..state.world import World

PATIENCE_NS = 40 * MILLISECOND_NS
"""How long an acknowledgement is held back, and how soon a reply makes a conversation."""


def request_price_ns(world: World, c: int) -> int:
    """Return the CPU time of handling a request of *c*, and its acknowledgement if it is sent."""
    costs = world.costs.interrupt
    return max(0, costs.data_ns - (costs.data_saved_ns if world.converses[c] else 0))


def request_came(world: World, c: int) -> None:
    """Note that a request of *c* is in its receive buffer."""
    world.asked_ns[c] = world.now_ns


def reply_leaves(world: World, c: int) -> None:
    """Note that a reply to *c* is sent, or part of it: the first part says how soon it was."""
    if world.asked_ns[c] != NONE:
        world.converses[c] = 1 if world.now_ns - world.asked_ns[c] < PATIENCE_NS else 0
        world.asked_ns[c] = NONE
