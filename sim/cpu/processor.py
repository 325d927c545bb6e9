"""CPUs and their threads: the records, and the end of each CPU's current step.

    workers        0 ... W-1   threads of the server program, pinned to the CPUs in turn
    others, by CPU:
      packet thread   W + k    handles packets that interrupts leave to it (ksoftirqd)
      stalls      W + C + k    keeps the CPU from all others
      busy processes           compute, and do nothing else

Who gets a CPU is decided in sim/cpu/scheduling.py; interrupts take precedence over all of them
(sim/cpu/interrupts.py).
"""

from __future__ import annotations

from ..state.costs import curve_ns
from ..state.kinds import NEVER_NS, WEIGHT
from ..state.units import MICROSECOND_NS
from ..state.world import ON_CPU, Cpu, Worker, World


def thread_of(world: World, number: int) -> Worker:
    """Return the thread of that *number*, a worker or another one."""
    n_workers = len(world.workers)
    return world.workers[number] if number < n_workers else world.others[number - n_workers]


def is_other(world: World, number: int) -> bool:
    """Return whether the thread of that *number* does not belong to the server program."""
    return number >= len(world.workers)


def weight_of(world: World, number: int) -> int:
    """Return the scheduling weight of the thread of that *number*, from its nice value."""
    is_busy = number >= len(world.workers) + 2 * len(world.cpus)
    return world.busy_weight if is_busy else WEIGHT


def packet_thread(world: World, cpu: Cpu) -> Worker:
    """Return the thread of the kernel that handles packets on *cpu*."""
    return world.others[cpu.number]


def stall_of(world: World, cpu: Cpu) -> Worker:
    """Return the thread that occupies *cpu* in a stall."""
    return world.others[len(world.cpus) + cpu.number]


def idle_exit_ns(world: World, idle_ns: int) -> int:
    """Return how long a CPU takes to leave idleness when it has been idle for *idle_ns*."""
    exit_ns = world.costs.interrupt.idle_exit_ns
    if world.idle_exit_varies:
        exit_ns += curve_ns(world.costs.interrupt.idle_exit_since, idle_ns // MICROSECOND_NS)
    return exit_ns


def due_ns(cpu: Cpu) -> int:
    """Return the end of the current step of *cpu*, without further interrupts."""
    if not cpu.idle:
        return cpu.step_begin_ns + cpu.step_ns + cpu.stolen_ns - cpu.step_stolen_ns
    if cpu.n_runnable > 0:
        return max(cpu.runnable_ns, cpu.irq_free_ns, cpu.gap_until_ns)
    return NEVER_NS


def first_due(world: World) -> Cpu:
    """Return the CPU whose current step ends first; the lowest number in a tie."""
    first = world.cpus[0]
    first_ns = due_ns(first)
    for i in range(1, len(world.cpus)):
        at_ns = due_ns(world.cpus[i])
        if at_ns < first_ns:
            first, first_ns = world.cpus[i], at_ns
    return first


def is_on_cpu(worker: Worker) -> bool:
    """Return whether *worker*, which is not asleep, has its CPU."""
    return worker.slice_state == ON_CPU


def step_progress_ns(world: World, worker: Worker) -> int:
    """Return the CPU time that *worker* has had for its step by now, however often it was cut."""
    if is_on_cpu(worker):
        return worker.done_ns + progress_ns(world, worker.cpu)
    return worker.done_ns


def progress_ns(world: World, cpu: Cpu) -> int:
    """Return the CPU time that the running step has had by now, without interrupts and gaps."""
    unfinished_ns = max(0, max(cpu.irq_free_ns, cpu.gap_until_ns) - world.now_ns)
    stolen_ns = cpu.stolen_ns - cpu.step_stolen_ns - unfinished_ns
    return world.now_ns - cpu.step_begin_ns - stolen_ns
