"""What the kernel does for a ring: what was submitted, at once, and what has become due, later.

    submitted ─► send ─► what is linked to it is due ─► close, or receive
              ─► receive ─► completed, or armed ─► ready ─► due ─► completed
              ─► close

What is due is a queue: the ready list, in which what follows a send stands with the rest.
Sources: as of io_uring.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..sim.costs import sending_ns
from ..sim.interest_set import (
    add_interest,
    drop_interest,
    is_ready,
    list_ready,
    n_listed,
    take_first,
)
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, WRITABLE, Activity, Count
from ..sim.processor import Worker
from ..sim.sockets import (
    accept,
    all_answered,
    close,
    closing_ns,
    hung_up,
    read,
    reply_unsent,
    shed,
    writable_bytes,
    write,
)
from ..sim.world import World
from .overload_control import is_unwanted

_WAIT, _ACCEPT, _READ = int(Activity.WAIT), int(Activity.ACCEPT), int(Activity.READ)
_WRITE, _CLOSE, _WATCH = int(Activity.WRITE), int(Activity.CLOSE), int(Activity.WATCH)
_WATCHES, _UNWATCHES = int(Count.WATCHES), int(Count.UNWATCHES)
_ITSELF, _WHAT_FOLLOWS = 1, 2


@dataclass(slots=True, eq=False)
class Submissions:
    """Descriptors of which something is under way in the server or the ring; each list in order."""

    fds: list[int]  # to be submitted; their state says what
    linked: list[int]  # what follows their last send is to be done, where the last is the first
    turn: list[int]  # to be done in this turn, the last one first
    done: list[int]  # completed, and not seen by the server: a ring
    under_way: list[int]  # by descriptor: 0, or what of it is in one of these or with the server
    n: int = 0
    n_linked: int = 0
    first_done: int = 0
    n_done: int = 0


@inlined
def _complete(worker: Worker, fd: int) -> None:
    ring: Submissions = worker.interests.own
    ring.done[(ring.first_done + ring.n_done) % len(ring.done)] = fd
    ring.n_done += 1
    ring.under_way[fd] = _ITSELF


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
    saved_ns = world.costs.mechanism.ended_saved_ns if hung_up(world, fd) else 0
    yield max(0, closing_ns(world, worker) - call.crossing_ns - saved_ns)
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
    worker.activity = _WRITE
    world.interest[fd] = 0
    if hung_up(world, fd):
        yield max(0, call.write_ns - call.crossing_ns) + costs.complete_ns
        world.unsent[world.connection_of[fd]] = 0  # it fails: nothing is left but to close
        _complete(worker, fd)
        return
    n_bytes = writable_bytes(world, fd)
    yield max(0, sending_ns(call, n_bytes) - call.crossing_ns)
    left = write(world, fd, n_bytes)
    if call.write_after_ns > 0:
        yield call.write_after_ns
    if left > 0:
        worker.activity = _WATCH
        yield costs.add_ns
        _arm(world, worker, fd, WRITABLE)
        return
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = _WHAT_FOLLOWS
    if world.server.due_last_first:
        ring.linked[ring.n_linked] = fd
        ring.n_linked += 1
    else:
        list_ready(world, worker.interests, fd)


@jitable
def do_submitted(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Do what was submitted for *fd*, which its state says."""
    if fd == worker.listener_fd:
        _arm(world, worker, fd, READABLE)
    elif world.watched_by[fd] == NONE and is_unwanted(world, worker, fd):
        shed(world, fd)
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
    elif world.client.request_pieces > 1 and world.came_pieces[world.connection_of[fd]] > 0:
        for cost_ns in _receive(world, worker, fd):
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
    """Accept who waits; without a descriptor it is over, and completes so.

    With the last connection accept says that it is the last; before Linux 6.10 the kernel looked
    once more. The server then submits it again; that of calibration/servers after 10 ms at the
    latest.
    """
    call, costs = world.costs.call, world.costs.mechanism
    ring: Submissions = worker.interests.own
    worker.activity = _ACCEPT
    looks = True
    while worker.listener.n_queued > 0:
        yield max(0, call.accept_ns - call.crossing_ns)
        fd = accept(world, worker)
        if fd < 0:
            world.interest[worker.listener_fd] = 0
            _complete(worker, worker.listener_fd)
            return
        looks = world.server.accept_looks_again or worker.listener.n_queued > 0
        _complete(worker, fd)
        if costs.complete_ns > 0:
            yield costs.complete_ns
        if not looks:
            break
    if looks:
        yield max(0, call.accept_again_ns - call.crossing_ns)
    ring.under_way[worker.listener_fd] = 0
    if worker.listener.n_queued > 0:
        list_ready(world, worker.interests, worker.listener_fd)
    elif looks:
        accept(world, worker)


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
            ring.under_way[fd] = _ITSELF
            ring.turn[n] = fd
            n += 1
    for i in range(ring.n_linked):
        ring.turn[n] = ring.linked[i]
        n += 1
    return n


@jitable
def _do_last_first(world: World, worker: Worker) -> Iterator[int]:
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
def do_due(world: World, worker: Worker, n_most: int) -> Iterator[int]:
    """Do what was queued first: *n_most* pieces of what is there; with 0 all until none comes."""
    if world.server.due_last_first:
        for cost_ns in _do_last_first(world, worker):
            yield cost_ns
        return
    interests = worker.interests
    ring: Submissions = interests.own
    n_left = min(n_most, n_listed(interests))
    while interests.n_ready > 0 and (n_left > 0 or n_most == 0):
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        n_left -= 1
        if ring.under_way[fd] == _WHAT_FOLLOWS:
            for cost_ns in _do_linked(world, worker, fd):
                yield cost_ns
        elif is_ready(world, fd):
            ring.under_way[fd] = _ITSELF
            for cost_ns in _do_ready(world, worker, fd):
                yield cost_ns
