"""A completion port: a queue of completed calls, and a bound on the number of running threads.

    call on fd completes ──► packet ──► queue, first in first out
                                          │  fewer threads run than may?
                                          ├─ yes: the thread that came last takes it, and wakes
                                          └─ no:  it waits for a thread that comes back, or blocks
    thread: GetQueuedCompletionStatus ─► packet in hand ─► runs ... and comes back

A thread that comes back takes the next packet without a switch. A thread blocked in another call
does not count as running, so the port may release one more; when it wakes, one too many may run.
Here threads stay on their CPUs: the port takes the last waiting thread whose CPU runs no other
thread of the port, if there is one.

Sources: Microsoft, "I/O completion ports", CreateIoCompletionPort, GetQueuedCompletionStatus;
Chandra and Mosberger 2001 (few enough run for many threads not to thrash).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...sim.cpu.scheduling import wake
from ...sim.kernel import interest_set
from ...sim.kernel.sleeping import fall_asleep, on_cpu_ns
from ...sim.state.columns import MakeColumn, power_of_two
from ...sim.state.costs import Curve, curve_ns, flat
from ...sim.state.kinds import NONE, READABLE, SLEEP, WRITABLE, activity, count
from ...sim.state.mechanism import Mechanism, Trait, spend
from ...sim.state.settings import RunSettings
from ...sim.state.world import InterestSet, Worker, World
from ..entry import entry


class CompletionPortCosts(NamedTuple):
    """CPU time of a completion port: a call, each packet, and a connection that is bound to it.

    A call on a connection costs as much as anywhere: a call that returns EAGAIN when it is issued,
    the rest when it completes. switch is the extra time of waking after another thread had the CPU,
    by the number of runnable threads there. saved_ns is the time saved in falling asleep while
    another thread is runnable.
    """

    call_ns: int
    complete_ns: int
    add_ns: int
    switch: Curve = flat(0)
    saved_ns: int = 0


@dataclass(slots=True, eq=False)
class Port:
    """The queue, and the threads that wait at it."""

    running_max: int
    packets: list[int]  # ring of descriptors; of the listener, one for each connection
    waiting: list[int]  # stack of threads
    sends: list[int]  # of each descriptor: its call is a send, shape (D,)
    asleep: list[int]  # the thread that sleeps in another call on each descriptor
    running_on: list[int]  # threads that run, by CPU
    first: int = 0
    n: int = 0
    n_waiting: int = 0
    n_running: int = 0


def memory(settings: RunSettings, n_fds: int, column: MakeColumn) -> Port:
    """Return an empty queue, at which all threads wait."""
    return Port(
        running_max=settings.completions.concurrent_threads or settings.machine.cpus,
        packets=column(power_of_two(n_fds + settings.limits.backlog + 2), NONE, np.int32),
        waiting=column(settings.program.workers, np.arange(settings.program.workers), np.int32),
        sends=column(n_fds, 0, np.int8),
        asleep=column(n_fds, NONE, np.int32),
        running_on=column(settings.machine.cpus, 0, np.int32),
        n_waiting=settings.program.workers,
    )


def has_packet(worker: Worker) -> bool:
    """Return whether *worker* has a packet in hand: `worker.event_fd[0]`."""
    return worker.n_events > 0


def _runs(world: World, port: Port, worker: Worker) -> None:
    port.n_running += 1
    port.running_on[worker.cpu.number] += 1


def _rests(world: World, port: Port, worker: Worker) -> None:
    port.n_running -= 1
    port.running_on[worker.cpu.number] -= 1


def _hand(world: World, port: Port, worker: Worker) -> None:
    worker.event_fd[0] = port.packets[port.first]
    worker.n_events = 1
    port.first = (port.first + 1) & (len(port.packets) - 1)
    port.n -= 1
    _runs(world, port, worker)


def _last_to_wait(world: World, port: Port) -> int:
    """Take the thread that runs next off the stack, and return its number."""
    place = port.n_waiting - 1
    for i in range(place, -1, -1):
        worker = world.workers[port.waiting[i]]
        if port.running_on[worker.cpu.number] == 0:
            place = i
            break
    number = port.waiting[place]
    port.n_waiting -= 1
    for i in range(place, port.n_waiting):
        port.waiting[i] = port.waiting[i + 1]
    return number


def release(world: World, port: Port) -> bool:
    """Give the first packet to a waiting thread that may run; return whether there is one."""
    if port.n == 0 or port.n_waiting == 0 or port.n_running >= port.running_max:
        return False
    worker = world.workers[_last_to_wait(world, port)]
    _hand(world, port, worker)
    wake(world, worker)
    return True


def post(world: World, interests: InterestSet, fd: int) -> bool:
    """Queue a packet of *fd*; return whether a thread was woken for it."""
    port: Port = interests.own
    port.packets[(port.first + port.n) & (len(port.packets) - 1)] = fd
    port.n += 1
    return release(world, port)


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Bind *fd* to the port; of a connection, issue a receive."""
    is_connection = world.connection_of[fd] != NONE
    yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
    if is_connection:
        yield from spend(worker, activity.READ, world.costs.call.read_again_ns)
    interests = worker.interests
    assert world.watched_by[fd] == NONE
    world.watched_by[fd] = interests.number
    interests.n_watched += 1
    if is_connection:
        receive(world, interests, fd)
    else:
        world.interest[fd] = interest


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Start a call on *fd*, whose CPU time its program has spent."""
    yield from spend(worker, activity.REWATCH, 0)
    issue(world, worker.interests, fd, interest)


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Stop calls on *fd*, which is closed: no call is made."""
    yield from spend(worker, activity.UNWATCH, 0)
    interest_set.drop_interest(world, worker.interests, fd)


