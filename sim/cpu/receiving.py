"""Packets that wait: who handles them when an interrupt does not, and which are lost.

    softirq     interrupt ─► packet, packet ... budget ─► queue ─► ksoftirqd, a thread among others
                (a device may wait for packets that come together)
    interrupts  interrupt for each ─► queue ─► softirq: below interrupts, above all processes
    polling     interrupt ─► ring ─► polls: above all processes, for a share of each tick
                                 full: lost, and whoever sent it does so again

The first is Linux, where the budget is what one softirq handles before its thread takes over, and
has all packets until none is left; since about 6.5 an interrupt in between would handle some of
them again, which is left out (tests/validation/overload/flood_timeline.py has it). In
the second, the kernel of 4.2BSD, interrupts take precedence over work on what they have brought:
when packets come as fast as they can interrupt nothing else is ever done, and all are lost after
having been paid for (receive livelock). The third is its cure: what finds the ring full costs
nothing, and processes have their share.

Sources: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel",
sections 4 to 7; Linux kernel/softirq.c __do_softirq(), run_ksoftirqd(); net/core/dev.c
enqueue_to_backlog() (netdev_max_backlog).
"""

from __future__ import annotations

from ..clients.clients import sent_interrupt
from ..state.event_calendar import schedule
from ..state.kernel_settings import Packets
from ..state.kinds import NONE, count, occurrence, packet_of
from ..state.units import PERMILLE
from ..state.world import Cpu, Worker, World
from ..wire.retransmission import sent_again
from .interrupts import delivers_own, interrupt_cpu, steered_to, way_ns
from .processor import packet_thread
from .scheduling import wake_other

NO_CONNECTION = -2
"""The greatest subject of an occurrence that is about no connection; CPU k has this less k."""


def must_wait(world: World, kind: int, c: int) -> bool:
    """Return whether a packet of *c* is left to somebody else than the interrupt, or is lost.

    Its effect is an occurrence of its own then, when it has been handled.
    """
    return world.leaves_packets and _is_left(world, steered_to(world, c), kind, c)


def datagram_must_wait(world: World, cpu: Cpu) -> bool:
    """Return the same of a datagram that arrives at *cpu*."""
    return world.leaves_packets and _is_left(world, cpu, occurrence.DATAGRAM, 0)


def _is_left(world: World, cpu: Cpu, kind: int, c: int) -> bool:
    thread = packet_thread(world, cpu)
    comes_later = False
    if world.kernel.packets == Packets.SOFTIRQ and thread.blocked:
        comes_later = _is_delivered_later(world, cpu)
        if not comes_later and may_be_handled_at_once(world, cpu):
            return False
    room = world.kernel.receive_queue
    if _interrupts_in_time(world, cpu, thread) and cpu.n_packets < room:
        place = (cpu.first_packet + cpu.n_packets) & (len(cpu.packets) - 1)
        cpu.packets[place] = packet_of(c, kind)
        cpu.n_packets += 1
        world.counts[count.DEFERRED] += 0 if comes_later else 1
        if not comes_later and thread.blocked and not _waits_for_tick(world, cpu):
            wake_other(world, thread)
        return True
    world.counts[count.PACKET_DROPS] += 1
    if kind != occurrence.DATAGRAM:
        sent_again(world, kind, c)
    return True


def may_be_handled_at_once(world: World, cpu: Cpu) -> bool:
    """Return whether the softirq on *cpu* handles one more packet, which is counted then."""
    budget = world.kernel.softirq_budget
    if cpu.irq_free_ns < world.now_ns:
        cpu.n_at_once = 0
    if budget > 0 and cpu.n_at_once >= budget:
        return False
    cpu.n_at_once += 1
    return True


def _is_delivered_later(world: World, cpu: Cpu) -> bool:
    """Return whether a packet waits for others before the device interrupts; plan that it does."""
    if cpu.irq_free_ns >= world.now_ns:
        return False
    if not cpu.awaits_delivery:
        later_ns = world.kernel.coalesce_ns + way_ns(world)
        if later_ns == 0 or delivers_own(world, cpu):
            return False
        cpu.awaits_delivery = True
        schedule(world, world.now_ns + later_ns, occurrence.DELIVERY, NO_CONNECTION - cpu.number)
        sent_interrupt(world)
    return True


def _interrupts_in_time(world: World, cpu: Cpu, thread: Worker) -> bool:
    """Let a packet interrupt *cpu*, if it does; return whether the device had room until then."""
    packets = world.kernel.packets
    if packets == Packets.INTERRUPTS or (
        packets == Packets.POLLING and thread.blocked and cpu.n_packets == 0
    ):
        ahead_ns = cpu.irq_free_ns - world.now_ns
        if ahead_ns > world.kernel.receive_queue * world.costs.interrupt.entry_ns:
            return False
        interrupt_cpu(world, cpu, 0, packets == Packets.INTERRUPTS)
    return True


def take_packet(world: World, cpu: Cpu) -> int:
    """Return the packet that *cpu* handles next, now taken from the queue; NONE: none for now."""
    if cpu.n_packets == 0:
        return NONE
    if _waits_for_tick(world, cpu):
        return NONE
    packet = cpu.packets[cpu.first_packet]
    cpu.first_packet = (cpu.first_packet + 1) & (len(cpu.packets) - 1)
    cpu.n_packets -= 1
    return packet


def _waits_for_tick(world: World, cpu: Cpu) -> bool:
    """Return whether packets had their share of *cpu* in this tick; if so, the next is awaited."""
    kernel = world.kernel
    if kernel.packets != Packets.POLLING:
        return False
    tick = world.now_ns // kernel.polling_tick_ns
    if tick != cpu.tick:
        cpu.tick = tick
        cpu.polled_ns = 0
    if cpu.polled_ns * PERMILLE < kernel.polling_share_permille * kernel.polling_tick_ns:
        return False
    if not cpu.awaits_tick:
        cpu.awaits_tick = True
        schedule(
            world, (tick + 1) * kernel.polling_tick_ns, occurrence.TICK, NO_CONNECTION - cpu.number
        )
    return True


def tick(world: World, cpu: Cpu) -> None:
    """Have *cpu* poll for packets again."""
    cpu.awaits_tick = False
    world.waker = NONE  # the clock wakes it, if it is asleep
    thread = packet_thread(world, cpu)
    if thread.blocked and cpu.n_packets > 0:
        wake_other(world, thread)
