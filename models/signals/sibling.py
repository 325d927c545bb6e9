"""A worker that takes signals, and a sibling thread that polls: they exchange descriptors.

    worker    SIGIO ─► flush ─► sendmsg, sendmsg ... ─► recvmsg sleeps ············ signals again
                                    │ a descriptor each                                ▲
    sibling   recvmsg sleeps ─► recvmsg, recvmsg ... ─► poll, serve ... ─► sendmsg ... ┘
                                                               └─ for ever ─┘

The sibling is a separate thread, on its worker's CPU or another one. It sleeps in recvmsg while it
has no descriptor. The last message of a hand-over is marked: the sibling receives all descriptors,
and then polls them. A worker without its descriptors sleeps in recvmsg, too. It gets them back
after one poll and one batch of the sibling, or once few are ready, or never.

Descriptors at the sibling stay armed, and a connection that the sibling accepts is armed for its
worker. Their signals are queued for the worker, which takes them when it has its descriptors back.
It then finds the next loss, and hands its descriptors over again.

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
    """Move *fd* to another set, with its interest and its reports.

    It is in that set from the time of sending. The new thread receives all descriptors before its
    first poll, so the order of messages does not matter.
    """
    remembered: readiness.Readiness = interests.own.readiness
    interest, known = world.interest[fd], remembered.known[fd]
    interest_set.drop_interest(world, interests, fd)
    interest_set.add_interest(world, to, fd, interest)
    readiness.assume(world, to, fd, known)
