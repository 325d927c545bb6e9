"""Blocking in a wait: off the CPU, idle, back on the CPU.

    decision ─ sleep_ns ─► idle ... interrupt ─ wake_ns ─► the call goes on
                    └── called meanwhile: no idleness, but a wake-up all the same

Source: Linux kernel/sched/core.c schedule(), kernel/sched/idle.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from .jitable import jitable
from .kinds import SLEEP, Activity
from .processor import Worker
from .world import World

_SLEEP, _WAKE = int(Activity.SLEEP), int(Activity.WAKE)


@jitable
def sleep(world: World, worker: Worker) -> Iterator[int]:
    """Yield what it takes to block until the interest set's `notify` wakes it, and to run again."""
    interests = worker.interests
    interests.waiters[interests.n_waiting] = worker.number
    interests.n_waiting += 1
    worker.woken = False
    worker.activity = _SLEEP
    yield world.costs.interrupt.sleep_ns
    if not worker.woken:
        yield SLEEP
    worker.activity = _WAKE
    yield world.costs.interrupt.wake_ns
