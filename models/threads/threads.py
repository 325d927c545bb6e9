"""The threads of a server that blocks: which accept, which have a connection, which are gone.

    pool        accepting ◄────────────── closes its connection
                    └──► has a connection ──┘
    on demand   one accepts ─► spawn ─► a thread has the connection ─► it ends, and is gone

A thread that is gone is a place for a later one. Places are used in turn, so that new threads go to
the CPUs in turn, and each operation takes the same time however many threads there are.

Sources: Linux net/ipv4/inet_connection_sock.c inet_csk_wait_for_connect() (exclusive waiters, the
first to come is the first to be woken); pthread_create(3), EAGAIN; fork(2), EAGAIN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...sim.assembly.build import power_of_two
from ...sim.cpu.scheduling import wake
from ...sim.state.columns import MakeColumn
from ...sim.state.interests import InterestSet
from ...sim.state.kinds import NONE
from ...sim.state.settings import ServerSettings, Threads
from ...sim.state.threads import Worker
from ...sim.state.world import World

_POOL = int(Threads.POOL)


@dataclass(slots=True, eq=False)
class ThreadTable:
    """All threads there may be."""

    thread_of: list[int]  # the thread that has each descriptor, shape (D,)
    accepting: list[int]  # ring of threads that sleep in accept(), or are about to
    gone: list[int]  # ring of threads that have ended, or have not begun yet
    first_accepting: int = 0
    n_accepting: int = 0
    first_gone: int = 0
    n_gone: int = 0


def thread_table(server: ServerSettings, n_fds: int, column: MakeColumn) -> ThreadTable:
    """Return the threads before the run: a pool sleeps in accept(), or one thread does."""
    n = server.workers
    n_accepting = n if server.threads == _POOL else 1
    room = power_of_two(n)
    return ThreadTable(
        thread_of=column(n_fds, NONE, np.int32),
        accepting=column(room, np.arange(n_accepting), np.int32),
        gone=column(room, np.arange(n_accepting, n), np.int32),
        n_accepting=n_accepting,
        n_gone=n - n_accepting,
    )


def hold_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Give each of a range of descriptors a thread, which sleeps in read()."""
    threads: ThreadTable = interests.own
    n_idle = end_fd - first_fd
    if world.server.threads == _POOL:
        first = 0
        threads.first_accepting += n_idle
        threads.n_accepting -= n_idle
    else:
        first = 1
        threads.first_gone += n_idle
        threads.n_gone -= n_idle
    for i in range(n_idle):
        _take(world, threads, first_fd + i, first + i)


def _take(world: World, threads: ThreadTable, fd: int, number: int) -> None:
    worker = world.workers[number]
    worker.event_fd[0] = fd
    worker.n_events = 1
    threads.thread_of[fd] = number


def take(world: World, worker: Worker, fd: int) -> None:
    """Give *worker* the connection *fd*."""
    _take(world, worker.interests.own, fd, worker.number)


def has_connection(worker: Worker) -> bool:
    """Return whether *worker* has a connection in hand: `worker.event_fd[0]`."""
    return worker.n_events > 0


def spawn(world: World, interests: InterestSet, fd: int) -> None:
    """Begin a thread that has the connection *fd* in hand: one of those that are gone."""
    threads: ThreadTable = interests.own
    number = threads.gone[threads.first_gone]
    threads.first_gone = (threads.first_gone + 1) & (len(threads.gone) - 1)
    threads.n_gone -= 1
    _take(world, threads, fd, number)
    wake(world, world.workers[number])


def end(worker: Worker) -> None:
    """Let *worker* be gone."""
    threads: ThreadTable = worker.interests.own
    threads.gone[(threads.first_gone + threads.n_gone) & (len(threads.gone) - 1)] = worker.number
    threads.n_gone += 1


def line_up(worker: Worker) -> None:
    """Have *worker* wait for a connection, behind those that sleep in accept() already."""
    threads: ThreadTable = worker.interests.own
    last = len(threads.accepting) - 1
    threads.accepting[(threads.first_accepting + threads.n_accepting) & last] = worker.number
    threads.n_accepting += 1


def wake_accepting(world: World, interests: InterestSet) -> bool:
    """Wake the first thread that came to accept(), or all; return whether there was one."""
    threads: ThreadTable = interests.own
    n_woken = min(1, threads.n_accepting) if world.server.wake_one else threads.n_accepting
    for _ in range(n_woken):
        number = threads.accepting[threads.first_accepting]
        threads.first_accepting = (threads.first_accepting + 1) & (len(threads.accepting) - 1)
        threads.n_accepting -= 1
        wake(world, world.workers[number])
    return n_woken > 0


def somebody_will_accept(world: World) -> bool:
    """Return whether a thread accepts, or has a connection that will end.

    One that has an idle connection for ever never comes back to accept().
    """
    return any(
        not has_connection(worker)
        or world.requests[world.connection_of[worker.event_fd[0]]] > 0
        or world.client.idle_life_ns > 0
        for worker in world.workers
        if world.server.threads == _POOL or worker.number == 0
    )
