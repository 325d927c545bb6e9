"""What a server knows at one moment, read off its world: queues, the interest set, the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..models.completions.completion_port import Port
from ..models.scans.poll_pollfd import PollArray
from ..models.signals.signal_queue import SignalMemory, SignalQueue
from ..sim.figures.queue_lengths import Measure
from ..sim.figures.recording import NotedColumn
from ..sim.kernel.interest_set import listed_at
from ..sim.state.kinds import NONE
from ..sim.state.threads import InterestSet
from ..sim.state.world import World

SHOWN_MAX = 64
"""Descriptors, or connections of a queue, that a state lists; of further ones it has the number."""


class Watched(NamedTuple):
    """One descriptor in an interest set: whose it is, and whether the server would find it ready.

    The listener has no connection: NONE.
    """

    fd: int
    connection: int
    is_ready: bool


class State(NamedTuple):
    """What the server and its kernel know.

    Attributes
    ----------
    accept_queue:
        Connections that wait to be accepted, the first one first.
    watched:
        The descriptors of the interest sets, in the order of a scan, idle connections left out.
    n_idle:
        How many idle connections are watched besides.
    first_idle:
        How many of `watched` come before the idle ones in the order of a scan.
    ready:
        Descriptors on the ready list, the first one first.
    queued:
        Descriptors that the queue of signals, or of completions, tells of; the first one first.
    batch:
        Descriptors that the last wait of the first worker returned.
    """

    accept_queue: tuple[int, ...]
    watched: tuple[Watched, ...]
    n_idle: int
    first_idle: int
    ready: tuple[int, ...]
    queued: tuple[int, ...]
    batch: tuple[int, ...]


def state_of(world: World) -> State:
    """Return what the server knows now."""
    connection_of = world.connection_of
    assert isinstance(connection_of, NotedColumn)
    listeners = {fd for listener in world.listeners for fd in listener.fds[: listener.n_fds]}
    ours = [fd for fd in connection_of.assigned if _peek(world.connection_of, fd) >= world.n_idle]
    found = [fd for fd in (*listeners, *ours) if _peek(world.watched_by, fd) != NONE]
    idle_fd = world.fd_of[0] if world.n_idle else 0
    found.sort(key=lambda fd: _place(world, fd))
    first_idle = sum(_place(world, fd) < _place(world, idle_fd) for fd in found)
    n_watched = sum(interests.n_watched for interests in world.sets)
    worker = world.workers[0]
    return State(
        accept_queue=_accept_queue(world),
        watched=tuple(
            Watched(
                fd,
                NONE if fd in listeners else _peek(connection_of, fd),
                bool(world.state[fd] & world.interest[fd]),
            )
            for fd in found[:SHOWN_MAX]
        ),
        n_idle=max(0, n_watched - len(found)),
        first_idle=min(first_idle, SHOWN_MAX),
        ready=tuple(fd for interests in world.sets for fd in _listed(world, interests)),
        queued=tuple(fd for interests in world.sets for fd in queued_of(interests)),
        batch=tuple(worker.event_fd[: min(worker.n_events, SHOWN_MAX)]),
    )


def _told(world: World) -> int:
    return sum(_n_queued(interests) for interests in world.sets)


TOLD: Mapping[str, Measure] = {"told": _told}
"""The length of the queue that a mechanism has of its own: of signals, or of completions."""


def _n_queued(interests: InterestSet) -> int:
    own = interests.own
    if isinstance(own, SignalMemory):
        return own.queue.n
    return own.n if isinstance(own, Port) else 0


def queued_of(interests: InterestSet) -> list[int]:
    """Return the descriptors that the mechanism's own queue tells of, the first one first."""
    own = interests.own
    if isinstance(own, SignalMemory):
        return _signals(own.queue)
    if isinstance(own, Port):
        last = len(own.packets)
        return [own.packets[(own.first + i) % last] for i in range(min(own.n, SHOWN_MAX))]
    return []


def _signals(queue: SignalQueue) -> list[int]:
    found: list[int] = []
    for head in queue.heads:
        entry = head
        while entry != NONE and len(found) < SHOWN_MAX:
            found.append(queue.fds[entry])
            entry = queue.after[entry]
    return found


def _accept_queue(world: World) -> tuple[int, ...]:
    found: list[int] = []
    for listener in world.listeners:
        last = len(listener.queue) - 1
        n = min(listener.n_queued, SHOWN_MAX)
        found += [listener.queue[(listener.first_queued + i) & last] for i in range(n)]
    return tuple(found)


def _listed(world: World, interests: InterestSet) -> list[int]:
    places = range(interests.first_ready, interests.first_ready + interests.n_ready)
    found = (listed_at(world, interests, place) for place in places)
    return [fd for fd in found if fd != NONE][:SHOWN_MAX]


def _place(world: World, fd: int) -> int:
    """Return where *fd* is in the order of a scan: that of the array, or of descriptors."""
    number = _peek(world.watched_by, fd)
    own = world.sets[number].own if number != NONE else None
    return own.slot_of[fd] if isinstance(own, PollArray) else fd


def _peek(column: list[int], fd: int) -> int:
    """Return an entry without having it noted."""
    return list.__getitem__(column, fd)
