"""The scheduler: time slices, blocking, waking and preemption of threads on a CPU.

    runnable ──► running ── step, step, ... ── SLEEP ──► blocked
        ▲           │ a tick finds that its slice is over   │ a descriptor calls
        │           │ one that has had less woke up         │
        │           │ cut: something more urgent woke up    │
        └───────────┴───────────────────────────────────────┘

    tick        |           |           |           |           |      every kernel.tick_ns
    nice 0      ████████████             ████████████                   turns end at ticks,
    nice 0                   ███████████             ███████████        of slices that are over

A thread runs until it blocks, until a clock tick finds its slice over while a thread waits that has
had at most as much CPU time, or until such a thread wakes up. CPU time is run time divided by
weight, so the weight decides the order of threads, not the length of a turn. User code leaves the
CPU at once, a call leaves it at its end: kernels without preemption switch on the return to user
space. The slice counts from when the thread is back at its own work, so it makes at least one step
even if slices are tiny. A CPU without waiting threads has no tick. Ties: waiting threads keep their
order; a thread with as much CPU time as the running one goes before it.

Work that is more urgent than any process cuts a step in the middle: work on packets where
interrupts or polls do it, and a stall.

A thread that wakes up has had at least what those have had that run or wait there, but for a
credit. Linux since 6.6 keeps the lag of a sleeper instead: with a positive lag it takes the CPU,
with none the running thread keeps it until its slice is over (RUN_TO_PARITY). Here a tie takes the
CPU, which stands for the positive lag of threads that sleep often. Linux was asked only whether the
fastest quarter of wake-ups takes the CPU (rule wakes_beside_busy).

A thread that is created takes the CPU from no thread: it has no lag, so the thread that runs is
protected, mostly the one that creates it. It has had the mean of those that run or wait there.
Before 6.6 it was placed a slice behind (START_DEBIT), which is left out.

Coming back costs a switch between threads (`switch_ns`), and what the caches have lost meanwhile.
Sources: Linux kernel/sched/core.c schedule(), try_to_wake_up(), wake_up_new_task(),
sched_prio_to_weight; kernel/sched/fair.c update_curr(), task_tick_fair(), pick_eevdf(),
check_preempt_wakeup_fair(), place_entity(), update_min_vruntime(); kernel/entry/common.c
exit_to_user_mode_loop(); Mogul and Ramakrishnan 1997, section 4 (what is urgent).
"""

from __future__ import annotations

from ..state.costs import curve_ns, switch_ns
from ..state.event_calendar import schedule
from ..state.kernel_settings import Packets
from ..state.kinds import (
    NO_CONNECTION,
    NONE,
    SLEEP,
    WEIGHT,
    activity,
    count,
    occurrence,
)
from ..state.units import MICROSECOND_NS
from ..state.world import COMES_BACK, OFF_CPU, ON_CPU, Cpu, Worker, World
from .processor import idle_exit_ns, is_other, progress_ns, thread_of, weight_of


def boot(world: World, worker: Worker) -> None:
    """Have the thread *worker* run on its CPU from the beginning, or wait for those before it."""
    if worker.cpu.running == NONE:
        worker.cpu.running = worker.cpu.last = worker.number
    else:
        _queue(world, worker.cpu, worker)


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
        thread.back_ns += switch_ns(world.costs.interrupt, world.costs.handover_ns)
        thread.back_ns += curve_ns(world.costs.refill, others_us)
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
    if cpu.leaves and not _is_in_round(world, cpu):
        _take_turns(world, cpu, step_ns)
        return True
    cpu.in_step = True
    cpu.step_begin_ns = world.now_ns
    cpu.step_ns = step_ns
    cpu.step_stolen_ns = cpu.stolen_ns
    return False


def clock_ticks(world: World, cpu: Cpu) -> None:
    """Have the thread on *cpu* leave if its slice is over and another one has had no more."""
    cpu.awaits_turn = False
    if cpu.n_runnable == 0:
        return
    _await_tick(world, cpu)
    if cpu.idle or cpu.cut or cpu.leaves or is_urgent(world, cpu.running):
        return
    thread = thread_of(world, cpu.running)
    is_over = world.now_ns - cpu.slice_from_ns >= world.kernel.slice_ns
    if thread.slice_state != ON_CPU or not is_over:
        return
    cpu.turn_over = True
    cpu.slice_from_ns = world.now_ns  # the next slice begins, of this thread or another
    first = thread_of(world, cpu.runnable[cpu.first_runnable])
    if first.had_ns <= thread.had_ns + _had_now_ns(world, cpu):
        _ask_to_leave(world, cpu)


