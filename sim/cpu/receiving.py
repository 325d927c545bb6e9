"""Waiting packets: the thread that handles them when an interrupt does not, and losses.

    softirq     interrupt ─► packet, packet ... budget ─► queue ─► ksoftirqd, a thread among others
                (a device may wait for packets that come together)
    interrupts  interrupt for each ─► queue ─► softirq: below interrupts, above all processes
    polling     interrupt ─► ring ─► polls: above all processes, for a share of each tick
                                 full: lost, and its sender repeats it

The first is Linux. A softirq handles packets in rounds of 64. It ends after a round if its budget
is used up (ten rounds), if two milliseconds are over in ticks (one tick of 4 ms, however early it
comes), or if a thread is to run. Then it wakes ksoftirqd, which gets every packet, round by round,
until its queue is empty. Since Linux 6.5 packets are also handled while that thread waits for the
CPU. A packet does not interrupt, as the queue is scheduled already. Each tick has them handled, and
so does the end of each call on a socket, which has disabled softirqs. Left out: other calls that
disable softirqs, what beginning such a softirq costs without an interrupt, and netdev_budget: with
one queue on a CPU a round of 64 ends before its 300 packets and its 8 ms. In the second, the kernel
of 4.2BSD, interrupts take precedence over the work on their packets. At the highest interrupt rate
no other work is done, and all packets are dropped after their cost (receive livelock). The third
prevents this: a packet that finds the ring full costs nothing, and processes have their share.

Sources: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel",
sections 4 to 7; Linux kernel/softirq.c handle_softirqs(), invoke_softirq(), run_ksoftirqd();
net/core/dev.c net_rx_action(), process_backlog(), enqueue_to_backlog() (netdev_max_backlog).
"""

from __future__ import annotations

from ..clients.backend import reply_sent_again
from ..clients.clients import sent_interrupt
from ..state.costs import Costs
from ..state.event_calendar import schedule
from ..state.kernel_settings import KernelSettings, Packets
from ..state.kinds import NO_CONNECTION, NONE, count, occurrence, packet_of
from ..state.units import MILLISECOND_NS, PERMILLE
from ..state.world import Cpu, Worker, World
from ..wire.retransmission import sent_again
from .interrupts import delivers_own, handled_by, interrupt_cpu, way_ns
from .processor import packet_thread
from .scheduling import wake_other

_ROUND = 64
"""Packets in a round: net.core.dev_weight."""
_SOFTIRQ_NS = 2 * MILLISECOND_NS
"""Time limit of a softirq: MAX_SOFTIRQ_TIME."""


def comes_late(kernel: KernelSettings, costs: Costs) -> bool:
    """Return whether a device waits before it interrupts, or its interrupt is on its way."""
    return kernel.coalesce_ns > 0 or any(costs.interrupt.way.ns)


def asks_after(kernel: KernelSettings, costs: Costs) -> int:
    """Return the number of packets that a softirq handles before it checks its limits.

    It is 0 where packets arrive with a delay, or where no softirq handles them.
    """
    if kernel.packets != Packets.SOFTIRQ or comes_late(kernel, costs):
        return 0
    return min(_ROUND, kernel.softirq_budget) if kernel.softirq_budget > 0 else _ROUND


def must_wait(world: World, kind: int, c: int) -> bool:
    """Return whether a packet of *c* is left to a thread by the interrupt, or is lost.

    Its effect is an occurrence of its own then, when it has been handled.
    """
    cpu = handled_by(world, kind, c)
    return _is_asked(cpu) and _is_left(world, cpu, kind, c)


def datagram_must_wait(world: World, cpu: Cpu) -> bool:
    """Return the same of a datagram that arrives at *cpu*."""
    return _is_asked(cpu) and _is_left(world, cpu, occurrence.DATAGRAM, 0)


def _is_asked(cpu: Cpu) -> bool:
    """Return whether a packet that arrives at *cpu* now may have to wait.

    Until a round is over, the next packet is handled, whether the softirq still goes on or not.
    """
    return cpu.n_at_once >= cpu.asks_after


def _is_left(world: World, cpu: Cpu, kind: int, c: int) -> bool:
    thread = packet_thread(world, cpu)
    comes_later = False
    if world.kernel.packets == Packets.SOFTIRQ and thread.blocked:
        comes_later = world.comes_late and _is_delivered_later(world, cpu)
        if not comes_later and may_be_handled_at_once(world, cpu):
            return False
    room = world.kernel.receive_queue
    if _interrupts_in_time(world, cpu, thread) and cpu.n_packets < room:
        place = (cpu.first_packet + cpu.n_packets) & (len(cpu.packets) - 1)
        cpu.packets[place] = packet_of(c, kind)
        cpu.n_packets += 1
        world.counts[count.DEFERRED] += 0 if comes_later else 1
        if not comes_later and thread.blocked and not _waits_for_tick(world, cpu):
            leave_to_thread(world, cpu)
        return True
    world.counts[count.PACKET_DROPS] += 1
    if kind == occurrence.BACKEND_REPLY:
        reply_sent_again(world, c)
    elif kind != occurrence.DATAGRAM:
        sent_again(world, kind, c)
    return True


def may_be_handled_at_once(world: World, cpu: Cpu) -> bool:
    """Return whether the softirq on *cpu*, or one that begins now, handles another packet."""
    budget = world.kernel.softirq_budget
    if budget == 0 or cpu.n_at_once == 0 or cpu.irq_free_ns < world.now_ns:
        return True
    if cpu.n_at_once >= budget:
        return False
    return cpu.n_at_once % _ROUND != 0 or not _gives_up(world, cpu)


def _gives_up(world: World, cpu: Cpu) -> bool:
    """Return whether the softirq on *cpu* ends after a round: a thread is to run, or it is late."""
    if cpu.leaves or cpu.turn_over or (cpu.idle and cpu.n_runnable > 0):
        return True
    tick_ns = world.kernel.tick_ns
    n_ticks = cpu.irq_free_ns // tick_ns - cpu.irq_begin_ns // tick_ns
    return n_ticks * tick_ns >= _SOFTIRQ_NS


def leave_to_thread(world: World, cpu: Cpu) -> None:
    """Have the thread for packets on *cpu*, which is blocked, handle those that wait and come."""
    cpu.asks_after = 0
    wake_other(world, packet_thread(world, cpu))


def ends_round(cpu: Cpu) -> None:
    """Have the thread for packets on *cpu* begin another round, if that was one."""
    if cpu.n_in_round == _ROUND:
        cpu.n_in_round = 0


def is_beside_thread(world: World, cpu: Cpu) -> bool:
    """Return whether softirqs handle packets on *cpu* while their thread waits for the CPU."""
    thread = packet_thread(world, cpu)
    waits = not thread.blocked and cpu.running != thread.number
    return waits and world.kernel.interrupts_beside and world.kernel.packets == Packets.SOFTIRQ


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
    if packet_thread(world, cpu).blocked and cpu.n_packets > 0:
        leave_to_thread(world, cpu)
