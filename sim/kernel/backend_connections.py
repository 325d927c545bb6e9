"""Connections that the server keeps open to its backend, with the request of each.

    request is read ─► a connection of the pool is free ─► query ─► reply ─► free again
                         └─► waits in line ─────────────────┘         └─► the first in line has it

Each interest set has its own pool; threads share one. A connection has one request at a time. A
client that is gone leaves the queue. If its request is at the backend, the connection stays taken
until the reply has been read, and the reply is discarded.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..clients.asking import drawn_for_request
from ..clients.backend import count_backend_times, query_comes
from ..state.costs import sending_ns
from ..state.kinds import NONE, READABLE, activity, count
from ..state.mechanism import spend
from ..state.world import Worker, World

QUERY_BYTES = 256
"""Bytes of a query to the backend; its reply is one packet, too."""
IN_LINE = -2
"""`World.asks` of a descriptor whose request waits for a connection to the backend."""
NO_REPLY = -2
"""Result of a read of a connection without a reply (EAGAIN)."""


def is_backend(world: World, fd: int) -> bool:
    """Return whether *fd* is a connection to the backend."""
    return 0 <= fd - world.first_backend_fd < world.backend.connections


def number_of(world: World, fd: int) -> int:
    """Return the number of the connection to the backend that *fd* is."""
    return fd - world.first_backend_fd


def backend_fd(world: World, k: int) -> int:
    """Return the descriptor of connection *k*."""
    return world.first_backend_fd + k


def needs_backend(world: World, fd: int) -> bool:
    """Return whether the request that was read from *fd* needs the backend."""
    c, share_permille = world.connection_of[fd], world.backend.share_permille
    return drawn_for_request(world, world.backend_draws, c) < share_permille


def ask(world: World, pool: int, fd: int) -> int:
    """Give the request of *fd* a free connection of *pool* and return it, or NONE: it is queued."""
    k = world.first_free[pool]
    if k == NONE:
        _stand_in_line(world, pool, fd)
    else:
        world.first_free[pool] = world.behind[k]
        _have_request(world, k, fd)
    return k


def _have_request(world: World, k: int, fd: int) -> None:
    """Have connection *k* be taken by the request of *fd*, and draw how long that will take."""
    world.asker[k] = fd
    world.asks[fd] = k
    world.working_ns[k] = world.backend.delay_ns
    if world.backend.delay_drawn:
        c = world.connection_of[fd]
        world.working_ns[k] = drawn_for_request(world, world.backend_delay_ns, c)


def _stand_in_line(world: World, pool: int, fd: int) -> None:
    count_backend_times(world)
    world.n_in_line += 1
    last = world.last_asking[pool]
    world.asks[fd] = IN_LINE
    world.line_before[fd] = last
    world.line_behind[fd] = NONE
    if last == NONE:
        world.first_asking[pool] = fd
    else:
        world.line_behind[last] = fd
    world.last_asking[pool] = fd


def _leave_line(world: World, pool: int, fd: int) -> None:
    count_backend_times(world)
    world.n_in_line -= 1
    before, behind = world.line_before[fd], world.line_behind[fd]
    if before == NONE:
        world.first_asking[pool] = behind
    else:
        world.line_behind[before] = behind
    if behind == NONE:
        world.last_asking[pool] = before
    else:
        world.line_before[behind] = before


def write_query(world: World, worker: Worker, k: int) -> Iterator[int]:
    """Write the request that connection *k* has to the backend."""
    call = world.costs.call
    yield from spend(worker, activity.WRITE, sending_ns(call, QUERY_BYTES))
    world.counts[count.WRITES] += 1
    world.counts[count.BACKEND_QUERIES] += 1
    world.n_replies_sent[k] = 0
    query_comes(world, k)
    yield from spend(worker, activity.WRITE, call.write_after_ns)


def read_reply(world: World, k: int) -> int:
    """Read from connection *k*: return the descriptor that asked, NONE if gone, or NO_REPLY."""
    fd = backend_fd(world, k)
    if world.state[fd] & READABLE == 0:
        world.counts[count.READ_AGAIN] += 1
        return NO_REPLY
    world.counts[count.READS] += 1
    world.counts[count.BACKEND_REPLIES] += 1
    world.state[fd] = 0
    asker = world.asker[k]
    world.asker[k] = NONE
    if asker == NONE:
        world.counts[count.BACKEND_DISCARDED] += 1
    else:
        world.asks[asker] = NONE
    return asker


def hand_on(world: World, pool: int, k: int) -> bool:
    """Give connection *k* to the request that is first in line; return False if it is free now."""
    fd = world.first_asking[pool]
    if fd == NONE:
        free(world, pool, k)
        return False
    _leave_line(world, pool, fd)
    _have_request(world, k, fd)
    return True


def free(world: World, pool: int, k: int) -> None:
    """Have connection *k* of *pool* be free: the next request takes it."""
    world.behind[k] = world.first_free[pool]
    world.first_free[pool] = k


def forget_asker(world: World, pool: int, fd: int) -> None:
    """Have nobody wait for the backend on *fd*, which is closed."""
    k = world.asks[fd]
    if k == IN_LINE:
        _leave_line(world, pool, fd)
        world.counts[count.BACKEND_LEFT] += 1
    elif k != NONE:
        world.asker[k] = NONE
    world.asks[fd] = NONE
