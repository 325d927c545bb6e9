"""io_uring: calls are submitted in a ring and done by the kernel; one system call a loop for all.

    server ──► submissions ──io_uring_enter──► send ─ linked ─► close, or the next receive
       ▲                           │           accept, receive: armed ──► completions ─┐
       │                           └── blocks while there is none ◄────────────────────┤
       └───────────────────────────────────────────────────────────────────────────────┘

The server is told that a call was made, and not that it may make one. What it wants then, a receive
on a new connection, a reply, a close, is submitted with the next io_uring_enter, when the whole
batch has been served: fewer ways into the kernel, at the price of a later reply. All replies are
sent before anything is closed; a close after the client's reset has nothing to send.

Accept is multishot: armed once, each connection completes; the kernel looks once in vain after the
last one. Receive is armed for each request anew, after the reply, to which it is linked, or else
the close: an armed receive holds the socket, so a close would wait until it is cancelled, which
completes, too. A receive that is submitted is tried at once, and armed if there is nothing. A send
that does not fit is finished by the kernel.

All is done inside the call (IORING_SETUP_DEFER_TASKRUN): the interrupt of what becomes ready only
queues work, and so does a submission whose successor is linked. The queue is emptied from its end:
what was queued last is done first, and what comes meanwhile belongs to the next turn.
Sources: io_uring(7), io_uring_setup(2); Axboe 2019, "Efficient IO with io_uring"; Linux 6.1
io_uring/net.c io_accept(), io_recv(), io_sendmsg(), io_uring/poll.c, io_uring/io_uring.c
__io_run_local_work(), io_free_batch_list(), opdef.c (an accept waits exclusively);
calibration/servers/completion_loop.c is the server in C.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.columns import MakeColumn
from ..sim.costs import curve_ns
from ..sim.interest_set import (
    add_interest,
    drop_interest,
    is_ready,
    list_ready,
    n_listed,
    set_of,
    take_first,
    wake_one,
)
from ..sim.interrupts import lengthen_interrupt
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
from .epoll_level import EPOLL_LEVEL
from .overload_control import is_unwanted

_WAIT, _ACCEPT, _READ = int(Activity.WAIT), int(Activity.ACCEPT), int(Activity.READ)
_WRITE, _CLOSE, _WATCH = int(Activity.WRITE), int(Activity.CLOSE), int(Activity.WATCH)
_WAITS, _SHED, _EVENTS = int(Count.WAITS), int(Count.SHED), int(Count.EVENTS)
_WATCHES, _UNWATCHES = int(Count.WATCHES), int(Count.UNWATCHES)
_KIB = 1024


class IoUringCosts(NamedTuple):
    """CPU time of io_uring: a call, each submission, each completion, and arming a receive.

    What is done for a submission or a completion costs what the call would, less its crossing.
    link_ns is what a submission takes more that is linked to another one, retry_ns what it takes to
    come back to one that was armed, post_ns what queueing that adds to its interrupt, woken_ns what
    a call takes more that has slept, and ended_saved_ns what a close takes less, and the reset
    before it, whose client has reset already.
    """

    call_ns: int
    submit_ns: int
    complete_ns: int
    add_ns: int
    link_ns: int = 0
    retry_ns: int = 0
    post_ns: int = 0
    woken_ns: int = 0
    ended_saved_ns: int = 0


@dataclass(slots=True, eq=False)
class Submissions:
    """Descriptors of which something is under way in the server or the ring; each list in order."""

    fds: list[int]  # to be submitted; their state says what
    linked: list[int]  # what follows their last send is to be done
    turn: list[int]  # to be done in this turn, the last one first
    done: list[int]  # completed, and not seen by the server: a ring
    under_way: list[int]  # 1: of each descriptor that is in one of these, or with the server
    n: int = 0
    n_linked: int = 0
    first_done: int = 0
    n_done: int = 0


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Submissions:
    """Return an empty ring."""
    del server
    return Submissions(
        fds=column(n_fds, NONE, np.int32),
        linked=column(n_fds, NONE, np.int32),
        turn=column(n_fds, NONE, np.int32),
        done=column(n_fds, NONE, np.int32),
        under_way=column(n_fds, 0, np.int8),
    )


@inlined
def tells(world: World, fd: int) -> bool:
    """Return whether something of *fd* is about to be completed or submitted."""
    ring: Submissions = set_of(world, fd).own
    return world.listed[fd] != 0 or ring.under_way[fd] != 0


@inlined
def notify(world: World, fd: int) -> bool:
    """Have what is armed on *fd* done by the server's next call, or the one that it sleeps in."""
    if not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    if world.listed[fd] == 0:
        lengthen_interrupt(world, world.costs.mechanism.post_ns)
    list_ready(world, interests, fd)
    return wake_one(world, interests)


