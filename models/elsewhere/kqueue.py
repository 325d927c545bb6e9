"""kqueue: changes and events in one call; a closed descriptor leaves the set by itself.

    EV_ADD, EV_DELETE ──► changes ──┐
                                    kevent() ──► events: those still true
    NIC ──► knotes on the list ─────┘

A connection has a filter for reading or one for writing, so a change of interest is a change of
two filters. A call for changes alone is never needed, as every loop ends in a wait.
Level-triggered: without EV_CLEAR an event is returned while its condition holds.
Sources: Lemon 2001, "Kqueue: a generic and scalable event notification facility", §4 and §5;
kqueue(2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...sim.kernel.interest_set import set_of
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..epoll.epoll_ctlv import EPOLL_CTLV
from ..epoll.epoll_level import wait as wait_for_states
from ..remembering.changes import Changes, declaring, unwatch_by_close


class KqueueCosts(NamedTuple):
    """CPU time of kevent: a call, an event, an entry no longer ready, a change, a close on top."""

    call_ns: int
    event_ns: int
    recheck_ns: int
    add_ns: int
    modify_ns: int
    forget_ns: int


def close_ns(world: World, fd: int) -> int:
    """Return the CPU time of removing the filters of *fd*, if the kernel has any."""
    changes: Changes = set_of(world, fd).own.changes
    cost_ns: int = world.costs.mechanism.forget_ns
    return changes.told[fd] * cost_ns


def filters_ns(costs: KqueueCosts, n_new: int, n_known: int) -> int:
    """Return the CPU time of changes in a kevent; its entry is counted with the wait."""
    return n_new * costs.add_ns + n_known * costs.modify_ns


declare_changes = declaring(filters_ns, lists_all=False, by_own_call=False)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call kevent once: it takes the changes and returns the events."""
    yield from declare_changes(world, worker)
    yield from wait_for_states(world, worker)


KQUEUE = EPOLL_CTLV._replace(
    name="kqueue", unwatch=unwatch_by_close, close_ns=close_ns, wait=wait, in_epoll=False
)
