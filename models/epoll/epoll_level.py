"""Level-triggered epoll: the kernel keeps the set; a wait takes time for ready descriptors only.

                 interrupt            epoll_wait             read, write
            NIC ──────────► ready list ──────────► events ──────────► connection
                 steals ns     FIFO       ≤ max_events
                                 ▲── re-inserted at the tail: checked again next time

One epoll_ctl for each change of state: ADD, MOD between reading and writing, DEL before close.
The interest set is a tree, so the cost of these calls grows with n; that of a wait does not.
Sources: epoll(7); Linux fs/eventpoll.c ep_poll(), ep_send_events(), ep_insert(); Gammo et al.
2004, §2.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from ...sim.kernel import interest_set
from ...sim.kernel.sleeping import sleep
from ...sim.state.kinds import activity, count
from ...sim.state.mechanism import Mechanism, Trait, spend, step
from ...sim.state.world import InterestSet, Worker, World
from ..entry import Borrowed, CSupport, entry


class EpollCosts(NamedTuple):
    """CPU time of epoll: a wait, each event, each entry no longer ready, ADD, MOD and DEL."""

    call_ns: int
    event_ns: int
    recheck_ns: int
    add_ns: int
    modify_ns: int
    delete_ns: int


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """EPOLL_CTL_ADD: insert *fd* into the tree, if the bound on all of epoll leaves room."""
    yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
    if not interest_set.takes_no_more(world):
        interest_set.add_interest(world, worker.interests, fd, interest)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """EPOLL_CTL_MOD: change the events of *fd*."""
    yield from spend(worker, activity.REWATCH, world.costs.mechanism.modify_ns)
    interest_set.change_interest(world, worker.interests, fd, interest)


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """EPOLL_CTL_DEL: take *fd* out of the tree and off the ready list."""
    yield from spend(worker, activity.UNWATCH, world.costs.mechanism.delete_ns)
    interest_set.drop_interest(world, worker.interests, fd)


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree before the run: they are in the interest set."""


def notify(world: World, fd: int) -> bool:
    """Put *fd* on the ready list and wake a worker that sleeps in epoll_wait."""
    if not interest_set.is_ready(world, fd):
        return False
    interests = interest_set.set_of(world, fd)
    interest_set.list_ready(world, interests, fd)
    return interest_set.wake_one(world, interests)


Call = Callable[[World, Worker, bool], Generator[int, None, int]]


def epoll_wait(take: Callable[[World, Worker], int]) -> Call:
    """Return the call that takes entries off the ready list by *take*, and sleeps if it is empty.

    *take* leaves the number of returned events in `Worker.n_notices`, and returns the number of
    entries that were no longer ready.
    """

    def call(world: World, worker: Worker, sleeps: bool) -> Generator[int, None, int]:
        """Call epoll_wait, which *sleeps* or returns at once; return what *take* returned last."""
        costs = world.costs.mechanism
        worker.spin_ns = costs.call_ns
        yield from step(worker, activity.WAIT, costs.call_ns)
        n_not_ready = take(world, worker)
        while sleeps and worker.n_notices == 0:
            yield from spend(worker, activity.WAIT, n_not_ready * costs.recheck_ns)
            if interest_set.n_listed(worker.interests) == 0:
                yield from sleep(world, worker)
            n_not_ready = take(world, worker)
        return n_not_ready

    return call


def _take_batch(world: World, worker: Worker) -> int:
    """Take events off the ready list; return how many entries were no longer ready."""
    n_not_ready = interest_set.take_ready(world, worker, world.program.max_events)
    worker.n_notices = worker.n_events
    if interest_set.n_listed(worker.interests) > 0:
        interest_set.wake_one(
            world, worker.interests
        )  # another thread that waits on this set takes the rest
    return n_not_ready