@inlined
def submit(worker: Worker, fd: int) -> None:
    """Have what is next for *fd* submitted with the next call."""
    ring: Submissions = worker.interests.own
    ring.fds[ring.n] = fd
    ring.n += 1


@inlined
def _complete(worker: Worker, fd: int) -> None:
    ring: Submissions = worker.interests.own
    ring.done[(ring.first_done + ring.n_done) % len(ring.done)] = fd
    ring.n_done += 1
    ring.under_way[fd] = 1


@inlined
def _arm(world: World, worker: Worker, fd: int, interest: int) -> None:
    """Have what is submitted for *fd* done when it is in a state of *interest*."""
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = 0
    world.interest[fd] = interest
    if is_ready(world, fd):
        list_ready(world, worker.interests, fd)


@jitable
def _close(world: World, worker: Worker, fd: int) -> Iterator[int]:
    call = world.costs.call
    worker.activity = _CLOSE
    crowding_ns = curve_ns(call.crowding, n_in_flight(world, worker))
    saved_ns = world.costs.mechanism.ended_saved_ns if hung_up(world, fd) else 0
    yield max(0, call.close_ns - call.crossing_ns - saved_ns) + crowding_ns
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = 0
    if world.watched_by[fd] != NONE:
        world.counts[_UNWATCHES] += 1
        drop_interest(world, worker.interests, fd)
    close(world, worker, fd)


