"""Level-triggered epoll, registered once for both directions: no call per change of interest.

    ADD, DEL ──► kernel ──epoll_wait──► notices ──interest now?──► events
                                                   └── no: discarded

A connection without a pending reply is writable, so nearly every wait returns at once, with notices
to discard, for idle connections, too. This is the cost of the saved calls. The source calls it
epoll2.
Sources: Gammo et al. 2004, §3.3; Linux fs/eventpoll.c; calibration/c/servers/epoll_once.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...sim.kernel import interest_set
from ...sim.state.event_calendar import first_due_ns
from ...sim.state.kinds import NONE, activity, count
from ...sim.state.mechanism import Trait, spend
from ...sim.state.world import InterestSet, Worker, World
from ..entry import CSupport, entry
from .epoll_edge import list_if_any, notify
from .epoll_level import EPOLL_LEVEL, epoll_wait


class EpollOnceCosts(NamedTuple):
    """CPU time of register-once epoll: a call, a notice, an entry no longer ready, ADD and DEL."""

    call_ns: int
    notice_ns: int
    recheck_ns: int
    add_ns: int
    delete_ns: int


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """EPOLL_CTL_ADD for both directions: *fd* is listed at once if it is ready for either."""
    yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
    if not interest_set.takes_no_more(world):
        interest_set.add_interest(world, worker.interests, fd, interest)
        list_if_any(world, worker.interests, fd)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Change the interest in *fd* in the server only: no call is made."""
    yield from spend(worker, activity.REWATCH, 0)
    world.interest[fd] = interest


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree, and on the ready list: they are writable."""
    for fd in range(first_fd, end_fd):
        interest_set.list_ready(world, interests, fd)


def _take_batch(world: World, worker: Worker) -> int:
    """Take notices, of which the wanted ones are events; return how many were not ready."""
    interests = worker.interests
    n_notices, n_events, n_not_ready = 0, 0, 0
    for _ in range(interests.n_ready):
        if n_notices == world.program.max_events:
            break
        fd = interest_set.take_first(world, interests)
        if fd == NONE:
            continue
        if world.state[fd] == 0:
            n_not_ready += 1
            continue
        interest_set.list_ready(world, interests, fd)
        n_notices += 1
        if world.state[fd] & world.interest[fd]:
            worker.event_fd[n_events] = fd
            n_events += 1
    worker.n_events = n_events
    world.counts[count.NOTICES] += n_notices
    world.counts[count.NOTICES_UNWANTED] += n_notices - n_events
    world.counts[count.EVENTS] += n_events
    world.counts[count.RECHECKED] += n_not_ready
    worker.n_notices = n_notices
    return n_not_ready


wait_for_batch = epoll_wait(_take_batch)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call epoll_wait once; all that it returns may be of no interest."""
    costs = world.costs.mechanism
    world.counts[count.WAITS] += 1
    world.counts[count.ASKS] += 1
    n_not_ready = yield from wait_for_batch(world, worker, True)
    notices_ns = worker.n_notices * costs.notice_ns + n_not_ready * costs.recheck_ns
    if worker.n_events == 0 and n_not_ready == 0:
        notices_ns = max(1, notices_ns)  # or time would stand still
        notices_ns += _spin(world, worker, notices_ns, costs.call_ns + notices_ns)
    yield from spend(worker, activity.WAIT, notices_ns)


def _spin(world: World, worker: Worker, notices_ns: int, wait_ns: int) -> int:
    """Count the whole waits of *wait_ns* that would return the same; return their CPU time.

    Nothing changes until the next event of the run, so one step covers them all: an idle server
    waits a million times a second. If a wait returns only a part of the list, the next one returns
    another part.
    """
    interests = worker.interests
    if worker.n_notices < interest_set.n_listed(interests):
        return 0
    left_ns = first_due_ns(world) - world.now_ns - notices_ns
    if left_ns < wait_ns or len(world.workers) > 1 or interests.n_stale > 0:
        return 0
    n_waits = left_ns // wait_ns
    n_notices = n_waits * worker.n_notices  # whole rounds: the order of the list stays
    world.counts[count.WAITS] += n_waits
    world.counts[count.ASKS] += n_waits
    world.counts[count.NOTICES] += n_notices
    world.counts[count.NOTICES_UNWANTED] += n_notices
    return n_waits * wait_ns


EPOLL_ONCE = EPOLL_LEVEL._replace(
    name="epoll_once",
    watch=watch,
    rewatch=rewatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait,
    traits=frozenset({Trait.IN_EPOLL, Trait.WAKES_ONE}),
)

ENTRIES = (
    entry(
        __name__,
        EPOLL_ONCE,
        EpollOnceCosts,
        "Gammo et al. 2004, §3.3",
        wait_call="epoll_wait",
        c_support=CSupport.LINUX,
    ),
)
