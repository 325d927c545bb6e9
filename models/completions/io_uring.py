"""io_uring: the server submits calls in a ring, and one system call a loop executes them all.

    server ──► submissions ──io_uring_enter──► send ─ linked ─► close, or the next receive
       ▲                           │           accept, receive: armed ──► completions ─┐
       │                           └── blocks while there is none ◄────────────────────┤
       └───────────────────────────────────────────────────────────────────────────────┘

A completion reports that a call was made, not that one can be made. The server submits its next
calls (a receive on a new connection, a reply, a close) with the next io_uring_enter, after the
whole batch: fewer crossings into the kernel, but later replies. All replies are sent before any
connection is closed; a close after the client's reset has nothing to send.

Accept is multishot: armed once, it completes for each connection, and the last completion is marked
as the last (before Linux 6.10 the kernel checked once more, and found none). While it runs it also
accepts new connections. A resubmitted accept is tried at once, as any call. Receive is armed anew
for each request, after the reply to which it is linked (or the close is linked instead). An armed
receive holds the socket: a close would wait for its cancellation, which completes, too. A submitted
receive is tried at once, and armed if there is no data. The kernel finishes a send that does not
fit.

The kernel does all work inside the call (IORING_SETUP_DEFER_TASKRUN): an interrupt only queues task
work, once until the request is armed again. Work linked to a send is queued at the end of its
round: behind all submissions, or behind the other work of its batch. Task work runs in queue order.
Task work per enter since Linux 6.13: 20 items after submitting, 20 before sleeping, 1 after. The
rest waits for the next call, so completions come in small batches. From 6.5 to 6.12: all, oldest
first. Before: newest first, and new work in the next turn.
Sources: io_uring(7), io_uring_setup(2); Axboe 2019, "Efficient IO with io_uring"; Linux 6.1
io_uring/net.c io_accept(), io_recv(), io_sendmsg(), io_uring/poll.c io_poll_wake(),
io_poll_check_events(), io_uring/io_uring.c
__io_run_local_work(), io_free_batch_list(), opdef.c (an accept waits exclusively); commits
"io_uring: maintain ordering for DEFER_TASKRUN tw list" (2023), "io_uring: limit local tw done"
(2024); calibration/c/servers/completion_loop.c is the server in C.

The kernel executes submissions at once, and task work when it is due:

    submitted ─► send ─► linked work is due ─► close, or receive
              ─► receive ─► completed, or armed ─► ready ─► due ─► completed
              ─► close

Due work is in a queue: the ready list, which also holds the work after a send.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...sim.cpu.interrupts import lengthen_interrupt
from ...sim.kernel import interest_set, sockets
from ...sim.kernel.sleeping import sleep
from ...sim.state.columns import I8, I32, per_descriptor
from ...sim.state.kinds import NONE, READABLE, WRITABLE, activity, count
from ...sim.state.mechanism import Trait, kept, spend, step
from ...sim.state.world import Worker, World
from ..entry import CSupport, entry
from ..epoll.epoll_level import EPOLL_LEVEL, leave_to_close
from ..epoll.epoll_level import notify as notify_of_state
from ..epoll.other_kernels import change_callback, have_callback
from ..remembering.overload import is_unwanted

NOTHING, ITSELF, WHAT_FOLLOWS = 0, 1, 2
"""The state of a descriptor: submitted, armed, or linked to a send."""


@dataclass(slots=True, eq=False)
class Submissions:
    """Descriptors with calls in the server's list or in the ring; each list in order."""

    fds: list[int] = per_descriptor(NONE, I32)  # to be submitted; their state determines what
    linked: list[int] = per_descriptor(NONE, I32)  # sent, and what follows is not queued yet
    turn: list[int] = per_descriptor(NONE, I32)  # to be done in this turn, the last one first
    done: list[int] = per_descriptor(NONE, I32)  # completed, and not seen by the server: a ring
    under_way: list[int] = per_descriptor(NOTHING, I8)  # in which of these, or with the server
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
    """Arm the submission of *fd*: it runs when *fd* is in a state of *interest*."""
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = NOTHING
    world.interest[fd] = interest
    if interest_set.is_ready(world, fd):
        interest_set.list_ready(world, worker.interests, fd)


def _uncrossed_ns(world: World, call_ns: int) -> int:
    """Return the CPU time of a call in the ring, without a crossing into the kernel."""
    return max(0, call_ns - world.costs.call.crossing_ns)


