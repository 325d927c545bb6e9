"""What became of each connection: one class each, and they add up.

    offered ─┬─ replied                     all its replies, in time for its client
             ├─ timeout, refused, reset     its client gave up, or was turned away
             ├─ descriptors, ports, dropped it never came to be: none of these, no SYN answered
             ├─ stranded                    it waits for an event of which the server will not hear
             └─ open                        it waits, and may yet be answered

A connection that is open at the end of a run is counted as such: none disappears.

A stranded one waits for an event of which its server will never hear. A server that is notified of
changes may lose one: a queue was full, or it did not drain a descriptor. Then both sides wait.
Nothing of this can be repaired by time, so a run that ends so says it.

Sources: Chandra and Mosberger 2001, §4.1 ("notification leak"); epoll(7), "possible pitfalls".
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ..state.kinds import NONE, READABLE, status
from ..state.world import Listener, World
from .histogram import Integers


class Fate(IntEnum):
    """What became of a connection; but for STRANDED, the codes of `Status`."""

    REPLIED = status.REPLIED
    TIMEOUT = status.TIMEOUT
    REFUSED = status.REFUSED
    RESET = status.RESET
    DESCRIPTORS = status.DESCRIPTORS
    OPEN = status.OPEN
    DROPPED = status.DROPPED
    PORTS = status.PORTS
    STRANDED = 7


def fates_of(status: NDArray[np.integer], numbers: Integers, stranded: Integers) -> Integers:
    """Return what became of the connections of these *numbers* in the trace.

    Parameters
    ----------
    status, numbers:
        One entry a connection, shape (n,): as in `Status`, and its row in the trace.
    stranded:
        As of `stranded`. A client that has given up is not stranded, whatever waits at the server.
    """
    if len(stranded) == 0:
        return np.asarray(status, np.int64)
    found = status.astype(np.int64)
    found[(found == Fate.OPEN) & np.isin(numbers, stranded[:, 0])] = Fate.STRANDED
    return found


class Missing(IntEnum):
    """The event of which the server does not hear."""

    ACCEPT = 0  # a connection waits to be accepted
    READ = 1  # a request, or the end of the connection, waits to be read
    WRITE = 2  # there is room for the rest of a reply


NOBODY = np.zeros((0, 2), np.int64)
"""No connection is stranded."""


def stranded(world: World, tells: Callable[[World, int], bool]) -> NDArray[np.int64]:
    """Return the connections that are stranded now, shape (n, 2): number, and what is `Missing`.

    Parameters
    ----------
    world:
        A run, at its end.
    tells:
        Of its mechanism: whether the server will hear of a descriptor that is ready.

    Numbers are those of the trace; of the idle population, -1 for the first, -2 for the second.
    """
    in_hand = {worker.event_fd[i] for worker in world.workers for i in range(worker.n_events)}

    def is_heard_of(fd: int) -> bool:
        return fd in in_hand or bool(tells(world, fd))

    found = [
        (_number(world, c), int(Missing.ACCEPT))
        for listener in world.listeners
        if listener.n_queued > 0 and not any(map(is_heard_of, _watched(world, listener)))
        for c in _queued(listener)
    ]
    watched = np.asarray(world.watched_by) != NONE
    ready = np.asarray(world.state) & np.asarray(world.interest)
    for fd in np.flatnonzero(watched & (ready != 0)).tolist():
        c = world.connection_of[fd]
        if c != NONE and not is_heard_of(fd):
            missing = Missing.READ if ready[fd] & READABLE else Missing.WRITE
            found.append((_number(world, c), int(missing)))
    return np.array(sorted(found), np.int64).reshape(-1, 2) if found else NOBODY


def _number(world: World, c: int) -> int:
    number = int(world.row[c])
    return number // world.rows_each if c >= world.n_idle else -1 - number


def _watched(world: World, listener: Listener) -> list[int]:
    return [fd for fd in listener.fds[: listener.n_fds] if world.watched_by[fd] != NONE]


def _queued(listener: Listener) -> list[int]:
    last = len(listener.queue) - 1
    return [listener.queue[(listener.first_queued + i) & last] for i in range(listener.n_queued)]
