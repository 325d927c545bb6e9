"""A packet that reaches the server: its CPU time, then its effect.

    on the wire ──► lost, left to another thread, or handled in an interrupt ──price_ns──► effect
                                     │                                           ▲
                                     └── HANDLED: the effect when it has been handled

Kinds of packets differ only in the two tables, `price_ns` and `_effect`.
"""

from __future__ import annotations

from ..clients.backend import reply_leaves
from ..clients.clients import first_syn_sent, request_was_sent
from ..clients.slow_clients import is_part
from ..cpu.caches import cooled_ns
from ..cpu.interrupts import handle_packet, handled_by, seen_at_once, steered_to
from ..cpu.receiving import must_wait
from ..state.client_settings import Closing
from ..state.event_calendar import post, schedule
from ..state.kinds import NONE, READABLE, kernel_path, occurrence, stage, status
from ..state.world import World
from ..wire.retransmission import sent_again
from .closing import fin_handled, gone_handled
from .handshake import (
    ack_handled,
    reset_forgotten,
    syn_ack_handled,
    syn_handled,
    syn_price_ns,
)
from .listen_queue import enters_queue, is_opening
from .windows import acked_handled, acknowledging_ns, request_came, request_price_ns


def packet_arrives(world: World, kind: int, c: int) -> None:
    """Let a packet of that *kind* to *c* reach the server, with all packets in one go with it."""
    # A constant kind lets the compiler drop the branches of all other kinds.
    coming = kind
    while coming != NONE:
        if coming == occurrence.REQUEST:
            coming = _arrives(world, occurrence.REQUEST, c)
        elif coming == occurrence.SYN:
            coming = _arrives(world, occurrence.SYN, c)
        elif coming == occurrence.ACK:
            coming = _arrives(world, occurrence.ACK, c)
        elif coming == occurrence.GONE:
            coming = _arrives(world, occurrence.GONE, c)
        else:
            coming = _arrives(world, coming, c)


def backend_replies(world: World, k: int) -> None:
    """Let the reply on connection *k* to the backend reach the server."""
    reply_leaves(world, k)
    _arrives(world, occurrence.BACKEND_REPLY, k)


def packet_handled(world: World, kind: int, c: int) -> None:
    """Apply the effect of a packet of *c* that arrived earlier."""
    packet_arrives(world, _effect(world, kind, c, world.now_ns), c)


def price_ns(world: World, kind: int, c: int) -> int:
    """Return the CPU time of handling a packet of that *kind* to *c*, without the interrupt.

    Asked once, when it is handled: its code is in the caches afterwards.
    """
    return _warm_price_ns(world, kind, c) + _cold_ns(world, kind, c)


def _cold_ns(world: World, kind: int, c: int) -> int:
    """Return what a packet takes more if the caches have lost its code; it is warm afterwards."""
    if not world.caches_cool:
        return 0
    cpu, cold = steered_to(world, c), world.costs.cold
    if kind == occurrence.REQUEST:
        return cooled_ns(world, cpu, kernel_path.DATA, cold.data)
    if kind == occurrence.SYN:
        return cooled_ns(world, cpu, kernel_path.SYN, cold.syn)
    if kind == occurrence.ACK:
        return cooled_ns(world, cpu, kernel_path.ACK, cold.ack)
    if kind in (occurrence.GONE, occurrence.FIN):
        return cooled_ns(world, cpu, kernel_path.RESET, cold.reset)
    return 0


def _warm_price_ns(world: World, kind: int, c: int) -> int:
    costs = world.costs.interrupt
    if kind == occurrence.REQUEST:
        return request_price_ns(world, c)
    if kind == occurrence.SYN:
        return syn_price_ns(world, c)
    if kind == occurrence.ACKED:
        return acknowledging_ns(world, c)
    if kind in (occurrence.DATAGRAM, occurrence.BACKEND_REPLY):
        return costs.datagram_ns if kind == occurrence.DATAGRAM else costs.data_ns
    if kind in (occurrence.GONE, occurrence.FIN):
        return costs.reset_ns
    # The cost of a SYN includes the SYN-ACK, where the server's CPU handles it.
    return 0 if kind == occurrence.SYN_ACK else _acknowledgement_ns(world, kind, c)


