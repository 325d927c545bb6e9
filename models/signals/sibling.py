"""A worker that takes signals and its sibling that polls: they hand their descriptors over.

    worker    SIGIO ─► flush ─► sendmsg, sendmsg ... ─► recvmsg sleeps ············ signals again
                                    │ a descriptor each                                ▲
    sibling   recvmsg sleeps ─► recvmsg, recvmsg ... ─► poll, serve ... ─► sendmsg ... ┘
                                                               └─ for ever ─┘

The sibling is a thread of its own, on its worker's CPU or another one. It sleeps in recvmsg while
it has no descriptor. The last message of a hand-over says that it is the last: the sibling receives
all, and then polls all. A worker whose descriptors are away sleeps in recvmsg, too. It has them
back after the sibling's one poll and one batch of what that found, or once it is calm, or never.

A descriptor that was handed over stays armed, and one that the sibling accepts is armed for its
worker: their signals are queued for the worker, which takes them when it has its descriptors back.
The next loss is found then, and they are handed over again.

Sources: Provos and Lever 2000, §5 (one at a time through a UNIX socket, for ever); Provos, Lever
and Tweedie 2000, §2 (and back); unix(7), SCM_RIGHTS; Linux net/unix/af_unix.c
unix_stream_sendmsg(), unix_stream_read_generic().
"""

from __future__ import annotations

from collections.abc import Iterator

from ...sim.cpu.scheduling import wake
from ...sim.kernel import interest_set
from ...sim.kernel.handing_over import is_sibling, queue_for, take_handed
from ...sim.kernel.sleeping import be_away
from ...sim.state.kinds import activity
from ...sim.state.mechanism import spend
from ...sim.state.world import InterestSet, Worker, World
from ..remembering import readiness


def signalled_set(world: World, interests: InterestSet) -> InterestSet:
    """Return the set of the worker that owns the descriptors of *interests* (F_SETOWN)."""
    if not is_sibling(world, interests.number):
        return interests
    return world.sets[interests.number - world.n_siblings]


def other_of(world: World, worker: Worker) -> Worker:
    """Return the sibling of *worker*, or the worker of a sibling."""
    return world.workers[(worker.number + world.n_siblings) % len(world.workers)]


def keep_ns(world: World) -> int:
    """Return the CPU time of a change in the array for poll, if it is kept up to date."""
    cost_ns: int = world.costs.mechanism.keep_ns
    return cost_ns if world.signals.recovery_array_kept else 0


def lend_all(world: World, worker: Worker) -> Iterator[int]:
    """Hand all descriptors of *worker* over to its sibling, and sleep until they are back."""
    worker.interests.own.polls = True
    yield from hand_over_all(world, worker)
    yield from receive_all(world, worker)
    worker.interests.own.polls = False


def hand_over_all(world: World, worker: Worker) -> Iterator[int]:
    """Send each descriptor of *worker* to the other thread, lowest first: a message for each."""
    interests, taker = worker.interests, other_of(world, worker)
    send_ns = world.costs.mechanism.send_fd_ns + keep_ns(world)
    for fd in range(world.next_fd):
        if world.watched_by[fd] == interests.number:
            yield from spend(worker, activity.WAIT, send_ns)
            _move(world, interests, taker.interests, fd)
            queue_for(taker, fd)
            if taker.interests.own.receives:
                taker.interests.own.receives = False
                wake(world, taker)


def receive_all(world: World, worker: Worker) -> Iterator[int]:
    """Receive descriptors from the other thread until it has none left; recvmsg sleeps between."""
    giver = other_of(world, worker)
    receive_ns = world.costs.mechanism.receive_fd_ns + keep_ns(world)
    n_left = 1
    while n_left > 0:
        while worker.n_handed == 0:
            worker.interests.own.receives = True
            yield from be_away(world, worker)
        yield from spend(worker, activity.WAIT, receive_ns)
        take_handed(worker)
        n_left = worker.n_handed + giver.interests.n_watched


def _move(world: World, interests: InterestSet, to: InterestSet, fd: int) -> None:
    """Have *fd* in another set, with what it is watched for and what was reported of it.

    It is in that set from when it is sent. Its new thread receives all before it asks for any, so
    nothing depends on which messages it has received by then.
    """
    remembered: readiness.Readiness = interests.own.readiness
    interest, known = world.interest[fd], remembered.known[fd]
    interest_set.drop_interest(world, interests, fd)
    interest_set.add_interest(world, to, fd, interest)
    readiness.assume(world, to, fd, known)
