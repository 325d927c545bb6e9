"""System calls on connections: what they do, apart from what they cost.

Each function is the effect of one call at the moment it returns; the caller has spent its time.
Programs know connections by their descriptors, as in life: the simulator's own numbers of them
may change while a step lasts (sim/assembly/row_window.py).
Sources: accept(2), read(2), write(2), close(2), socket(7).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..clients.asking import drawn_for_request
from ..clients.clients import idle_may_return
from ..clients.kept import is_old, n_before
from ..clients.slow_clients import taken_ns
from ..cpu.caches import cooled_ns
from ..state.client_settings import Closing
from ..state.costs import curve_ns, sending_ns
from ..state.event_calendar import schedule
from ..state.kinds import (
    IS_GONE,
    NONE,
    NOT_ENDED,
    READABLE,
    SERVER_RESET,
    WRITABLE,
    activity,
    count,
    kernel_path,
    occurrence,
    stage,
    status,
)
from ..state.mechanism import spend
from ..state.world import Worker, World
from ..tcp import windows
from ..tcp.listen_queue import take_connection
from ..wire.network import send_down, send_reset_down, send_up
from .backend_connections import forget_asker
from .descriptors import close_fd, no_fd_left, no_file_left, open_fd, touch_fd
from .request_timeouts import waits_for_request

END_OF_FILE = 0
WHOLE_REQUEST = 1
PART = 2
"""The result of a read; NONE is EAGAIN."""
NO_FD = -2
"""Result of accept at the limit of descriptors (EMFILE), or of files (ENFILE)."""
FAILED = -2
"""Result of write on a connection that its client has reset (ECONNRESET or EPIPE)."""


def accept(world: World, worker: Worker) -> int:
    """Return the descriptor of the next connection, NONE (EAGAIN) or NO_FD (EMFILE, ENFILE).

    Descriptor and file are taken before the queue is looked at: at a limit EAGAIN is never seen.
    Source: Linux net/socket.c __sys_accept4_file(), do_accept().
    """
    if no_fd_left(world):
        world.counts[count.ACCEPT_NO_FD] += 1
        return NO_FD
    if no_file_left(world):
        touch_fd(world)
        world.counts[count.ACCEPT_NO_FILE] += 1
        return NO_FD
    if worker.listener.n_queued == 0:
        touch_fd(world)
        world.counts[count.ACCEPT_AGAIN] += 1
        worker.cpu.left_work = True  # the file that it had made is freed by RCU
        return NONE
    fd = open_fd(world)
    worker.n_accepts += 1
    world.counts[count.ACCEPTS] += 1
    world.counts[count.CONNECTIONS_OPEN] += 1
    _attach(world, take_connection(world, worker.listener), fd)
    return fd


def accepts_none(world: World, worker: Worker) -> bool:
    """Return whether an accept would find no connection now, or no descriptor (EMFILE).

    A full file table (ENFILE) is not checked: an accept that fails at it costs as much as a
    successful one.
    """
    return worker.listener.n_queued == 0 or no_fd_left(world)


def cold_accept_ns(world: World, worker: Worker) -> int:
    """Return the extra cost of an accept with cold caches; it is noted, for the next one.

    A profile has either cold.accept or call.accept_cold_ns, the cost of the first accept since the
    CPU was idle.
    """
    cpu = worker.cpu
    more_ns = cooled_ns(world, cpu, kernel_path.ACCEPT, world.costs.cold.accept)
    if not cpu.was_idle:
        return more_ns
    cpu.was_idle = False
    return more_ns + world.costs.call.accept_cold_ns


def cold_read_ns(world: World, worker: Worker) -> int:
    """Return the extra cost of a read with cold caches; it is noted, for the next one."""
    return cooled_ns(world, worker.cpu, kernel_path.READ, world.costs.cold.read)


def displaced_ns(world: World, fd: int) -> int:
    """Return the extra cost of the accept of *fd* if its SYN was handled while a thread ran."""
    disturbs = world.disturbs[world.connection_of[fd]]
    return world.costs.interrupt.displaced_ns if disturbs else 0


def _attach(world: World, c: int, fd: int) -> None:
    """Have *fd* be the descriptor of *c*, which is accepted; it may have sent something already."""
    world.stage[c] = stage.ACCEPTED
    world.fd_of[c] = fd
    world.connection_of[fd] = c
    world.state[fd] = WRITABLE
    if world.pending[c] or world.part[c] or world.ended[c]:
        world.state[fd] |= READABLE
    waits_for_request(world, fd)


def reply_unsent(world: World, fd: int) -> bool:
    """Return whether part of a reply on *fd* still waits for room in the send buffer."""
    return world.unsent[world.connection_of[fd]] > 0


def hung_up(world: World, fd: int) -> bool:
    """Return whether nothing can be sent to the client of *fd* any more."""
    return world.ended[world.connection_of[fd]] == IS_GONE


def all_answered(world: World, fd: int) -> bool:
    """Return whether *fd* is to be closed, as each request has had its whole reply."""
    c = world.connection_of[fd]
    return world.program.closes_first and world.answered[c] == world.requests[c]


def n_in_flight(world: World, worker: Worker) -> int:
    """Return how many connections are accepted or wait for it, but for those of before the run."""
    n_open = world.counts[count.CONNECTIONS_OPEN] + worker.listener.n_queued
    return max(0, n_open - n_before(world))


def request_ns(world: World, fd: int) -> int:
    """Return the user code's CPU time for the request from *fd*: of profile and scenario.

    The first request includes the connection's time, unless it was open before the run. Later ones
    include the time for fetching the kernel's data of the connection into the caches again.
    """
    c, program = world.connection_of[fd], world.program
    taken_ns = world.costs.application.request_ns + returning_ns(world, c)
    if program.request_cpu_drawn:
        taken_ns += drawn_for_request(world, world.request_cpu_ns, c)
    else:
        taken_ns += program.request_cpu_ns
    if program.reply_cpu_per_kb_ns > 0:
        taken_ns += world.reply_bytes[c] * program.reply_cpu_per_kb_ns // 1_000
    if program.connection_cpu_ns > 0 and world.answered[c] == 0 and not is_old(world, c):
        taken_ns += program.connection_cpu_ns
    return taken_ns


def returning_ns(world: World, c: int) -> int:
    """Return what a later request of *c* takes more, by the replies since its last one.

    They stand for connections, which is right where all ask about equally often. The first request
    of a run is free, also on a connection that was open before.
    """
    if world.answered[c] == 0:
        return 0
    n_others = world.counts[count.REPLIES] - world.replies_by[c]
    return curve_ns(world.costs.call.returning, n_others)


def closing_ns(world: World, worker: Worker, fd: int) -> int:
    """Return what closing *fd* takes, by the number of connections in flight.

    It includes the extra cost of a connection whose accept did not have it.
    """
    call, interrupt = world.costs.call, world.costs.interrupt
    return (
        call.close_ns
        + world.costs.application.connection_ns
        + (interrupt.displaced_ns - displaced_ns(world, fd))
        + curve_ns(call.crowding, n_in_flight(world, worker))
        + cooled_ns(world, worker.cpu, kernel_path.CLOSE, world.costs.cold.close)
    )


def spend_closing(world: World, worker: Worker, fd: int, cost_ns: int) -> Iterator[int]:
    """Spend the CPU time of closing *fd*; the client is notified, unless it has reset *fd*."""
    worker.tells_client = world.ended[world.connection_of[fd]] != IS_GONE
    yield from spend(worker, activity.CLOSE, cost_ns)


def read(world: World, fd: int) -> int:
    """Take what has arrived on *fd*: WHOLE_REQUEST, PART of one, END_OF_FILE or NONE (EAGAIN).

    A reset counts as the end of file: the read fails (ECONNRESET), and programs close after either.
    """
    c = world.connection_of[fd]
    if is_at_end(world, c):
        world.counts[count.READS] += 1
        return END_OF_FILE
    if world.pending[c] + world.part[c] == 0:
        world.counts[count.READ_AGAIN] += 1
        return NONE
    world.counts[count.READS] += 1
    world.part[c] = 0
    if world.ended[c] == NOT_ENDED:
        world.state[fd] &= ~READABLE  # otherwise the end of file is behind it, or the reset
    if world.pending[c] == 0:
        return PART
    world.pending[c] = 0
    world.n_unread -= 1
    world.unsent[c] = world.reply_bytes[c]
    return WHOLE_REQUEST


def is_at_end(world: World, c: int) -> bool:
    """Return whether the client of *c* has ended it, and the server reads nothing before the end.

    Servers that drop half-closed connections do not read the rest. A FIN comes behind the bytes
    sent before it. A reset leaves the receive queue as it is, too (Linux tcp_reset() purges the
    write queue only).
    """
    reads_none = world.program.drops_half_closed or world.pending[c] + world.part[c] == 0
    return world.ended[c] != NOT_ENDED and reads_none


def writable_bytes(world: World, fd: int) -> int:
    """Return how many bytes of the pending reply one write on *fd* would take now."""
    c = world.connection_of[fd]
    return min(world.unsent[c], windows.room_in_buffer(world, c))


def writing_ns(world: World, worker: Worker, fd: int, n_bytes: int) -> int:
    """Return what a write of *n_bytes* takes until its effect: one that fails copies nothing.

    It then takes what a read that finds nothing takes (Linux 6.18, one machine: 0.53 and 0.61 us).
    """
    call = world.costs.call
    if hung_up(world, fd):
        return call.read_again_ns
    more_ns = cooled_ns(world, worker.cpu, kernel_path.WRITE, world.costs.cold.write)
    return more_ns + sending_ns(call, n_bytes)


def write(world: World, fd: int, n_bytes: int) -> int:
    """Send *n_bytes* of the pending reply; return how many are left over (short write), or FAILED.

    Source: Linux net/ipv4/tcp.c tcp_sendmsg_locked() (sk_err, SEND_SHUTDOWN).
    """
    c = world.connection_of[fd]
    if world.ended[c] == IS_GONE:
        world.counts[count.WRITES] += 1
        world.counts[count.WRITE_FAILED] += 1
        return FAILED
    left = _take_from_reply(world, c, fd, n_bytes)
    if windows.goes_in_flights(world, c, n_bytes):
        windows.put_in_buffer(world, c, n_bytes)
    else:
        _send_reply(world, c, n_bytes, left)
    return left


def _take_from_reply(world: World, c: int, fd: int, n_bytes: int) -> int:
    """Take *n_bytes* of the pending reply of *c*; return how many are left of it."""
    world.counts[count.WRITES] += 1
    windows.reply_leaves(world, c)
    world.unsent[c] -= n_bytes
    left = world.unsent[c]
    if left > 0:
        world.counts[count.WRITE_SHORT] += 1
        world.state[fd] &= ~WRITABLE
    else:
        world.counts[count.REPLIES] += 1
        world.answered[c] += 1
        world.replies_by[c] = world.counts[count.REPLIES]
        waits_for_request(world, fd)
    return left


def _send_reply(world: World, c: int, n_bytes: int, left: int) -> None:
    """Send *n_bytes* of the reply of *c*, of which *left* wait for room in the send buffer."""
    at_client_ns = windows.reply_at_client_ns(world, c, n_bytes)
    if left > 0 or world.unacked[c] > 0:
        # Only a reply that does not fit needs its acknowledgements: a fresh request
        # means that the client has all of the reply before.
        windows.buffered(world, c, n_bytes)
        acked_ns = taken_ns(world, c, n_bytes, at_client_ns)
        schedule(world, send_up(world, c, acked_ns, 0), occurrence.ACKED, c)
    if left == 0:
        windows.reply_ends(world, c, at_client_ns)


def close(world: World, worker: Worker, fd: int) -> None:
    """Close *fd*: the descriptor is free again, a client that still waits has an error."""
    c = world.connection_of[fd]
    world.counts[count.CLOSES] += 1
    worker.cpu.left_work = True  # the file is freed by RCU
    world.counts[count.CONNECTIONS_OPEN] -= 1
    world.n_unread -= world.pending[c]
    if world.backend.connections > 0:
        forget_asker(world, worker.interests.number, fd)
    close_fd(world, fd)
    world.stage[c] = stage.CLOSED
    world.fd_of[c] = NONE
    if world.requests[c] == 0:
        _close_idle(world, c)
    elif _end_matters(world, worker, c):
        _send_end(world, c)


def _close_idle(world: World, c: int) -> None:
    """Close the idle connection *c*: its client is notified, or has closed before."""
    known_ns = world.now_ns
    if not world.ended[c]:
        known_ns = send_down(world, c, known_ns, 0)
        schedule(world, send_up(world, c, known_ns, 0), occurrence.LAST_ACK, c)
    idle_may_return(world, c, known_ns)


def _end_matters(world: World, worker: Worker, c: int) -> bool:
    """Return whether it makes a difference that the server of *c*, which *worker* closes, ends it.

    If the close began before the client's reset came, the client answers by another reset.
    """
    if worker.tells_client and world.replies_acked:
        return True
    return world.ended[c] != IS_GONE and _client_notices_close(world, c)


def _client_notices_close(world: World, c: int) -> bool:
    """Return whether it makes a difference to the client of *c* that the server closes it."""
    if world.client.closing != Closing.RESET:
        return True
    return world.status[c] == status.OPEN and world.answered[c] < world.requests[c]


def _send_end(world: World, c: int) -> None:
    """Send the server's FIN to the client of *c*, or a reset."""
    if world.pending[c] + world.part[c] > 0:
        # tcp_close(): a reset reports unread data to the client.
        world.ending[c] |= SERVER_RESET
    if world.ending[c] & SERVER_RESET == 0:
        schedule(world, send_down(world, c, world.now_ns, 0), occurrence.EOF, c)
        return
    at_client_ns = send_reset_down(world, c, world.now_ns)
    if at_client_ns != NONE:
        schedule(world, at_client_ns, occurrence.RST, c)


def shed(world: World, fd: int) -> None:
    """Have *fd*, of one who comes too many, be closed by a reset: SO_LINGER with a time of zero."""
    world.counts[count.SHED] += 1
    world.ending[world.connection_of[fd]] |= SERVER_RESET
