"""The listening socket: half-open connections, then the accept queue, both finite.

    SYN ─► half open (≤ backlog + 1) ─ACK─► accept queue (≤ backlog + 1) ─accept()─► connection
      full: drop, the client tries again after 1 s, 3 s, 7 s ... 63 s, and connect() fails at 127 s;
      or refuse with a reset
      too many half open, the accept queue is not full: the server sends a SYN cookie and keeps no
      record of the connection until it is acknowledged; without cookies the SYN is dropped
      half open for long: the SYN-ACK is repeated 5 times, and the connection forgotten after 63 s;
      earlier where more than half of the backlog is half open

Linux drops (other stacks reply to a full queue with a reset). Since 6.5 its clients wait 1 s
four more times before they double (net.ipv4.tcp_syn_linear_timeouts = 4): SYNs after 1, 2, 3, 4, 5,
7, 11 ... 67 s, and connect() fails at 131 s. Earlier stacks double from the first.
Sources: Linux net/ipv4/tcp_input.c tcp_conn_request(), tcp_minisocks.c tcp_check_req(),
tcp_timer.c tcp_retransmit_timer(), tcp_write_timeout(), inet_connection_sock.c
reqsk_timer_handler(), syncookies.c cookie_v4_check(), Documentation/networking/ip-sysctl.rst,
include/net/sock.h sk_acceptq_is_full() (full is *above* the backlog); RFC 6298 (1 s, doubling).
"""

from __future__ import annotations

from ..state.event_calendar import post
from ..state.kinds import NONE, READABLE, count, stage
from ..state.world import Listener, World
from ..wire.way import flow_hash

SYN_ACK_RETRIES_MAX = 5
"""Linux net.ipv4.tcp_synack_retries."""
_SYN_ACK_RETRIES_LEAST = 2
_BACKLOG_LEAST = 8  # of the backlog, half of which old half-open connections may take


def listener_of(world: World, c: int) -> Listener:
    """Return the listening socket of *c*: of several, by the hash of its flow."""
    n = len(world.listeners)
    if n == 1:
        return world.listeners[0]
    # Other bits than those that steer its packets: the two choices are independent.
    return world.listeners[(flow_hash(world.row[c]) >> 16) % n]


def accept_queue_full(world: World, listener: Listener) -> bool:
    """Return whether the accept queue takes no further connection."""
    return listener.n_queued > world.limits.backlog


def no_memory_left(world: World, listener: Listener) -> bool:
    """Return whether another connection is more than fits the memory of TCP."""
    n = world.counts[count.CONNECTIONS_OPEN] + listener.n_queued + listener.n_half + 1
    n_bytes = n * world.kernel.connection_bytes + world.n_time_wait * world.memory.time_wait_bytes
    return n_bytes > world.kernel.memory_bytes


def drops_syn(world: World, listener: Listener) -> bool:
    """Return whether a SYN finds no room, and is dropped or refused."""
    return why_dropped(world, listener) != NONE


def why_dropped(world: World, listener: Listener) -> int:
    """Return the counter of the first rule that drops a SYN; NONE: there is room.

    Linux checks half-open connections first, tcp_conn_request().
    """
    if half_open_full(world, listener) and not world.limits.syn_cookies:
        return count.SYN_DROPS_HALF_OPEN
    if accept_queue_full(world, listener):
        return count.SYN_DROPS_ACCEPT_QUEUE
    n_open = world.counts[count.CONNECTIONS_OPEN] + listener.n_queued
    if world.overload.drop_above > 0 and n_open > world.overload.drop_above:
        return count.SYN_DROPS_ABOVE
    if world.kernel.memory_bytes > 0 and no_memory_left(world, listener):
        return count.NO_MEMORY
    return NONE


def half_open_full(world: World, listener: Listener) -> bool:
    """Return whether there is no room for a record of another half-open connection."""
    return listener.n_half > world.limits.backlog


def syn_ack_retries_max(world: World, listener: Listener) -> int:
    """Return how often a SYN-ACK is repeated before its connection is forgotten.

    Half of the backlog is reserved for connections whose SYN-ACK was not repeated yet. Where more
    are half open, the SYN-ACKs of old ones are repeated less often, down to twice.
    """
    n_retries = SYN_ACK_RETRIES_MAX
    n_half = listener.n_half
    if 2 * n_half <= max(_BACKLOG_LEAST, world.limits.backlog):
        return n_retries
    young = 2 * (n_half - listener.n_old)
    while n_retries > _SYN_ACK_RETRIES_LEAST and n_half >= young:
        n_retries -= 1
        young *= 2
    return n_retries


def leaves_half_open(world: World, listener: Listener, c: int) -> None:
    """Take *c* out of the half-open connections of its *listener*."""
    listener.n_half -= 1
    if world.syn_acks[c] > 1:
        listener.n_old -= 1


def pass_listener(listener: Listener, number: int) -> None:
    """Have new connections notify the worker after the one of that *number*, round robin."""
    listener.owner = (number + 1) % listener.n_fds


def is_opening(world: World, c: int) -> bool:
    """Return whether *c* has a SYN-ACK but no complete handshake."""
    return world.stage[c] in (stage.HALF_OPEN, stage.BY_COOKIE)


def enters_queue(world: World, c: int) -> bool:
    """Put *c*, half open or with a cookie, in the accept queue; return whether there was room."""
    if not is_opening(world, c):
        return False
    listener = listener_of(world, c)
    if accept_queue_full(world, listener):
        world.counts[count.ACK_DROPS] += 1
        return False
    if world.stage[c] == stage.HALF_OPEN:
        leaves_half_open(world, listener, c)
    world.stage[c] = stage.QUEUED
    world.queued_ns[c] = world.now_ns
    _queue(listener, c, world.now_ns)
    if world.signals.passes_listener:
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
