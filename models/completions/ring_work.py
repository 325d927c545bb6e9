"""What the kernel does for a ring: what was submitted, at once, and what has become due, later.

    submitted ─► send ─► what is linked to it is due ─► close, or receive
              ─► receive ─► completed, or armed ─► ready ─► due ─► completed
              ─► close

What is due is a queue: the ready list, which holds what follows a send, too.
Sources: as of io_uring.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...sim.kernel.interest_set import (
    add_interest,
    drop_interest,
    is_ready,
    list_ready,
    n_listed,
    take_first,
)
from ...sim.kernel.sockets import (
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
from ...sim.state import activity, count
from ...sim.state.costs import sending_ns
from ...sim.state.kinds import NONE, READABLE, WRITABLE
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..overload.overload_control import is_unwanted

NOTHING, ITSELF, WHAT_FOLLOWS = 0, 1, 2
"""What of a descriptor is under way: what was submitted or armed, or what is linked to a send."""


@dataclass(slots=True, eq=False)
class Submissions:
    """Descriptors of which something is under way in the server or the ring; each list in order."""

    fds: list[int]  # to be submitted; their state determines what
    linked: list[int]  # what follows their last send is to be done, where the last is the first
    turn: list[int]  # to be done in this turn, the last one first
    done: list[int]  # completed, and not seen by the server: a ring
    under_way: list[int]  # by descriptor: what of it is in one of these, or with the server
    n: int = 0
    n_linked: int = 0
    first_done: int = 0
    n_done: int = 0


def _complete(worker: Worker, fd: int) -> None:
    ring: Submissions = worker.interests.own
    ring.done[(ring.first_done + ring.n_done) % len(ring.done)] = fd
    ring.n_done += 1
    ring.under_way[fd] = ITSELF


def _arm(world: World, worker: Worker, fd: int, interest: int) -> None:
    """Have what is submitted for *fd* done when it is in a state of *interest*."""
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = NOTHING
    world.interest[fd] = interest
    if is_ready(world, fd):
        list_ready(world, worker.interests, fd)


def _uncrossed_ns(world: World, call_ns: int) -> int:
    """Return the CPU time of a call that the kernel makes for the ring: it crosses nothing."""
    return max(0, call_ns - world.costs.call.crossing_ns)


def _close(world: World, worker: Worker, fd: int) -> Iterator[int]:
    saved_ns = world.costs.mechanism.ended_saved_ns if hung_up(world, fd) else 0
    close_ns = _uncrossed_ns(world, closing_ns(world, worker) - saved_ns)
    yield from spend(worker, activity.CLOSE, close_ns)
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = NOTHING
    if world.watched_by[fd] != NONE:
        world.counts[count.UNWATCHES] += 1
        drop_interest(world, worker.interests, fd)
    close(world, worker, fd)


def _receive(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Receive what has come on *fd*, or arm the receive."""
    costs = world.costs.mechanism
    if world.state[fd] & READABLE:
        read_ns = _uncrossed_ns(world, world.costs.call.read_ns) + costs.complete_ns
        yield from spend(worker, activity.READ, read_ns)
        read(world, fd)
        world.interest[fd] = 0
        _complete(worker, fd)
    else:
        yield from spend(worker, activity.WATCH, costs.add_ns)
        _arm(world, worker, fd, READABLE)


