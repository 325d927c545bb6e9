"""Polls through the AIO ring: one call a loop submits all polls; each poll ends with its event.

    changes ──io_submit──► armed ──event──► ring in the server's memory ──► events
       ▲                                       └─ empty: io_getevents, which may block
       └── served, and wanted again

A poll ends with its event, so the server submits every descriptor of interest again, including the
listener. The server reads the ring without a call. When the call returns, descriptors that were
ready are in the ring; interrupts add the events of the others.
Sources: Linux fs/aio.c aio_poll(), aio_poll_wake(); io_submit(2), IOCB_CMD_POLL; Bello 2019, §6;
calibration/c/servers/aio_poll.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...sim.cpu.interrupts import lengthen_interrupt
from ...sim.kernel import interest_set
from ...sim.kernel.sleeping import sleep
from ...sim.state.kinds import NONE, READABLE, activity, count
from ...sim.state.mechanism import spend, step
from ...sim.state.world import InterestSet, Worker, World
from ..entry import CSupport, entry
from ..epoll.epoll_ctlv import EPOLL_CTLV
from ..epoll.epoll_ctlv import notify as notify_if_told
from ..remembering.changes import Changes, change, is_told, tells, unwatch_by_close


class AioPollCosts(NamedTuple):
    """CPU time of polls by AIO: io_submit, each poll in it, io_getevents, and each event.

    ready_ns is the extra time of a poll whose descriptor is ready, post_ns the time of an event in
    its interrupt, including the end of the poll, woken_ns the extra time of a call that slept.
    """

    entry_ns: int
    add_ns: int
    call_ns: int
    event_ns: int
    ready_ns: int = 0
    post_ns: int = 0
    woken_ns: int = 0


def is_told_of(world: World, fd: int) -> bool:
    """Return whether an event of *fd* is in the ring, or a poll of it about to be submitted."""
    return tells(world, fd) or world.interest[fd] == 0


def notify(world: World, fd: int) -> bool:
    """Put the event of *fd* in the ring, if there is a poll of it, and wake the server."""
    if is_told(world, fd) and interest_set.is_ready(world, fd) and world.listed[fd] == 0:
        lengthen_interrupt(world, world.costs.mechanism.post_ns)
    return notify_if_told(world, fd)


def submit(world: World, worker: Worker) -> Iterator[int]:
    """Call io_submit with a poll of each descriptor of interest, if there is any."""
    costs = world.costs.mechanism
    changes: Changes = worker.interests.own.changes
    if changes.n == 0:
        return
    world.counts[count.UPDATES] += 1
    polls_ns = changes.n * costs.add_ns + _n_ready(world, changes) * costs.ready_ns
    yield from spend(worker, activity.WATCH, costs.entry_ns + polls_ns)
    for i in range(changes.n):
        fd = changes.fds[i]
        changes.place[fd] = 0
        changes.told[fd] = 1
        if interest_set.is_ready(world, fd):
            interest_set.list_ready(world, worker.interests, fd)
    changes.n = 0


def _n_ready(world: World, changes: Changes) -> int:
    n = 0
    for i in range(changes.n):
        if interest_set.is_ready(world, changes.fds[i]):
            n += 1
    return n


def _take_batch(world: World, worker: Worker) -> None:
    """Take events off the ring; their polls have ended, and their states may have changed."""
    interests = worker.interests
    changes: Changes = interests.own.changes
    n_events = 0
    for _ in range(interests.n_ready):
        if n_events == world.program.max_events:
            break
        fd = interest_set.take_first(world, interests)
        if fd == NONE:
            continue
        world.interest[fd] = 0
        changes.told[fd] = 0
        worker.event_fd[n_events] = fd
        n_events += 1
    worker.n_events = n_events
    world.counts[count.EVENTS] += n_events


def _want_listener(world: World, interests: InterestSet, fd: int) -> None:
    if world.interest[fd] == 0:
        change(world, interests, fd, READABLE)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Submit the polls; call io_getevents if the ring is empty; take the events."""
    costs = world.costs.mechanism
    _want_listener(world, worker.interests, worker.listener_fd)
    yield from submit(world, worker)
    world.counts[count.WAITS] += 1
    if interest_set.n_listed(worker.interests) == 0:
        yield from get_events(world, worker)
    _take_batch(world, worker)
    yield from spend(worker, activity.WAIT, worker.n_events * costs.event_ns)


def get_events(world: World, worker: Worker) -> Iterator[int]:
    """Call io_getevents, which blocks until the ring holds an event."""
    costs, spins = world.costs.mechanism, world.program.busy
    worker.spin_ns = costs.event_ns  # a server that spins reads the ring
    if not spins:
        world.counts[count.ASKS] += 1
        yield from step(worker, activity.WAIT, costs.call_ns)
    while interest_set.n_listed(worker.interests) == 0:
        yield from sleep(world, worker)
        if not spins:
            yield from spend(worker, activity.WAIT, costs.woken_ns)


AIO_POLL = EPOLL_CTLV._replace(
    name="aio_poll",
    fds=0,
    unwatch=unwatch_by_close,
    notify=notify,
    wait=wait,
    tells=is_told_of,
    traits=frozenset(),
)

ENTRIES = (
    entry(
        __name__,
        AIO_POLL,
        AioPollCosts,
        "io_submit(2), IOCB_CMD_POLL",
        aliases=("aio", "libaio"),
        wait_call="io_getevents",
        c_support=CSupport.LINUX,
        words={
            "entry_ns": "io_submit, without the polls in it",
            "add_ns": "each poll that is submitted",
            "call_ns": "io_getevents, until it looks",
            "ready_ns": "what a poll takes more whose descriptor is ready already",
        },
        borrowed={
            "entry_ns": ("epoll_ctlv.entry_ns", "call.crossing_ns"),
            "add_ns": ("epoll_ctlv.add_ns", "epoll_level.add_ns - call.crossing_ns"),
            "call_ns": ("epoll_level.call_ns",),
            "event_ns": ("epoll_level.event_ns",),
        },
    ),
)
