"""Who has a CPU: slices, blocking, waking, and who may take it from whom.

    runnable ──► running ── step, step, ... ── SLEEP ──► blocked
        ▲           │ slice used up, others runnable        │ a descriptor calls
        │           │ cut: something more urgent woke up    │
        └───────────┴───────────────────────────────────────┘

A thread runs until it blocks, or until its slice is over between two steps while others wait for
its CPU: what the first did is done, the second waits. A slice begins when the worker has come
back, so that each has a step of its own however short slices are. A step is cut in the middle by
what is more urgent than any process: work on packets where interrupts or polls do it, a stall;
and, where wake-ups preempt, by a thread that has had less of the CPU.

Coming back costs a wake-up, and what the caches have lost meanwhile.
Sources: Linux kernel/sched/core.c schedule(), try_to_wake_up(); kernel/sched/fair.c (base slice,
check_preempt_wakeup(), place_entity()); Mogul and Ramakrishnan 1997, section 4 (who is urgent).
"""

from __future__ import annotations

from ..state.costs import curve_ns
from ..state.kernel_settings import Packets
from ..state.kinds import NONE, SLEEP, WEIGHT, activity, count
from ..state.units import MICROSECOND_NS
from ..state.world import COMES_BACK, OFF_CPU, ON_CPU, Cpu, Worker, World
from .processor import is_other, progress_ns, thread_of, weight_of


def boot(worker: Worker) -> None:
    """Have the thread *worker* run on its CPU from the beginning, or wait for those before it."""
    if worker.cpu.running == NONE:
        worker.cpu.running = worker.cpu.last = worker.number
    else:
        _queue(worker.cpu, worker.number)


def end_step(world: World, cpu: Cpu) -> None:
    """Charge what *cpu* did until now, and have the thread to go on at `cpu.running`."""
    world.waker = cpu.number
    cpu.in_step = False
    if cpu.idle:
        cpu.ledger_ns[activity.IDLE] += world.now_ns - cpu.idle_from_ns
        cpu.idle = False
        _next_thread(world, cpu)
        cpu.handed_over = False
        return
    thread = thread_of(world, cpu.running)
    cpu.ledger_ns[thread.activity] += cpu.step_ns
    if cpu.cut:
        _step_aside(world, cpu, thread)
    elif thread.slice_state == ON_CPU:
        thread.done_ns = 0


def comes_back(world: World, cpu: Cpu) -> int:
    """Return the step of a thread that had to leave, the way back first; NONE: go on."""
    thread = thread_of(world, cpu.running)
    if thread.slice_state == ON_CPU:
        return NONE
    if thread.switches:
        others_us = (world.now_ns - thread.left_ns) // MICROSECOND_NS
        thread.back_ns += world.costs.interrupt.wake_ns + curve_ns(world.costs.refill, others_us)
        thread.switches = False
    if thread.slice_state == OFF_CPU and thread.back_ns > 0:
        thread.slice_state = COMES_BACK
        thread.activity = activity.WAKE
        return thread.back_ns
    thread.slice_state = ON_CPU
    thread.activity = thread.left_activity
    cpu.slice_from_ns = world.now_ns - thread.slice_used_ns
    return thread.left_step_ns


def begin_step(world: World, cpu: Cpu, step_ns: int) -> bool:
    """Begin a step of *step_ns*, or SLEEP; return whether another thread goes on at once."""
    if step_ns == SLEEP:
        world.counts[count.SLEEPS] += 1
        return block(world, cpu)
    if cpu.n_runnable > 0 and _slice_is_over(world, cpu):
        _take_turns(world, cpu, step_ns)
        return True
    cpu.in_step = True
    cpu.step_begin_ns = world.now_ns
    cpu.step_ns = step_ns
    cpu.step_stolen_ns = cpu.stolen_ns
    return False


def _slice_is_over(world: World, cpu: Cpu) -> bool:
    """Return whether the thread on *cpu* has to leave to those that wait for it."""
    if world.now_ns - cpu.slice_from_ns < slice_of(world, cpu.running):
        return False
    goes_on = thread_of(world, cpu.running).slice_state == ON_CPU
    return goes_on and not is_urgent(world, cpu.running)


def _take_turns(world: World, cpu: Cpu, step_ns: int) -> None:
    """Have the first of the queue go on; the running thread begins its step when it is back."""
    thread = thread_of(world, cpu.running)
    thread.left_step_ns = step_ns
    thread.slice_used_ns = 0
    _leave(world, cpu, thread)
    thread.switches = True
    _queue(cpu, cpu.running)
    _next_thread(world, cpu)


def block(world: World, cpu: Cpu) -> bool:
    """Take the running thread off *cpu*; return whether another one goes on at once."""
    thread = thread_of(world, cpu.running)
    thread.blocked = True
    thread.had_ns += _had_now_ns(world, cpu)
    if is_other(world, cpu.running):
        world.n_others -= 1
    if cpu.n_runnable > 0:
        _next_thread(world, cpu)
        return True
    cpu.running = NONE
    cpu.idle = True
    cpu.idle_from_ns = world.now_ns
    return False


def wake(world: World, worker: Worker) -> None:
    """Make *worker* runnable if it is blocked; an idle CPU that is not the waker's is asleep."""
    worker.woken = True
    if not worker.blocked:
        return
    worker.blocked = False
    _line_up(world, worker)