@jitable
def _receive(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Receive what has come on *fd*, or be armed for it."""
    call, costs = world.costs.call, world.costs.mechanism
    if world.state[fd] & READABLE:
        worker.activity = _READ
        yield max(0, call.read_ns - call.crossing_ns) + costs.complete_ns
        read(world, fd)
        world.interest[fd] = 0
        _complete(worker, fd)
    else:
        worker.activity = _WATCH
        yield costs.add_ns
        _arm(world, worker, fd, READABLE)


@jitable
def _send(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Send what fits; the rest waits in the kernel, and what is linked to the last byte with it."""
    call, costs = world.costs.call, world.costs.mechanism
    way_ns = call.write_after_ns + call.crossing_ns
    worker.activity = _WRITE
    world.interest[fd] = 0
    if hung_up(world, fd):
        yield max(0, call.write_ns - call.crossing_ns) + costs.complete_ns
        world.unsent[world.connection_of[fd]] = 0  # it fails: nothing is left but to close
        _complete(worker, fd)
        return
    n_bytes = writable_bytes(world, fd)
    yield max(0, call.write_ns + n_bytes * call.write_kib_ns // _KIB - way_ns)
    left = write(world, fd, n_bytes)
    if call.write_after_ns > 0:
        yield call.write_after_ns
    if left > 0:
        worker.activity = _WATCH
        yield costs.add_ns
        _arm(world, worker, fd, WRITABLE)
        return
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = 1
    ring.linked[ring.n_linked] = fd
    ring.n_linked += 1


@jitable
def _do_submitted(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Do what was submitted for *fd*, which its state says."""
    if fd == worker.listener_fd:
        _arm(world, worker, fd, READABLE)
    elif world.watched_by[fd] == NONE and is_unwanted(world, worker, fd):
        world.counts[_SHED] += 1
        for cost_ns in _close(world, worker, fd):
            yield cost_ns
    elif world.watched_by[fd] == NONE:
        world.counts[_WATCHES] += 1
        add_interest(world, worker.interests, fd, 0)
        for cost_ns in _receive(world, worker, fd):
            yield cost_ns
    elif reply_unsent(world, fd):
        for cost_ns in _send(world, worker, fd):
            yield cost_ns
    else:
        for cost_ns in _close(world, worker, fd):
            yield cost_ns


@jitable
def _do_linked(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Do what follows the last byte of a reply: close, or receive again."""
    costs = world.costs.mechanism
    worker.activity = _WAIT
    yield costs.submit_ns + costs.link_ns
    if all_answered(world, fd):
        for cost_ns in _close(world, worker, fd):
            yield cost_ns
    else:
        for cost_ns in _receive(world, worker, fd):
            yield cost_ns


@jitable
def _accept_all(world: World, worker: Worker) -> Iterator[int]:
    """Accept who waits, and look once more; without a descriptor it is over, and completes so.

    The server then submits it again; that of calibration/servers after 10 ms at the latest.
    """
    call, costs = world.costs.call, world.costs.mechanism
    ring: Submissions = worker.interests.own
    worker.activity = _ACCEPT
    while worker.listener.n_queued > 0:
        yield max(0, call.accept_ns - call.crossing_ns)
        fd = accept(world, worker)
        if fd < 0:
            world.interest[worker.listener_fd] = 0
            _complete(worker, worker.listener_fd)
            return
        _complete(worker, fd)
        if costs.complete_ns > 0:
            yield costs.complete_ns
    yield max(0, call.accept_again_ns - call.crossing_ns)
    ring.under_way[worker.listener_fd] = 0
    if worker.listener.n_queued == 0:
        accept(world, worker)
    else:
        list_ready(world, worker.interests, worker.listener_fd)


@jitable
def _do_ready(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Come back to what was armed on *fd*."""
    costs = world.costs.mechanism
    if costs.retry_ns > 0:
        worker.activity = _WAIT
        yield costs.retry_ns
    if fd == worker.listener_fd:
        for cost_ns in _accept_all(world, worker):
            yield cost_ns
    elif reply_unsent(world, fd):
        for cost_ns in _send(world, worker, fd):
            yield cost_ns
    else:
        for cost_ns in _receive(world, worker, fd):
            yield cost_ns


@jitable
def _take_turn(world: World, worker: Worker) -> int:
    """Empty the queue of work; return how much there is of it for this turn."""
    interests = worker.interests
    ring: Submissions = interests.own
    n = 0
    while interests.n_ready > 0:
        fd = take_first(world, interests)
        if fd != NONE and is_ready(world, fd):
            ring.under_way[fd] = 1
            ring.turn[n] = fd
            n += 1
    for i in range(ring.n_linked):
        ring.turn[n] = ring.linked[i]
        n += 1
    return n


@jitable
def _do_queued(world: World, worker: Worker) -> Iterator[int]:
    """Do what is queued, turn by turn, until there is nothing."""
    ring: Submissions = worker.interests.own
    n = _take_turn(world, worker)
    while n > 0:
        n_ready = n - ring.n_linked
        ring.n_linked = 0
        for i in range(n):
            fd = ring.turn[n - 1 - i]
            if n - 1 - i >= n_ready:
                for cost_ns in _do_linked(world, worker, fd):
                    yield cost_ns
            else:
                for cost_ns in _do_ready(world, worker, fd):
                    yield cost_ns
        n = _take_turn(world, worker)


@jitable
def _see(world: World, worker: Worker) -> None:
    """Hand the server what was completed, the oldest first."""
    ring: Submissions = worker.interests.own
    n_events = min(ring.n_done, world.server.max_events)
    for i in range(n_events):
        worker.event_fd[i] = ring.done[(ring.first_done + i) % len(ring.done)]
    ring.first_done = (ring.first_done + n_events) % len(ring.done)
    ring.n_done -= n_events
    worker.n_events = n_events
    world.counts[_EVENTS] += n_events


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
    for i in range(n_submitted):
        for cost_ns in _do_submitted(world, worker, ring.fds[i]):
            yield cost_ns
    for cost_ns in _do_queued(world, worker):
        yield cost_ns
    while ring.n_done == 0:
        if n_listed(interests) == 0:
            for cost_ns in sleep(world, worker):
                yield cost_ns
            if costs.woken_ns > 0 and not world.server.busy:
                worker.activity = _WAIT
                yield costs.woken_ns
        for cost_ns in _do_queued(world, worker):
            yield cost_ns
    worker.activity = _WAIT
    _see(world, worker)


IO_URING = EPOLL_LEVEL._replace(
    name="io_uring",
    watch_ns=no_call_ns,
    rewatch_ns=no_call_ns,
    unwatch_ns=no_call_ns,
    notify=notify,
    memory=memory,
    wait=enter,
    tells=tells,
    in_epoll=False,
)