def issue(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Start a call on *fd* that completes when *fd* is ready, or at once."""
    world.interest[fd] = interest
    if interest_set.is_ready(world, fd):
        _complete(world, interests, fd)


def receive(world: World, interests: InterestSet, fd: int) -> None:
    """Start a receive on *fd*."""
    port: Port = interests.own
    port.sends[fd] = 0
    issue(world, interests, fd, READABLE)


def send(world: World, worker: Worker, fd: int, n_left: int) -> None:
    """Start a send on *fd* with *n_left* bytes left; it completes at once if none is left."""
    port: Port = worker.interests.own
    port.sends[fd] = 1
    if n_left > 0:
        issue(world, worker.interests, fd, WRITABLE)
    else:
        post(world, worker.interests, fd)


def is_sent(worker: Worker, fd: int) -> bool:
    """Return whether the packet of *fd* comes from a send."""
    port: Port = worker.interests.own
    return port.sends[fd] != 0


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Start a receive on each of a range of descriptors: it is their interest already."""


def _complete(world: World, interests: InterestSet, fd: int) -> bool:
    """Complete the call on *fd*; return whether a thread was woken."""
    port: Port = interests.own
    world.interest[fd] = 0
    number = port.asleep[fd]
    if number == NONE:
        return post(world, interests, fd)
    port.asleep[fd] = NONE
    _runs(world, port, world.workers[number])
    wake(world, world.workers[number])
    return True


def notify(world: World, fd: int) -> bool:
    """Queue a packet of the completed call on *fd*, or wake the thread that sleeps in the call."""
    if not interest_set.is_ready(world, fd):
        return False
    if world.connection_of[fd] == NONE:
        return post(world, interest_set.set_of(world, fd), fd)
    return _complete(world, interest_set.set_of(world, fd), fd)


def be_away(world: World, worker: Worker) -> Iterator[int]:
    """Leave the CPU until woken, and come back."""
    saved_ns = world.costs.mechanism.saved_ns
    if world.now_ns > 0:
        yield from fall_asleep(world, worker, saved_ns)
    if worker.woken:
        yield from spend(worker, activity.WAKE, world.costs.interrupt.wake_ns)
    else:
        yield SLEEP
        yield from spend(worker, activity.WAKE, back_on_cpu_ns(world, worker, saved_ns))


def back_on_cpu_ns(world: World, worker: Worker, saved_ns: int) -> int:
    """Return the CPU time in which *worker* comes back to its CPU, cold caches included."""
    cpu = worker.cpu
    cost_ns: int = on_cpu_ns(world, worker, saved_ns)
    if cpu.switched:
        cost_ns += curve_ns(world.costs.mechanism.switch, cpu.n_runnable)
    return cost_ns


def sleep_in_call(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Sleep in a call on *fd* until *fd* is ready; meanwhile another thread may run."""
    port: Port = worker.interests.own
    world.interest[fd] = interest
    if interest_set.is_ready(world, fd):
        world.interest[fd] = 0
    else:
        port.asleep[fd] = worker.number
        worker.woken = False
        _rests(world, port, worker)
        release(world, port)
        yield from be_away(world, worker)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call GetQueuedCompletionStatus once, which leaves a packet in hand.

    A thread in this call at time 0 entered it before the run.
    """
    port: Port = worker.interests.own
    if world.now_ns > 0:
        world.counts[count.WAITS] += 1
        yield from spend(worker, activity.WAIT, world.costs.mechanism.call_ns)
    if has_packet(worker):
        worker.n_events = 0
        _rests(world, port, worker)
    if port.n > 0 and port.n_running < port.running_max:
        _hand(world, port, worker)
    else:
        worker.woken = False
        if world.now_ns > 0:
            port.waiting[port.n_waiting] = worker.number
            port.n_waiting += 1
        yield from be_away(world, worker)
    world.counts[count.EVENTS] += 1
    yield from spend(worker, activity.WAIT, world.costs.mechanism.complete_ns)


def tells(world: World, fd: int) -> bool:
    """Return whether a packet is queued, or a thread runs that may handle it."""
    port: Port = interest_set.set_of(world, fd).own
    return port.n > 0 or port.n_running > 0


COMPLETION_PORT = Mechanism(
    "completion_port",
    fds=1,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait,
    memory=memory,
    tells=tells,
    traits=frozenset({Trait.BY_PORT}),
)

ENTRIES = (
    entry(
        __name__,
        COMPLETION_PORT,
        CompletionPortCosts,
        "Microsoft, CreateIoCompletionPort; Chandra and Mosberger 2001",
        aliases=("iocp",),
        wait_call="GetQueuedCompletionStatus",
        program="port_pool",
        words={
            "call_ns": "a call that takes a packet",
            "add_ns": "a connection that is bound to the port",
        },
        # NT is not measured here. Borrowed: waiting for one packet is waiting for one event,
        # and binding a connection making an entry of an interest set.
        borrowed={
            "call_ns": ("epoll_level.call_ns",),
            "complete_ns": ("epoll_level.event_ns",),
            "add_ns": ("epoll_level.add_ns",),
            "switch": ("blocking.switch",),
            "saved_ns": ("blocking.saved_ns",),
        },
    ),
)
