"""Blocking calls: a thread sleeps in accept(), read() or write() itself, and the kernel wakes it.

    accept(): nobody knocks ──► on the listener's wait queue ──► woken, looks again ──► connection
    read(): nothing came    ──► on the socket's wait queue   ──► woken, looks again ──► request

No interest is declared, and nobody asks what is ready: who waits for what is said by who sleeps
where. So nothing here depends on how many descriptors are open, but each of them needs a thread,
and where one request follows another of somebody else, there is a switch between threads.

A call that need not sleep costs what it costs in an event loop. One that does costs what falling
asleep and waking cost there (sim/processor.py), block_ns for the wait queue and the second look,
and, if another thread had its CPU meanwhile, what the switch adds to these: caches, and for a
process the address space. Where another one is runnable the CPU goes straight to it, and what
becoming idle takes is saved. Left out: what a switch adds when a time slice is over.

Sources: accept(2), read(2), write(2); Linux net/core/stream.c sk_stream_wait_memory(), net/ipv4/
tcp.c tcp_recvmsg_locked(); Chandra and Mosberger 2001, §1 (what threads cost; the thundering herd).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..sim.costs import Curve, curve_ns, flat
from ..sim.interest_set import InterestSet, drop_interest, is_ready, set_of
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, SLEEP, Activity
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.request_timeouts import times_its_read
from ..sim.scheduling import wake
from ..sim.settings import Threads
from ..sim.sleeping import off_cpu_ns, on_cpu_ns
from ..sim.world import World
from .threads import (
    ThreadTable,
    has_connection,
    hold_idle,
    line_up,
    somebody_will_accept,
    thread_table,
    wake_accepting,
)

_SLEEP, _WAKE = int(Activity.SLEEP), int(Activity.WAKE)
_PROCESSES = int(Threads.PROCESSES)


class BlockingCosts(NamedTuple):
    """CPU time of threads that block.

    block_ns is what a call takes more that has to sleep, besides sleeping and waking. A thread for
    a connection takes spawn_ns of the thread that accepts (pthread_create), and exit_ns at its end;
    a process fork_ns, both copies of a descriptor closed, and process_exit_ns, the parent's wait
    included. refused_ns is what it takes to be told that there can be no more. switch and
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


@inlined
def begin(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Have the calls of a thread on *fd* wait for *interest*."""
    assert world.watched_by[fd] == NONE
    world.watched_by[fd] = interests.number
    world.interest[fd] = interest
    interests.n_watched += 1


@inlined
def change(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Have the calls on *fd* wait for something else."""
    world.interest[fd] = interest


@inlined
def end(world: World, interests: InterestSet, fd: int) -> None:
    """Have no more calls on *fd*."""
    drop_interest(world, interests, fd)


@inlined
def notify(world: World, fd: int) -> bool:
    """Wake whoever sleeps in a call on *fd*."""
    if not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    if world.connection_of[fd] == NONE:
        return wake_accepting(world, interests)
    threads: ThreadTable = interests.own
    wake(world, world.workers[threads.thread_of[fd]])
    return True


@inlined
def back_on_cpu_ns(world: World, worker: Worker) -> int:
    """Return what it takes *worker*, which was off its CPU, to be on it again, caches and all."""
    cpu, costs = worker.cpu, world.costs.mechanism
    cost_ns: int = on_cpu_ns(world, worker, costs.saved_ns)
    if not cpu.switched:
        return cost_ns
    if world.server.threads == _PROCESSES:
        return cost_ns + curve_ns(costs.process_switch, cpu.n_runnable)
    return cost_ns + curve_ns(costs.switch, cpu.n_runnable)


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of sleeping in a call until it can go on; none if it can at once.

    It is a call on the connection that *worker* has in hand, or accept(). Who is in a call at
    time 0 has been there since before.
    """
    activity = worker.activity
    fd = worker.event_fd[0] if has_connection(worker) else worker.listener_fd
    while not is_ready(world, fd) and not worker.timed_out:
        worker.woken = False
        if world.server.request_timeout_ns > 0 and has_connection(worker):
            times_its_read(world, worker, fd)
        if world.now_ns > 0:
            if not has_connection(worker):
                line_up(worker)
            worker.activity = _SLEEP
            yield off_cpu_ns(world, worker, world.costs.mechanism.saved_ns)
        slept = not worker.woken
        if slept:
            yield SLEEP
        worker.activity = _WAKE
        yield back_on_cpu_ns(world, worker) if slept else world.costs.interrupt.wake_ns
        worker.activity = activity
        yield world.costs.mechanism.block_ns


def tells(world: World, fd: int) -> bool:
    """Return whether a thread has *fd* in hand; of the listener, whether one will accept."""
    return world.connection_of[fd] != NONE or somebody_will_accept(world)


BLOCKING = Mechanism(
    "blocking",
    0,
    no_call_ns,
    begin,
    no_call_ns,
    change,
    no_call_ns,
    end,
    hold_idle,
    notify,
    wait,
    thread_table,
    tells=tells,
    in_calls=True,
)
