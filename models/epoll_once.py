"""Level-triggered epoll, registered once for both directions: no call per change of interest.

    ADD, DEL ──► kernel ──epoll_wait──► notices ──interest now?──► events
                                                   └── no: discarded

Who is not writing could write, so nearly every wait returns at once, with notices to discard:
that is the price of the calls saved, and idle connections pay it, too. Called epoll2 in the source.
Sources: Gammo et al. 2004, §3.3; Linux fs/eventpoll.c; calibration/servers/epoll_once.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..sim.event_calendar import first_due_ns
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
from ..sim.kinds import NONE, Activity, Count
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.sleeping import sleep
from ..sim.world import World
from .epoll_level import unwatch_ns, watch_ns

_WAIT, _WAITS, _EVENTS = int(Activity.WAIT), int(Count.WAITS), int(Count.EVENTS)
_ASKS, _NOTICES = int(Count.ASKS), int(Count.NOTICES)
_UNWANTED, _RECHECKED = int(Count.NOTICES_UNWANTED), int(Count.RECHECKED)


class EpollOnceCosts(NamedTuple):
    """CPU time of register-once epoll: a call, each notice and vain look, ADD and DEL."""

    call_ns: int
    notice_ns: int
    recheck_ns: int
    add_ns: int
    delete_ns: int


@inlined
def watch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Insert *fd* for both directions: it is listed at once if it is ready for either."""
    add_interest(world, interests, fd, interest)
    _list_if_anything(world, interests, fd)


@inlined
def rewatch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Want something else of *fd*, which the kernel need not know."""
    world.interest[fd] = interest


@inlined
def unwatch(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd* out of the tree and off the ready list."""
    drop_interest(world, interests, fd)


@jitable
def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree, and on the ready list: they are writable."""
    for fd in range(first_fd, end_fd):
        list_ready(world, interests, fd)


@inlined
def _list_if_anything(world: World, interests: InterestSet, fd: int) -> bool:
    if world.state[fd] == 0:
        return False
    list_ready(world, interests, fd)
    return wake_one(world, interests)


@inlined
def notify(world: World, fd: int) -> bool:
    """Put *fd* on the ready list and wake the server."""
    if world.watched_by[fd] == NONE:
        return False
    return _list_if_anything(world, set_of(world, fd), fd)


@jitable
def _harvest(world: World, worker: Worker) -> int:
    """Take what is of interest into the events; return looks in vain."""
    interests = worker.interests
    n_notices, n_events, n_vain = 0, 0, 0
    for _ in range(interests.n_ready):
        if n_notices == world.server.max_events:
            break
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        if world.state[fd] == 0:
            n_vain += 1
            continue
        list_ready(world, interests, fd)
        n_notices += 1
        if world.state[fd] & world.interest[fd]:
            worker.event_fd[n_events] = fd
            n_events += 1
    worker.n_events = n_events
    world.counts[_NOTICES] += n_notices
    world.counts[_UNWANTED] += n_notices - n_events
    world.counts[_EVENTS] += n_events
    world.counts[_RECHECKED] += n_vain
    worker.n_notices = n_notices
    return n_vain


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one epoll_wait; all that it told may be of no interest."""
    costs, interests = world.costs.mechanism, worker.interests
    worker.activity = _WAIT
    world.counts[_WAITS] += 1
    world.counts[_ASKS] += 1
    worker.spin_ns = costs.call_ns
    yield costs.call_ns
    n_vain = _harvest(world, worker)
    while worker.n_notices == 0:
        if n_vain > 0:
            yield n_vain * costs.recheck_ns
        if n_listed(interests) == 0:
            for cost_ns in sleep(world, worker):
                yield cost_ns
            worker.activity = _WAIT
        n_vain = _harvest(world, worker)
    told_ns = worker.n_notices * costs.notice_ns + n_vain * costs.recheck_ns
    if worker.n_events == 0 and n_vain == 0:
        told_ns = max(1, told_ns)  # or time would stand still
        told_ns += _spin(world, worker, told_ns, costs.call_ns + told_ns)
    yield told_ns


@jitable
def _spin(world: World, worker: Worker, told_ns: int, wait_ns: int) -> int:
    """Return the CPU time of the whole waits of *wait_ns* that would tell the same, and count them.

    Nothing happens until the next occurrence, so they are taken in one step: a server that has
    nothing to do waits a million times a second. Where a wait tells of a part of the list only,
    the next one tells of another part.
    """
    interests = worker.interests
    if worker.n_notices < n_listed(interests):
        return 0
    left_ns = first_due_ns(world) - world.now_ns - told_ns
    if left_ns < wait_ns or len(world.workers) > 1 or interests.n_stale > 0:
        return 0
    n_waits = left_ns // wait_ns
    n_notices = n_waits * worker.n_notices  # whole rounds: the order of the list stays
    world.counts[_WAITS] += n_waits
    world.counts[_ASKS] += n_waits
    world.counts[_NOTICES] += n_notices
    world.counts[_UNWANTED] += n_notices
    return n_waits * wait_ns


EPOLL_ONCE = Mechanism(
    "epoll_once",
    1,
    watch_ns,
    watch,
    no_call_ns,
    rewatch,
    unwatch_ns,
    unwatch,
    watch_idle,
    notify,
    wait,
    in_epoll=True,
)
