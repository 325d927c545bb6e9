"""Edge-triggered epoll: registered once, reports changes only; the server remembers the states.

                 interrupt            epoll_wait
            NIC ──────────► ready list ──────────► notices ──► readiness ──► events until it blocks
                 steals ns     FIFO      each once

Both directions are registered together, so that a change of interest needs no call. A server that
does not remember must drain each descriptor, or the rest is stranded (settings: remembers).
Sources: epoll(7), EPOLLET; Linux fs/eventpoll.c ep_send_events(); Gammo et al. 2004, §3.2;
calibration/c/servers/epoll_edge.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...sim.kernel import interest_set
from ...sim.state.columns import fill
from ...sim.state.kinds import NONE, WRITABLE, activity, count
from ...sim.state.mechanism import Mechanism, Trait, kept, spend
from ...sim.state.world import InterestSet, Worker, World
from ..entry import CSupport, entry
from ..remembering.readiness import (
    Readiness,
    assume,
    is_pending,
    may_block,
    note,
    wait_with,
    want,
    would_block,
)
from .epoll_level import epoll_wait, unwatch


class EpollEdgeCosts(NamedTuple):
    """CPU time of edge-triggered epoll: a call, a notice, a stale entry, ADD, DEL, an event."""

    call_ns: int
    notice_ns: int
    recheck_ns: int
    add_ns: int
    delete_ns: int
    event_ns: int = 0


@dataclass(slots=True, eq=False)
class EdgeMemory:
    """The reports that the server received; the ready list belongs to the interest set."""

    readiness: Readiness


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """EPOLL_CTL_ADD for both directions: *fd* is listed at once if it is ready for either."""
    yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
    if not interest_set.takes_no_more(world):
        interest_set.add_interest(world, worker.interests, fd, interest)
        assume(world, worker.interests, fd, 0)
        list_if_any(world, worker.interests, fd)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Change the interest in *fd* in the server only: no call is made."""
    yield from spend(worker, activity.REWATCH, 0)
    world.interest[fd] = interest
    want(world, worker.interests, fd)


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree; the server has recorded that they are writable."""
    fill(interests.own.readiness.known, first_fd, end_fd, WRITABLE)


def list_if_any(world: World, interests: InterestSet, fd: int) -> bool:
    """List *fd* if it is ready for anything; return whether a worker was woken."""
    if world.state[fd] == 0:
        return False
    interest_set.list_ready(world, interests, fd)
    return interest_set.wake_one(world, interests)


def notify(world: World, fd: int) -> bool:
    """Put *fd* on the ready list, independent of earlier reports, and wake the server."""
    if world.watched_by[fd] == NONE:
        return False
    return list_if_any(world, interest_set.set_of(world, fd), fd)


def tells(world: World, fd: int) -> bool:
    """Return whether *fd* is on the ready list, or pending in the server."""
    return world.listed[fd] != 0 or is_pending(world, fd)


def _take_notices(world: World, worker: Worker) -> int:
    """Take notices off the ready list, each once; return how many entries were not ready."""
    interests = worker.interests
    n_notices, n_not_ready = 0, 0
    for _ in range(interests.n_ready):
        if n_notices == world.program.max_events:
            break
        fd = interest_set.take_first(world, interests)
        if fd == NONE:
            continue
        if world.state[fd] == 0:
            n_not_ready += 1
            continue
        note(world, interests, fd, world.state[fd])
        n_notices += 1
    world.counts[count.RECHECKED] += n_not_ready
    worker.n_notices = n_notices
    return n_not_ready


wait_for_notices = epoll_wait(_take_notices)


def ask(world: World, worker: Worker) -> Iterator[int]:
    """Call epoll_wait once; it returns at once if something is pending."""
    costs = world.costs.mechanism
    world.counts[count.ASKS] += 1
    blocks = may_block(world, worker)
    n_not_ready = yield from wait_for_notices(world, worker, blocks)
    notices_ns = worker.n_notices * costs.notice_ns + n_not_ready * costs.recheck_ns
    yield from spend(worker, activity.WAIT, notices_ns)


EPOLL_EDGE = Mechanism(
    "epoll_edge",
    fds=1,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait_with(ask),
    memory=kept(EdgeMemory),
    blocked=would_block,
    tells=tells,
    traits=frozenset({Trait.IN_EPOLL, Trait.WAKES_ONE}),
    watch_memory="epoll_bytes",
)

ENTRIES = (
    entry(
        __name__,
        EPOLL_EDGE,
        EpollEdgeCosts,
        "Gammo et al. 2004, §3.2",
        aliases=("epoll_et", "epollet", "epoll_edge_triggered"),
        wait_call="epoll_wait",
        c_support=CSupport.LINUX,
        words={"event_ns": "the server's own, for each event"},
    ),
)
