"""The listening socket: half-open connections, then the accept queue, both finite.

    SYN ─► half open (≤ backlog + 1) ─ACK─► accept queue (≤ backlog + 1) ─accept()─► connection
      full: drop, the client tries again after 1 s, 3 s, 7 s ... 63 s, and connect() fails at 127 s;
      or refuse with a reset
      too many half open, the accept queue is not full: with SYN cookies they need no room,
      so the number of half-open connections, which counts them all, has no bound then

Linux drops (refusal is for stacks that answer a full queue with a reset). Since 6.5 its clients
wait a second four times more before they double (net.ipv4.tcp_syn_linear_timeouts = 4): SYNs after
1, 2, 3, 4, 5, 7, 11 ... 67 s, and connect() fails at 131 s; to double from the first is every
earlier stack's way.
Sources: Linux net/ipv4/tcp_input.c tcp_conn_request(), tcp_minisocks.c tcp_check_req(),
tcp_timer.c tcp_retransmit_timer(), tcp_write_timeout(), Documentation/networking/ip-sysctl.rst,
include/net/sock.h sk_acceptq_is_full() (full is *above* the backlog); RFC 6298 (1 s, doubling).
"""

from __future__ import annotations

from ..clients.clients import first_syn_sent
from ..clients.pieces import is_part
from ..cpu.interrupts import interrupt, seen_at_once, steered_to
from ..cpu.receiving import must_wait
from ..state import count, occurrence, stage, status
from ..state.event_calendar import schedule
from ..state.flows import flow_hash
from ..state.kinds import CLIENT_CLOSED, IS_GONE, NONE, READABLE, WRITABLE
from ..state.listener import Listener
from ..state.settings import Closing
from ..state.world import World
from ..wire.network import send_down, send_syn_ack, send_up
from ..wire.retransmission import (
    data_retry_ns,
    repeated_after,
    sent_again,
    syn_ack_retry_ns,
    syn_lost,
)
from ..wire.round_trips import round_trip_ns
from .delayed_acks import request_came, request_price_ns

TIME_WAIT_BYTES = 256
"""Of a connection in TIME_WAIT: Linux struct tcp_timewait_sock, as of its slab."""


def listener_of(world: World, c: int) -> Listener:
    """Return the listening socket that *c* knocks at: of several, by the hash of its flow."""
    n = len(world.listeners)
    if n == 1:
        return world.listeners[0]
    # Other bits than those that steer its packets: the two choices are independent.
    return world.listeners[(flow_hash(world.row[c]) >> 16) % n]


def accept_queue_full(world: World, listener: Listener) -> bool:
    """Return whether the accept queue takes no further connection."""
    return listener.n_queued > world.server.backlog


def _no_memory_left(world: World, listener: Listener) -> bool:
    n = world.counts[count.CONNECTIONS_OPEN] + listener.n_queued + listener.n_half + 1
    n_bytes = n * world.kernel.connection_bytes + world.n_time_wait * TIME_WAIT_BYTES
    return n_bytes > world.kernel.memory_bytes


def _drops_syn(world: World, listener: Listener) -> bool:
    if accept_queue_full(world, listener):
        return True
    n_open = world.counts[count.CONNECTIONS_OPEN] + listener.n_queued
    if world.server.drop_above > 0 and n_open > world.server.drop_above:
        return True
    if world.kernel.memory_bytes > 0 and _no_memory_left(world, listener):
        return True
    return listener.n_half > world.server.backlog and not world.server.syn_cookies


def post(world: World, fd: int, what: int) -> None:
    """Set *what* in the state of *fd*, and have the mechanism told."""
    world.fresh = (world.state[fd] & what) == 0
    world.state[fd] |= what
    world.news = what
    world.posted[world.n_posted] = fd
    world.n_posted += 1


def pass_listener(listener: Listener, number: int) -> None:
    """Have new connections told to the worker after the one of that *number*, round robin."""
    listener.owner = (number + 1) % listener.n_fds


def syn_arrives(world: World, c: int) -> None:
    """Let the connection request of *c* reach the server."""
    first_syn_sent(world, c)
    if world.status[c] != status.OPEN:
        return  # the client gave up: this packet was never sent
    if must_wait(world, occurrence.SYN, c):
        return
    handled_ns = interrupt(world, c, syn_price_ns(world, c))
    if seen_at_once(world, occurrence.SYN, c, handled_ns):
        syn_handled(world, c, handled_ns)


