"""A completion port: one queue of completed calls, and threads of which so many run at once.

    call on fd completes ──► packet ──► queue, first in first out
                                          │  fewer threads run than may?
                                          ├─ yes: the thread that came last takes it, and is woken
                                          └─ no:  it waits for one that comes back, or blocks
    thread: GetQueuedCompletionStatus ─► packet in hand ─► runs ... and comes back

A thread that comes back takes the next packet without a switch. One that sleeps in another call
meanwhile counts as running no longer, so another may be let go; when it is woken there may be one
too many for a while. Here threads stay on their CPUs: of those that wait the port takes the last
one whose CPU runs no other thread of it, if there is one.

Sources: Microsoft, "I/O completion ports", CreateIoCompletionPort, GetQueuedCompletionStatus;
Chandra and Mosberger 2001 (few enough run for many threads not to thrash).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.build import power_of_two
from ..sim.columns import MakeColumn
from ..sim.costs import Curve, curve_ns, flat
from ..sim.interest_set import InterestSet, drop_interest, is_ready, set_of
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, SLEEP, WRITABLE, Activity, Count
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.scheduling import wake
from ..sim.settings import ServerSettings
from ..sim.sleeping import off_cpu_ns, on_cpu_ns
from ..sim.world import World

_WAIT, _SLEEP, _WAKE = int(Activity.WAIT), int(Activity.SLEEP), int(Activity.WAKE)
_WAITS, _EVENTS = int(Count.WAITS), int(Count.EVENTS)


class CompletionPortCosts(NamedTuple):
    """CPU time of a completion port: a call, each packet, and a connection that is bound to it.

    A call on a connection costs what it costs anywhere: what a look in vain does when it is made,
    the rest when it completes. switch is what waking takes more where another thread had the CPU
    before, by how many are runnable there; saved_ns what falling asleep takes less where another
    one is runnable.
    """

    call_ns: int
    complete_ns: int
    add_ns: int
    switch: Curve = flat(0)
    saved_ns: int = 0


@dataclass(slots=True, eq=False)
class Port:
    """The queue, and who waits for it."""

    running_max: int
    packets: list[int]  # ring of descriptors; of the listener, one for each connection
    waiting: list[int]  # stack of threads
    sends: list[int]  # of each descriptor: its call is a send, shape (D,)
    asleep: list[int]  # who sleeps in another call on each descriptor
    running_on: list[int]  # threads that run, by CPU
    first: int = 0
    n: int = 0
    n_waiting: int = 0
    n_running: int = 0


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Port:
    """Return an empty queue, for which all threads wait."""
    return Port(
        running_max=server.concurrent_threads or server.cpus,
        packets=column(power_of_two(n_fds + server.backlog + 2), NONE, np.int32),
        waiting=column(server.workers, np.arange(server.workers), np.int32),
        sends=column(n_fds, 0, np.int8),
        asleep=column(n_fds, NONE, np.int32),
        running_on=column(server.cpus, 0, np.int32),
        n_waiting=server.workers,
    )


@inlined
def has_packet(worker: Worker) -> bool:
    """Return whether *worker* has a packet in hand: `worker.event_fd[0]`."""
    return worker.n_events > 0


@inlined
def _runs(world: World, port: Port, worker: Worker) -> None:
    port.n_running += 1
    port.running_on[worker.cpu.number] += 1


@inlined
def _rests(world: World, port: Port, worker: Worker) -> None:
    port.n_running -= 1
    port.running_on[worker.cpu.number] -= 1


@inlined
def _hand(world: World, port: Port, worker: Worker) -> None:
    worker.event_fd[0] = port.packets[port.first]
    worker.n_events = 1
    port.first = (port.first + 1) & (len(port.packets) - 1)
    port.n -= 1
    _runs(world, port, worker)


@jitable
def _last_to_wait(world: World, port: Port) -> int:
    """Take the thread off the stack that is to go on, and return its number."""
    place = port.n_waiting - 1
    for i in range(place, -1, -1):
        if port.running_on[world.workers[port.waiting[i]].cpu.number] == 0:
            place = i
            break
    number = port.waiting[place]
    port.n_waiting -= 1
    for i in range(place, port.n_waiting):
        port.waiting[i] = port.waiting[i + 1]
    return number


@jitable
def release(world: World, port: Port) -> bool:
    """Let a thread that waits have the first packet if it may run; return whether one has it."""
    if port.n == 0 or port.n_waiting == 0 or port.n_running >= port.running_max:
        return False
    worker = world.workers[_last_to_wait(world, port)]
    _hand(world, port, worker)
    wake(world, worker)
    return True


@jitable
def post(world: World, interests: InterestSet, fd: int) -> bool:
    """Queue a packet of *fd*; return whether a thread was woken for it."""
    port: Port = interests.own
    port.packets[(port.first + port.n) & (len(port.packets) - 1)] = fd
    port.n += 1
    return release(world, port)


@inlined
def watch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Bind *fd* to the port; of a connection, with a receive under way."""
    assert world.watched_by[fd] == NONE
    world.watched_by[fd] = interests.number
    interests.n_watched += 1
    if world.connection_of[fd] == NONE:
        world.interest[fd] = interest
    else:
        receive(world, interests, fd)