def _await_tick(world: World, cpu: Cpu) -> None:
    """Have the clock look at *cpu* at the next tick."""
    tick_ns = world.kernel.tick_ns
    at_ns = (world.now_ns // tick_ns + 1) * tick_ns
    cpu.awaits_turn = True
    schedule(world, at_ns, occurrence.TURN, NO_CONNECTION - cpu.number)


def _ask_to_leave(world: World, cpu: Cpu) -> None:
    """Have the thread on *cpu* leave: user code at once, a call when it is over."""
    thread = thread_of(world, cpu.running)
    cpu.leaves = True
    in_user_code = thread.activity in (activity.USER, activity.OTHER)
    if cpu.in_step and in_user_code:
        _cut_step(world, cpu, thread)


def _is_in_round(world: World, cpu: Cpu) -> bool:
    """Return whether *cpu* is at a round of packets, in which softirqs are disabled."""
    is_thread = cpu.running == len(world.workers) + cpu.number
    return is_thread and cpu.n_in_round > 0 and world.kernel.packets == Packets.SOFTIRQ


def _take_turns(world: World, cpu: Cpu, step_ns: int) -> None:
    """Have the first of the queue go on; the running thread begins its step when it is back."""
    thread = thread_of(world, cpu.running)
    thread.left_step_ns = step_ns
    _leave(world, cpu, thread)
    thread.switches = True
    _queue(world, cpu, thread)
    _next_thread(world, cpu)


def block(world: World, cpu: Cpu) -> bool:
    """Take the running thread off *cpu*; return whether another one goes on at once."""
    thread = thread_of(world, cpu.running)
    thread.blocked = True
    thread.had_ns += _had_now_ns(world, cpu)
    _note_least(world, cpu, thread.had_ns)
    if is_other(world, cpu.running):
        world.n_others -= 1
    if cpu.n_runnable > 0:
        _next_thread(world, cpu)
        return True
    cpu.running = NONE
    cpu.idle = True
    cpu.was_idle = cpu.has_served = True
    cpu.idle_from_ns = world.now_ns
    return False


def wake(world: World, worker: Worker) -> None:
    """Make *worker* runnable if it is blocked; an idle CPU that is not the waker's is asleep."""
    worker.woken = True
    if not worker.blocked:
        return
    worker.blocked = False
    _line_up(world, worker)


def begin_thread(world: World, worker: Worker) -> None:
    """Make *worker*, which was created, runnable: it takes the CPU from no thread.

    It has had as much as those that run and wait there have had on average.
    """
    worker.woken = True
    if not worker.blocked:
        return
    worker.blocked = False
    _leave_idleness(world, worker.cpu)
    worker.had_ns = _mean_had_ns(world, worker.cpu)
    _queue(world, worker.cpu, worker)


def _mean_had_ns(world: World, cpu: Cpu) -> int:
    """Return what threads that run or wait on *cpu* have had on average, each by its weight."""
    sum_ns, weight = 0, 0
    if not cpu.idle and not is_urgent(world, cpu.running):
        weight = weight_of(world, cpu.running)
        had_ns = thread_of(world, cpu.running).had_ns + _had_now_ns(world, cpu)
        sum_ns = (had_ns - cpu.least_had_ns) * weight
    for i in range(cpu.n_first, cpu.n_runnable):
        number = cpu.runnable[(cpu.first_runnable + i) % len(cpu.runnable)]
        weight += weight_of(world, number)
        sum_ns += (thread_of(world, number).had_ns - cpu.least_had_ns) * weight_of(world, number)
    return cpu.least_had_ns + sum_ns // max(1, weight)


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
        _cut_in(world, cpu, thread.number)


def is_urgent(world: World, number: int) -> bool:
    """Return whether the thread of that *number* comes before all that take turns."""
    i = number - len(world.workers)
    n_cpus = len(world.cpus)
    if i < 0 or i >= 2 * n_cpus:
        return False
    return i >= n_cpus or world.kernel.packets != Packets.SOFTIRQ


def _line_up(world: World, thread: Worker) -> None:
    """Have *thread* wait for its turn, or take it from one that has had no less."""
    cpu = thread.cpu
    _leave_idleness(world, cpu)
    if cpu.idle and cpu.n_runnable == 0:
        # Alone it needs no place among others, and no tick: most wake-ups of one thread.
        _leave_credit(world, cpu, thread)
        cpu.runnable[cpu.first_runnable] = thread.number
        cpu.n_runnable = 1
        return
    if cpu.idle or is_urgent(world, cpu.running):
        _place(world, cpu, thread)
        return
    had_ns = thread_of(world, cpu.running).had_ns + _had_now_ns(world, cpu)
    _note_least(world, cpu, had_ns)
    _place(world, cpu, thread)
    has_had_less = thread.had_ns + world.kernel.granularity_ns <= had_ns
    if world.kernel.wake_preemption and has_had_less and not cpu.cut and not cpu.leaves:
        world.counts[count.PREEMPTIONS] += 1
        _ask_to_leave(world, cpu)


def _place(world: World, cpu: Cpu, thread: Worker) -> None:
    """Queue *thread*, which wakes up."""
    _leave_credit(world, cpu, thread)
    _queue(world, cpu, thread)


def _leave_credit(world: World, cpu: Cpu, thread: Worker) -> None:
    """Leave *thread*, which wakes up, a credit at most of what it did not use while asleep."""
    thread.had_ns = max(thread.had_ns, cpu.least_had_ns - world.kernel.credit_ns)


def _note_least(world: World, cpu: Cpu, had_ns: int) -> None:
    """Note the least that any thread has had that waits for *cpu*, or runs and has had *had_ns*.

    What is noted never falls.
    """
    least_ns = had_ns
    if cpu.n_runnable > cpu.n_first:
        place = (cpu.first_runnable + cpu.n_first) % len(cpu.runnable)
        least_ns = min(least_ns, thread_of(world, cpu.runnable[place]).had_ns)
    cpu.least_had_ns = max(cpu.least_had_ns, least_ns)


def _leave_idleness(world: World, cpu: Cpu) -> None:
    """Have *cpu*, if it is idle, come out of it for the first thread that is runnable."""
    if not cpu.idle or cpu.n_runnable > 0:
        return
    cpu.runnable_ns = max(world.now_ns, cpu.gap_until_ns)
    if cpu.number != world.waker and cpu.irq_free_ns <= world.now_ns:
        cpu.runnable_ns += idle_exit_ns(world, cpu.runnable_ns - cpu.idle_from_ns)


def _cut_in(world: World, cpu: Cpu, number: int) -> None:
    """Have the urgent thread of that *number* run on top of the one on *cpu*, whose step is cut."""
    if not cpu.in_step:
        cpu.leaves = True  # its program is between two steps: the next is not begun
    elif not cpu.cut:
        if not cpu.leaves:
            _queue_first(cpu, cpu.running)  # it goes on behind all that come before it
        _cut_step(world, cpu, thread_of(world, cpu.running))
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
    else:
        thread.back_ns = rest_ns


def _step_aside(world: World, cpu: Cpu, thread: Worker) -> None:
    """Have the first of the queue go on instead of *thread*, whose step was cut."""
    cpu.cut = False
    _leave(world, cpu, thread)
    if cpu.leaves:
        thread.switches = True
        _queue(world, cpu, thread)
    _next_thread(world, cpu)


def _leave(world: World, cpu: Cpu, thread: Worker) -> None:
    """Have *thread* remember what it was at, and leave *cpu*."""
    if thread.slice_state == ON_CPU:
        thread.left_activity = thread.activity
        thread.slice_used_ns = world.now_ns - cpu.slice_from_ns
        thread.back_ns = 0
    thread.slice_state = OFF_CPU
    thread.left_ns = world.now_ns
    thread.had_ns += _had_now_ns(world, cpu)


def _had_now_ns(world: World, cpu: Cpu) -> int:
    """Return how long the running thread has had *cpu* by now, the less the more it weighs."""
    had_ns = world.now_ns - cpu.given_ns
    if world.busy_weight == WEIGHT:
        return had_ns  # all weigh the same
    return had_ns * WEIGHT // weight_of(world, cpu.running)


def _queue(world: World, cpu: Cpu, thread: Worker) -> None:
    """Have *thread* wait for *cpu* behind all that have had no more of it, and for a tick."""
    place = cpu.first_runnable + cpu.n_runnable
    first = cpu.first_runnable + cpu.n_first
    size = len(cpu.runnable)
    while place > first:
        before = cpu.runnable[(place - 1) % size]
        if thread_of(world, before).had_ns <= thread.had_ns:
            break
        cpu.runnable[place % size] = before
        place -= 1
    cpu.runnable[place % size] = thread.number
    cpu.n_runnable += 1
    if not cpu.awaits_turn and (cpu.n_runnable > 1 or not cpu.idle):
        _await_tick(world, cpu)


def _queue_first(cpu: Cpu, number: int) -> None:
    """Put the thread of that *number* before all threads that wait for *cpu*."""
    cpu.first_runnable = (cpu.first_runnable - 1) % len(cpu.runnable)
    cpu.runnable[cpu.first_runnable] = number
    cpu.n_runnable += 1
    cpu.n_first += 1


def _next_thread(world: World, cpu: Cpu) -> None:
    cpu.running = cpu.runnable[cpu.first_runnable]
    cpu.switched = cpu.last != cpu.running
    cpu.handed_over = True
    cpu.last = cpu.running
    cpu.first_runnable += 1
    if cpu.first_runnable == len(cpu.runnable):
        cpu.first_runnable = 0
    cpu.n_runnable -= 1
    cpu.n_first = max(0, cpu.n_first - 1)
    cpu.leaves = False
    cpu.slice_from_ns = world.now_ns
    cpu.given_ns = world.now_ns
    if cpu.n_runnable > 0 and not cpu.awaits_turn:
        _await_tick(world, cpu)
