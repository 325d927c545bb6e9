"""What a server remembers of its descriptors when the kernel tells of changes and not of states.

    kernel: fd became ready ──► mark ──► pending, in order of arrival ──► take ──► events
    server: fd would block  ──► blocked: not pending until the kernel tells of it again

A change is told once. So a descriptor stays pending until a call on it would have blocked, and is
given to the server again and again until then: none of what was told is lost, whether the server
takes one connection a notice or all. A server that does not remember (`remembers` false) serves
each notice once; what it leaves unread, or in the accept queue, is stranded.

Sources: Gammo et al. 2004, §3.2 (edge-triggered epoll); epoll(7), "possible pitfalls";
calibration/servers/readiness.c is the same in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..sim.build import power_of_two
from ..sim.columns import MakeColumn
from ..sim.interest_set import InterestSet, set_of
from ..sim.jitable import inlined, jitable
from ..sim.kinds import Activity, Count
from ..sim.processor import Worker
from ..sim.world import World

_WAIT, _WAITS, _EVENTS = int(Activity.WAIT), int(Count.WAITS), int(Count.EVENTS)
_NOTICES, _UNWANTED = int(Count.NOTICES), int(Count.NOTICES_UNWANTED)


@dataclass(slots=True, eq=False)
class Readiness:
    """What was heard of the descriptors of one interest set."""

    known: list[int]  # what each was last heard to be ready for, shape (D,)
    pends: list[int]  # 1: on the list, which may hold some that are pending no longer
    pending: list[int]  # ring of descriptors
    first: int = 0
    n: int = 0
    ask_first: bool = False  # the kernel's turn: what is pending was given out in the last wait


def no_readiness(n_fds: int, column: MakeColumn) -> Readiness:
    """Return what is known of descriptors of which nothing was heard."""
    return Readiness(
        known=column(n_fds, 0, np.int8),
        pends=column(n_fds, 0, np.int8),
        pending=column(power_of_two(n_fds), 0, np.int32),
    )


@inlined
def _append(readiness: Readiness, fd: int) -> None:
    if readiness.pends[fd]:
        return
    readiness.pends[fd] = 1
    last = len(readiness.pending) - 1  # a mask, as the size is a power of two
    readiness.pending[(readiness.first + readiness.n) & last] = fd
    readiness.n += 1


@inlined
def _remove_first(readiness: Readiness) -> int:
    fd = readiness.pending[readiness.first]
    readiness.first = (readiness.first + 1) & (len(readiness.pending) - 1)
    readiness.n -= 1
    readiness.pends[fd] = 0
    return fd


@inlined
def wanted_of(world: World, interests: InterestSet, fd: int) -> int:
    """Return for what of interest *fd* was heard to be ready; 0 if this set does not watch it."""
    readiness: Readiness = interests.own.readiness
    if world.watched_by[fd] != interests.number:
        return 0
    return readiness.known[fd] & world.interest[fd]


@inlined
def assume(world: World, interests: InterestSet, fd: int, what: int) -> None:
    """Take *fd*, watched from now on, to be ready for *what*, though nothing was heard of it."""
    readiness: Readiness = interests.own.readiness
    readiness.known[fd] = what
    if wanted_of(world, interests, fd) != 0:
        _append(readiness, fd)


@inlined
def want(world: World, interests: InterestSet, fd: int) -> None:
    """Have *fd* pending if it was heard to be ready for what it is watched for from now on."""
    readiness: Readiness = interests.own.readiness
    if wanted_of(world, interests, fd) != 0:
        _append(readiness, fd)


@inlined
def mark(world: World, interests: InterestSet, fd: int, what: int) -> bool:
    """Hear that *fd* is ready for *what*; return whether that is of interest now."""
    readiness: Readiness = interests.own.readiness
    if world.watched_by[fd] != interests.number:
        return False  # told before the descriptor was closed
    readiness.known[fd] |= what
    if what & world.interest[fd] == 0:
        return False
    _append(readiness, fd)
    return True


@inlined
def note(world: World, interests: InterestSet, fd: int, what: int) -> None:
    """Hear a notice of the kernel, and count it."""
    world.counts[_NOTICES] += 1
    if not mark(world, interests, fd, what):
        world.counts[_UNWANTED] += 1


@inlined
def would_block(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Know that a call on *fd* for *interest* would block now."""
    readiness: Readiness = interests.own.readiness
    readiness.known[fd] &= ~interest


@inlined
def is_pending(world: World, fd: int) -> bool:
    """Return whether the server has yet to serve what it heard of *fd*."""
    interests = set_of(world, fd)
    readiness: Readiness = interests.own.readiness
    return readiness.pends[fd] != 0 and wanted_of(world, interests, fd) != 0


@jitable
def may_block(world: World, worker: Worker) -> bool:
    """Return whether nothing is pending, so that the kernel may be asked until it tells something.

    Takes those off the front that blocked or were closed meanwhile.
    """
    interests = worker.interests
    readiness: Readiness = interests.own.readiness
    while readiness.n > 0 and wanted_of(world, interests, readiness.pending[readiness.first]) == 0:
        _remove_first(readiness)
    return readiness.n == 0


@jitable
def take_pending(world: World, worker: Worker) -> None:
    """Fill the events of *worker*; each of them goes to the end of the list, for its next turn."""
    interests = worker.interests
    readiness: Readiness = interests.own.readiness
    n_max = world.server.max_events
    n_events = 0
    for _ in range(readiness.n):
        if n_events == n_max:
            break
        fd = _remove_first(readiness)
        if wanted_of(world, interests, fd) != 0:
            worker.event_fd[n_events] = fd
            n_events += 1
            if world.server.remembers:
                _append(readiness, fd)
            else:
                readiness.known[fd] = 0
    worker.n_events = n_events
    world.counts[_EVENTS] += n_events


Wait = Callable[[World, Worker], Iterator[int]]


def wait_with(ask: Wait) -> Wait:
    """Return the wait that gives what is pending, and asks the kernel by *ask*.

    It asks every second time at least, so that a descriptor that never blocks cannot keep the
    others from being heard of; a server that serves each notice once does not need to, and asks
    when it has served all it knows. *ask* blocks if `may_block` says so, and marks what it is told.
    """

    @jitable
    def wait(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time of one wait; its events are in the order in which they were heard."""
        readiness: Readiness = worker.interests.own.readiness
        event_ns = world.costs.mechanism.event_ns
        worker.activity = _WAIT
        world.counts[_WAITS] += 1
        worker.n_notices = 0
        worker.n_listener_signals = 0
        worker.n_listener_left = 0
        while True:
            if not readiness.ask_first:
                take_pending(world, worker)
                if worker.n_events > 0:
                    break
            readiness.ask_first = False
            for cost_ns in ask(world, worker):
                yield cost_ns
            worker.activity = _WAIT
        readiness.ask_first = world.server.remembers
        if event_ns > 0:
            yield worker.n_events * event_ns

    return wait
