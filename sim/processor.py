"""CPUs and the workers pinned to them: who runs, who waits for the CPU, who sleeps.

    runnable ──► running ── step, step, ... ── SLEEP ──► blocked
        ▲           │ slice used up, others runnable        │ a descriptor calls
        └───────────┴───────────────────────────────────────┘

A worker runs until it blocks, or until its slice is over between two steps while others wait for
its CPU: what the first did is done, the second waits. A slice begins when the worker has come
back, so that each has a step of its own however short slices are. Interrupts take precedence over
all of them (sim/interrupts.py). Left out: a wake-up does not preempt whoever runs.

Sources: Linux kernel/sched/core.c schedule(), try_to_wake_up(); kernel/sched/fair.c (base slice).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .jitable import inlined, jitable
from .kinds import NONE, SLEEP, Activity, Count

if TYPE_CHECKING:
    from .interest_set import InterestSet
    from .listen_queue import Listener
    from .world import World

_IDLE, _WAKE = int(Activity.IDLE), int(Activity.WAKE)
_SLEEPS = int(Count.SLEEPS)
_ON, _OFF, _COMES_BACK = 0, 1, 2
NEVER_NS = 1 << 62
"""Later than anything that happens."""


@dataclass(slots=True, eq=False)
class Cpu:
    """One CPU: what it does now, and where its time went.

    While it is idle, `runnable_ns` says when the first of its queue may run.
    """

    number: int
    runnable: list[int]  # ring of workers that wait for this CPU
    ledger_ns: list[int]  # by Activity
    ledger_mark_ns: list[int]
    first_runnable: int = 0
    n_runnable: int = 0
    runnable_ns: int = 0
    running: int = NONE  # the worker that has the CPU; NONE: idle
    last: int = NONE  # the worker that has it, or had it last
    switched: bool = False  # another worker had it before this one
    handed_over: bool = False  # and it was not idle in between
    left_work: bool = False  # calls have left some to a thread of the kernel, for the next sleep
    slice_from_ns: int = 0
    idle: bool = False
    idle_from_ns: int = 0
    irq_begin_ns: int = 0
    irq_free_ns: int = NONE
    stolen_ns: int = 0
    step_begin_ns: int = 0
    step_ns: int = 0
    step_stolen_ns: int = 0


@dataclass(slots=True, eq=False)
class Worker:
    """One thread of the server program, and what it works on."""

    number: int
    cpu: Cpu
    interests: InterestSet
    listener: Listener
    listener_fd: int
    event_fd: list[int]  # the descriptors of the last wait, and as much room to sort them in
    own: Any  # what the program itself keeps: `Program.memory`
    n_events: int = 0
    n_notices: int = 0  # what the kernel told in the last call, where these are not the events
    n_accepts: int = 0
    spin_ns: int = 0  # what it takes to ask again, for a server that does not block
    activity: int = 0
    woken: bool = False
    blocked: bool = False
    slice_state: int = _ON  # _OFF when its slice was over: it pays for coming back
    left_step_ns: int = 0  # what it goes on with then
    left_activity: int = 0


@jitable
def boot(worker: Worker) -> None:
    """Have *worker* run on its CPU from the beginning, or wait for those before it."""
    if worker.cpu.running == NONE:
        worker.cpu.running = worker.cpu.last = worker.number
    else:
        _queue(worker.cpu, worker.number)


@inlined
def due_ns(cpu: Cpu) -> int:
    """Return when *cpu* ends what it does, if no further interrupt steals from it."""
    if not cpu.idle:
        return cpu.step_begin_ns + cpu.step_ns + cpu.stolen_ns - cpu.step_stolen_ns
    if cpu.n_runnable > 0:
        return max(cpu.runnable_ns, cpu.irq_free_ns)
    return NEVER_NS


@jitable
def first_due(world: World) -> Cpu:
    """Return the CPU that ends first what it does; the lowest of those that end together."""
    first = world.cpus[0]
    for i in range(1, len(world.cpus)):
        cpu = world.cpus[i]
        if due_ns(cpu) < due_ns(first):
            first = cpu
    return first


@inlined
def end_step(world: World, cpu: Cpu) -> None:
    """Charge what *cpu* did until now, and have the worker to go on at `cpu.running`."""
    world.waker = cpu.number
    if cpu.idle:
        cpu.ledger_ns[_IDLE] += world.now_ns - cpu.idle_from_ns
        cpu.idle = False
        _next_worker(world, cpu)
        cpu.handed_over = False
        return
    cpu.ledger_ns[world.workers[cpu.running].activity] += cpu.step_ns


@jitable
def comes_back(world: World, cpu: Cpu) -> int:
    """Return the step of a worker whose slice was over, the way back first; NONE: go on."""
    worker = world.workers[cpu.running]
    if worker.slice_state == _ON:
        return NONE
    if worker.slice_state == _COMES_BACK:
        worker.slice_state = _ON
        worker.activity = worker.left_activity
        cpu.slice_from_ns = world.now_ns
        return worker.left_step_ns
    worker.slice_state = _COMES_BACK
    worker.activity = _WAKE
    return world.costs.interrupt.wake_ns


@inlined
def is_away(worker: Worker) -> bool:
    """Return whether the slice of *worker* was over before the step that it wants to do."""
    return worker.slice_state != _ON


@inlined
def begin_step(world: World, cpu: Cpu, step_ns: int) -> bool:
    """Begin a step of *step_ns*, or SLEEP; return whether another worker goes on at once."""
    if step_ns == SLEEP:
        world.counts[_SLEEPS] += 1
        return block(world, cpu)
    if cpu.n_runnable > 0 and world.now_ns - cpu.slice_from_ns >= world.server.slice_ns:
        worker = world.workers[cpu.running]
        if worker.slice_state == _ON:
            worker.slice_state = _OFF
            worker.left_step_ns = step_ns
            worker.left_activity = worker.activity
            _queue(cpu, cpu.running)
            _next_worker(world, cpu)
            return True
    cpu.step_begin_ns = world.now_ns
    cpu.step_ns = step_ns
    cpu.step_stolen_ns = cpu.stolen_ns
    return False


@jitable
def block(world: World, cpu: Cpu) -> bool:
    """Take the running worker off *cpu*; return whether another one goes on at once."""
    world.workers[cpu.running].blocked = True
    if cpu.n_runnable > 0:
        _next_worker(world, cpu)
        return True
    cpu.running = NONE
    cpu.idle = True
    cpu.idle_from_ns = world.now_ns
    return False


@jitable
def wake(world: World, worker: Worker) -> None:
    """Make *worker* runnable if it is blocked; an idle CPU that is not the waker's is asleep."""
    worker.woken = True
    if not worker.blocked:
        return
    worker.blocked = False
    cpu = worker.cpu
    if cpu.idle and cpu.n_runnable == 0:
        cpu.runnable_ns = world.now_ns
        if cpu.number != world.waker and cpu.irq_free_ns <= world.now_ns:
            cpu.runnable_ns += world.costs.interrupt.idle_exit_ns
    _queue(cpu, worker.number)


@jitable
def _queue(cpu: Cpu, number: int) -> None:
    cpu.runnable[(cpu.first_runnable + cpu.n_runnable) % len(cpu.runnable)] = number
    cpu.n_runnable += 1


@jitable
def _next_worker(world: World, cpu: Cpu) -> None:
    cpu.running = cpu.runnable[cpu.first_runnable]
    cpu.switched = cpu.last != cpu.running
    cpu.handed_over = True
    cpu.last = cpu.running
    cpu.first_runnable = (cpu.first_runnable + 1) % len(cpu.runnable)
    cpu.n_runnable -= 1
    cpu.slice_from_ns = world.now_ns