wait_for_batch = epoll_wait(_take_batch)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call epoll_wait once; its events are in the order in which they became ready."""
    costs = world.costs.mechanism
    world.counts[count.WAITS] += 1
    n_not_ready = yield from wait_for_batch(world, worker, True)
    batch_ns = worker.n_events * costs.event_ns + n_not_ready * costs.recheck_ns
    yield from spend(worker, activity.WAIT, batch_ns)


EPOLL_LEVEL = Mechanism(
    "epoll_level",
    fds=1,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait,
    traits=frozenset({Trait.IN_EPOLL, Trait.SHARES_READY_LIST, Trait.WAKES_ONE}),
    watch_memory="epoll_bytes",
)

EPOLL_ONESHOT = EPOLL_LEVEL._replace(
    name="epoll_oneshot", traits=EPOLL_LEVEL.traits | {Trait.ONE_SHOT}
)
"""epoll with EPOLLONESHOT: a returned descriptor is disarmed until the server arms it again.

    ADD ──► armed ──event──► returned, disarmed ──served──► MOD ──► armed, or listed at once

It costs one more epoll_ctl for each request after which the connection stays open. In return
several threads may wait on one set without getting the same descriptor (with a shared ready list
epoll_level is armed like this, too: sim/kernel/interest_set.py). The listener stays armed.
Sources: epoll(7), EPOLLONESHOT; Linux fs/eventpoll.c ep_send_events(), ep_modify().
"""


class EpollCloseCosts(NamedTuple):
    """CPU time of epoll without EPOLL_CTL_DEL; forget_ns is what close() takes longer."""

    call_ns: int
    event_ns: int
    recheck_ns: int
    add_ns: int
    modify_ns: int
    forget_ns: int


def leave_to_close(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Let close() withdraw the interest in *fd*: no call is made."""
    yield from spend(worker, activity.UNWATCH, 0)
    interest_set.drop_interest(world, worker.interests, fd)


def forgetting_ns(world: World, fd: int) -> int:
    """Return the CPU time that close() takes longer: the kernel forgets *fd*."""
    cost_ns: int = world.costs.mechanism.forget_ns
    return cost_ns


EPOLL_CLOSE = EPOLL_LEVEL._replace(
    name="epoll_close", unwatch=leave_to_close, close_ns=forgetting_ns
)
"""Level-triggered epoll whose removal is left to close(): one system call less per connection.

    ADD, MOD ──► tree ──► ready list ──► events          close ──► taken out of the tree

close() does the work of EPOLL_CTL_DEL and costs that much more; only the crossing into the kernel
is saved.
Sources: epoll(7), "Will closing a file descriptor cause it to be removed"; Linux fs/eventpoll.c
eventpoll_release_file(); Gammo et al. 2004, §2.
"""

WAITS: Borrowed = {name: (f"epoll_level.{name}",) for name in ("call_ns", "event_ns", "recheck_ns")}
FORGETS: Borrowed = {"forget_ns": ("epoll_level.delete_ns - call.crossing_ns",)}
"""Borrowed costs of waits and closes that do the same work as epoll's."""
_ADDS_AND_MODIFIES: Borrowed = {name: (f"epoll_level.{name}",) for name in ("add_ns", "modify_ns")}

ENTRIES = (
    entry(
        __name__,
        EPOLL_LEVEL,
        EpollCosts,
        "epoll(7); Gammo et al. 2004, §2",
        aliases=("epoll", "epoll_lt"),
        wait_call="epoll_wait",
        c_support=CSupport.LINUX,
        client="client_loop",
    ),
    entry(
        __name__,
        EPOLL_ONESHOT,
        EpollCosts,
        "epoll(7), EPOLLONESHOT",
        wait_call="epoll_wait",
        about="epoll with EPOLLONESHOT: a returned descriptor is disarmed until the server arms it "
        "again.",
        c_support=CSupport.LINUX,
        c_server="epoll_oneshot",
        # Measured on Linux 6.18, in alternation: a wait of 16 one-shot events takes 4 to 6% less
        # than one of level-triggered ones, EPOLL_CTL_MOD after them the same within 1%.
        borrowed={**WAITS, **_ADDS_AND_MODIFIES, "delete_ns": ("epoll_level.delete_ns",)},
    ),
    entry(
        __name__,
        EPOLL_CLOSE,
        EpollCloseCosts,
        "Gammo et al. 2004, §2",
        wait_call="epoll_wait",
        about="Level-triggered epoll whose removal is left to close(): one system call less per "
        "connection.",
        c_support=CSupport.LINUX,
        c_server="epoll_close",
        # On hardware the measured close includes the removal, and call.close_ns is that time less
        # this borrowed cost: the sum of the two was measured.
        borrowed={**WAITS, **_ADDS_AND_MODIFIES, **FORGETS},
    ),
)
