"""declare_interest, get_next_event: the kernel posts changes, one entry a descriptor, and no more.

    declare_interest(fd) ──► state now ──► server      get_next_event(n) ──► up to n entries
    NIC ──► entry of fd, or one more event in it ──────────▲

Declaring says in which state the descriptor is, so nothing that came before is lost and no look is
in vain. From then on changes are told, each once: the server remembers the rest
(models/readiness.py). An interest is declared once and withdrawn by close.
Never merged anywhere. Source: Banga, Mogul and Druschel 1999, "A scalable and explicit event
delivery mechanism for UNIX", §3 and §4.
"""

from __future__ import annotations

from typing import NamedTuple

from ..sim.interest_set import InterestSet
from ..sim.jitable import inlined
from ..sim.mechanism import no_call_ns
from ..sim.world import World
from .epoll_edge import EPOLL_EDGE
from .readiness import assume


class NextEventCosts(NamedTuple):
    """CPU time of get_next_event: a call, each entry, an entry in vain; declaring; a close on top.

    event_ns is the server's own, for what it remembers.
    """

    call_ns: int
    notice_ns: int
    recheck_ns: int
    add_ns: int
    forget_ns: int
    event_ns: int = 0


@inlined
def watch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Declare an interest in *fd*, and know the state that it is in."""
    world.watched_by[fd] = interests.number
    world.interest[fd] = interest
    interests.n_watched += 1
    assume(world, interests, fd, world.state[fd])


@inlined
def forget_ns(world: World, fd: int) -> int:
    """Return the CPU time of taking back what was declared of *fd*."""
    cost_ns: int = world.costs.mechanism.forget_ns
    return cost_ns


NEXT_EVENT = EPOLL_EDGE._replace(
    name="get_next_event", watch=watch, unwatch_ns=no_call_ns, close_ns=forget_ns, in_epoll=False
)
