"""System calls of a client: connections that the simulated machine itself opens, to a server.

    connect() ──SYN──► server ──SYN-ACK──► writable       write() ──► service ──reply──► readable
    close() ───FIN──► server ──FIN──► handled, without an event for the client

That server has no limits: it accepts at once, replies to each request after service_ns, and closes
after the client. Its packets cost as much as those of clients elsewhere: a SYN-ACK as the last
packet of a handshake, a reply as a request, a FIN as a reset.
Sources: connect(2), read(2), write(2), close(2); Linux net/ipv4/tcp_input.c
tcp_rcv_synsent_state_process().
"""

from __future__ import annotations

from ..clients.asking import new_request
from ..state.event_calendar import schedule
from ..state.kinds import NONE, READABLE, count, occurrence, stage, status
from ..state.world import Worker, World
from ..wire.network import send_down, send_up
from .descriptors import open_fd
from .sockets import close


def connect(world: World, due_ns: int) -> int:
    """Open the next connection of the trace, which must have one; return its descriptor.

    Its user wanted it at *due_ns*. It is established when the descriptor is WRITABLE.
    """
    assert world.next_row < world.end_row
    fd = open_fd(world)
    assert fd != NONE  # users without a descriptor were refused before the run
    c = world.next_row
    world.next_row += 1
    world.counts[count.CONNECTS] += 1
    world.counts[count.CONNECTIONS_OPEN] += 1
    world.intended_ns[c] = due_ns
    world.started_ns[c] = world.now_ns
    new_request(world, c, due_ns)
    world.stage[c] = stage.CALLING
    world.fd_of[c] = fd
    world.connection_of[fd] = c
    world.state[fd] = 0
    schedule(world, send_down(world, c, world.now_ns, 0), occurrence.ANSWER, c)
    return fd


def answer(world: World, c: int) -> None:
    """Let the server reply to the SYN, the request or the FIN of *c*, which it has now."""
    if world.stage[c] == stage.CALLING:
        schedule(world, send_up(world, c, world.now_ns, 0), occurrence.ACK, c)
    elif world.stage[c] == stage.CLOSED:
        schedule(world, send_up(world, c, world.now_ns, 0), occurrence.GONE, c)
    else:
        schedule(
            world, send_up(world, c, world.now_ns, world.reply_bytes[c]), occurrence.REQUEST, c
        )


def send_request(world: World, fd: int) -> None:
    """Write the next request on *fd*, which fits the send buffer."""
    c = world.connection_of[fd]
    world.counts[count.WRITES] += 1
    heard_ns = send_down(world, c, world.now_ns, world.request_bytes[c])
    schedule(world, heard_ns + world.network.service_ns, occurrence.ANSWER, c)


def take_reply(world: World, fd: int) -> bool:
    """Read from *fd*; return whether a whole reply was there. If not it is EAGAIN."""
    c = world.connection_of[fd]
    if world.pending[c] == 0:
        world.counts[count.READ_AGAIN] += 1
        return False
    world.counts[count.READS] += 1
    world.counts[count.REPLIES] += 1
    world.pending[c] = 0
    world.n_unread -= 1
    world.state[fd] &= ~READABLE
    world.answered[c] += 1
    world.reply_ns[world.request_of[c]] = world.now_ns
    world.left[c] -= 1
    if world.left[c] > 0:
        new_request(world, c, world.now_ns)
    else:
        world.done_ns[c] = world.now_ns
        world.status[c] = status.REPLIED
    return True


def has_all_replies(world: World, fd: int) -> bool:
    """Return whether nothing more is to be asked on *fd*."""
    return world.left[world.connection_of[fd]] == 0


def hang_up(world: World, worker: Worker, fd: int) -> None:
    """Close *fd*, which has had all its replies; the server closes, too."""
    c = world.connection_of[fd]
    assert world.left[c] == 0
    close(world, worker, fd)
    schedule(world, send_down(world, c, world.now_ns, 0), occurrence.ANSWER, c)
