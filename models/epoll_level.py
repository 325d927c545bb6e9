"""Level-triggered epoll: the kernel keeps the set, the server pays for what is ready.

                 interrupt            epoll_wait             read, write
            NIC ──────────► ready list ──────────► events ──────────► connection
                 steals ns     FIFO       ≤ max_events
                                 ▲── re-inserted at the tail: looked at again next time

One epoll_ctl for each change of state: ADD, MOD between reading and writing, DEL before close.
The interest set is a tree, so these calls grow dearer with n; a wait does not.
Sources: epoll(7); Linux fs/eventpoll.c ep_poll(), ep_send_events(), ep_insert(); Gammo et al.
2004, §2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..sim.interest_set import (
    InterestSet,
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    list_ready,
    n_listed,
    set_of,
    take_ready,
    wake_one,
)
from ..sim.jitable import inlined, jitable
from ..sim.kinds import Activity, Count
from ..sim.mechanism import Mechanism
from ..sim.processor import Worker
from ..sim.sleeping import sleep
from ..sim.world import World

_WAIT, _WAITS = int(Activity.WAIT), int(Count.WAITS)


class EpollCosts(NamedTuple):
    """CPU time of epoll: the wait, each event, each entry found no longer ready, the three ctls."""

    call_ns: int
    event_ns: int
    recheck_ns: int
    add_ns: int
    modify_ns: int
    delete_ns: int


@inlined
def watch_ns(world: World, fd: int) -> int:
    """Return the CPU time of EPOLL_CTL_ADD."""
    cost_ns: int = world.costs.mechanism.add_ns
    return cost_ns


@inlined
def watch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Insert *fd* into the tree."""
    add_interest(world, interests, fd, interest)


@inlined
def rewatch_ns(world: World, fd: int) -> int:
    """Return the CPU time of EPOLL_CTL_MOD."""
    cost_ns: int = world.costs.mechanism.modify_ns
    return cost_ns


@inlined
def rewatch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Change the events of *fd*."""
    change_interest(world, interests, fd, interest)


@inlined
def unwatch_ns(world: World, fd: int) -> int:
    """Return the CPU time of EPOLL_CTL_DEL."""
    cost_ns: int = world.costs.mechanism.delete_ns
    return cost_ns


@inlined
def unwatch(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd* out of the tree and off the ready list."""
    drop_interest(world, interests, fd)


@jitable
def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree before the run: nothing to do for a count."""


@inlined
def notify(world: World, fd: int) -> bool:
    """Put *fd* on the ready list and wake the server if it sleeps in epoll_wait."""
    if not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    list_ready(world, interests, fd)
    return wake_one(world, interests)


@inlined
def _harvest(world: World, worker: Worker) -> int:
    """Take a batch; whoever else waits on this set is woken while anything is left on its list."""
    n_vain = take_ready(world, worker, world.server.max_events)
    if n_listed(worker.interests) > 0:
        wake_one(world, worker.interests)
    return n_vain


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one epoll_wait call; its events are in order of readiness."""
    costs, interests = world.costs.mechanism, worker.interests
    worker.activity = _WAIT
    world.counts[_WAITS] += 1
    worker.spin_ns = costs.call_ns
    yield costs.call_ns
    n_vain = _harvest(world, worker)
    while worker.n_events == 0:
        if n_vain > 0:
            yield n_vain * costs.recheck_ns
        if n_listed(interests) == 0:
            for cost_ns in sleep(world, worker):
                yield cost_ns
            worker.activity = _WAIT
        n_vain = _harvest(world, worker)
    yield worker.n_events * costs.event_ns + n_vain * costs.recheck_ns


EPOLL_LEVEL = Mechanism(
    "epoll_level",
    1,
    watch_ns,
    watch,
    rewatch_ns,
    rewatch,
    unwatch_ns,
    unwatch,
    watch_idle,
    notify,
    wait,
    in_epoll=True,
)
