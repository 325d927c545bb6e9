"""A listening thread: it accepts, and hands each connection over to the next worker in turn.

    listening thread   accept ─► queue of a worker ─► write(its eventfd)
    worker             eventfd readable ─► read it ─► watch all that is in its queue

The first worker serves no connections; the others have no listener. No worker watches a connection
in a queue: its client's data is found when the connection is watched.

Sources: memcached 1.6, thread.c dispatch_conn_new(), thread_libevent_process(); eventfd(2).
"""

from __future__ import annotations

from ..state.kinds import READABLE
from ..state.program_settings import Sharing
from ..state.world import Worker, World
from .descriptors import open_fd

FDS_OF_SIBLING = 2
"""A pair of UNIX sockets: an end of a worker, and an end of its sibling."""


def has_sibling(world: World) -> bool:
    """Return whether each worker has a sibling that polls: models/signals/sibling.py."""
    return world.signals.recovery_hands_over and world.n_siblings > 0


def is_sibling(world: World, number: int) -> bool:
    """Return whether the worker of that *number* is a sibling, or the set that of one."""
    return has_sibling(world) and number >= world.n_siblings


def hands_over(world: World) -> bool:
    """Return whether one thread accepts for the others."""
    return world.program.sharing == Sharing.HANDED_OVER


def open_eventfd(world: World, worker: Worker) -> None:
    """Give *worker* an eventfd for new connections in place of a listener."""
    worker.listener_fd = open_fd(world)


def hand_over(world: World, worker: Worker, fd: int) -> int:
    """Queue *fd* for the next worker in turn; return the descriptor with its event."""
    taker = world.workers[1 + worker.n_handed_on % (len(world.workers) - 1)]
    worker.n_handed_on += 1
    queue_for(taker, fd)
    eventfd = taker.listener_fd
    world.fresh[eventfd] = world.state[eventfd] == 0
    world.state[eventfd] = READABLE
    world.news[eventfd] = READABLE
    return eventfd


def queue_for(taker: Worker, fd: int) -> None:
    """Put *fd* at the end of the queue of *taker*."""
    last = len(taker.handed) - 1  # a mask, as the size is a power of two
    taker.handed[(taker.first_handed + taker.n_handed) & last] = fd
    taker.n_handed += 1


def read_eventfd(world: World, worker: Worker) -> int:
    """Return the number of connections handed to *worker*, and clear the eventfd."""
    world.state[worker.listener_fd] = 0
    return worker.n_handed


def take_handed(worker: Worker) -> int:
    """Take the first connection out of the queue of *worker*, and return its descriptor."""
    fd = worker.handed[worker.first_handed & (len(worker.handed) - 1)]
    worker.first_handed += 1
    worker.n_handed -= 1
    return fd
