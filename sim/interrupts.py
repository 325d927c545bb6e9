"""Receive processing on the server's CPU: it preempts, it coalesces, and somebody is billed.

        packet      packet packet
          |           |  |
    idle ─┤ entry+pkt ├──┴─ pkt ─ pkt ┤ idle        entry once while the softirq keeps running

Sources: Linux net/core/dev.c (backlog, NAPI), kernel/sched/cputime.c without
CONFIG_IRQ_TIME_ACCOUNTING: interrupt time is billed to whoever was interrupted; Mogul and
Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel".
"""

from __future__ import annotations

from numba.extending import register_jitable

from .kinds import Activity, Count
from .world import World

_IDLE = int(Activity.IDLE)
_INTERRUPT = int(Activity.INTERRUPT)
_INTERRUPT_IDLE = int(Activity.INTERRUPT_IDLE)
_INTERRUPTS = int(Count.INTERRUPTS)
_PACKETS = int(Count.PACKETS)


@register_jitable
def interrupt(world: World, packet_ns: int) -> int:
    """Handle one packet that arrives now; return the time at which it has been handled."""
    begin_ns = world.irq_free_ns
    cost_ns = packet_ns
    if begin_ns < world.now_ns:
        begin_ns = world.now_ns
        if world.idle:
            begin_ns += world.costs.interrupt.idle_exit_ns
        cost_ns += world.costs.interrupt.entry_ns
        world.counts[_INTERRUPTS] += 1
        world.irq_begin_ns = begin_ns
    end_ns = begin_ns + cost_ns
    world.counts[_PACKETS] += 1
    if world.idle:
        world.ledger_ns[_IDLE] += begin_ns - world.idle_from_ns
        world.ledger_ns[_INTERRUPT_IDLE] += cost_ns
        world.idle_from_ns = end_ns
    else:
        world.ledger_ns[_INTERRUPT] += cost_ns
        world.stolen_ns += cost_ns
    world.irq_free_ns = end_ns
    return end_ns


@register_jitable
def progress_ns(world: World) -> int:
    """Return the CPU time that the running step has had by now, interrupts taken out."""
    unfinished_ns = max(0, world.irq_free_ns - world.now_ns)
    stolen_ns = world.stolen_ns - world.step_stolen_ns - unfinished_ns
    return world.now_ns - world.step_begin_ns - stolen_ns


@register_jitable
def take_ledger(world: World, into_ns: list[int]) -> None:
    """Write the ledger as of now into *into_ns*: all entries add up to the time elapsed.

    What was charged ahead (an interrupt still running, an idle exit) is taken back to now, and
    the running step or idleness is charged as far as it has come.
    """
    for i in range(len(into_ns)):
        into_ns[i] = world.ledger_ns[i]
    unfinished_ns = max(0, world.irq_free_ns - max(world.now_ns, world.irq_begin_ns))
    if world.idle:
        into_ns[_INTERRUPT_IDLE] -= unfinished_ns
        into_ns[_IDLE] += world.now_ns + unfinished_ns - world.idle_from_ns
    else:
        into_ns[_INTERRUPT] -= unfinished_ns
        stolen_ns = world.stolen_ns - world.step_stolen_ns - unfinished_ns
        into_ns[world.activity] += world.now_ns - world.step_begin_ns - stolen_ns