def wake_other(world: World, thread: Worker) -> None:
    """Make *thread*, which is no worker and is blocked, runnable; at once if it is urgent."""
    cpu = thread.cpu
    thread.blocked = False
    world.n_others += 1
    if not is_urgent(world, thread.number):
        _line_up(world, thread)
    elif cpu.idle or is_urgent(world, cpu.running):
        _leave_idleness(world, cpu)
        _queue_first(cpu, thread.number)
    else:
        _preempt(world, cpu, thread.number, False)


def slice_of(world: World, number: int) -> int:
    """Return how long the thread of that *number* keeps its CPU while others wait for it."""
    return world.kernel.slice_ns * weight_of(world, number) // WEIGHT


def is_urgent(world: World, number: int) -> bool:
    """Return whether the thread of that *number* comes before all that take turns."""
    i = number - len(world.workers)
    n_cpus = len(world.cpus)
    if i < 0 or i >= 2 * n_cpus:
        return False
    return i >= n_cpus or world.kernel.packets != Packets.SOFTIRQ


def _line_up(world: World, thread: Worker) -> None:
    """Have *thread* wait for its turn, or take it from one that has had more."""
    cpu = thread.cpu
    _leave_idleness(world, cpu)
    may_preempt = world.kernel.wake_preemption and not cpu.idle and not cpu.cut
    if may_preempt and _has_had_less(world, cpu, thread):
        world.counts[count.PREEMPTIONS] += 1
        _preempt(world, cpu, thread.number, True)
    else:
        _queue(cpu, thread.number)


def _leave_idleness(world: World, cpu: Cpu) -> None:
    """Have *cpu*, if it is idle, come out of it for the first thread that is runnable."""
    if not cpu.idle or cpu.n_runnable > 0:
        return
    cpu.runnable_ns = world.now_ns
    if cpu.number != world.waker and cpu.irq_free_ns <= world.now_ns:
        cpu.runnable_ns += world.costs.interrupt.idle_exit_ns


def _has_had_less(world: World, cpu: Cpu, worker: Worker) -> bool:
    """Return whether *worker*, which wakes up, may take *cpu* from whoever has it."""
    if is_urgent(world, cpu.running):
        return False
    had_ns = thread_of(world, cpu.running).had_ns + _had_now_ns(world, cpu)
    # What a sleeper did not use is lost to it, but for a credit.
    worker.had_ns = max(worker.had_ns, had_ns - world.kernel.credit_ns)
    return worker.had_ns + world.kernel.granularity_ns < had_ns


def _preempt(world: World, cpu: Cpu, number: int, switches: bool) -> None:
    """Have the thread of that *number* run next on *cpu*, and soon: the running step is cut.

    What is urgent runs on top of the other; a thread that *switches* is another one altogether.
    """
    if not cpu.in_step:
        # Its program is between two steps: the next is not begun, as if its slice were over.
        _queue_first(cpu, number)
        cpu.slice_from_ns = world.now_ns - slice_of(world, cpu.running)
        return
    thread = thread_of(world, cpu.running)
    thread.switches = switches or thread.switches
    if not cpu.cut:
        _queue_first(cpu, cpu.running)  # it goes on behind all that come before it
        _cut_step(world, cpu, thread)
    _queue_first(cpu, number)


def _cut_step(world: World, cpu: Cpu, thread: Worker) -> None:
    """Have the step of *thread*, which runs on *cpu*, end now; the rest is left for later."""
    done_ns = min(cpu.step_ns, progress_ns(world, cpu))
    rest_ns = cpu.step_ns - done_ns
    cpu.step_ns = done_ns
    cpu.cut = True
    if thread.slice_state == ON_CPU:
        thread.left_step_ns = rest_ns
        thread.done_ns += done_ns
        thread.slice_used_ns = world.now_ns - cpu.slice_from_ns
    else:
        thread.back_ns = rest_ns


def _step_aside(world: World, cpu: Cpu, thread: Worker) -> None:
    """Have the first of the queue go on instead of *thread*, whose step was cut."""
    cpu.cut = False
    _leave(world, cpu, thread)
    _next_thread(world, cpu)


def _leave(world: World, cpu: Cpu, thread: Worker) -> None:
    """Have *thread* remember what it was at, and leave *cpu*."""
    if thread.slice_state == ON_CPU:
        thread.left_activity = thread.activity
        thread.back_ns = 0
    thread.slice_state = OFF_CPU
    thread.left_ns = world.now_ns
    thread.had_ns += _had_now_ns(world, cpu)


def _had_now_ns(world: World, cpu: Cpu) -> int:
    """Return how long the running thread has had *cpu* by now, the less the more it weighs."""
    return (world.now_ns - cpu.given_ns) * WEIGHT // weight_of(world, cpu.running)


def _queue(cpu: Cpu, number: int) -> None:
    cpu.runnable[(cpu.first_runnable + cpu.n_runnable) % len(cpu.runnable)] = number
    cpu.n_runnable += 1


def _queue_first(cpu: Cpu, number: int) -> None:
    cpu.first_runnable = (cpu.first_runnable - 1) % len(cpu.runnable)
    cpu.runnable[cpu.first_runnable] = number
    cpu.n_runnable += 1


def _next_thread(world: World, cpu: Cpu) -> None:
    cpu.running = cpu.runnable[cpu.first_runnable]
    cpu.switched = cpu.last != cpu.running
    cpu.handed_over = True
    cpu.last = cpu.running
    cpu.first_runnable = (cpu.first_runnable + 1) % len(cpu.runnable)
    cpu.n_runnable -= 1
    cpu.slice_from_ns = world.now_ns
    cpu.given_ns = world.now_ns
