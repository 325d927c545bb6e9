"""The descriptors that the server watches, and its ready list.

A kernel's wake-up callbacks fill the ready list. It is a ring of descriptors in the order in which
they became ready. Removing a descriptor only clears `listed[fd]`; an entry counts if `listed[fd]`
still holds its position, and stale entries are skipped. A returned descriptor stays on the list
until a later check finds it no longer ready: level-triggered re-insertion, at the tail.

Workers may share a set. A worker that blocks in a wait joins the set's wait queue; a descriptor
that becomes ready wakes the last worker in it. In a shared set a returned connection is disarmed
(EPOLLONESHOT) until its worker arms it again: two workers must not serve one connection.

Source: Linux fs/eventpoll.c (rdllist, ep_send_events, ep_poll: an exclusive waiter
joins at the head).
"""

from __future__ import annotations

from ..cpu.scheduling import wake
from ..state.kinds import NONE, count
from ..state.world import InterestSet, Worker, World
from .backend_connections import is_backend


def set_of(world: World, fd: int) -> InterestSet:
    """Return the interest set that *fd* is in."""
    return world.sets[world.watched_by[fd]]


def is_ready(world: World, fd: int) -> bool:
    """Return whether *fd* is in a state that the server watches it for."""
    return (world.state[fd] & world.interest[fd]) != 0


def list_ready(world: World, interests: InterestSet, fd: int) -> None:
    """Put *fd* at the tail of the ready list unless it is on it."""
    if world.listed[fd] != 0:
        return
    last = len(interests.ready) - 1  # a mask, as the size is a power of two
    if interests.n_ready > last:
        _drop_stale(world, interests)
    position = interests.first_ready + interests.n_ready
    interests.ready[position & last] = fd
    world.listed[fd] = position + 1
    interests.n_ready += 1


def n_listed(interests: InterestSet) -> int:
    """Return how many descriptors are on the ready list."""
    return interests.n_ready - interests.n_stale


def listed_at(world: World, interests: InterestSet, position: int) -> int:
    """Return the descriptor at that *position* of the ready list, or NONE if it has left."""
    fd = interests.ready[position & (len(interests.ready) - 1)]
    # Another set, which the descriptor may be in now, counts its entries from 1, too.
    if world.listed[fd] == position + 1 and world.watched_by[fd] == interests.number:
        return fd
    return NONE


def any_ready(world: World, interests: InterestSet) -> bool:
    """Return whether a descriptor on the ready list is in a state that it is watched for."""
    for position in range(interests.first_ready, interests.first_ready + interests.n_ready):
        fd = listed_at(world, interests, position)
        if fd != NONE and is_ready(world, fd):
            return True
    return False


def take_first(world: World, interests: InterestSet) -> int:
    """Take the first entry off the ready list; return its descriptor, or NONE if it has left."""
    fd = listed_at(world, interests, interests.first_ready)
    interests.first_ready += 1
    interests.n_ready -= 1
    if fd == NONE:
        interests.n_stale -= 1
    else:
        world.listed[fd] = 0
    return fd


def _drop_stale(world: World, interests: InterestSet) -> None:
    """Close the gaps that descriptors left on the ring; there are as many slots as descriptors."""
    last = len(interests.ready) - 1
    kept = 0
    for i in range(interests.first_ready, interests.first_ready + interests.n_ready):
        fd = listed_at(world, interests, i)
        if fd != NONE:
            position = interests.first_ready + kept
            interests.ready[position & last] = fd
            world.listed[fd] = position + 1
            kept += 1
    assert kept <= last
    interests.n_ready = kept
    interests.n_stale = 0


def wake_one(world: World, interests: InterestSet) -> bool:
    """Wake the worker that began to wait last; return whether there was one."""
    if interests.n_waiting == 0:
        return False
    interests.n_waiting -= 1
    wake(world, world.workers[interests.waiters[interests.n_waiting]])
    return True


def add_interest(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Watch *fd*; it is on the ready list at once if it is ready already."""
    assert world.watched_by[fd] == NONE
    world.watched_by[fd] = interests.number
    world.interest[fd] = interest
    interests.n_watched += 1
    _list_if_ready(world, interests, fd)


def takes_no_more(world: World) -> bool:
    """Return whether the interest sets hold as many descriptors as the kernel lets them (ENOSPC).

    Source: Linux fs/eventpoll.c ep_insert(), max_user_watches.
    """
    if world.limits.epoll_watches == 0:
        return False
    n_watched = 0
    for i in range(len(world.sets)):
        n_watched += world.sets[i].n_watched
    return n_watched >= world.limits.epoll_watches


def change_interest(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Watch *fd* for something else, or again."""
    assert world.watched_by[fd] == interests.number
    world.interest[fd] = interest
    _list_if_ready(world, interests, fd)


def _list_if_ready(world: World, interests: InterestSet, fd: int) -> None:
    if is_ready(world, fd):
        list_ready(world, interests, fd)
        wake_one(world, interests)


def drop_interest(world: World, interests: InterestSet, fd: int) -> None:
    """Watch *fd* no longer."""
    assert world.watched_by[fd] == interests.number
    world.watched_by[fd] = NONE
    world.interest[fd] = 0
    interests.n_watched -= 1
    if world.listed[fd] != 0:
        interests.n_stale += 1
    world.listed[fd] = 0
    world.passed[fd] = 0


def is_disarmed(world: World, fd: int) -> bool:
    """Return whether *fd*, which is returned, is of a connection: listeners and timers stay."""
    return world.connection_of[fd] != NONE or is_backend(world, fd)


def take_ready(world: World, worker: Worker, n_max: int) -> int:
    """Fill the events of *worker* with at most *n_max* ready descriptors; return failed checks.

    The batch is fixed before it is served: later events belong to the next wait, as in the
    kernel (otherwise a busy connection would starve the others).
    """
    interests = worker.interests
    n_events = 0
    n_vain = 0
    for _ in range(interests.n_ready):
        if n_events == n_max:
            break
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        if not is_ready(world, fd):
            world.passed[fd] = 0
            n_vain += 1
            continue
        if interests.one_shot and is_disarmed(world, fd):
            world.interest[fd] = 0
        else:
            list_ready(world, interests, fd)
        if world.passed[fd]:
            world.passed[fd] = 0
            continue
        worker.event_fd[n_events] = fd
        n_events += 1
    worker.n_events = n_events
    world.counts[count.EVENTS] += n_events
    world.counts[count.RECHECKED] += n_vain
    return n_vain