def _close(world: World, worker: Worker, fd: int) -> Iterator[int]:
    saved_ns = world.costs.mechanism.ended_saved_ns if sockets.hung_up(world, fd) else 0
    close_ns = _uncrossed_ns(world, sockets.closing_ns(world, worker, fd) - saved_ns)
    yield from sockets.spend_closing(world, worker, fd, close_ns)
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = NOTHING
    if world.watched_by[fd] != NONE:
        world.counts[count.UNWATCHES] += 1
        interest_set.drop_interest(world, worker.interests, fd)
    sockets.close(world, worker, fd)


def _receive(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Receive the data on *fd*, or arm the receive."""
    costs = world.costs.mechanism
    if world.state[fd] & READABLE:
        read_ns = _uncrossed_ns(world, world.costs.call.read_ns) + costs.complete_ns
        read_ns += sockets.cold_read_ns(world, worker)
        yield from spend(worker, activity.READ, read_ns)
        sockets.read(world, fd)
        world.interest[fd] = 0
        _complete(worker, fd)
    else:
        yield from spend(worker, activity.WATCH, costs.add_ns)
        _arm(world, worker, fd, READABLE)


def _send(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Send the part of a reply that fits, or fail: the client may have reset the connection."""
    world.interest[fd] = 0
    n_bytes = sockets.writable_bytes(world, fd)
    writing_ns = sockets.writing_ns(world, worker, fd, n_bytes)
    yield from spend(worker, activity.WRITE, _uncrossed_ns(world, writing_ns))
    n_left = sockets.write(world, fd, n_bytes)
    if n_left == sockets.FAILED:
        yield from spend(worker, activity.WRITE, world.costs.mechanism.complete_ns)
        world.unsent[world.connection_of[fd]] = 0  # nothing is left to do but to close
        _complete(worker, fd)
    else:
        yield from _wait_for_rest(world, worker, fd, n_left)


def _wait_for_rest(world: World, worker: Worker, fd: int, n_left: int) -> Iterator[int]:
    """Keep *n_left* bytes in the kernel, together with the work linked to the last byte."""
    yield from spend(worker, activity.WRITE, world.costs.call.write_after_ns)
    if n_left > 0:
        yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
        _arm(world, worker, fd, WRITABLE)
    else:
        _queue_what_follows(world, worker, fd)


def _queue_what_follows(world: World, worker: Worker, fd: int) -> None:
    ring: Submissions = worker.interests.own
    ring.under_way[fd] = WHAT_FOLLOWS
    ring.linked[ring.n_linked] = fd
    ring.n_linked += 1


def _end_round(world: World, worker: Worker) -> None:
    """Queue the work linked to the sends of a round: their completions are flushed together."""
    ring: Submissions = worker.interests.own
    if not world.completions.due_last_first:
        for i in range(ring.n_linked):
            interest_set.list_ready(world, worker.interests, ring.linked[i])
        ring.n_linked = 0


def do_submitted(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Execute the submission for *fd*, which follows from its state."""
    if fd == worker.listener_fd:
        yield from _accept(world, worker)
    elif world.watched_by[fd] == NONE:
        yield from _begin(world, worker, fd)
    elif sockets.reply_unsent(world, fd):
        yield from _send(world, worker, fd)
    elif has_part_of_request(world, fd):
        yield from _receive(world, worker, fd)
    else:
        yield from _close(world, worker, fd)


def _begin(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Receive the first request of a new connection, or reset the connection."""
    if is_unwanted(world, worker, fd):
        sockets.shed(world, fd)
        yield from _close(world, worker, fd)
    else:
        world.counts[count.WATCHES] += 1
        interest_set.add_interest(world, worker.interests, fd, 0)
        yield from _receive(world, worker, fd)


def has_part_of_request(world: World, fd: int) -> bool:
    """Return whether the server has a part of a request on *fd*; the rest may have arrived."""
    if world.client.request_pieces == 1:
        return False
    c = world.connection_of[fd]
    has_whole = world.pending[c] > 0 and not sockets.is_at_end(world, c)
    return world.came_pieces[c] > 0 or has_whole


def _do_linked(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Execute the work after the last byte of a reply: close, or receive again."""
    costs = world.costs.mechanism
    yield from spend(worker, activity.WAIT, costs.submit_ns + costs.link_ns)
    if sockets.all_answered(world, fd):
        yield from _close(world, worker, fd)
    else:
        yield from _receive(world, worker, fd)


def _accept(world: World, worker: Worker) -> Iterator[int]:
    """Accept the waiting connections, and arm the accept, unless it has ended."""
    yield from _accept_all(world, worker)
    if world.interest[worker.listener_fd] != 0:
        yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
        _arm(world, worker, worker.listener_fd, READABLE)


def _accept_all(world: World, worker: Worker) -> Iterator[int]:
    """Accept all waiting connections; without a free descriptor the accept ends with a completion.

    The completion of the last connection is marked as the last; before Linux 6.10 the kernel
    checked once more. New connections are accepted meanwhile. The server resubmits an accept that
    has ended; it fails at once until there is a descriptor. The server in calibration/c/servers
    waits for another completion, or 10 ms.
    """
    listener, listener_fd = worker.listener, worker.listener_fd
    world.interest[listener_fd] = READABLE
    checks = True
    while checks or listener.n_queued > 0:
        fd = yield from _accept_one(world, worker)
        if fd == sockets.NO_FD:
            world.interest[listener_fd] = 0
            _complete(worker, listener_fd)
            return
        checks = fd != NONE and (world.completions.accept_looks_again or listener.n_queued > 0)
        if fd != NONE:
            _complete(worker, fd)
            yield from spend(worker, activity.ACCEPT, world.costs.mechanism.complete_ns)
    worker.interests.own.under_way[listener_fd] = NOTHING


def _accept_one(world: World, worker: Worker) -> Generator[int, None, int]:
    """Accept once; return the descriptor, NONE or NO_FD, which both cost as much as EAGAIN."""
    call, found_none = world.costs.call, sockets.accepts_none(world, worker)
    check_ns = _uncrossed_ns(world, call.accept_again_ns)
    accept_ns = _uncrossed_ns(world, call.accept_ns)
    first_ns = check_ns if found_none else accept_ns
    first_ns += sockets.cold_accept_ns(world, worker)
    yield from spend(worker, activity.ACCEPT, first_ns)
    fd = sockets.accept(world, worker)
    if fd >= 0 and found_none:  # one came just before the check
        yield from spend(worker, activity.ACCEPT, max(0, accept_ns - check_ns))
    if fd >= 0:
        yield from spend(worker, activity.ACCEPT, sockets.displaced_ns(world, fd))
    return fd


def _do_ready(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Execute the call that was armed on *fd*."""
    yield from spend(worker, activity.WAIT, world.costs.mechanism.retry_ns)
    if fd == worker.listener_fd:
        yield from _accept_all(world, worker)
    elif sockets.reply_unsent(world, fd):
        yield from _send(world, worker, fd)
    else:
        yield from _receive(world, worker, fd)


def _take_turn(world: World, worker: Worker) -> int:
    """Empty the queue of task work; return the number of items for this turn."""
    interests = worker.interests
    ring: Submissions = interests.own
    n = 0
    while interests.n_ready > 0:
        fd = interest_set.take_first(world, interests)
        if fd != NONE and interest_set.is_ready(world, fd):
            ring.under_way[fd] = ITSELF
            ring.turn[n] = fd
            n += 1
    for i in range(ring.n_linked):
        ring.turn[n] = ring.linked[i]
        n += 1
    return n


def _do_last_first(world: World, worker: Worker) -> Iterator[int]:
    """Execute the queue, turn by turn, until it is empty."""
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
    """Execute at most *n_most* items of the queue; with 0 all, until the queue is empty."""
    if world.completions.due_last_first:
        yield from _do_last_first(world, worker)
        return
    yield from _do_first_first(world, worker, n_most)
    _end_round(world, worker)
    while n_most == 0 and worker.interests.n_ready > 0:
        yield from _do_first_first(world, worker, n_most)
        _end_round(world, worker)


def _do_first_first(world: World, worker: Worker, n_most: int) -> Iterator[int]:
    interests = worker.interests
    ring: Submissions = interests.own
    n_left = min(n_most, interest_set.n_listed(interests))
    while interests.n_ready > 0 and (n_left > 0 or n_most == 0):
        fd = interest_set.take_first(world, interests)
        if fd == NONE:
            continue
        n_left -= 1
        if ring.under_way[fd] == WHAT_FOLLOWS:
            yield from _do_linked(world, worker, fd)
        elif interest_set.is_ready(world, fd):
            ring.under_way[fd] = ITSELF
            yield from _do_ready(world, worker, fd)


class IoUringCosts(NamedTuple):
    """CPU time of io_uring: a call, each submission, each completion, and arming a receive.

    The work for a submission or a completion costs as much as the call, without its crossing.
    link_ns is the extra time of a linked submission, retry_ns the time to resume an armed one,
    post_ns the time to queue it in its interrupt, woken_ns the extra time of a call that slept.
    ended_saved_ns is the time saved in a close, and its reset, after the client's reset.
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


def tells(world: World, fd: int) -> bool:
    """Return whether a call on *fd* is about to be completed or submitted."""
    ring: Submissions = interest_set.set_of(world, fd).own
    return world.listed[fd] != 0 or ring.under_way[fd] != NOTHING


def notify(world: World, fd: int) -> bool:
    """Queue the armed call on *fd* for the server's next call, or for the call that it sleeps in.

    A descriptor at work has no armed call; a running accept sees new connections itself.
    """
    if not interest_set.is_ready(world, fd):
        return False
    ring: Submissions = interest_set.set_of(world, fd).own
    if ring.under_way[fd] != NOTHING:
        return False
    if world.listed[fd] == 0:
        lengthen_interrupt(world, world.costs.mechanism.post_ns)
    return notify_of_state(world, fd)


def submit(worker: Worker, fd: int) -> None:
    """Submit the next call on *fd* with the next io_uring_enter."""
    ring: Submissions = worker.interests.own
    ring.fds[ring.n] = fd
    ring.n += 1


def _take_completions(world: World, worker: Worker) -> None:
    """Hand the completions to the server, oldest first."""
    ring: Submissions = worker.interests.own
    n_events = min(ring.n_done, world.program.max_events)
    for i in range(n_events):
        worker.event_fd[i] = ring.done[(ring.first_done + i) % len(ring.done)]
    ring.first_done = (ring.first_done + n_events) % len(ring.done)
    ring.n_done -= n_events
    worker.n_events = n_events
    world.counts[count.EVENTS] += n_events


def enter(world: World, worker: Worker) -> Iterator[int]:
    """Call io_uring_enter once, with all work of the kernel in it."""
    costs = world.costs.mechanism
    ring: Submissions = worker.interests.own
    n_submitted = ring.n
    world.counts[count.WAITS] += 1
    worker.spin_ns = costs.call_ns
    yield from step(worker, activity.WAIT, costs.call_ns + n_submitted * costs.submit_ns)
    ring.n = 0
    for i in range(n_submitted):
        yield from do_submitted(world, worker, ring.fds[i])
    _end_round(world, worker)
    # The kernel runs due task work after the submissions, if there are any, and before it sleeps.
    for _ in range(1 if n_submitted == 0 else 2):
        yield from do_due(world, worker, world.completions.due_at_once)
    while ring.n_done == 0:
        yield from await_completion(world, worker)
    _take_completions(world, worker)


def await_completion(world: World, worker: Worker) -> Iterator[int]:
    """Sleep if no work is due, then execute the due work."""
    spins, at_once = world.program.busy, world.completions.due_at_once
    if interest_set.n_listed(worker.interests) == 0:
        yield from sleep(world, worker)
        if not spins:
            yield from spend(worker, activity.WAIT, world.costs.mechanism.woken_ns)
    # A server that spins makes a new call, which does the same work as any call.
    yield from do_due(world, worker, at_once if spins else min(1, at_once))


IO_URING = EPOLL_LEVEL._replace(
    name="io_uring",
    watch=have_callback,
    rewatch=change_callback,
    unwatch=leave_to_close,
    notify=notify,
    memory=kept(Submissions),
    wait=enter,
    tells=tells,
    traits=frozenset({Trait.WAKES_ONE}),
)

ENTRIES = (
    entry(
        __name__,
        IO_URING,
        IoUringCosts,
        "io_uring(7)",
        aliases=("iouring", "uring"),
        wait_call="io_uring_enter",
        c_support=CSupport.LINUX,
        program="completion_loop",
        words={
            "call_ns": "io_uring_enter",
            "submit_ns": "each submission",
            "add_ns": "arming a receive",
            "link_ns": "what a submission takes more that is linked to another one",
            "retry_ns": "coming back to a submission that was armed",
            "ended_saved_ns": "what a close, and the reset before it, take less whose client has "
            "reset",
        },
        # Assumed: what a submission takes is what it saves, the crossing. So it was with the one
        # kind that was timed, epoll_ctl through the ring of Linux 6.18, in batches of 16 and more.
        # On the counted target a submission takes 258 where crossing takes 229.
        borrowed={
            "call_ns": ("epoll_level.call_ns",),
            "submit_ns": ("call.crossing_ns",),
            "complete_ns": ("epoll_level.event_ns",),
            "add_ns": ("epoll_level.add_ns - call.crossing_ns",),
        },
    ),
)
