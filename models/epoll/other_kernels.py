"""Interfaces of other kernels, each similar to a variant of epoll.

kqueue            epoll_ctlv: changes in the call that waits, closing removes
get_next_event    epoll_edge: declaring returns the state, closing removes
in_kernel         epoll_level: no call crosses into the kernel
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...sim.kernel import interest_set
from ...sim.state.costs import CallCosts
from ...sim.state.kinds import activity
from ...sim.state.mechanism import Trait, spend
from ...sim.state.world import Worker, World
from ..entry import entry
from ..remembering import readiness
from ..remembering.changes import Changes, declaring, unwatch_by_close
from .epoll_ctlv import EPOLL_CTLV
from .epoll_edge import EPOLL_EDGE
from .epoll_level import EPOLL_LEVEL, FORGETS, WAITS, forgetting_ns, leave_to_close
from .epoll_level import wait as wait_for_states


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
    changes: Changes = interest_set.set_of(world, fd).own.changes
    return changes.told[fd] * forgetting_ns(world, fd)


def filters_ns(costs: KqueueCosts, n_new: int, n_known: int) -> int:
    """Return the CPU time of changes in a kevent; its entry is counted with the wait."""
    return n_new * costs.add_ns + n_known * costs.modify_ns


declare_changes = declaring(filters_ns, lists_all=False, by_own_call=False)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call kevent once: it takes the changes and returns the events."""
    yield from declare_changes(world, worker)
    yield from wait_for_states(world, worker)


KQUEUE = EPOLL_CTLV._replace(
    name="kqueue", unwatch=unwatch_by_close, close_ns=close_ns, wait=wait, traits=frozenset()
)
"""kqueue: one call takes changes and returns events; close removes a descriptor from the set.

    EV_ADD, EV_DELETE ──► changes ──┐
                                    kevent() ──► events: those still true
    NIC ──► knotes on the list ─────┘

A connection has a filter for reading or one for writing, so a change of interest changes two
filters. No call for changes alone is needed, as every loop ends in a wait.
Level-triggered: without EV_CLEAR an event is returned while its condition holds.
Sources: Lemon 2001, "Kqueue: a generic and scalable event notification facility", §4 and §5;
kqueue(2).
"""


class NextEventCosts(NamedTuple):
    """CPU time of get_next_event: a call, an entry, one no longer true; declaring; a close on top.

    event_ns is the server's own time, for its memory of states.
    """

    call_ns: int
    notice_ns: int
    recheck_ns: int
    add_ns: int
    forget_ns: int
    event_ns: int = 0


