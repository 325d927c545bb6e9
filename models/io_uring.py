"""io_uring: calls are submitted in a ring and done by the kernel; one system call a loop for all.

    server ──► submissions ──io_uring_enter──► send, close
       ▲                           │           accept, receive: armed once ──► completions ─┐
       │                           └── blocks while there is none ◄────────────────────────┤
       └───────────────────────────────────────────────────────────────────────────────────┘

Accept and receive are multishot: armed once, each connection and each request completes. So the
server is told that a call was made, and not that it may make one. What it wants then, a receive on
a new connection, a reply, a close, is submitted with the next io_uring_enter, when the whole batch
has been served: fewer ways into the kernel, at the price of a later reply. The close is linked to
the last reply. A send that does not fit is finished by the kernel, which also looks once in vain
after the last connection that it accepts.
Sources: io_uring(7), io_uring_multishot(7); Axboe 2019, "Efficient IO with io_uring"; Linux 6.1
io_uring/net.c io_accept(), io_recv(), io_send(), io_uring/opdef.c (an accept waits exclusively).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.columns import MakeColumn
from ..sim.costs import curve_ns
from ..sim.interest_set import is_ready, list_ready, n_listed, set_of, take_first
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, WRITABLE, Activity, Count
from ..sim.mechanism import no_call_ns
from ..sim.processor import Worker
from ..sim.settings import ServerSettings
from ..sim.sleeping import sleep
from ..sim.sockets import (
    accept,
    all_answered,
    close,
    hung_up,
    n_in_flight,
    read,
    reply_unsent,
    writable_bytes,
    write,
)
from ..sim.world import World
from .epoll_level import EPOLL_LEVEL, rewatch, unwatch, watch
from .overload_control import is_unwanted

_WAIT, _ACCEPT, _READ = int(Activity.WAIT), int(Activity.ACCEPT), int(Activity.READ)
_WRITE, _CLOSE, _WATCH = int(Activity.WRITE), int(Activity.CLOSE), int(Activity.WATCH)
_WAITS, _SHED, _EVENTS = int(Count.WAITS), int(Count.SHED), int(Count.EVENTS)
_WATCHES, _UNWATCHES = int(Count.WATCHES), int(Count.UNWATCHES)
_KIB = 1024


class IoUringCosts(NamedTuple):
    """CPU time of io_uring: a call, each submission, each completion, and arming a receive.

    What is done for a submission or a completion costs what the call would, less its crossing.
    """

    call_ns: int
    submit_ns: int
    complete_ns: int
    add_ns: int


@dataclass(slots=True, eq=False)
class Submissions:
    """Descriptors for which something is to be submitted, in order; their state says what."""

    fds: list[int]
    under_way: list[int]  # 1: something of that descriptor is being completed, or was and is next
    n: int = 0


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Submissions:
    """Return an empty ring."""
    del server
    return Submissions(column(n_fds, NONE, np.int32), column(n_fds, 0, np.int8))


@inlined
def tells(world: World, fd: int) -> bool:
    """Return whether something of *fd* is about to be completed or submitted."""
    ring: Submissions = set_of(world, fd).own
    return world.listed[fd] != 0 or ring.under_way[fd] != 0


@inlined
def submit(worker: Worker, fd: int) -> None:
    """Have what is next for *fd* submitted with the next call: receive, reply, or close."""
    ring: Submissions = worker.interests.own
    ring.fds[ring.n] = fd
    ring.n += 1


@jitable
def _close(world: World, worker: Worker, fd: int) -> Iterator[int]:
    call = world.costs.call
    worker.activity = _CLOSE
    crowding_ns = curve_ns(call.crowding, n_in_flight(world, worker))
    yield max(0, call.close_ns - call.crossing_ns) + crowding_ns
    close(world, worker, fd)


@jitable
def _send(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Send what fits; the rest waits in the kernel, the last reply has its connection closed."""
    call = world.costs.call
    worker.activity = _WRITE
    n_bytes = writable_bytes(world, fd)
    way_ns = call.write_after_ns + call.crossing_ns
    yield max(0, call.write_ns + n_bytes * call.write_kib_ns // _KIB - way_ns)
    left = write(world, fd, n_bytes)
    if call.write_after_ns > 0:
        yield call.write_after_ns
    if left == 0 and all_answered(world, fd):
        worker.activity = _WAIT
        yield world.costs.mechanism.submit_ns
        world.counts[_UNWATCHES] += 1
        unwatch(world, worker.interests, fd)
        for cost_ns in _close(world, worker, fd):
            yield cost_ns
    else:
        rewatch(world, worker.interests, fd, WRITABLE if left > 0 else READABLE)


@jitable
def _do_submitted(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Do what was submitted for *fd*, which its state says."""
    ring: Submissions = worker.interests.own
    if world.watched_by[fd] == NONE and is_unwanted(world, worker, fd):
        world.counts[_SHED] += 1
        for cost_ns in _close(world, worker, fd):
            yield cost_ns
    elif world.watched_by[fd] == NONE:
        world.counts[_WATCHES] += 1
        worker.activity = _WATCH
        yield world.costs.mechanism.add_ns
        watch(world, worker.interests, fd, READABLE)
    elif reply_unsent(world, fd):
        for cost_ns in _send(world, worker, fd):
            yield cost_ns
        ring.under_way[fd] = 0
    else:
        ring.under_way[fd] = 0
        world.counts[_UNWATCHES] += 1
        unwatch(world, worker.interests, fd)
        for cost_ns in _close(world, worker, fd):
            yield cost_ns


@inlined
def _complete(world: World, worker: Worker, fd: int) -> None:
    worker.event_fd[worker.n_events] = fd
    worker.n_events += 1
    world.counts[_EVENTS] += 1


@jitable
def _accept_all(world: World, worker: Worker) -> Iterator[int]:
    """Accept who waits, and look once more."""
    call, costs = world.costs.call, world.costs.mechanism
    worker.activity = _ACCEPT
    while worker.listener.n_queued > 0:
        yield max(0, call.accept_ns - call.crossing_ns)
        fd = accept(world, worker)
        if fd < 0:
            yield 1  # it is tried again: without this, time could stand still
            return
        _complete(world, worker, fd)
        if costs.complete_ns > 0:
            yield costs.complete_ns
    yield max(0, call.accept_again_ns - call.crossing_ns)
    if worker.listener.n_queued == 0:
        accept(world, worker)


@jitable
def _receive(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Receive what has come on *fd*, or go on with its reply."""
    call = world.costs.call
    if not reply_unsent(world, fd):
        worker.activity = _READ
        yield max(0, call.read_ns - call.crossing_ns) + world.costs.mechanism.complete_ns
        read(world, fd)
        _complete(world, worker, fd)
    elif hung_up(world, fd):
        world.unsent[world.connection_of[fd]] = 0  # the send fails: nothing is left but to close
        _complete(world, worker, fd)
    else:
        for cost_ns in _send(world, worker, fd):
            yield cost_ns
        ring: Submissions = worker.interests.own
        ring.under_way[fd] = 0


@jitable
def _next_ready(world: World, worker: Worker) -> int:
    """Take the next descriptor of which something can be completed; NONE: there is none."""
    interests = worker.interests
    while interests.n_ready > 0:
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        if is_ready(world, fd):
            ring: Submissions = interests.own
            ring.under_way[fd] = 1
            return fd
    return NONE


@jitable
def _do_what_is_ready(world: World, worker: Worker) -> Iterator[int]:
    """Accept, receive and go on with replies, until there is room for no more completions."""
    while worker.n_events < world.server.max_events:
        fd = _next_ready(world, worker)
        if fd == NONE:
            return
        if fd != worker.listener_fd:
            for cost_ns in _receive(world, worker, fd):
                yield cost_ns
            continue
        for cost_ns in _accept_all(world, worker):
            yield cost_ns
        ring: Submissions = worker.interests.own
        ring.under_way[fd] = 0
        if worker.listener.n_queued > 0:
            list_ready(world, worker.interests, fd)
            return  # there was no descriptor for another connection


@jitable
def enter(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one io_uring_enter, with all that the kernel does in it."""
    costs, interests = world.costs.mechanism, worker.interests
    ring: Submissions = interests.own
    worker.activity = _WAIT
    world.counts[_WAITS] += 1
    n_submitted = ring.n
    worker.spin_ns = costs.call_ns
    yield costs.call_ns + n_submitted * costs.submit_ns
    ring.n = 0
    worker.n_events = 0
    for i in range(n_submitted):
        for cost_ns in _do_submitted(world, worker, ring.fds[i]):
            yield cost_ns
    while True:
        for cost_ns in _do_what_is_ready(world, worker):
            yield cost_ns
        worker.activity = _WAIT
        if worker.n_events > 0:
            break
        if n_listed(interests) == 0:
            for cost_ns in sleep(world, worker):
                yield cost_ns


IO_URING = EPOLL_LEVEL._replace(
    name="io_uring",
    watch_ns=no_call_ns,
    rewatch_ns=no_call_ns,
    unwatch_ns=no_call_ns,
    memory=memory,
    wait=enter,
    tells=tells,
    in_epoll=False,
)
