"""CPUs and the threads that run on them: the records, and when each CPU ends what it does.

    workers        0 ... W-1   threads of the server program, pinned to the CPUs in turn
    others, by CPU:
      packet thread   W + k    handles packets that interrupts leave to it (ksoftirqd)
      stalls      W + C + k    keeps the CPU from all others
      busy processes           compute, and do nothing else

Who gets a CPU is decided in sim/scheduling.py; interrupts take precedence over all of them
(sim/interrupts.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .kinds import NONE
from .nice import weight_of_nice

if TYPE_CHECKING:
    from .interest_set import InterestSet
    from .listen_queue import Listener
    from .world import World

ON_CPU, OFF_CPU, COMES_BACK = 0, 1, 2
"""`Worker.slice_state`: the thread goes on; it had to leave its CPU; it is on its way back."""
WEIGHT = weight_of_nice(0)
"""Of all threads but processes that compute, which may be more or less nice."""
NEVER_NS = 1 << 62
"""Later than anything that happens."""


@dataclass(slots=True, eq=False)
class Cpu:
    """One CPU: what it does now, and where its time went.

    While it is idle, `runnable_ns` says when the first of its queue may run. A step that is cut
    ends as soon as no interrupt is running, and another thread goes on.
    """

    number: int
    runnable: list[int]  # ring of threads that wait for this CPU
    ledger_ns: list[int]  # by Activity
    ledger_mark_ns: list[int]
    packets: list[int]  # ring of packets that wait for the packet thread
    first_runnable: int = 0
    n_runnable: int = 0
    runnable_ns: int = 0
    running: int = NONE  # the thread that has the CPU; NONE: idle
    last: int = NONE  # the thread that has it, or had it last
    switched: bool = False  # another thread had it before this one
    handed_over: bool = False  # and it was not idle in between
    left_work: bool = False  # calls have left some to a thread of the kernel, for the next sleep
    slice_from_ns: int = 0
    given_ns: int = 0  # when it was given to the thread that has it
    idle: bool = False
    idle_from_ns: int = 0
    irq_begin_ns: int = 0
    irq_free_ns: int = NONE
    stolen_ns: int = 0
    in_step: bool = False
    cut: bool = False
    step_begin_ns: int = 0
    step_ns: int = 0
    step_stolen_ns: int = 0
    first_packet: int = 0
    n_packets: int = 0
    in_hand: int = NONE  # the packet that the packet thread is at
    n_at_once: int = 0  # packets that the interrupt has handled, one after the other
    tick: int = 0  # the last in which packets were polled for
    polled_ns: int = 0  # for how long, in that tick
    awaits_tick: bool = False
    awaits_delivery: bool = False
    stalled_until_ns: int = 0


@dataclass(slots=True, eq=False)
class Worker:
    """One thread: of the server program, and what it works on, or another one.

    A thread that had to leave its CPU needs `back_ns` to come back, and more if it `switches`, and
    then does what was left of its step.
    """

    number: int
    cpu: Cpu
    interests: InterestSet
    listener: Listener
    listener_fd: int
    event_fd: list[int]  # the descriptors of the last wait, and as much room to sort them in
    own: Any  # what the program itself keeps: `Program.memory`
    handed: list[int]  # ring of descriptors that another one has accepted for it
    n_events: int = 0
    n_listener_signals: int = 0  # of n_notices, if the program accepts one for each
    n_listener_left: int = 0  # of the signals that are still queued
    n_notices: int = 0  # what the kernel told in the last call, where these are not the events
    n_accepts: int = 0
    first_handed: int = 0
    n_handed: int = 0
    n_handed_on: int = 0  # that it has accepted for others: sim/handing_over.py
    spin_ns: int = 0  # what it takes to ask again, for a server that does not block
    activity: int = 0
    woken: bool = False
    blocked: bool = False
    slice_state: int = ON_CPU
    left_step_ns: int = 0
    left_activity: int = 0
    back_ns: int = 0
    switches: bool = False  # another thread had its CPU: coming back is a switch
    slice_used_ns: int = 0  # before it had to leave
    done_ns: int = 0  # of a step that was cut: what had been done of it
    left_ns: int = 0  # when it left its CPU
    had_ns: int = 0  # how long it has had a CPU so far, by its weight
    timer_ns: int = NEVER_NS  # when the time of a read is over that it sleeps in
    timed_out: bool = False


def thread_of(world: World, number: int) -> Worker:
    """Return the thread of that *number*, a worker or another one."""
    n_workers = len(world.workers)
    return world.workers[number] if number < n_workers else world.others[number - n_workers]


def is_other(world: World, number: int) -> bool:
    """Return whether the thread of that *number* is none of the server program."""
    return number >= len(world.workers)


def weight_of(world: World, number: int) -> int:
    """Return the weight of the thread of that *number*: what its nice value makes of its share."""
    is_busy = number >= len(world.workers) + 2 * len(world.cpus)
    return world.busy_weight if is_busy else WEIGHT


def packet_thread(world: World, cpu: Cpu) -> Worker:
    """Return the thread of the kernel that handles packets on *cpu*."""
    return world.others[cpu.number]


def stall_of(world: World, cpu: Cpu) -> Worker:
    """Return what keeps *cpu* from all threads when it is stalled."""
    return world.others[len(world.cpus) + cpu.number]


def due_ns(cpu: Cpu) -> int:
    """Return when *cpu* ends what it does, if no further interrupt steals from it."""
    if not cpu.idle:
        return cpu.step_begin_ns + cpu.step_ns + cpu.stolen_ns - cpu.step_stolen_ns
    if cpu.n_runnable > 0:
        return max(cpu.runnable_ns, cpu.irq_free_ns)
    return NEVER_NS


def first_due(world: World) -> Cpu:
    """Return the CPU that ends first what it does; the lowest of those that end together."""
    first = world.cpus[0]
    first_ns = due_ns(first)
    for i in range(1, len(world.cpus)):
        at_ns = due_ns(world.cpus[i])
        if at_ns < first_ns:
            first, first_ns = world.cpus[i], at_ns
    return first


def is_on_cpu(worker: Worker) -> bool:
    """Return whether *worker*, which has something to do, is at it, as far as its CPU goes."""
    return worker.slice_state == ON_CPU


def step_progress_ns(world: World, worker: Worker) -> int:
    """Return the CPU time that *worker* has had for its step by now, however often it was cut."""
    if is_on_cpu(worker):
        return worker.done_ns + progress_ns(world, worker.cpu)
    return worker.done_ns


def progress_ns(world: World, cpu: Cpu) -> int:
    """Return the CPU time that the running step has had by now, interrupts taken out."""
    unfinished_ns = max(0, cpu.irq_free_ns - world.now_ns)
    stolen_ns = cpu.stolen_ns - cpu.step_stolen_ns - unfinished_ns
    return world.now_ns - cpu.step_begin_ns - stolen_ns
