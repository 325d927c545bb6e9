"""A server inside the kernel: no way in and out, nothing declared and nothing fetched.

    NIC ──► callback of the socket ──► list of the server's thread ──► accept, read, write, close

It is the bound of what any interface between kernel and server can reach: it saves the crossing of
each call, and all calls that declare interests or fetch events. Packets, sockets and replies cost
what they cost every server. Its thread sleeps and wakes like any other.
Sources: TUX, as a reference in Gammo et al. 2004, §1; Joubert et al. 2001, "High-performance
memory-based web servers: kernel and user-space performance".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...sim.kernel.interest_set import add_interest, change_interest, drop_interest
from ...sim.state import activity
from ...sim.state.costs import CallCosts
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..epoll.epoll_level import EPOLL_LEVEL

_CALLS = ("accept_ns", "accept_again_ns", "read_ns", "read_again_ns", "write_ns", "close_ns")


class InKernelCosts(NamedTuple):
    """CPU time of a check of the list, of each event, and of each entry no longer ready.

    Nothing, unless somebody measures such a server: so it bounds what others may reach.
    """

    call_ns: int = 0
    event_ns: int = 0
    recheck_ns: int = 0


def without_crossing(call: CallCosts) -> CallCosts:
    """Return what is left of each call for a server that is in the kernel already."""
    left = {name: max(0, getattr(call, name) - call.crossing_ns) for name in _CALLS}
    return call._replace(**left, crossing_ns=0)


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Have the callback of *fd* from now on: no call is made."""
    yield from spend(worker, activity.WATCH, 0)
    add_interest(world, worker.interests, fd, interest)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Have the callback of *fd* for another interest: no call is made."""
    yield from spend(worker, activity.REWATCH, 0)
    change_interest(world, worker.interests, fd, interest)


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Have the callback of *fd* no longer: no call is made."""
    yield from spend(worker, activity.UNWATCH, 0)
    drop_interest(world, worker.interests, fd)


IN_KERNEL = EPOLL_LEVEL._replace(
    name="in_kernel",
    fds=0,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    in_epoll=False,
    in_kernel=True,
)
