"""io_uring: calls are submitted in a ring and done by the kernel; one system call a loop for all.

    server ──► submissions ──io_uring_enter──► send, close
       ▲                           │           accept, receive: armed once ──► completions ─┐
       │                           └── blocks while there is none ◄────────────────────────┤
       └───────────────────────────────────────────────────────────────────────────────────┘

Accept and receive are multishot: armed once, each connection and each request completes. So the
server is never told that it may make a call, but that one was made, and makes none in vain. A reply
leaves with the next io_uring_enter, when the whole batch has been served: fewer ways into the
kernel, at the price of a later reply. A send that does not fit is finished by the kernel.
Sources: io_uring(7), io_uring_multishot(7); Axboe 2019, "Efficient IO with io_uring"; Linux
io_uring/net.c io_accept(), io_recv(), io_send().
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.columns import MakeColumn
from ..sim.costs import curve_ns
from ..sim.interest_set import is_ready, n_listed, take_ready
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, WRITABLE, Activity, Count
from ..sim.mechanism import no_call_ns
from ..sim.processor import Worker
from ..sim.settings import ServerSettings
from ..sim.sleeping import sleep
from ..sim.sockets import (
    END_OF_FILE,
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
_WAITS, _SHED, _NOTICES = int(Count.WAITS), int(Count.SHED), int(Count.NOTICES)
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
class Rings:
    """Descriptors with a reply to be sent, in the order of their submission."""

    replies: list[int]
    n: int = 0


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Rings:
    """Return empty rings."""
    del server
    return Rings(column(n_fds, NONE, np.int32))


@inlined
def prepare_reply(worker: Worker, fd: int) -> None:
    """Put the reply of *fd* into the ring: it is sent with the next call."""
    rings: Rings = worker.interests.own
    rings.replies[rings.n] = fd
    rings.n += 1


@jitable
def _close(world: World, worker: Worker, fd: int) -> Iterator[int]:
    call = world.costs.call
    world.counts[_UNWATCHES] += 1
    unwatch(world, worker.interests, fd)
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
        for cost_ns in _close(world, worker, fd):
            yield cost_ns
    else:
        rewatch(world, worker.interests, fd, WRITABLE if left > 0 else READABLE)


@jitable
def _accept_all(world: World, worker: Worker) -> Iterator[int]:
    """Accept who waits; each is handed over with a receive that is armed next."""
    call, costs = world.costs.call, world.costs.mechanism
    while worker.listener.n_queued > 0:
        worker.activity = _ACCEPT
        yield max(1, call.accept_ns - call.crossing_ns)  # or time would stand still at EMFILE
        fd = accept(world, worker)
        if fd < 0:
            return
        world.counts[_NOTICES] += 1
        if is_unwanted(world, worker, fd):
            worker.activity = _CLOSE
            yield max(0, call.close_ns - call.crossing_ns)
            world.counts[_SHED] += 1
            close(world, worker, fd)
            continue
        world.counts[_WATCHES] += 1
        worker.activity = _WATCH
        yield costs.complete_ns + costs.submit_ns + costs.add_ns
        watch(world, worker.interests, fd, READABLE)


@jitable
def _receive(world: World, worker: Worker) -> Iterator[int]:
    """Receive what has come; the events left are those of whole requests."""
    call, costs = world.costs.call, world.costs.mechanism
    take_ready(world, worker, world.server.max_events)
    n_told, n_requests = worker.n_events, 0
    for i in range(n_told):
        fd = worker.event_fd[i]
        if fd == worker.listener_fd:
            continue
        if reply_unsent(world, fd):
            if hung_up(world, fd):
                for cost_ns in _close(world, worker, fd):
                    yield cost_ns
            else:
                for cost_ns in _send(world, worker, fd):
                    yield cost_ns
            continue
        if not is_ready(world, fd):
            continue
        worker.activity = _READ
        yield max(0, call.read_ns - call.crossing_ns) + costs.complete_ns
        world.counts[_NOTICES] += 1
        if read(world, fd) == END_OF_FILE:
            for cost_ns in _close(world, worker, fd):
                yield cost_ns
        else:
            worker.event_fd[n_requests] = fd
            n_requests += 1
    worker.n_events = n_requests


@jitable
def enter(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one io_uring_enter, with all that the kernel does in it."""
    costs, interests = world.costs.mechanism, worker.interests
    rings: Rings = interests.own
    worker.activity = _WAIT
    world.counts[_WAITS] += 1
    n_replies = rings.n
    worker.spin_ns = costs.call_ns
    yield costs.call_ns + n_replies * costs.submit_ns
    rings.n = 0
    for i in range(n_replies):
        for cost_ns in _send(world, worker, rings.replies[i]):
            yield cost_ns
    worker.n_events = 0
    while worker.n_events == 0:
        for cost_ns in _accept_all(world, worker):
            yield cost_ns
        for cost_ns in _receive(world, worker):
            yield cost_ns
        if worker.n_events == 0 and n_listed(interests) == 0:
            for cost_ns in sleep(world, worker):
                yield cost_ns
        worker.activity = _WAIT


IO_URING = EPOLL_LEVEL._replace(
    name="io_uring",
    watch_ns=no_call_ns,
    rewatch_ns=no_call_ns,
    unwatch_ns=no_call_ns,
    memory=memory,
    wait=enter,
)
