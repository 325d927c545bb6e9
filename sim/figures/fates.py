"""The fate of each connection: exactly one each, and they add up.

    offered ─┬─ replied                     all replies received, before the client's time-out
             ├─ timeout, refused, reset     its client timed out, or was rejected
             ├─ descriptors, ports, dropped never opened: no descriptor, no port, no SYN-ACK
             ├─ stranded                    it waits for an event that the server will never get
             └─ open                        it waits, and may still get its reply

Connections that are open at the end of a run are counted, too: none disappears.

A stranded connection waits for an event that its server will never get. A server that is notified
of changes may lose one: its queue was full, or it did not drain a descriptor. Then both sides wait
forever, and the run reports it.

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
    """The fate of a connection; codes as in `Status`, and STRANDED."""

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
    """Return the fates of the connections of these *numbers* in the trace.

    Parameters
    ----------
    status, numbers:
        One entry a connection, shape (n,): as in `Status`, and its row in the trace.
    stranded:
        The result of `stranded`. A client that has timed out is not stranded.
    """
    if len(stranded) == 0:
        return np.asarray(status, np.int64)
    found = status.astype(np.int64)
    found[(found == Fate.OPEN) & np.isin(numbers, stranded[:, 0])] = Fate.STRANDED
    return found


class Missing(IntEnum):
    """The event that the server does not get."""

    ACCEPT = 0  # a connection waits to be accepted
    READ = 1  # a request, or the end of the connection, waits to be read
    WRITE = 2  # there is room for the rest of a reply


NOBODY = np.zeros((0, 2), np.int64)
"""No connection is stranded."""


def stranded(world: World, tells: Callable[[World, int], bool]) -> NDArray[np.int64]:
    """Return the connections that are stranded now, shape (n, 2): number, and `Missing` event.

    Parameters
    ----------
    world:
        A run, at its end.
    tells:
        The mechanism's test whether the server will be notified of a ready descriptor.

    Numbers are those of the trace; idle connections are -1, -2 and so on.
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
