"""The kernel's queue of signals that report descriptors, and its overflow.

    event on fd ──► entry (fd, what), bounded ──► lowest signal number first, of one number FIFO
                      │ full: the event is lost
                      └─► SIGIO, at most one, taken before all others ──► flush, poll all

One entry per event: the kernel has no interest set, so an entry may report a descriptor that has
been closed, or closed and opened again, since. Coalesced (signal-per-fd), a descriptor has at most
one entry for all its events.

RLIMIT_SIGPENDING bounds all queues of a user together, so other processes may use it up. Events
before the arming of a descriptor are never reported, so a server must assume that it is ready.

Sources: Chandra and Mosberger 2001, §3.4, §4.2, §5; Provos and Lever 2000, §5; Linux fs/fcntl.c
send_sigio_to_task(), kernel/signal.c __send_signal_locked(), next_signal(); sigwaitinfo(2);
calibration/c/servers/signal_queue.c is the server's part in C.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...sim.cpu.interrupts import lengthen_interrupt
from ...sim.kernel import interest_set
from ...sim.state.columns import MakeColumn
from ...sim.state.costs import Curve, flat
from ...sim.state.kinds import NONE, READABLE, WRITABLE, count
from ...sim.state.mechanism import kept
from ...sim.state.settings import RunSettings
from ...sim.state.world import InterestSet, World
from ..remembering.readiness import Readiness


class SignalCosts(NamedTuple):
    """CPU time of queued signals.

    arm_ns arms a descriptor (three calls of fcntl). An event adds to its interrupt queue_ns for its
    entry, or lost_ns at a full queue, or merged_ns if it has an entry already. A call takes call_ns
    until it checks the queue, and signal_ns for each entry that it returns; event_ns is the
    server's own time for each event. Recovery takes flush_ns, discard_ns an entry, and `poll` of
    all watched descriptors, including `rebuild` for the array. keep_ns is the cost of each change
    where the array is kept. Handing a descriptor over takes send_fd_ns in one thread and
    receive_fd_ns in the other.
    """

    arm_ns: int
    queue_ns: int
    call_ns: int
    signal_ns: int
    event_ns: int = 0
    lost_ns: int = 0
    merged_ns: int = 0
    flush_ns: int = 0
    discard_ns: int = 0
    poll: Curve = flat(0)
    rebuild: Curve = flat(0)
    keep_ns: int = 0
    send_fd_ns: int = 0
    receive_fd_ns: int = 0


@dataclass(slots=True, eq=False)
class SignalQueue:
    """Queued signals of one worker: lists by signal number, in one store of *bound* entries."""

    bound: int
    coalesced: bool
    fds: list[int]  # of each entry
    what: list[int]
    after: list[int]  # next entry of the same number, or of the free ones
    heads: list[int]  # by signal number
    tails: list[int]
    queued: list[int]  # entries of each descriptor, shape (D,)
    n: int = 0
    first_free: int = NONE
    n_used: int = 0  # entries of the store that were ever in use
    sigio: bool = False


@dataclass(slots=True, eq=False)
class SignalMemory:
    """The memory of a worker that takes signals: the queue, and the reports taken from it."""

    queue: SignalQueue
    readiness: Readiness
    polls: bool = False  # it polls instead of taking signals
    recovers: bool = False  # a loss was reported, and it has not polled yet
    receives: bool = False  # it sleeps until a descriptor is sent to it: sibling.py
    holds: bool = False  # it is a sibling, and has received all descriptors


def signal_memory(
    settings: RunSettings, n_fds: int, column: MakeColumn, *, coalesced: bool = False
) -> SignalMemory:
    """Return an empty queue with the bound of *server*, for a worker without reports."""
    bound = settings.signals.signal_queue
    return SignalMemory(
        SignalQueue(
            bound=bound,
            coalesced=coalesced,
            fds=column(bound, 0, np.int32),
            what=column(bound, 0, np.int8),
            after=column(bound, NONE, np.int32),
            heads=column(settings.signals.signal_numbers, NONE, np.int32),
            tails=column(settings.signals.signal_numbers, NONE, np.int32),
            queued=column(n_fds, 0, np.int32),
        ),
        kept(Readiness)(settings, n_fds, column),
    )


def queue_of(interests: InterestSet) -> SignalQueue:
    """Return the signal queue of the worker with that interest set."""
    queue: SignalQueue = interests.own.queue
    return queue


def _n_queued(world: World) -> int:
    """Return the number of queued signals of all workers together."""
    n = 0
    for i in range(len(world.sets)):
        n += queue_of(world.sets[i]).n
    return n


def _is_full(world: World, queue: SignalQueue) -> bool:
    return world.signals_elsewhere + _n_queued(world) >= queue.bound


def count_queued(world: World) -> None:
    """Count the queued signals after a change, and their maximum."""
    n = _n_queued(world)
    world.counts[count.SIGNALS_QUEUED] = n
    world.counts[count.SIGNAL_QUEUE_MAX] = max(world.counts[count.SIGNAL_QUEUE_MAX], n)


def send(world: World, interests: InterestSet, fd: int, what: int) -> bool:
    """Queue a signal with the event *what* on *fd*; return whether the worker was woken."""
    queue = queue_of(interests)
    costs = world.costs.mechanism
    if queue.coalesced and queue.queued[fd] > 0:
        world.counts[count.SIGNALS_MERGED] += 1
        lengthen_interrupt(world, costs.merged_ns)
        return False
    if _is_full(world, queue):
        world.counts[count.SIGNALS_LOST] += 1
        lengthen_interrupt(world, costs.lost_ns)
        queue.sigio = True
        return interest_set.wake_one(world, interests)
    lengthen_interrupt(world, costs.queue_ns)
    _enqueue(queue, fd, what)
    count_queued(world)
    return interest_set.wake_one(world, interests)


def _enqueue(queue: SignalQueue, fd: int, what: int) -> None:
    """Append an entry to the list of its signal number."""
    entry = _free_entry(queue)
    queue.fds[entry] = fd
    queue.what[entry] = what
    queue.after[entry] = NONE
    number = fd % len(queue.heads)
    if queue.heads[number] == NONE:
        queue.heads[number] = entry
    else:
        queue.after[queue.tails[number]] = entry
    queue.tails[number] = entry
    queue.queued[fd] += 1
    queue.n += 1


def _free_entry(queue: SignalQueue) -> int:
    entry = queue.first_free
    if entry == NONE:
        queue.n_used += 1
        return queue.n_used - 1
    queue.first_free = queue.after[entry]
    return entry


def dequeue(queue: SignalQueue) -> int:
    """Take the first entry off the queue and return its place in the store; NONE: it is empty."""
    for number in range(len(queue.heads)):
        entry = queue.heads[number]
        if entry != NONE:
            queue.heads[number] = queue.after[entry]
            queue.after[entry] = queue.first_free
            queue.first_free = entry
            queue.queued[queue.fds[entry]] -= 1
            queue.n -= 1
            return entry
    return NONE


def reported_by(queue: SignalQueue, entry: int) -> int:
    """Return the states in which the descriptor of *entry* may be ready: all, if coalesced."""
    return READABLE | WRITABLE if queue.coalesced else queue.what[entry]


def flush(queue: SignalQueue) -> None:
    """Discard all queued signals, including SIGIO."""
    while dequeue(queue) != NONE:
        pass
    queue.sigio = False