def syn_price_ns(world: World, c: int) -> int:
    """Return the CPU time of handling the connection request of *c*, which may be dropped."""
    cost_ns = world.costs.interrupt.syn_ns
    if _drops_syn(world, listener_of(world, c)):
        return max(0, cost_ns - world.costs.interrupt.syn_saved_ns)
    return cost_ns


def syn_handled(world: World, c: int, handled_ns: int) -> None:
    """Answer, drop or refuse the connection request of *c*."""
    if world.status[c] != status.OPEN:
        return  # the client gave up meanwhile: it answers a SYN-ACK with a reset
    listener = listener_of(world, c)
    if _drops_syn(world, listener):
        _drop_or_refuse(world, c, listener, handled_ns)
        return
    world.stage[c] = stage.HALF_OPEN
    world.tries[c] = 0  # counted anew by the timers of the next stage
    listener.n_half += 1
    left_ns = max(world.now_ns, handled_ns - world.costs.interrupt.syn_after_ns)
    at_client_ns = send_syn_ack(world, c, left_ns)
    if world.network.set_up == 0 and world.requests[c] > 0 and _complete(world, c):
        world.connected_ns[c] = at_client_ns
        interrupt(world, c, world.costs.interrupt.ack_ns)  # what the last packet would have set off
        request_arrives(world, c)
    else:
        _await_last_packet(world, c, left_ns, at_client_ns, handled_ns)


def _drop_or_refuse(world: World, c: int, listener: Listener, handled_ns: int) -> None:
    """Answer the connection request of *c* with nothing, or with a reset."""
    world.counts[count.SYN_DROPS] += 1
    if world.kernel.memory_bytes > 0 and _no_memory_left(world, listener):
        world.counts[count.NO_MEMORY] += 1
    if world.server.refuse:
        schedule(world, send_down(world, c, handled_ns, 0), occurrence.RST, c)
    else:
        syn_lost(world, c)


def _await_last_packet(
    world: World, c: int, left_ns: int, at_client_ns: int, handled_ns: int
) -> None:
    """Plan when the client of *c* acknowledges the SYN-ACK that left at *left_ns*."""
    ack_ns = send_up(world, c, at_client_ns, 0)
    if ack_ns <= handled_ns and world.network.one_machine:
        schedule(world, left_ns, occurrence.SYN_ACK, c)
        return
    _client_connected(world, c, at_client_ns)
    if ack_ns <= handled_ns:
        # No distance: the answer comes while the softirq is at it, which handles it in one go.
        ack_arrives(world, c)
    else:
        schedule(world, ack_ns, occurrence.ACK, c)


def _client_connected(world: World, c: int, at_ns: int) -> None:
    """Let the client of *c* have its SYN-ACK at *at_ns*; if it has a request, it is told of it."""
    world.connected_ns[c] = at_ns
    if not world.free_clients and world.requests[c] > 0:
        more_ns = round_trip_ns(world, c) if world.network.set_up > 1 else 0
        schedule(world, at_ns + more_ns, occurrence.CONNECTED, c)


def syn_ack_arrives(world: World, c: int) -> None:
    """Let the SYN-ACK of *c*, handled by the server's CPU, be acknowledged behind what waits there.

    So a burst of connection requests is half open as a whole before the first is acknowledged.
    """
    if not must_wait(world, occurrence.SYN_ACK, c):
        syn_ack_handled(world, c)


def syn_ack_handled(world: World, c: int) -> None:
    """Let the client of *c* know that it is connected, and acknowledge, if it still waits."""
    free_ns = max(world.now_ns, steered_to(world, c).irq_free_ns)
    if world.status[c] != status.OPEN:
        schedule(world, free_ns, occurrence.GONE, c)  # it gave up: a reset
        return
    # The SYN's own handling, of which something is left after its answer, is nobody's turn.
    behind_ns = max(0, free_ns - world.now_ns - world.costs.interrupt.syn_after_ns)
    _client_connected(world, c, world.now_ns + behind_ns)
    schedule(world, free_ns, occurrence.ACK, c)


def ack_arrives(world: World, c: int) -> None:
    """Let the last packet of the handshake of *c* reach the server."""
    if world.ended[c]:
        return  # its client has left since, so this was never sent again
    if must_wait(world, occurrence.ACK, c):
        return
    handled_ns = interrupt(world, c, world.costs.interrupt.ack_ns)
    if seen_at_once(world, occurrence.ACK, c, handled_ns):
        ack_handled(world, c)