def _acknowledgement_ns(world: World, kind: int, c: int) -> int:
    """Return the cost of a packet that completes a handshake, or acknowledges a FIN or a reply."""
    costs = world.costs.interrupt
    if kind == occurrence.REPLY_ACK:
        return costs.reply_acked_ns
    cpu = steered_to(world, c)
    is_cold = kind == occurrence.ACK and cpu.n_at_once == 1 and cpu.irq_free_ns >= world.now_ns
    return costs.ack_ns + (costs.cold_ns if is_cold else 0)


def _effect(world: World, kind: int, c: int, handled_ns: int) -> int:
    """Apply the effect of a packet (a last acknowledgement has none); return what follows it.

    That is the kind of the packet that comes in one go with it, or NONE.
    """
    if kind == occurrence.REQUEST:
        request_handled(world, c)
    elif kind == occurrence.SYN:
        return syn_handled(world, c, handled_ns)
    elif kind == occurrence.ACK:
        return ack_handled(world, c)
    elif kind == occurrence.SYN_ACK:
        syn_ack_handled(world, c)
    elif kind == occurrence.GONE:
        gone_handled(world, c)
    elif kind == occurrence.ACKED:
        acked_handled(world, c)
    elif kind == occurrence.FIN:
        fin_handled(world, c)
    elif kind == occurrence.BACKEND_REPLY:
        post(world, world.first_backend_fd + c, READABLE)
    return NONE


def _arrives(world: World, kind: int, c: int) -> int:
    """Let a packet be handled now, unless it waits or is lost; return what follows it, or NONE."""
    if kind == occurrence.SYN:
        first_syn_sent(world, c)
    if not _was_sent(world, kind, c) or must_wait(world, kind, c):
        return NONE
    if kind == occurrence.SYN_ACK:
        # It is on the server's own CPU already, which handles no other packet for it.
        return _effect(world, kind, c, world.now_ns)
    handled_ns = handle_packet(world, handled_by(world, kind, c), price_ns(world, kind, c))
    is_last = kind in (occurrence.REPLY_ACK, occurrence.LAST_ACK)  # nothing follows from it
    if is_last or not seen_at_once(world, kind, c, handled_ns):
        return NONE
    return _effect(world, kind, c, handled_ns)


def _was_sent(world: World, kind: int, c: int) -> bool:
    """Return whether a packet was sent: a client that has given up or left repeats nothing."""
    if kind == occurrence.SYN:
        return world.status[c] == status.OPEN
    if kind in (occurrence.REQUEST, occurrence.ACK, occurrence.FIN):
        return world.ended[c] == 0
    return True


def request_handled(world: World, c: int) -> None:
    """Put a whole request of *c* into its receive buffer."""
    if not request_was_sent(world, c):
        return
    if world.stage[c] in (stage.CLOSED, stage.EXPIRED):
        reset_forgotten(world, c)
        return
    if is_opening(world, c) and not enters_queue(world, c):
        sent_again(world, occurrence.REQUEST, c)
        return
    if world.client.request_pieces > 1 and is_part(world, c):
        if world.stage[c] == stage.ACCEPTED:
            post(world, world.fd_of[c], READABLE)
        return
    if world.pending[c] == 0:
        world.n_unread += 1
    world.pending[c] = 1
    request_came(world, c)
    world.tries[c] = 0  # what comes next is sent for the first time
    if world.stage[c] == stage.ACCEPTED:
        post(world, world.fd_of[c], READABLE)
    if world.client.closing == Closing.HALF_CLOSE and world.answered[c] + 1 == world.requests[c]:
        schedule(world, world.now_ns, occurrence.FIN, c)  # it follows at once, and before is no use