def _send(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Send a reply, or fail: its client may have reset the connection."""
    world.interest[fd] = 0
    if hung_up(world, fd):
        write_ns = _uncrossed_ns(world, world.costs.call.write_ns)
        complete_ns = world.costs.mechanism.complete_ns
        yield from spend(worker, activity.WRITE, write_ns + complete_ns)
        world.unsent[world.connection_of[fd]] = 0  # nothing is left to do but to close
        _complete(worker, fd)
    else:
        yield from _send_what_fits(world, worker, fd)


def _send_what_fits(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Send what fits; the rest waits in the kernel, and with it what is linked to the last byte."""
    call, n_bytes = world.costs.call, writable_bytes(world, fd)
    yield from spend(worker, activity.WRITE, _uncrossed_ns(world, sending_ns(call, n_bytes)))
    n_left = write(world, fd, n_bytes)
    yield from spend(worker, activity.WRITE, call.write_after_ns)
    if n_left > 0:
        yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
        _arm(world, worker, fd, WRITABLE)
    else:
        _queue_what_follows(world, worker, fd)


def _queue_what_follows(world: World, worker: Worker, fd: int) -> None:
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = WHAT_FOLLOWS
    if world.server.due_last_first:
        ring.linked[ring.n_linked] = fd
        ring.n_linked += 1
    else:
        list_ready(world, worker.interests, fd)


def do_submitted(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Do what was submitted for *fd*: its state determines what that is."""
    if fd == worker.listener_fd:
        _arm(world, worker, fd, READABLE)
    elif world.watched_by[fd] == NONE:
        yield from _begin(world, worker, fd)
    elif reply_unsent(world, fd):
        yield from _send(world, worker, fd)
    elif has_part_of_request(world, fd):
        yield from _receive(world, worker, fd)
    else:
        yield from _close(world, worker, fd)


def _begin(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Receive the first request of a new connection, or reset the connection."""
    if is_unwanted(world, worker, fd):
        shed(world, fd)
        yield from _close(world, worker, fd)
    else:
        world.counts[count.WATCHES] += 1
        add_interest(world, worker.interests, fd, 0)
        yield from _receive(world, worker, fd)


def has_part_of_request(world: World, fd: int) -> bool:
    """Return whether some pieces of a request have come on *fd*, and others have not."""
    return world.client.request_pieces > 1 and world.came_pieces[world.connection_of[fd]] > 0


def _do_linked(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Do what follows the last byte of a reply: close, or receive again."""
    costs = world.costs.mechanism
    yield from spend(worker, activity.WAIT, costs.submit_ns + costs.link_ns)
    if all_answered(world, fd):
        yield from _close(world, worker, fd)
    else:
        yield from _receive(world, worker, fd)


def _accept_all(world: World, worker: Worker) -> Iterator[int]:
    """Accept all that wait; without a free descriptor the accept ends, with a completion.

    The completion of the last connection reports that it is the last; before Linux 6.10 the kernel
    checked once more. The server then submits the accept again; that of calibration/c/servers after
    10 ms at the latest.
    """
    costs, listener = world.costs.mechanism, worker.listener
    checks_again = True
    while checks_again and listener.n_queued > 0:
        accept_ns = _uncrossed_ns(world, world.costs.call.accept_ns)
        yield from spend(worker, activity.ACCEPT, accept_ns)
        fd = accept(world, worker)
        if fd < 0:
            world.interest[worker.listener_fd] = 0
            _complete(worker, worker.listener_fd)
            return
        checks_again = world.server.accept_looks_again or listener.n_queued > 0
        _complete(worker, fd)
        yield from spend(worker, activity.ACCEPT, costs.complete_ns)
    if checks_again:
        check_ns = _uncrossed_ns(world, world.costs.call.accept_again_ns)
        yield from spend(worker, activity.ACCEPT, check_ns)
    worker.interests.own.under_way[worker.listener_fd] = NOTHING
    if listener.n_queued > 0:
        list_ready(world, worker.interests, worker.listener_fd)
    elif checks_again:
        accept(world, worker)  # counts the check that found nothing


def _do_ready(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Go on with what was armed on *fd*."""
    yield from spend(worker, activity.WAIT, world.costs.mechanism.retry_ns)
    if fd == worker.listener_fd:
        yield from _accept_all(world, worker)
    elif reply_unsent(world, fd):
        yield from _send(world, worker, fd)
    else:
        yield from _receive(world, worker, fd)


def _take_turn(world: World, worker: Worker) -> int:
    """Empty the queue of work; return how much of it there is for this turn."""
    interests = worker.interests
    ring: Submissions = interests.own
    n = 0
    while interests.n_ready > 0:
        fd = take_first(world, interests)
        if fd != NONE and is_ready(world, fd):
            ring.under_way[fd] = ITSELF
            ring.turn[n] = fd
            n += 1
    for i in range(ring.n_linked):
        ring.turn[n] = ring.linked[i]
        n += 1
    return n


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
                yield from _do_linked(world, worker, fd)
            else:
                yield from _do_ready(world, worker, fd)
        n = _take_turn(world, worker)


def do_due(world: World, worker: Worker, n_most: int) -> Iterator[int]:
    """Do what is queued: at most *n_most* pieces of it; with 0 all, until the queue is empty."""
    if world.server.due_last_first:
        yield from _do_last_first(world, worker)
    else:
        yield from _do_first_first(world, worker, n_most)


def _do_first_first(world: World, worker: Worker, n_most: int) -> Iterator[int]:
    interests = worker.interests
    ring: Submissions = interests.own
    n_left = min(n_most, n_listed(interests))
    while interests.n_ready > 0 and (n_left > 0 or n_most == 0):
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        n_left -= 1
        if ring.under_way[fd] == WHAT_FOLLOWS:
            yield from _do_linked(world, worker, fd)
        elif is_ready(world, fd):
            ring.under_way[fd] = ITSELF
            yield from _do_ready(world, worker, fd)
