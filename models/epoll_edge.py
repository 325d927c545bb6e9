"""Edge-triggered epoll: registered once, told of changes only; the server remembers the states.

                 interrupt            epoll_wait
            NIC ──────────► ready list ──────────► notices ──► readiness ──► events until it blocks
                 steals ns     FIFO      each once

Both directions are registered at once, so that a change of interest takes no call. A server that
does not remember must drain each descriptor, or what it left is stranded (settings: remembers).
Sources: epoll(7), EPOLLET; Linux fs/eventpoll.c ep_send_events(); Gammo et al. 2004, §3.2;
calibration/servers/epoll_edge.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..sim.columns import MakeColumn
from ..sim.containers import fill
from ..sim.interest_set import (
    InterestSet,
    add_interest,
    drop_interest,
    list_ready,
    n_listed,
    set_of,
    take_first,
    wake_one,
)
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, WRITABLE, Activity, Count
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.settings import ServerSettings
from ..sim.sleeping import sleep
from ..sim.world import World
from .epoll_level import unwatch_ns, watch_ns
from .readiness import (
    Readiness,
    assume,
    is_pending,
    may_block,
    no_readiness,
    note,
    wait_with,
    want,
    would_block,
)

_WAIT, _ASKS, _RECHECKED = int(Activity.WAIT), int(Count.ASKS), int(Count.RECHECKED)
_EITHER = READABLE | WRITABLE


class EpollEdgeCosts(NamedTuple):
    """CPU time of edge-triggered epoll: a call, each notice and vain look, ADD, DEL, an event."""

    call_ns: int
    notice_ns: int
    recheck_ns: int
    add_ns: int
    delete_ns: int
    event_ns: int = 0


@dataclass(slots=True, eq=False)
class EdgeMemory:
    """What the server heard; the ready list is the interest set's."""

    readiness: Readiness


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> EdgeMemory:
    """Return the memory of a server that has heard of nothing."""
    del server
    return EdgeMemory(no_readiness(n_fds, column))


@inlined
def watch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Insert *fd* for both directions: it is listed at once if it is ready for either."""
    add_interest(world, interests, fd, interest)
    assume(world, interests, fd, 0)
    _change(world, interests, fd)


@inlined
def rewatch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Want something else of *fd*, which the kernel need not know."""
    world.interest[fd] = interest
    want(world, interests, fd)


@inlined
def unwatch(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd* out of the tree and off the ready list, and forget what was heard of it."""
    drop_interest(world, interests, fd)
    would_block(world, interests, fd, _EITHER)


@jitable
def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree, of which the server knows that they are writable."""
    fill(interests.own.readiness.known, first_fd, end_fd, WRITABLE)


@inlined
def _change(world: World, interests: InterestSet, fd: int) -> bool:
    if world.state[fd] == 0:
        return False
    list_ready(world, interests, fd)
    return wake_one(world, interests)


@inlined
def notify(world: World, fd: int) -> bool:
    """Put *fd* on the ready list, whatever was told of it before, and wake the server."""
    if world.watched_by[fd] == NONE:
        return False
    return _change(world, set_of(world, fd), fd)


@inlined
def tells(world: World, fd: int) -> bool:
    """Return whether *fd* is on the ready list, or pending in the server."""
    return world.listed[fd] != 0 or is_pending(world, fd)


@jitable
def _hear(world: World, worker: Worker) -> int:
    """Take notices off the ready list, each once; return looks in vain."""
    interests = worker.interests
    n_heard, n_vain = 0, 0
    for _ in range(interests.n_ready):
        if n_heard == world.server.max_events:
            break
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        if world.state[fd] == 0:
            n_vain += 1
            continue
        note(world, interests, fd, world.state[fd])
        n_heard += 1
    world.counts[_RECHECKED] += n_vain
    worker.n_notices = n_heard
    return n_vain


@jitable
def ask(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one epoll_wait; it returns at once if something is pending."""
    costs, interests = world.costs.mechanism, worker.interests
    world.counts[_ASKS] += 1
    blocks = may_block(world, worker)
    worker.spin_ns = costs.call_ns
    yield costs.call_ns
    n_vain = _hear(world, worker)
    while blocks and worker.n_notices == 0:
        if n_vain > 0:
            yield n_vain * costs.recheck_ns
        if n_listed(interests) == 0:
            for cost_ns in sleep(world, worker):
                yield cost_ns
            worker.activity = _WAIT
        n_vain = _hear(world, worker)
    told_ns = worker.n_notices * costs.notice_ns + n_vain * costs.recheck_ns
    if told_ns > 0:
        yield told_ns


EPOLL_EDGE = Mechanism(
    "epoll_edge",
    1,
    watch_ns,
    watch,
    no_call_ns,
    rewatch,
    unwatch_ns,
    unwatch,
    watch_idle,
    notify,
    wait_with(ask),
    memory,
    would_block,
    tells=tells,
    in_epoll=True,
)
