"""Blocking calls: a thread sleeps in accept(), read() or write() itself, and the kernel wakes it.

    accept(): no connection ──► on the listener's wait queue ──► woken, checks again ──► connection
    read(): no data         ──► on the socket's wait queue   ──► woken, checks again ──► request

No interest is declared, and no call asks what is ready: each thread sleeps in the call that waits.
So nothing here depends on how many descriptors are open, but each connection needs a thread, and
between the requests of two connections there is a switch of threads.

A call that need not sleep costs what it costs in an event loop. A call that sleeps also costs
falling asleep and waking (sim/kernel/sleeping.py), block_ns for the wait queue and the second
check, and, if another thread had its CPU meanwhile, what the switch adds to these: caches, and for
a process the address space. If another thread is runnable, the CPU goes straight to it and does not
become idle, which saves time. Left out: what a switch adds when a time slice is over.

Sources: accept(2), read(2), write(2); Linux net/core/stream.c sk_stream_wait_memory(), net/ipv4/
tcp.c tcp_recvmsg_locked(); Chandra and Mosberger 2001, §1 (what threads cost; the thundering herd).

Which threads accept, which have a connection, and which are gone:

    pool        accepting ◄────────────── closes its connection
                    └──► has a connection ──┘
    on demand   one accepts ─► spawn ─► a thread has the connection ─► it ends, and is gone

A thread that is gone is a place for a later one. Places are used in turn, so that new threads go to
the CPUs in turn, and each operation takes the same time however many threads there are.

Sources: Linux net/ipv4/inet_connection_sock.c inet_csk_wait_for_connect() (exclusive waiters, the
first to come is the first to be woken); pthread_create(3), EAGAIN; fork(2), EAGAIN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...sim.cpu.scheduling import begin_thread, wake
from ...sim.kernel import interest_set
from ...sim.kernel.backend_connections import is_backend, number_of
from ...sim.kernel.request_timeouts import times_its_read
from ...sim.kernel.sleeping import fall_asleep, on_cpu_ns
from ...sim.state.columns import MakeColumn, power_of_two
from ...sim.state.costs import Curve, curve_ns, flat
from ...sim.state.family_settings import Threads
from ...sim.state.kinds import NONE, READABLE, SLEEP, activity, stage
from ...sim.state.mechanism import Mechanism, Trait, spend
from ...sim.state.program_settings import Wakes
from ...sim.state.settings import RunSettings
from ...sim.state.world import InterestSet, Worker, World
from ..entry import CSupport, entry

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


def thread_table(settings: RunSettings, n_fds: int, column: MakeColumn) -> ThreadTable:
    """Return the threads before the run: a pool sleeps in accept(), or one thread does."""
    n = settings.program.workers
    n_accepting = n if settings.blocking.threads == _POOL else 1
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
    if world.blocking.threads == _POOL:
        first = threads.first_accepting
        threads.first_accepting = (first + n_idle) & (len(threads.accepting) - 1)
        threads.n_accepting -= n_idle
    else:
        first = 1 + threads.first_gone
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
    begin_thread(world, world.workers[number])


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
    wakes_all = world.program.wakes == Wakes.ALL
    n_woken = threads.n_accepting if wakes_all else min(1, threads.n_accepting)
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
        if world.blocking.threads == _POOL or worker.number == 0
    )


_PROCESSES = int(Threads.PROCESSES)


class BlockingCosts(NamedTuple):
    """CPU time of threads that block.

    block_ns is what a call takes more that has to sleep, besides sleeping and waking. A thread for
    a connection takes spawn_ns of the thread that accepts (pthread_create), and exit_ns at its end;
    a process fork_ns, both copies of a descriptor closed, and process_exit_ns, the parent's wait
    included. refused_ns is a failure because there can be no more (EAGAIN). switch and
    process_switch are what waking takes more where another thread, or process, had the CPU before,
    by how many are runnable there: their data is in the caches, too. saved_ns is what falling
    asleep and waking take less where another one is runnable, as the CPU does not become idle.
    """

    block_ns: int
    spawn_ns: int
    exit_ns: int
    fork_ns: int
    process_exit_ns: int
    refused_ns: int = 0
    switch: Curve = flat(0)
    process_switch: Curve = flat(0)
    saved_ns: int = 0


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Have the calls of a thread on *fd* wait for *interest*: nothing is declared."""
    yield from spend(worker, activity.WATCH, 0)
    assert world.watched_by[fd] == NONE
    world.watched_by[fd] = worker.interests.number
    world.interest[fd] = interest
    worker.interests.n_watched += 1


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Have the calls on *fd* wait for something else: nothing is declared."""
    yield from spend(worker, activity.REWATCH, 0)
    world.interest[fd] = interest


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Have no more calls on *fd*: nothing is withdrawn."""
    yield from spend(worker, activity.UNWATCH, 0)
    interest_set.drop_interest(world, worker.interests, fd)