def ack_handled(world: World, c: int) -> None:
    """Let the handshake of *c* complete; where clients are free the request rides along."""
    rides_along = world.free_clients and world.requests[c] > 0
    if world.stage[c] == stage.CALLING:
        world.stage[c] = stage.ACCEPTED
        world.connected_ns[c] = world.now_ns
        post(world, world.fd_of[c], WRITABLE)
    elif _complete(world, c):
        if rides_along:
            request_arrives(world, c)
    elif world.stage[c] == stage.HALF_OPEN:
        # The server repeats its SYN-ACK, which makes the client acknowledge again; a request
        # that went along is repeated earlier.
        tries = world.tries[c]
        wait_ns = data_retry_ns(world, c, tries) if rides_along else syn_ack_retry_ns(world, tries)
        repeated_after(world, occurrence.ACK, c, wait_ns)


def request_arrives(world: World, c: int) -> None:
    """Let the last byte of a request of *c* reach the server."""
    if world.ended[c]:
        return  # its client has left since, so this was never sent again
    if must_wait(world, occurrence.REQUEST, c):
        return
    handled_ns = interrupt(world, c, request_price_ns(world, c))
    if seen_at_once(world, occurrence.REQUEST, c, handled_ns):
        request_handled(world, c)


def request_handled(world: World, c: int) -> None:
    """Put a whole request of *c* into its receive buffer."""
    if world.status[c] != status.OPEN and world.client.closing == Closing.RESET:
        return
    if world.stage[c] == stage.HALF_OPEN and not _complete(world, c):
        sent_again(world, occurrence.REQUEST, c)
        return
    if world.stage[c] == stage.CLOSED:
        return
    if world.client.request_pieces > 1 and is_part(world, c):
        if world.stage[c] == stage.ACCEPTED:
            post(world, world.fd_of[c], READABLE)
        return
    world.pending[c] = 1
    request_came(world, c)
    world.tries[c] = 0  # what comes next is sent for the first time
    if world.stage[c] == stage.ACCEPTED:
        post(world, world.fd_of[c], READABLE)
    if world.client.closing == Closing.HALF_CLOSE and world.answered[c] + 1 == world.requests[c]:
        schedule(world, world.now_ns, occurrence.FIN, c)  # it follows at once, and before is no use


def _complete(world: World, c: int) -> bool:
    """Move *c* from half open to the accept queue; return whether it is past the handshake."""
    if world.stage[c] != stage.HALF_OPEN:
        return False
    listener = listener_of(world, c)
    if accept_queue_full(world, listener):
        world.counts[count.ACK_DROPS] += 1
        return False
    listener.n_half -= 1
    world.stage[c] = stage.QUEUED
    world.queued_ns[c] = world.now_ns
    _queue(listener, c, world.now_ns)
    if world.server.passes_listener:
        post(world, listener.fds[listener.owner], READABLE)
    else:
        for i in range(listener.n_fds):
            post(world, listener.fds[i], READABLE)
    return True


def _queue(listener: Listener, c: int, now_ns: int) -> None:
    """Put *c* at the end of the accept queue."""
    if listener.n_queued == 0:
        listener.empty_ns = now_ns
    last = len(listener.queue) - 1  # a mask, as the size is a power of two
    listener.queue[(listener.first_queued + listener.n_queued) & last] = c
    listener.n_queued += 1


def gone_arrives(world: World, c: int) -> None:
    """Let the client's reset or close of *c* reach the server."""
    if must_wait(world, occurrence.GONE, c):
        return
    handled_ns = interrupt(world, c, world.costs.interrupt.reset_ns)
    if seen_at_once(world, occurrence.GONE, c, handled_ns):
        gone_handled(world, c)


def gone_handled(world: World, c: int) -> None:
    """Let the server's side of *c* know that its client is gone."""
    if world.requests[c] == 0 and world.ending[c] & CLIENT_CLOSED == 0:
        return  # an idle one, which the server had closed meanwhile: it is open anew, or on its way
    world.ended[c] = IS_GONE
    if world.stage[c] == stage.HALF_OPEN:
        listener_of(world, c).n_half -= 1
        world.stage[c] = stage.CLOSED
    elif world.stage[c] == stage.ACCEPTED:
        post(world, world.fd_of[c], READABLE | WRITABLE)  # hung up: whatever was waited for


def take_connection(world: World, listener: Listener) -> int:
    """Remove and return the connection at the head of the accept queue, or NONE (EAGAIN)."""
    if listener.n_queued == 0:
        return NONE
    c = listener.queue[listener.first_queued]
    listener.first_queued = (listener.first_queued + 1) & (len(listener.queue) - 1)
    listener.n_queued -= 1
    if listener.n_queued == 0:
        for i in range(listener.n_fds):
            world.state[listener.fds[i]] = 0
    return c
