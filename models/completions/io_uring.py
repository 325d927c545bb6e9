"""io_uring: calls are submitted in a ring and done by the kernel; one system call a loop for all.

    server ──► submissions ──io_uring_enter──► send ─ linked ─► close, or the next receive
       ▲                           │           accept, receive: armed ──► completions ─┐
       │                           └── blocks while there is none ◄────────────────────┤
       └───────────────────────────────────────────────────────────────────────────────┘

A completion reports that a call was made, not that one can be made. What the server wants then, a
receive on a new connection, a reply, a close, is submitted with the next io_uring_enter, when the
whole batch has been served: fewer crossings into the kernel, and a later reply. All replies are
sent before anything is closed; a close after the client's reset has nothing to send.

Accept is multishot: armed once, each connection completes, the last one as the last (before Linux
6.10 the kernel checked once more, and found none). Receive is armed for each request anew, after
the reply, to which it is linked, or else the close: an armed receive holds the socket, so a close
would wait until it is cancelled, which completes, too. A receive that is submitted is tried at
once, and armed if there is nothing. The kernel finishes a send that does not fit.

All is done inside the call (IORING_SETUP_DEFER_TASKRUN): the interrupt of what becomes ready only
queues work, and so does a submission whose successor is linked. What is due is done in the order of
the queue. Since Linux 6.13 it is at most 20 pieces after the submissions, as many before the call
would sleep, and one after it has slept: what is left waits for the next call, and completions come
in small batches. Before, all of it was done; and before 6.5 from the end of the queue, what was
queued last first, and what came meanwhile in the next turn.
Sources: io_uring(7), io_uring_setup(2); Axboe 2019, "Efficient IO with io_uring"; Linux 6.1
io_uring/net.c io_accept(), io_recv(), io_sendmsg(), io_uring/poll.c, io_uring/io_uring.c
__io_run_local_work(), io_free_batch_list(), opdef.c (an accept waits exclusively); commits
"io_uring: maintain ordering for DEFER_TASKRUN tw list" (2023), "io_uring: limit local tw done"
(2024); calibration/c/servers/completion_loop.c is the server in C.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...sim.cpu.interrupts import lengthen_interrupt
from ...sim.kernel.interest_set import is_ready, n_listed, set_of
from ...sim.kernel.sleeping import sleep
from ...sim.state import activity, count
from ...sim.state.columns import MakeColumn
from ...sim.state.kinds import NONE
from ...sim.state.mechanism import Trait
from ...sim.state.settings import ServerSettings
from ...sim.state.spending import spend, step
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..entry import CSupport, entry
from ..epoll.epoll_level import EPOLL_LEVEL, leave_to_close
from ..epoll.epoll_level import notify as notify_of_state
from ..epoll.other_kernels import change_callback, have_callback
from .ring_work import NOTHING, Submissions, do_due, do_submitted


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


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Submissions:
    """Return an empty ring."""
    del server
    return Submissions(
        fds=column(n_fds, NONE, np.int32),
        linked=column(n_fds, NONE, np.int32),
        turn=column(n_fds, NONE, np.int32),
        done=column(n_fds, NONE, np.int32),
        under_way=column(n_fds, NOTHING, np.int8),
    )


def tells(world: World, fd: int) -> bool:
    """Return whether something of *fd* is about to be completed or submitted."""
    ring: Submissions = set_of(world, fd).own
    return world.listed[fd] != 0 or ring.under_way[fd] != NOTHING


def notify(world: World, fd: int) -> bool:
    """Have what is armed on *fd* done by the server's next call, or the one that it sleeps in."""
    if is_ready(world, fd) and world.listed[fd] == 0:
        lengthen_interrupt(world, world.costs.mechanism.post_ns)
    return notify_of_state(world, fd)


def submit(worker: Worker, fd: int) -> None:
    """Have what is next for *fd* submitted with the next call."""
    ring: Submissions = worker.interests.own
    ring.fds[ring.n] = fd
    ring.n += 1


def _take_completions(world: World, worker: Worker) -> None:
    """Hand the server what was completed, the oldest first."""
    ring: Submissions = worker.interests.own
    n_events = min(ring.n_done, world.server.max_events)
    for i in range(n_events):
        worker.event_fd[i] = ring.done[(ring.first_done + i) % len(ring.done)]
    ring.first_done = (ring.first_done + n_events) % len(ring.done)
    ring.n_done -= n_events
    worker.n_events = n_events
    world.counts[count.EVENTS] += n_events


def enter(world: World, worker: Worker) -> Iterator[int]:
    """Call io_uring_enter once, with all that the kernel does in it."""
    costs = world.costs.mechanism
    ring: Submissions = worker.interests.own
    n_submitted = ring.n
    world.counts[count.WAITS] += 1
    worker.spin_ns = costs.call_ns
    yield from step(worker, activity.WAIT, costs.call_ns + n_submitted * costs.submit_ns)
    ring.n = 0
    for i in range(n_submitted):
        yield from do_submitted(world, worker, ring.fds[i])
    # The kernel does what is due after the submissions, if there are any, and before it sleeps.
    for _ in range(1 if n_submitted == 0 else 2):
        yield from do_due(world, worker, world.server.due_at_once)
    while ring.n_done == 0:
        yield from await_completion(world, worker)
    _take_completions(world, worker)


def await_completion(world: World, worker: Worker) -> Iterator[int]:
    """Sleep if nothing is due, and do what is due then."""
    spins, at_once = world.server.busy, world.server.due_at_once
    if n_listed(worker.interests) == 0:
        yield from sleep(world, worker)
        if not spins:
            yield from spend(worker, activity.WAIT, world.costs.mechanism.woken_ns)
    # A server that spins makes a new call, which does as much as any.
    yield from do_due(world, worker, at_once if spins else min(1, at_once))


IO_URING = EPOLL_LEVEL._replace(
    name="io_uring",
    watch=have_callback,
    rewatch=change_callback,
    unwatch=leave_to_close,
    notify=notify,
    memory=memory,
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
