"""Level-triggered epoll whose removal is left to close(): one system call less for a connection.

    ADD, MOD ──► tree ──► ready list ──► events          close ──► taken out of the tree

The work of EPOLL_CTL_DEL is done all the same, in close(), which grows dearer by it; what is saved
is the way into the kernel.
Sources: epoll(7), "Will closing a file descriptor cause it to be removed"; Linux fs/eventpoll.c
eventpoll_release_file(); Gammo et al. 2004, §2.
"""

from __future__ import annotations

from typing import NamedTuple

from ..sim.jitable import inlined
from ..sim.mechanism import no_call_ns
from ..sim.world import World
from .epoll_level import EPOLL_LEVEL


class EpollCloseCosts(NamedTuple):
    """CPU time of epoll without EPOLL_CTL_DEL; forget_ns is what close() takes longer."""

    call_ns: int
    event_ns: int
    recheck_ns: int
    add_ns: int
    modify_ns: int
    forget_ns: int


@inlined
def close_ns(world: World, fd: int) -> int:
    """Return the CPU time of taking *fd* out of the tree."""
    cost_ns: int = world.costs.mechanism.forget_ns
    return cost_ns


EPOLL_CLOSE = EPOLL_LEVEL._replace(name="epoll_close", unwatch_ns=no_call_ns, close_ns=close_ns)