@jitable
def rewatch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Have a call on *fd* under way that completes when it is ready, or at once if it is."""
    world.interest[fd] = interest
    if is_ready(world, fd):
        _complete(world, interests, fd)


@inlined
def receive(world: World, interests: InterestSet, fd: int) -> None:
    """Have a receive on *fd* under way."""
    port: Port = interests.own
    port.sends[fd] = 0
    rewatch(world, interests, fd, READABLE)


@inlined
def send(world: World, worker: Worker, fd: int, left: int) -> None:
    """Have a send on *fd* under way of which so many bytes are *left*; it is done if none is."""
    port: Port = worker.interests.own
    port.sends[fd] = 1
    if left > 0:
        rewatch(world, worker.interests, fd, WRITABLE)
    else:
        post(world, worker.interests, fd)


@inlined
def is_sent(worker: Worker, fd: int) -> bool:
    """Return whether the packet of *fd* is that of a send."""
    port: Port = worker.interests.own
    return port.sends[fd] != 0


@inlined
def unwatch(world: World, interests: InterestSet, fd: int) -> None:
    """Have no more calls on *fd*."""
    drop_interest(world, interests, fd)


@jitable
def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a receive under way on each of a range of descriptors: their interest says so."""


@jitable
def _complete(world: World, interests: InterestSet, fd: int) -> bool:
    """Let the call that is under way on *fd* complete; return whether a thread was woken."""
    port: Port = interests.own
    world.interest[fd] = 0
    number = port.asleep[fd]
    if number == NONE:
        return post(world, interests, fd)
    port.asleep[fd] = NONE
    _runs(world, port, world.workers[number])
    wake(world, world.workers[number])
    return True


@inlined
def notify(world: World, fd: int) -> bool:
    """Queue a packet of the call that completes on *fd*, or wake who sleeps in it."""
    if not is_ready(world, fd):
        return False
    if world.connection_of[fd] == NONE:
        return post(world, set_of(world, fd), fd)
    return _complete(world, set_of(world, fd), fd)


@jitable
def be_away(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of being off the CPU until woken, and of being on it again."""
    if world.now_ns > 0:
        worker.activity = _SLEEP
        yield off_cpu_ns(world, worker, world.costs.mechanism.saved_ns)
    slept = not worker.woken
    if slept:
        yield SLEEP
    worker.activity = _WAKE
    cost_ns = world.costs.interrupt.wake_ns
    if slept:
        cost_ns = on_cpu_ns(world, worker, world.costs.mechanism.saved_ns)
    if slept and worker.cpu.switched:
        cost_ns += curve_ns(world.costs.mechanism.switch, worker.cpu.n_runnable)
    yield cost_ns


@jitable
def sleep_in_call(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Yield the CPU time of sleeping in a call on *fd*; meanwhile another thread may run."""
    port: Port = worker.interests.own
    world.interest[fd] = interest
    if is_ready(world, fd):
        world.interest[fd] = 0
    else:
        port.asleep[fd] = worker.number
        worker.woken = False
        _rests(world, port, worker)
        release(world, port)
        for cost_ns in be_away(world, worker):
            yield cost_ns


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one GetQueuedCompletionStatus, which leaves a packet in hand.

    Who is in it at time 0 has been there since before.
    """
    port: Port = worker.interests.own
    if world.now_ns > 0:
        worker.activity = _WAIT
        world.counts[_WAITS] += 1
        yield world.costs.mechanism.call_ns
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
        for cost_ns in be_away(world, worker):
            yield cost_ns
    world.counts[_EVENTS] += 1
    worker.activity = _WAIT
    yield world.costs.mechanism.complete_ns


def tells(world: World, fd: int) -> bool:
    """Return whether a packet is queued, or a thread runs that may be at it."""
    port: Port = set_of(world, fd).own
    return port.n > 0 or port.n_running > 0


COMPLETION_PORT = Mechanism(
    "completion_port",
    1,
    no_call_ns,
    watch,
    no_call_ns,
    rewatch,
    no_call_ns,
    unwatch,
    watch_idle,
    notify,
    wait,
    memory,
    tells=tells,
    by_port=True,
)
