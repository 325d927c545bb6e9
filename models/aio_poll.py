"""Polls through the AIO ring: what is watched is submitted, each for one event, in one call a loop.

    changes ──io_submit──► armed ──event──► ring in the server's memory ──► events
       ▲                                       └─ empty: io_getevents, which may block
       └── served, and wanted again

A poll is over with its event, so all that is to be watched on, the listener too, is submitted
again. What the ring holds is read without a call. A submitted descriptor that is ready already
is in the ring when the call returns; the event of another one is put there by the interrupt.
Sources: Linux fs/aio.c aio_poll(), aio_poll_wake(); io_submit(2), IOCB_CMD_POLL; Bello 2019, §6;
calibration/servers/aio_poll.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..sim.interest_set import (
    InterestSet,
    is_ready,
    list_ready,
    n_listed,
    set_of,
    take_first,
    wake_one,
)
from ..sim.interrupts import lengthen_interrupt
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, Activity, Count
from ..sim.mechanism import no_call_ns
from ..sim.processor import Worker
from ..sim.sleeping import sleep
from ..sim.world import World
from .changes import Changes, change, is_told, tells, unwatch_by_close
from .epoll_ctlv import EPOLL_CTLV

_WAIT, _WATCH = int(Activity.WAIT), int(Activity.WATCH)
_WAITS, _EVENTS = int(Count.WAITS), int(Count.EVENTS)
_ASKS, _UPDATES = int(Count.ASKS), int(Count.UPDATES)


class AioPollCosts(NamedTuple):
    """CPU time of polls by AIO: io_submit, each poll in it, io_getevents, and each event.

    ready_ns is what a poll takes more whose descriptor is ready already, post_ns what an event adds
    to its interrupt, taking the poll down included, and woken_ns what a call takes more that slept.
    """

    entry_ns: int
    add_ns: int
    call_ns: int
    event_ns: int
    ready_ns: int = 0
    post_ns: int = 0
    woken_ns: int = 0


@inlined
def is_told_of(world: World, fd: int) -> bool:
    """Return whether an event of *fd* is in the ring, or a poll of it about to be submitted."""
    return tells(world, fd) or world.interest[fd] == 0


@inlined
def notify(world: World, fd: int) -> bool:
    """Put the event of *fd* in the ring, if there is a poll of it, and wake the server."""
    if not is_told(world, fd) or not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    if world.listed[fd] == 0:
        lengthen_interrupt(world, world.costs.mechanism.post_ns)
    list_ready(world, interests, fd)
    return wake_one(world, interests)


@jitable
def submit(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one io_submit with a poll of all that is wanted, if there is any."""
    costs, interests = world.costs.mechanism, worker.interests
    changes: Changes = interests.own.changes
    if changes.n == 0:
        return
    worker.activity = _WATCH
    world.counts[_UPDATES] += 1
    n_ready = 0
    for i in range(changes.n):
        n_ready += is_ready(world, changes.fds[i])
    yield costs.entry_ns + changes.n * costs.add_ns + n_ready * costs.ready_ns
    for i in range(changes.n):
        fd = changes.fds[i]
        changes.place[fd] = 0
        changes.told[fd] = 1
        if is_ready(world, fd):
            list_ready(world, interests, fd)
    changes.n = 0


@jitable
def _harvest(world: World, worker: Worker) -> None:
    """Take events off the ring; their polls are over, and what they told may be over, too."""
    interests = worker.interests
    changes: Changes = interests.own.changes
    n_events = 0
    for _ in range(interests.n_ready):
        if n_events == world.server.max_events:
            break
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        world.interest[fd] = 0
        changes.told[fd] = 0
        worker.event_fd[n_events] = fd
        n_events += 1
    worker.n_events = n_events
    world.counts[_EVENTS] += n_events


@inlined
def _want_listener(world: World, interests: InterestSet, fd: int) -> None:
    if world.interest[fd] == 0:
        change(world, interests, fd, READABLE)


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of a submission, and of a call if the ring is empty then."""
    costs, interests = world.costs.mechanism, worker.interests
    _want_listener(world, interests, worker.listener_fd)
    for cost_ns in submit(world, worker):
        yield cost_ns
    worker.activity = _WAIT
    world.counts[_WAITS] += 1
    if n_listed(interests) == 0:
        worker.spin_ns = costs.event_ns  # who spins looks at the ring
        if not world.server.busy:
            world.counts[_ASKS] += 1
            yield costs.call_ns
        while n_listed(interests) == 0:
            for cost_ns in sleep(world, worker):
                yield cost_ns
            worker.activity = _WAIT
            if costs.woken_ns > 0 and not world.server.busy:
                yield costs.woken_ns
    _harvest(world, worker)
    yield worker.n_events * costs.event_ns


AIO_POLL = EPOLL_CTLV._replace(
    name="aio_poll",
    fds=0,
    unwatch_ns=no_call_ns,
    unwatch=unwatch_by_close,
    notify=notify,
    wait=wait,
    tells=is_told_of,
    in_epoll=False,
)
