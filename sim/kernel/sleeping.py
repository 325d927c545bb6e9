"""Blocking in a wait: off the CPU, idle, back on the CPU. Or spinning: polling in a loop.

    decision ─ sleep_ns ─► idle ... interrupt ─ wake_ns ─► the call goes on
                    ├── called meanwhile: no idleness, but a wake-up all the same
                    └── another thread is runnable: its CPU goes straight to that one, saved_ns
    busy: ask, ask, ask ... interrupt, ask ─► found        no wake-up, and no idleness

A kernel thread does deferred work of calls (close frees a file by RCU) before the CPU is idle, once
for all calls, as on one CPU (kernel/rcu/tiny.c).

Switching straight to another thread saves saved_ns against idling and waking. It is taken off
falling asleep first, the rest off waking: under a hypervisor most of a wake-up is the exit from
idleness.

Sources: Linux kernel/sched/core.c __schedule(), kernel/sched/idle.c, kernel/softirq.c
wakeup_softirqd().
"""

from __future__ import annotations

from collections.abc import Iterator

from ..state.costs import switch_ns
from ..state.event_calendar import first_due_ns
from ..state.kinds import SLEEP, activity, count
from ..state.mechanism import spend
from ..state.world import Worker, World
from .interest_set import any_ready


def sleep(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU times to block until the interest set's `notify` wakes it, and to run again.

    A busy server does not block: `worker.spin_ns` is the time of one more poll.
    """
    if world.program.busy:
        yield from spend(worker, activity.WAIT, _spin(world, worker))
        return
    interests = worker.interests
    interests.waiters[interests.n_waiting] = worker.number
    interests.n_waiting += 1
    yield from be_away(world, worker)


def be_away(world: World, worker: Worker) -> Iterator[int]:
    """Leave the CPU until *worker* is woken, and come back to it."""
    saved_ns = world.costs.handover_ns
    worker.woken = False
    yield from fall_asleep(world, worker, saved_ns)
    if worker.woken:
        yield from spend(worker, activity.WAKE, world.costs.interrupt.wake_ns)
    else:
        yield SLEEP
        yield from spend(worker, activity.WAKE, on_cpu_ns(world, worker, saved_ns))


def fall_asleep(world: World, worker: Worker, saved_ns: int) -> Iterator[int]:
    """Leave the CPU to another thread, or idle, unless *worker* is woken meanwhile."""
    worker.activity = activity.SLEEP
    # A step of its own even if it costs nothing: what happens meanwhile may keep it awake.
    yield off_cpu_ns(world, worker, saved_ns)


def falling_asleep_ns(world: World, worker: Worker) -> int:
    """Return the CPU time of going to sleep now, and have nothing left to be done."""
    costs, cpu = world.costs.interrupt, worker.cpu
    left_ns = costs.left_ns if cpu.left_work else 0
    cpu.left_work = False
    return costs.sleep_ns + left_ns


def off_cpu_ns(world: World, worker: Worker, saved_ns: int) -> int:
    """Return the CPU time in which *worker* falls asleep, and leaves its CPU to another or idle."""
    cost_ns: int = falling_asleep_ns(world, worker)
    if worker.cpu.n_runnable > 0:
        cost_ns -= min(saved_ns, world.costs.interrupt.sleep_ns)
    return cost_ns


def on_cpu_ns(world: World, worker: Worker, saved_ns: int) -> int:
    """Return the CPU time in which *worker* comes back to its CPU."""
    if worker.cpu.handed_over:
        return switch_ns(world.costs.interrupt, saved_ns)
    return world.costs.interrupt.wake_ns


def _spin(world: World, worker: Worker) -> int:
    """Return the CPU time of one more poll, or of all polls until the next event of the run.

    Each poll returns EAGAIN, and a million polls a second would take a million steps. A descriptor
    that became ready behind the last scan is found by the next one.
    """
    n_asks, ask_ns = 1, max(1, worker.spin_ns)  # or time would stand still
    if len(world.workers) == 1 and not any_ready(world, worker.interests):
        n_asks = max(1, (first_due_ns(world) - world.now_ns) // ask_ns)
    world.counts[count.WAITS] += n_asks
    return n_asks * ask_ns