def declare_interest(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Declare an interest in *fd*, and get its state."""
    yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
    interests = worker.interests
    world.watched_by[fd] = interests.number
    world.interest[fd] = interest
    interests.n_watched += 1
    readiness.assume(world, interests, fd, world.state[fd])


NEXT_EVENT = EPOLL_EDGE._replace(
    name="get_next_event",
    watch=declare_interest,
    unwatch=leave_to_close,
    close_ns=forgetting_ns,
    traits=frozenset(),
)
"""declare_interest, get_next_event: the kernel queues changes, at most one entry a descriptor.

    declare_interest(fd) ──► state now ──► server      get_next_event(n) ──► up to n entries
    NIC ──► entry of fd, or one more event in it ──────────▲

Declaring returns the state of the descriptor, so no earlier event is lost and the first read always
finds data. From then on each change is reported once, and the server remembers the state
(models/remembering/readiness.py). An interest is declared once and withdrawn by close.
Never merged anywhere. Source: Banga, Mogul and Druschel 1999, "A scalable and explicit event
delivery mechanism for UNIX", §3 and §4.
"""

_CALLS = ("accept_ns", "accept_again_ns", "read_ns", "read_again_ns", "write_ns", "close_ns")


class InKernelCosts(NamedTuple):
    """CPU time of a check of the list, of each event, and of each entry no longer ready.

    They are 0 until such a server is measured, so it bounds the savings of a loop that serves one
    event after another.
    """

    call_ns: int = 0
    event_ns: int = 0
    recheck_ns: int = 0


def without_crossing(call: CallCosts) -> CallCosts:
    """Return the cost of each call without its crossing, for a server inside the kernel."""
    left = {name: max(0, getattr(call, name) - call.crossing_ns) for name in _CALLS}
    return call._replace(**left, crossing_ns=0)


def have_callback(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Set the callback of *fd*: no call is made."""
    yield from spend(worker, activity.WATCH, 0)
    interest_set.add_interest(world, worker.interests, fd, interest)


def change_callback(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Change the interest of the callback of *fd*: no call is made."""
    yield from spend(worker, activity.REWATCH, 0)
    interest_set.change_interest(world, worker.interests, fd, interest)


IN_KERNEL = EPOLL_LEVEL._replace(
    name="in_kernel",
    fds=0,
    watch=have_callback,
    rewatch=change_callback,
    unwatch=leave_to_close,
    traits=frozenset({Trait.IN_KERNEL}),
)
"""A server inside the kernel: no crossings, no calls that declare interests or fetch events.

    NIC ──► callback of the socket ──► list of the server's thread ──► accept, read, write, close

It saves the crossing of each call, and all calls that declare interests or fetch events. So it is a
bound for every interface with this order of work: the server serves one event after another, and
closes a connection right after its reply. Packets, sockets and replies cost as much as in every
server. Its thread sleeps and wakes like any other.

It is no bound for other orders of work. io_uring sends all replies of a batch before it closes a
connection: a close after the client's reset costs less, and the clients' next packets arrive
together and share interrupts. The bound holds for equal application costs: a profile with another
fitted `request_ns` for a mechanism may move that mechanism below it.
Sources: TUX, as a reference in Gammo et al. 2004, §1; Joubert et al. 2001, "High-performance
memory-based web servers: kernel and user-space performance".
"""

ENTRIES = (
    entry(
        __name__,
        NEXT_EVENT,
        NextEventCosts,
        "Banga, Mogul and Druschel 1999, §3",
        wait_call="get_next_event",
        about="declare_interest, get_next_event: the kernel queues changes, at most one entry a "
        "descriptor.",
        words={
            "add_ns": "declaring an interest",
            "event_ns": "the server's own, for what it remembers",
        },
        borrowed={
            "call_ns": ("epoll_edge.call_ns", "epoll_level.call_ns"),
            "notice_ns": ("epoll_edge.notice_ns", "epoll_level.event_ns"),
            "recheck_ns": ("epoll_edge.recheck_ns", "epoll_level.recheck_ns"),
            "add_ns": ("epoll_edge.add_ns", "epoll_level.add_ns"),
            "event_ns": ("epoll_edge.event_ns",),
            **FORGETS,
        },
    ),
    entry(
        __name__,
        KQUEUE,
        KqueueCosts,
        "Lemon 2001, §4",
        wait_call="kevent",
        about="kqueue: one call takes changes and returns events; close removes a descriptor from "
        "the set.",
        words={
            "add_ns": "one filter added, in the call that waits",
            "modify_ns": "one filter changed, in the call that waits",
        },
        borrowed={
            **WAITS,
            "add_ns": ("epoll_ctlv.add_ns", "epoll_level.add_ns - call.crossing_ns"),
            # A filter taken away, and another added.
            "modify_ns": (
                "epoll_level.delete_ns - call.crossing_ns + epoll_ctlv.add_ns",
                "epoll_level.delete_ns - call.crossing_ns + epoll_level.add_ns - call.crossing_ns",
            ),
            **FORGETS,
        },
    ),
    entry(
        __name__,
        IN_KERNEL,
        InKernelCosts,
        "Joubert et al. 2001",
        wait_call="look",
        about="A server inside the kernel: no crossings, no calls that declare interests or fetch "
        "events.",
        words={"call_ns": "a check of the list", "event_ns": "each entry that is taken"},
    ),
)
