"""How a connection is opened: SYN, SYN-ACK and ACK, as the server's kernel handles them.

    SYN ──► dropped, refused, or half open ──SYN-ACK──► client ──ACK──► accept queue
             client repeats it     │  ▲                                  full: the ACK is dropped
                                   │  └─ timer: SYN-ACK again, acknowledged again
                                   └──── forgotten: what its client still sends meets a reset

Each function is the effect of a packet that has been handled. Where the link has no delay, the next
packet arrives in the same instant: the function returns its kind, or NONE (sim/tcp/arriving.py).

Sources: Linux net/ipv4/tcp_input.c tcp_conn_request(), tcp_minisocks.c tcp_check_req(),
inet_connection_sock.c reqsk_timer_handler(), syncookies.c cookie_v4_check(),
Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

from ..clients.client_gaps import out_of_gap_ns
from ..clients.clients import acknowledges_itself, send_reset, syn_ack_received
from ..cpu.interrupts import interrupt, steered_to
from ..state.event_calendar import is_led, post, schedule
from ..state.kinds import NONE, WRITABLE, count, occurrence, stage, status
from ..state.world import Listener, World
from ..wire.network import send_reset_down, send_syn_ack, send_up
from ..wire.retransmission import (
    ack_has_request,
    sent_again,
    syn_ack_retry_ns,
    syn_lost,
    timer_ns,
)
from .listen_queue import (
    drops_syn,
    enters_queue,
    half_open_full,
    is_opening,
    leaves_half_open,
    listener_of,
    syn_ack_retries_max,
    why_dropped,
)


def syn_price_ns(world: World, c: int) -> int:
    """Return the CPU time of handling the connection request of *c*, which may be dropped.

    It is noted whether a thread has the CPU. A SYN that finds the CPU idle is noted, too: the next
    one costs more only if threads run in between.
    """
    cost_ns = world.costs.interrupt.syn_ns
    cpu = steered_to(world, c)
    world.disturbs[c] = 0 if cpu.idle else 1
    if cpu.has_served and cpu.idle and cpu.irq_free_ns < world.now_ns:
        cpu.has_served = False
        cost_ns += world.costs.interrupt.syn_cold_ns
    if drops_syn(world, listener_of(world, c)):
        return max(0, cost_ns - world.costs.interrupt.syn_saved_ns)
    return cost_ns


def syn_handled(world: World, c: int, handled_ns: int) -> int:
    """Accept, drop or refuse the SYN of *c*; return the packet that comes in one go with it."""
    if world.status[c] != status.OPEN:
        return NONE  # the client gave up meanwhile: it answers a SYN-ACK with a reset
    listener = listener_of(world, c)
    why = why_dropped(world, listener)
    if why != NONE:
        _drop_or_refuse(world, c, why, handled_ns)
        return NONE
    _becomes_half_open(world, c, listener)
    left_ns = max(world.now_ns, handled_ns - world.costs.interrupt.syn_after_ns)
    at_client_ns = _seen_ns(world, send_syn_ack(world, c, left_ns))
    if _asks_at_once(world, c) and enters_queue(world, c):
        world.connected_ns[c] = at_client_ns
        interrupt(world, c, world.costs.interrupt.ack_ns)  # what the last packet would have set off
        return occurrence.REQUEST
    return _await_last_packet(world, c, left_ns, at_client_ns, handled_ns)


def _seen_ns(world: World, at_client_ns: int) -> int:
    """Return when clients see a packet that arrived at *at_client_ns*: their CPU may be in a gap.

    On the server's own machine the server's CPU handles the packets to clients.
    """
    return at_client_ns if world.network.one_machine else out_of_gap_ns(world, at_client_ns)


def _becomes_half_open(world: World, c: int, listener: Listener) -> None:
    """Keep a record of *c*; without room for it, send a SYN cookie."""
    world.tries[c] = 0  # counted anew by the timers of the next stage
    if half_open_full(world, listener):
        world.stage[c] = stage.BY_COOKIE
        return
    world.stage[c] = stage.HALF_OPEN
    listener.n_half += 1
    if world.syn_acks[c] > 0:
        world.syn_acks[c] = 1  # an idle client's, from when it came before: it serves again


def _asks_at_once(world: World, c: int) -> bool:
    """Return whether the SYN of *c* carries a request (TCP Fast Open): never that of a process."""
    return world.network.set_up == 0 and world.requests[c] > 0 and not is_led(world, c)


def _drop_or_refuse(world: World, c: int, why: int, handled_ns: int) -> None:
    """Drop the SYN of *c*, or reply with a reset; count *why*."""
    world.counts[count.SYN_DROPS] += 1
    world.counts[why] += 1
    if not world.limits.refuse or not _send_reset(world, c, handled_ns):
        syn_lost(world, c)


def _send_reset(world: World, c: int, at_ns: int) -> bool:
    """Reset *c*, of which the server has no record; return whether the reset arrives."""
    at_client_ns = send_reset_down(world, c, at_ns)
    if at_client_ns == NONE:
        return False
    schedule(world, at_client_ns, occurrence.RST, c)
    return True


def _await_last_packet(
    world: World, c: int, left_ns: int, at_client_ns: int, handled_ns: int
) -> int:
    """Plan when the client of *c* acknowledges the SYN-ACK that left at *left_ns*."""
    if acknowledges_itself(world, c):
        world.owes_ack[c] = 1
        syn_ack_received(world, c, at_client_ns)
        return NONE
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
    """Have the client of *c* be connected, and acknowledge, if it still waits.

    The server's own CPU handles this SYN-ACK, and the acknowledgement comes behind what waits
    there: a burst of connection requests is half open as a whole before the first is acknowledged.
    """
    cpu = steered_to(world, c)
    free_ns = max(world.now_ns, cpu.irq_free_ns, cpu.gap_until_ns)
    if world.status[c] != status.OPEN:
        schedule(world, free_ns, occurrence.GONE, c)  # it gave up: a reset
        return
    # The SYN's own handling, of which something is left after its answer, is nobody's turn.
    behind_ns = max(0, free_ns - world.now_ns - world.costs.interrupt.syn_after_ns)
    syn_ack_received(world, c, world.now_ns + behind_ns)
    schedule(world, free_ns, occurrence.ACK, c)


def ack_handled(world: World, c: int) -> int:
    """Complete the handshake of *c*; return its request, if the packet carries one."""
    has_request = ack_has_request(world, c)
    if world.stage[c] == stage.CALLING:
        world.stage[c] = stage.ACCEPTED
        world.connected_ns[c] = world.now_ns
        post(world, world.fd_of[c], WRITABLE)
    elif enters_queue(world, c):
        return occurrence.REQUEST if has_request else NONE
    elif world.stage[c] == stage.EXPIRED and has_request:
        reset_forgotten(world, c)
    elif world.stage[c] == stage.EXPIRED:
        _send_reset(world, c, world.now_ns)
    elif is_opening(world, c):
        sent_again(world, occurrence.ACK, c)
    return NONE


def reset_forgotten(world: World, c: int) -> None:
    """Reset *c* at a request: the server has closed it, or dropped it half open.

    If the reset is lost, the client repeats the request, which was not acknowledged.
    """
    if not _send_reset(world, c, world.now_ns):
        sent_again(world, occurrence.REQUEST, c)


def syn_ack_timer(world: World, c: int) -> None:
    """Repeat the SYN-ACK to the half-open connection *c*, or drop it after too many repetitions.

    The SYN-ACK is repeated even after its acknowledgement, if the accept queue was full.
    """
    if world.stage[c] != stage.HALF_OPEN:
        world.syn_acks[c] = 0
        return
    listener, n_expired = listener_of(world, c), world.syn_acks[c] - 1
    if n_expired >= syn_ack_retries_max(world, listener):
        leaves_half_open(world, listener, c)
        world.stage[c] = stage.EXPIRED
        world.syn_acks[c] = 0
        world.counts[count.HALF_OPEN_EXPIRED] += 1
        return
    if n_expired == 0:
        listener.n_old += 1
    world.syn_acks[c] += 1
    _answer_again(world, c)
    due_ns = timer_ns(world, world.now_ns, syn_ack_retry_ns(world, n_expired + 1))
    schedule(world, due_ns, occurrence.SYN_ACK_TIMER, c)


def _answer_again(world: World, c: int) -> None:
    """Repeat the SYN-ACK to *c*: a client acknowledges it again, or resets what it has closed."""
    at_client_ns = _seen_ns(world, send_syn_ack(world, c, world.now_ns))
    if world.connected_ns[c] == NONE:
        schedule(world, at_client_ns, occurrence.SYN_ACK, c)
    elif world.status[c] == status.OPEN:
        schedule(world, send_up(world, c, at_client_ns, 0), occurrence.ACK, c)
    else:
        send_reset(world, c, at_client_ns)