def notify(world: World, fd: int) -> bool:
    """Wake the thread that sleeps in a call on *fd*."""
    if not interest_set.is_ready(world, fd):
        return False
    interests = interest_set.set_of(world, fd)
    if world.connection_of[fd] == NONE:
        if is_backend(world, fd):
            return wake_asker(world, interests, number_of(world, fd))
        return wake_accepting(world, interests)
    threads: ThreadTable = interests.own
    wake(world, world.workers[threads.thread_of[fd]])
    return True


def wake_asker(world: World, interests: InterestSet, k: int) -> bool:
    """Wake the thread whose request connection *k* to the backend has."""
    threads: ThreadTable = interests.own
    wake(world, world.workers[threads.thread_of[world.asker[k]]])
    return True


def back_on_cpu_ns(world: World, worker: Worker) -> int:
    """Return what it takes *worker*, which was off its CPU, to be on it again, caches and all."""
    cpu, costs = worker.cpu, world.costs.mechanism
    cost_ns: int = on_cpu_ns(world, worker, costs.saved_ns)
    if not cpu.switched:
        return cost_ns
    if world.blocking.threads == _PROCESSES:
        return cost_ns + curve_ns(costs.process_switch, cpu.n_runnable)
    return cost_ns + curve_ns(costs.switch, cpu.n_runnable)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Sleep in a call until it can go on; return at once if it can now.

    It is a call on the connection that *worker* has in hand, or accept(). A thread that is in a
    call at time 0 has been in it since before.
    """
    fd = worker.event_fd[0] if has_connection(worker) else worker.listener_fd
    call = _call_on(world, worker, fd)
    while not interest_set.is_ready(world, fd) and not worker.timed_out:
        worker.woken = False
        if world.program.request_timeout_ns > 0 and has_connection(worker):
            times_its_read(world, worker, fd)
        if world.now_ns > 0:
            if not has_connection(worker):
                line_up(worker)
            yield from fall_asleep(world, worker, world.costs.mechanism.saved_ns)
        yield from _come_back(world, worker)
        yield from spend(worker, call, world.costs.mechanism.block_ns)


def sleep_in_call(world: World, worker: Worker) -> Iterator[int]:
    """Leave the CPU in a call until *worker* is woken, and come back to it."""
    worker.woken = False
    yield from fall_asleep(world, worker, world.costs.mechanism.saved_ns)
    yield from _come_back(world, worker)


def _come_back(world: World, worker: Worker) -> Iterator[int]:
    """Sleep unless *worker* was woken meanwhile, and spend what it takes to be back."""
    if worker.woken:
        yield from spend(worker, activity.WAKE, world.costs.interrupt.wake_ns)
    else:
        yield SLEEP
        yield from spend(worker, activity.WAKE, back_on_cpu_ns(world, worker))


def _call_on(world: World, worker: Worker, fd: int) -> int:
    """Return the activity of a call on *fd* that waits for its interest."""
    if not has_connection(worker):
        return activity.ACCEPT
    if world.interest[fd] == READABLE:
        return activity.READ
    connects = world.stage[world.connection_of[fd]] == stage.CALLING
    return activity.CONNECT if connects else activity.WRITE


def tells(world: World, fd: int) -> bool:
    """Return whether a thread has *fd* in hand; of the listener, whether one will accept."""
    return world.connection_of[fd] != NONE or somebody_will_accept(world)


BLOCKING = Mechanism(
    "blocking",
    fds=0,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=hold_idle,
    notify=notify,
    wait=wait,
    memory=thread_table,
    tells=tells,
    traits=frozenset({Trait.IN_CALLS, Trait.WAKES_ONE}),
)

ENTRIES = (
    entry(
        __name__,
        BLOCKING,
        BlockingCosts,
        "Chandra and Mosberger 2001, §1; accept(2)",
        aliases=("threads", "thread", "thread_pool", "thread_per_connection"),
        wait_call="wait",
        c_support=CSupport.LINUX,
        program="thread_per_connection",
        client="client_threads",
        words={
            "block_ns": "what a call takes more that has to sleep, besides sleeping and waking",
            "spawn_ns": "beginning a thread for a connection",
            "exit_ns": "the end of that thread",
            "fork_ns": "beginning a process for a connection",
            "process_exit_ns": "the end of that process, its parent's wait included",
            "refused_ns": "being told that there can be no more threads",
            "process_switch": "as switch, where it was another process",
        },
    ),
)
