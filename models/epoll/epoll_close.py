"""Level-triggered epoll whose removal is left to close(): one system call less per connection.

    ADD, MOD ──► tree ──► ready list ──► events          close ──► taken out of the tree

close() does the work of EPOLL_CTL_DEL, and costs more by that; what is saved is the crossing into
the kernel.
Sources: epoll(7), "Will closing a file descriptor cause it to be removed"; Linux fs/eventpoll.c
eventpoll_release_file(); Gammo et al. 2004, §2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...sim.kernel.interest_set import drop_interest
from ...sim.state import activity
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from .epoll_level import EPOLL_LEVEL


class EpollCloseCosts(NamedTuple):
    """CPU time of epoll without EPOLL_CTL_DEL; forget_ns is what close() takes longer."""

    call_ns: int
    event_ns: int
    recheck_ns: int
    add_ns: int
    modify_ns: int
    forget_ns: int


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Leave it to close() to take *fd* out of the tree: no call is made."""
    yield from spend(worker, activity.UNWATCH, 0)
    drop_interest(world, worker.interests, fd)


def close_ns(world: World, fd: int) -> int:
    """Return the CPU time of taking *fd* out of the tree."""
    cost_ns: int = world.costs.mechanism.forget_ns
    return cost_ns


EPOLL_CLOSE = EPOLL_LEVEL._replace(name="epoll_close", unwatch=unwatch, close_ns=close_ns)
