"""A server's memory of its descriptors' states, where the kernel reports only changes.

    kernel: fd became ready ──► mark ──► pending, in order of arrival ──► take ──► events
    server: fd would block  ──► blocked: not pending until the kernel reports it again

A change is reported once. So a descriptor stays pending, and is returned to the server repeatedly,
until a call on it would block. No report is lost, whether the server accepts one connection per
notice or all. A server that does not remember (`remembers` false) serves each notice once. Data
that it leaves unread, or connections that it leaves in the accept queue, are stranded.

Sources: Gammo et al. 2004, §3.2 (edge-triggered epoll); epoll(7), "possible pitfalls";
calibration/c/servers/readiness.c is the same in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...sim.kernel import interest_set
from ...sim.state.columns import I8, I32, Per, per_descriptor, per_run
from ...sim.state.kinds import activity, count
from ...sim.state.mechanism import spend
from ...sim.state.world import InterestSet, Worker, World


@dataclass(slots=True, eq=False)
class Readiness:
    """What the kernel has reported of the descriptors of one interest set."""

    known: list[int] = per_descriptor(0, I8)  # what each was last reported to be ready for
    pends: list[int] = per_descriptor(0, I8)  # 1: on the list, pending or no longer
    pending: list[int] = per_run(Per.RING, 0, I32)  # ring of descriptors
    first: int = 0
    n: int = 0
    ask_first: bool = False  # the kernel's turn: the last wait returned what is pending


def _append(readiness: Readiness, fd: int) -> None:
    if readiness.pends[fd]:
        return
    readiness.pends[fd] = 1
    last = len(readiness.pending) - 1  # a mask, as the size is a power of two
    readiness.pending[(readiness.first + readiness.n) & last] = fd
    readiness.n += 1


def _remove_first(readiness: Readiness) -> int:
    fd = readiness.pending[readiness.first]
    readiness.first = (readiness.first + 1) & (len(readiness.pending) - 1)
    readiness.n -= 1
    readiness.pends[fd] = 0
    return fd


def wanted_of(world: World, interests: InterestSet, fd: int) -> int:
    """Return the states of interest in which *fd* was reported; 0 if this set does not watch it."""
    readiness: Readiness = interests.own.readiness
    if world.watched_by[fd] != interests.number:
        return 0
    return readiness.known[fd] & world.interest[fd]


def assume(world: World, interests: InterestSet, fd: int, what: int) -> None:
    """Assume that *fd*, watched from now on, is ready for *what*: there was no report yet."""
    readiness: Readiness = interests.own.readiness
    readiness.known[fd] = what
    if wanted_of(world, interests, fd) != 0:
        _append(readiness, fd)


def want(world: World, interests: InterestSet, fd: int) -> None:
    """Make *fd* pending if it was reported ready for its new interest."""
    readiness: Readiness = interests.own.readiness
    if wanted_of(world, interests, fd) != 0:
        _append(readiness, fd)


def mark(world: World, interests: InterestSet, fd: int, what: int) -> bool:
    """Remember that *fd* is ready for *what*; return whether it is watched for that now."""
    readiness: Readiness = interests.own.readiness
    if world.watched_by[fd] != interests.number:
        return False  # reported before the descriptor was closed
    readiness.known[fd] |= what
    if what & world.interest[fd] == 0:
        return False
    _append(readiness, fd)
    return True


def note(world: World, interests: InterestSet, fd: int, what: int) -> None:
    """Count a notice of the kernel, and remember it."""
    world.counts[count.NOTICES] += 1
    if not mark(world, interests, fd, what):
        world.counts[count.NOTICES_UNWANTED] += 1


def would_block(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Remember that a call on *fd* for *interest* would block now."""
    readiness: Readiness = interests.own.readiness
    readiness.known[fd] &= ~interest


def is_pending(world: World, fd: int) -> bool:
    """Return whether the server has yet to serve a report about *fd*."""
    interests = interest_set.set_of(world, fd)
    readiness: Readiness = interests.own.readiness
    return readiness.pends[fd] != 0 and wanted_of(world, interests, fd) != 0


def may_block(world: World, worker: Worker) -> bool:
    """Return whether nothing is pending, so that the server may block in the kernel.

    Removes descriptors from the front that would block, or were closed, meanwhile.
    """
    interests = worker.interests
    readiness: Readiness = interests.own.readiness
    while readiness.n > 0 and wanted_of(world, interests, readiness.pending[readiness.first]) == 0:
        _remove_first(readiness)
    return readiness.n == 0


def take_pending(world: World, worker: Worker) -> None:
    """Fill the events of *worker*; each event goes to the end of the list for its next turn."""
    interests = worker.interests
    readiness: Readiness = interests.own.readiness
    n_max = world.program.max_events
    n_events = 0
    for _ in range(readiness.n):
        if n_events == n_max:
            break
        fd = _remove_first(readiness)
        if wanted_of(world, interests, fd) != 0:
            worker.event_fd[n_events] = fd
            n_events += 1
            if world.program.remembers:
                _append(readiness, fd)
            else:
                readiness.known[fd] = 0
    worker.n_events = n_events
    world.counts[count.EVENTS] += n_events


Wait = Callable[[World, Worker], Iterator[int]]


def wait_with(ask: Wait) -> Wait:
    """Return the wait that returns pending descriptors, and calls the kernel by *ask*.

    It calls the kernel at least every second time, so that a descriptor that never blocks cannot
    delay reports of others. A server that serves each notice once calls the kernel when all
    notices are served. *ask* blocks if `may_block`, and marks the reported descriptors.
    """

    def wait(world: World, worker: Worker) -> Iterator[int]:
        """Wait for events; they are in the order in which they were reported."""
        readiness: Readiness = worker.interests.own.readiness
        world.counts[count.WAITS] += 1
        worker.n_notices = 0
        worker.n_listener_signals = 0
        worker.n_listener_left = 0
        if readiness.ask_first:
            yield from ask(world, worker)
        take_pending(world, worker)
        while worker.n_events == 0:
            yield from ask(world, worker)
            take_pending(world, worker)
        readiness.ask_first = world.program.remembers
        events_ns = worker.n_events * world.costs.mechanism.event_ns
        yield from spend(worker, activity.WAIT, events_ns)

    return wait
