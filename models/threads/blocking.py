"""Blocking calls: a thread sleeps in accept(), read() or write() itself, and the kernel wakes it.

    accept(): no connection ──► on the listener's wait queue ──► woken, checks again ──► connection
    read(): no data         ──► on the socket's wait queue   ──► woken, checks again ──► request

There are no declared interests and no calls for readiness: each thread blocks in the call itself.
So costs do not depend on the number of open descriptors. But each connection needs a thread, and
requests of different connections need a thread switch in between.

A call that need not sleep costs as much as in an event loop. A call that sleeps also costs falling
asleep and waking (sim/kernel/sleeping.py), and block_ns for the wait queue and the second check. If
another thread had the CPU meanwhile, the switch adds time for caches, and for a process for the
address space. If another thread is runnable, the CPU switches to it directly without becoming idle,
which saves time. Left out: the cost of a switch at the end of a time slice.

Sources: accept(2), read(2), write(2); Linux net/core/stream.c sk_stream_wait_memory(), net/ipv4/
tcp.c tcp_recvmsg_locked(); Chandra and Mosberger 2001, §1 (what threads cost; the thundering herd).

Threads that accept, that have a connection, and that are gone:

    pool        accepting ◄────────────── closes its connection
                    └──► has a connection ──┘
    on demand   one accepts ─► spawn ─► a thread has the connection ─► it ends, and is gone

The place of a thread that is gone is free for a later one. Places are used in turn, so that new
threads go to the CPUs in turn. Each operation takes constant time.

    exit   ──► the stack in the kernel is kept by the CPU, or freed if it keeps two
    spawn  ──► one of the CPU's stacks, or a new one: pages to allocate and map

Each CPU keeps the kernel's stacks of two threads that have ended. If threads begin before others
have ended, they need new ones: a thread costs more if many live at a time. Left out: the kernel
tries again to keep a stack a little later (RCU), when a new thread may have made room.

Sources: Linux kernel/fork.c alloc_thread_stack_node(), try_release_thread_stack_to_cache(),
NR_CACHED_STACKS; net/ipv4/inet_connection_sock.c inet_csk_wait_for_connect() (exclusive waiters,
the first to come is the first to be woken); pthread_create(3), EAGAIN; fork(2), EAGAIN.
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
STACKS_KEPT = 2
"""The number of stacks of ended threads that a CPU keeps (Linux NR_CACHED_STACKS)."""


@dataclass(slots=True, eq=False)
class ThreadTable:
    """The table of all possible threads."""

    thread_of: list[int]  # the thread that has each descriptor, shape (D,)
    accepting: list[int]  # ring of threads that sleep in accept(), or are about to
    gone: list[int]  # ring of threads that have ended, or have not begun yet
    stacks: list[int]  # how many stacks each CPU keeps
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
        stacks=column(settings.machine.cpus, STACKS_KEPT, np.int32),
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
    """Start a thread with the connection *fd* in hand, in the place of one that is gone."""
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


def stack_ns(world: World, worker: Worker) -> int:
    """Return the extra CPU time of a new thread's stack; take one that its CPU keeps, if any."""
    threads: ThreadTable = worker.interests.own
    if threads.stacks[worker.cpu.number] > 0:
        threads.stacks[worker.cpu.number] -= 1
        return 0
    cost_ns: int = world.costs.mechanism.stack_ns
    return cost_ns


def stack_freed_ns(world: World, worker: Worker) -> int:
    """Return the CPU time of freeing the stack of *worker*; its CPU keeps it if there is room."""
    threads: ThreadTable = worker.interests.own
    if threads.stacks[worker.cpu.number] < STACKS_KEPT:
        threads.stacks[worker.cpu.number] += 1
        return 0
    cost_ns: int = world.costs.mechanism.stack_freed_ns
    return cost_ns


def line_up(worker: Worker) -> None:
    """Let *worker* wait for a connection, behind the threads asleep in accept()."""
    threads: ThreadTable = worker.interests.own
    last = len(threads.accepting) - 1
    threads.accepting[(threads.first_accepting + threads.n_accepting) & last] = worker.number
    threads.n_accepting += 1


def wake_accepting(world: World, interests: InterestSet) -> bool:
    """Wake the first thread in the queue of accept(), or all; return whether there was one."""
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

    A thread with a permanent idle connection never returns to accept().
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

    block_ns is the extra time of a call that sleeps, apart from sleeping and waking. A thread for a
    connection takes spawn_ns in the accepting thread (pthread_create), and exit_ns at its end. A
    process takes fork_ns, including both closes of the descriptor's copies, and process_exit_ns,
    including the parent's wait. stack_ns is the extra time of a thread or process that finds no
    stack kept, stack_freed_ns that of one whose stack is not kept. refused_ns is a failure at the
    limit (EAGAIN). switch and process_switch are the extra time of waking after another thread, or
    process, had the CPU, by the number of runnable ones, whose data is in the caches, too. saved_ns
    is the time saved in falling asleep and waking while another thread is runnable, as the CPU does
    not become idle.
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
    stack_ns: int = 0
    stack_freed_ns: int = 0


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Set the *interest* that a thread's calls on *fd* wait for: nothing is declared."""
    yield from spend(worker, activity.WATCH, 0)
    assert world.watched_by[fd] == NONE
    world.watched_by[fd] = worker.interests.number
    world.interest[fd] = interest
    worker.interests.n_watched += 1


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Change the interest that calls on *fd* wait for: nothing is declared."""
    yield from spend(worker, activity.REWATCH, 0)
    world.interest[fd] = interest


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """End the calls on *fd*: nothing is withdrawn."""
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
    """Wake the thread whose request is on connection *k* to the backend."""
    threads: ThreadTable = interests.own
    wake(world, world.workers[threads.thread_of[world.asker[k]]])
    return True


def back_on_cpu_ns(world: World, worker: Worker) -> int:
    """Return the CPU time in which *worker* comes back to its CPU, cold caches included."""
    cpu, costs = worker.cpu, world.costs.mechanism
    cost_ns: int = on_cpu_ns(world, worker, costs.saved_ns)
    if not cpu.switched:
        return cost_ns
    if world.blocking.threads == _PROCESSES:
        return cost_ns + curve_ns(costs.process_switch, cpu.n_runnable)
    return cost_ns + curve_ns(costs.switch, cpu.n_runnable)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Sleep in a call until it can go on; return at once if it can now.

    It is a call on the connection that *worker* has in hand, or accept(). A thread in a call at
    time 0 entered it before the run.
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
    """Sleep unless *worker* was woken meanwhile, and spend the CPU time of coming back."""
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
            "stack_ns": "a new stack in the kernel for it, if the CPU keeps none",
            "stack_freed_ns": "freeing that stack, if the CPU keeps two already",
            "refused_ns": "a failure at the limit of threads (EAGAIN)",
            "process_switch": "as switch, where it was another process",
        },
    ),
)
