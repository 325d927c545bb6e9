"""Receive processing on the server's CPU: preemption, coalescing, and the bill to a process.

        packet      packet packet
          |           |  |
    idle ─┤ entry+pkt ├──┴─ pkt ─ pkt ┤ idle        entry once while the softirq keeps running

A packet takes effect when it has been handled. On one CPU nothing runs in between, so there it may
take effect at once. Other CPUs run meanwhile, and do not see it in a queue or on a ready list.
What interrupts leave to a thread is in sim/cpu/receiving.py.

Sources: Linux net/core/dev.c (backlog, NAPI), kernel/sched/cputime.c without
CONFIG_IRQ_TIME_ACCOUNTING: interrupt time is billed to the interrupted process; Mogul and
Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel".
"""

from __future__ import annotations

from ..state.client_settings import NetworkSettings
from ..state.costs import Costs, curve_ns
from ..state.event_calendar import schedule
from ..state.kinds import activity, count, occurrence, packet_connection, packet_kind, packet_of
from ..state.units import MICROSECOND_NS, PERMILLE
from ..state.world import Cpu, World
from ..wire.way import flow_hash
from .gaps import host_takes_from, taken_after_ns, through_gaps_ns
from .processor import idle_exit_ns, is_other, progress_ns, thread_of

_BACKEND_FLOWS = 1 << 30
"""The first number of a flow from the backend, after those of clients."""


def steered_to(world: World, c: int) -> Cpu:
    """Return the CPU that handles the packets of *c*: one for all flows, or by the flow's hash."""
    number = world.machine.interrupt_cpu
    if number < 0:
        number = (flow_hash(world.row[c]) & 0xFFFF) % len(world.cpus)
    return world.cpus[number]


def handled_by(world: World, kind: int, c: int) -> Cpu:
    """Return the CPU that handles a packet of that *kind* to *c*.

    A reply of the backend is to one of the connections to it, which is a flow of its own.
    """
    if kind != occurrence.BACKEND_REPLY:
        return steered_to(world, c)
    number = world.machine.interrupt_cpu
    if number < 0:
        number = (flow_hash(c + _BACKEND_FLOWS) & 0xFFFF) % len(world.cpus)
    return world.cpus[number]


def interrupt(world: World, c: int, packet_ns: int) -> int:
    """Handle one packet of *c* that arrives now; return the time at which it has been handled."""
    return handle_packet(world, steered_to(world, c), packet_ns)


def handle_packet(world: World, cpu: Cpu, packet_ns: int) -> int:
    """Handle one packet on *cpu* now; return the time at which it has been handled."""
    world.counts[count.PACKETS] += 1
    handled_ns = interrupt_cpu(world, cpu, packet_ns, False)
    cpu.n_at_once += 1
    return handled_ns


def interrupt_cpu(world: World, cpu: Cpu, packet_ns: int, by_itself: bool) -> int:
    """Interrupt *cpu* now; return the time at which that has been handled.

    An interrupt *by_itself* pays for entering, even if others are being handled.
    """
    begin_ns = max(cpu.irq_free_ns, cpu.gap_until_ns)
    cost_ns = packet_ns
    if cpu.irq_free_ns < world.now_ns:
        begin_ns = _out_of_idleness_ns(world, cpu)
        if not cpu.after_call and not delivers_own(world, cpu):
            entry_ns = _entry_ns(world, begin_ns - cpu.irq_free_ns)
            if cpu.idle and cpu.n_runnable == 0:
                saved_ns = min(entry_ns, world.costs.interrupt.idle_saved_ns)
                begin_ns = through_gaps_ns(world, cpu, begin_ns, saved_ns)
                entry_ns -= saved_ns
            cost_ns += entry_ns
            world.counts[count.INTERRUPTS] += 1
        cpu.irq_begin_ns = begin_ns
        cpu.n_at_once = 0
    elif by_itself:
        cost_ns += world.costs.interrupt.entry_ns
        world.counts[count.INTERRUPTS] += 1
    if cpu.idle:
        cpu.ledger_ns[activity.IDLE] += begin_ns - cpu.idle_from_ns
        cpu.idle_from_ns = begin_ns
    _steal(world, cpu, cost_ns)
    cpu.irq_free_ns = through_gaps_ns(world, cpu, begin_ns, cost_ns)
    world.waker = cpu.number
    return cpu.irq_free_ns


def _out_of_idleness_ns(world: World, cpu: Cpu) -> int:
    """Return when *cpu* begins to handle what interrupts it now: it may be idle."""
    from_ns = max(world.now_ns, cpu.gap_until_ns)
    if not cpu.idle:
        return from_ns
    if cpu.n_runnable > 0:
        left_ns = max(0, cpu.runnable_ns - from_ns)  # it is on its way out of idleness already
        return through_gaps_ns(world, cpu, from_ns, left_ns)
    return through_gaps_ns(world, cpu, from_ns, idle_exit_ns(world, from_ns - cpu.idle_from_ns))


