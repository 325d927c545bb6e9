"""Blocking in a wait: off the CPU, idle, back on the CPU.

    decision ─ sleep_ns ─► idle ... interrupt ─ wake_ns ─► the call goes on
                    └── called meanwhile: no idleness, but a wake-up all the same

Source: Linux kernel/sched/core.c schedule(), kernel/sched/idle.c.
"""

from __future__ import annotations

from collections.abc import Iterator

from numba.extending import register_jitable

from .kinds import SLEEP, Activity
from .world import World

_SLEEP, _WAKE = int(Activity.SLEEP), int(Activity.WAKE)


@register_jitable
def sleep(world: World) -> Iterator[int]:
    """Yield what it takes to block until the mechanism's `notify` calls, and to run again."""
    world.woken = False
    world.activity = _SLEEP
    yield world.costs.interrupt.sleep_ns
    if not world.woken:
        yield SLEEP
    world.activity = _WAKE
    yield world.costs.interrupt.wake_ns
