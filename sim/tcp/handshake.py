"""How a connection is opened: SYN, SYN-ACK and ACK, as the server's kernel handles them.

    SYN ──► dropped, refused, or half open ──SYN-ACK──► client ──ACK──► accept queue
             client repeats it                   client's answer is repeated while the queue is full

Each function is the effect of a packet that has been handled. Where the link has no delay, the next
packet arrives in the same instant: the function returns its kind, or NONE (sim/tcp/arriving.py).

Sources: Linux net/ipv4/tcp_input.c tcp_conn_request(), tcp_minisocks.c tcp_check_req(),
tcp_timer.c tcp_retransmit_timer(), Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

from ..clients.clients import syn_ack_received
from ..cpu.interrupts import interrupt, steered_to
from ..state.event_calendar import post, schedule
from ..state.kinds import NONE, WRITABLE, count, occurrence, stage, status
from ..state.world import Listener, World
from ..wire.network import send_down, send_syn_ack, send_up
from ..wire.retransmission import data_retry_ns, repeated_after, syn_ack_retry_ns, syn_lost
from .listen_queue import drops_syn, enters_queue, listener_of, why_dropped


def syn_price_ns(world: World, c: int) -> int:
    """Return the CPU time of handling the connection request of *c*, which may be dropped."""
    cost_ns = world.costs.interrupt.syn_ns
    if drops_syn(world, listener_of(world, c)):
        return max(0, cost_ns - world.costs.interrupt.syn_saved_ns)
    return cost_ns


def syn_handled(world: World, c: int, handled_ns: int) -> int:
    """Answer, drop or refuse the connection request of *c*; return the packet it brings along."""
    if world.status[c] != status.OPEN:
        return NONE  # the client gave up meanwhile: it answers a SYN-ACK with a reset
    listener = listener_of(world, c)
    if drops_syn(world, listener):
        _drop_or_refuse(world, c, listener, handled_ns)
        return NONE
    world.stage[c] = stage.HALF_OPEN
    world.tries[c] = 0  # counted anew by the timers of the next stage
    listener.n_half += 1
    left_ns = max(world.now_ns, handled_ns - world.costs.interrupt.syn_after_ns)
    at_client_ns = send_syn_ack(world, c, left_ns)
    if world.network.set_up == 0 and world.requests[c] > 0 and enters_queue(world, c):
        world.connected_ns[c] = at_client_ns
        interrupt(world, c, world.costs.interrupt.ack_ns)  # what the last packet would have set off
        return occurrence.REQUEST
    return _await_last_packet(world, c, left_ns, at_client_ns, handled_ns)


def _drop_or_refuse(world: World, c: int, listener: Listener, handled_ns: int) -> None:
    """Answer the connection request of *c* with nothing, or with a reset."""
    world.counts[count.SYN_DROPS] += 1
    world.counts[why_dropped(world, listener)] += 1
    if world.limits.refuse:
        schedule(world, send_down(world, c, handled_ns, 0), occurrence.RST, c)
    else:
        syn_lost(world, c)


def _await_last_packet(
    world: World, c: int, left_ns: int, at_client_ns: int, handled_ns: int
) -> int:
    """Plan when the client of *c* acknowledges the SYN-ACK that left at *left_ns*."""
    ack_ns = send_up(world, c, at_client_ns, 0)
    if ack_ns <= handled_ns and world.network.one_machine:
        schedule(world, left_ns, occurrence.SYN_ACK, c)
        return NONE
    syn_ack_received(world, c, at_client_ns)
    if ack_ns <= handled_ns:
        # No distance: the answer comes while the softirq is at it, which handles it in one go.
        return occurrence.ACK
    schedule(world, ack_ns, occurrence.ACK, c)
    return NONE


def syn_ack_handled(world: World, c: int) -> None:
    """Let the client of *c* know that it is connected, and acknowledge, if it still waits.

    The server's own CPU handles this SYN-ACK, and the acknowledgement comes behind what waits
    there: a burst of connection requests is half open as a whole before the first is acknowledged.
    """
    free_ns = max(world.now_ns, steered_to(world, c).irq_free_ns)
    if world.status[c] != status.OPEN:
        schedule(world, free_ns, occurrence.GONE, c)  # it gave up: a reset
        return
    # The SYN's own handling, of which something is left after its answer, is nobody's turn.
    behind_ns = max(0, free_ns - world.now_ns - world.costs.interrupt.syn_after_ns)
    syn_ack_received(world, c, world.now_ns + behind_ns)
    schedule(world, free_ns, occurrence.ACK, c)


def ack_handled(world: World, c: int) -> int:
    """Let the handshake of *c* complete; return its request, if that rides along."""
    rides_along = world.free_clients and world.requests[c] > 0
    if world.stage[c] == stage.CALLING:
        world.stage[c] = stage.ACCEPTED
        world.connected_ns[c] = world.now_ns
        post(world, world.fd_of[c], WRITABLE)
    elif enters_queue(world, c):
        return occurrence.REQUEST if rides_along else NONE
    elif world.stage[c] == stage.HALF_OPEN:
        # The server repeats its SYN-ACK, which makes the client acknowledge again; a request
        # that went along is repeated earlier.
        tries = world.tries[c]
        wait_ns = data_retry_ns(world, c, tries) if rides_along else syn_ack_retry_ns(world, tries)
        repeated_after(world, occurrence.ACK, c, wait_ns)
    return NONE