def _entry_ns(world: World, since_ns: int) -> int:
    """Return the cost of entering an interrupt *since_ns* after the end of the last one."""
    entry_ns = world.costs.interrupt.entry_ns
    if world.entry_varies:
        entry_ns += curve_ns(world.costs.interrupt.entry_since, since_ns // MICROSECOND_NS)
    return entry_ns


def is_beside_clients(costs: Costs, network: NetworkSettings) -> bool:
    """Return whether clients interrupt the server from another CPU of its machine, at a cost."""
    call = costs.call
    paid_ns = call.delivery_ns + call.close_delivery_ns + costs.client.interrupt_ns
    return paid_ns > 0 and network.delay_ns == 0 and any(costs.client)


def delivers_own(world: World, cpu: Cpu) -> bool:
    """Return whether *cpu* handles its own packet to a client on its machine, within the call.

    That is a reply within a write, or a FIN or reset within a close. With the close of a connection
    that its client has reset, nothing is sent.
    """
    return world.delivers_own and not cpu.awaits_delivery and _is_in_delivery(world, cpu)


def _is_in_delivery(world: World, cpu: Cpu) -> bool:
    if not cpu.in_step:
        return False
    thread, call = thread_of(world, cpu.running), world.costs.call
    left_ns = cpu.step_ns - progress_ns(world, cpu)
    if thread.activity == activity.WRITE:
        has_any = call.delivery_ns > 0
        return has_any and call.delivery_after_ns <= left_ns <= call.delivery_ns
    if thread.activity != activity.CLOSE or not thread.tells_client:
        return False
    return call.close_delivery_after_ns <= left_ns < call.close_delivery_ns


def datagram_price_ns(world: World, cpu: Cpu) -> int:
    """Return the cost of a datagram in an interrupt of *cpu*, in addition to the entry, if any.

    Its entry may cost less than that of segments: then this is less, and may be negative.
    """
    costs = world.costs.interrupt
    if costs.datagram_entry_ns > 0 and not cpu.after_call and cpu.irq_free_ns < world.now_ns:
        return costs.datagram_ns + costs.datagram_entry_ns - costs.entry_ns
    return costs.datagram_ns


def way_ns(world: World) -> int:
    """Return the latency of the next interrupt, chosen by a hash."""
    draw = (flow_hash(world.counts[count.INTERRUPTS]) >> 8) % PERMILLE
    return curve_ns(world.costs.interrupt.way, draw)


def _steal(world: World, cpu: Cpu, cost_ns: int) -> None:
    """Charge an interrupt of *cost_ns* to the process on *cpu*, or to its idle time."""
    if cpu.idle:
        cpu.ledger_ns[activity.INTERRUPT_IDLE] += cost_ns
        cpu.idle_from_ns += cost_ns
    else:
        cpu.ledger_ns[_stolen_from(world, cpu)] += cost_ns
        cpu.stolen_ns += cost_ns


def _stolen_from(world: World, cpu: Cpu) -> int:
    return activity.INTERRUPT_OTHER if is_other(world, cpu.running) else activity.INTERRUPT


def lengthen_interrupt(world: World, cost_ns: int) -> None:
    """Lengthen the interrupt of the current packet by *cost_ns*, for the work that it causes."""
    cpu = world.cpus[world.waker]
    if cpu.irq_free_ns < world.now_ns:
        # It was a thread of the kernel that handled the packet: this begins now.
        cpu.irq_begin_ns = world.now_ns
        cpu.irq_free_ns = world.now_ns
    _steal(world, cpu, cost_ns)
    cpu.irq_free_ns = through_gaps_ns(world, cpu, cpu.irq_free_ns, cost_ns)


def seen_at_once(world: World, kind: int, c: int, handled_ns: int) -> bool:
    """Return whether a packet, handled at *handled_ns*, may have its effect on *c* now.

    If not, its effect is an occurrence of its own, with a subject that names kind and connection.
    """
    if len(world.cpus) == 1:
        return True
    schedule(world, handled_ns, occurrence.HANDLED, packet_of(c, kind))
    return False


def handled_connection(world: World, subject: int) -> int:
    """Return the connection of a handled packet; threads that it wakes are woken from its CPU."""
    c = packet_connection(subject)
    cpu = handled_by(world, packet_kind(subject), c)
    world.waker = cpu.number
    return c


def take_ledger(world: World, cpu: Cpu, into_ns: list[int]) -> None:
    """Write the ledger as of now into *into_ns*: all entries add up to the time elapsed.

    What was charged ahead (an interrupt or a gap not yet over, an idle exit) is taken back to now,
    and the running step or idleness is charged as far as it has come.
    """
    for i in range(len(into_ns)):
        into_ns[i] = cpu.ledger_ns[i]
    from_ns = max(world.now_ns, cpu.irq_begin_ns)
    unfinished_ns = max(0, cpu.irq_free_ns - from_ns)
    host_ns = 0
    if cpu.gap_until_ns > world.now_ns:
        host_ns = taken_after_ns(world, cpu, world.now_ns)
        into_ns[host_takes_from(world, cpu)] -= host_ns
        if unfinished_ns > 0:
            unfinished_ns -= taken_after_ns(world, cpu, from_ns)
    if cpu.idle:
        into_ns[activity.INTERRUPT_IDLE] -= unfinished_ns
        into_ns[activity.IDLE] += world.now_ns + unfinished_ns + host_ns - cpu.idle_from_ns
    else:
        into_ns[_stolen_from(world, cpu)] -= unfinished_ns
        into_ns[thread_of(world, cpu.running).activity] += progress_ns(world, cpu)
