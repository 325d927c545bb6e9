"""A CPU that goes straight from one thread to the next: less than a sleep and a wake-up.

    off: sleep_ns ─► idle ... ─► on: wake_ns      the CPU becomes idle in between
    off ─────────────────────► on                 another one is runnable: saved_ns less, together

What falling asleep does not hold of saved_ns is taken off waking up: under a hypervisor most of a
wake-up is the way back from idleness.
Source: Linux kernel/sched/core.c __schedule().
"""

from __future__ import annotations

from ..sim.jitable import inlined
from ..sim.processor import Worker
from ..sim.sleeping import falling_asleep_ns
from ..sim.world import World


@inlined
def off_cpu_ns(world: World, worker: Worker) -> int:
    """Return what it takes *worker* to fall asleep, and leave its CPU to another one or idle."""
    cost_ns: int = falling_asleep_ns(world, worker)
    if worker.cpu.n_runnable > 0:
        cost_ns -= min(world.costs.mechanism.saved_ns, world.costs.interrupt.sleep_ns)
    return cost_ns


@inlined
def on_cpu_ns(world: World, worker: Worker) -> int:
    """Return what it takes *worker*, which was off its CPU, to be on it again."""
    interrupt = world.costs.interrupt
    cost_ns: int = interrupt.wake_ns
    if worker.cpu.handed_over:
        more_ns = max(0, world.costs.mechanism.saved_ns - interrupt.sleep_ns)
        cost_ns -= min(more_ns, interrupt.wake_ns)
    return cost_ns
