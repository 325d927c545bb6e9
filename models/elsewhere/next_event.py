"""declare_interest, get_next_event: the kernel posts changes, one entry a descriptor, and no more.

    declare_interest(fd) ──► state now ──► server      get_next_event(n) ──► up to n entries
    NIC ──► entry of fd, or one more event in it ──────────▲

Declaring returns the state of the descriptor, so nothing that came before is lost and no first read
finds nothing. From then on each change is reported once: the server remembers the rest
(models/remembering/readiness.py). An interest is declared once and withdrawn by close.
Never merged anywhere. Source: Banga, Mogul and Druschel 1999, "A scalable and explicit event
delivery mechanism for UNIX", §3 and §4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...sim.state import activity
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..epoll.epoll_edge import EPOLL_EDGE, forget
from ..remembering.readiness import assume


class NextEventCosts(NamedTuple):
    """CPU time of get_next_event: a call, an entry, one no longer true; declaring; a close on top.

    event_ns is the server's own, for what it remembers.
    """

    call_ns: int
    notice_ns: int
    recheck_ns: int
    add_ns: int
    forget_ns: int
    event_ns: int = 0


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Declare an interest in *fd*, and learn the state that it is in."""
    yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
    interests = worker.interests
    world.watched_by[fd] = interests.number
    world.interest[fd] = interest
    interests.n_watched += 1
    assume(world, interests, fd, world.state[fd])


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Leave it to close() to withdraw the interest in *fd*: no call is made."""
    yield from spend(worker, activity.UNWATCH, 0)
    forget(world, worker.interests, fd)


def close_ns(world: World, fd: int) -> int:
    """Return the CPU time of withdrawing the interest in *fd*."""
    cost_ns: int = world.costs.mechanism.forget_ns
    return cost_ns


NEXT_EVENT = EPOLL_EDGE._replace(
    name="get_next_event", watch=watch, unwatch=unwatch, close_ns=close_ns, in_epoll=False
)
