"""What threads do that are none of the server program: handle packets, stall, compute.

An engine asks `resumes` who goes on when a CPU has ended what it did; programs it runs itself.
"""

from __future__ import annotations

from ..cpu.interrupts import datagram_price_ns, handle_packet
from ..cpu.processor import is_on_cpu, is_other, packet_thread, thread_of
from ..cpu.receiving import (
    ends_round,
    is_beside_thread,
    leave_to_thread,
    may_be_handled_at_once,
    take_packet,
)
from ..cpu.scheduling import begin_step, block, boot, clock_ticks, comes_back
from ..state.event_calendar import schedule
from ..state.kinds import (
    NO_CONNECTION,
    NONE,
    SLEEP,
    activity,
    count,
    occurrence,
    packet_connection,
    packet_kind,
)
from ..state.world import Cpu, World
from ..tcp.arriving import price_ns

_TOGETHER = 16
"""Packets handled in one go by the simulator: no occurrence has more than a few consequences."""


def begin_others(world: World) -> None:
    """Have busy processes run from the beginning, behind workers; all other threads sleep."""
    for i in range(len(world.others)):
        if i < 2 * len(world.cpus):
            world.others[i].blocked = True
        else:
            world.n_others += 1
            boot(world, world.others[i])


def start_other_cpus(world: World) -> None:
    """Have processes that compute begin on the CPUs that are not the only worker's."""
    for i in range(1, len(world.cpus)):
        if world.cpus[i].running != NONE:
            _resumes(world, world.cpus[i])


def resumes(world: World, cpu: Cpu) -> bool:
    """Return whether the program of `cpu.running` has to yield its next step.

    Until then other threads run, and programs that had to leave the CPU in a step.
    """
    if not is_other(world, cpu.running) and is_on_cpu(world.workers[cpu.running]):
        if cpu.n_packets > 0:
            _call_is_over(world, cpu)
        return True
    return _resumes(world, cpu)


def _call_is_over(world: World, cpu: Cpu) -> None:
    """Let a call on a socket that has ended on *cpu* handle the packets that wait for a thread.

    The call has disabled softirqs, and checks for pending ones when it enables them. Linux does so
    several times in a call, also at its start; the model does at its end. If the thread is to leave
    its CPU, the packets are left to the threads that follow. Source: Linux kernel/softirq.c
    __local_bh_enable_ip(), do_softirq().
    """
    ended = world.workers[cpu.running].activity
    is_call = ended in (activity.READ, activity.WRITE, activity.ACCEPT, activity.CLOSE)
    may = is_call and not cpu.leaves and not cpu.beside
    if may and is_beside_thread(world, cpu):
        cpu.beside = cpu.after_call = True
        _deliver_next(world, cpu)


def _resumes(world: World, cpu: Cpu) -> bool:
    goes_on = True
    while goes_on:
        step_ns = comes_back(world, cpu)
        if step_ns == NONE:
            if not is_other(world, cpu.running):
                return True
            step_ns = _step_ns(world, cpu)
        goes_on = block(world, cpu) if step_ns == SLEEP else begin_step(world, cpu, step_ns)
    return False


def _step_ns(world: World, cpu: Cpu) -> int:
    """Return the next step of the thread on *cpu*, which is no program's; SLEEP blocks it."""
    thread = thread_of(world, cpu.running)
    i = cpu.running - len(world.workers)
    n_cpus = len(world.cpus)
    if i < n_cpus:
        thread.activity = activity.KSOFTIRQD
        return _packet_step_ns(world, cpu)
    thread.activity = activity.OTHER
    if i >= 2 * n_cpus:
        return world.kernel.tick_ns  # it is cut where another thread has its turn
    left_ns = cpu.stalled_until_ns - world.now_ns
    return left_ns if left_ns > 0 else SLEEP


def _packet_step_ns(world: World, cpu: Cpu) -> int:
    """Let the packet in hand have its effect; return what the next one takes, or SLEEP.

    Between two rounds the thread may have to leave its CPU: then no packet is in its hand.
    """
    packet = cpu.in_hand
    if packet != NONE and packet_kind(packet) == occurrence.DATAGRAM:
        world.counts[count.DATAGRAMS] += 1
    elif packet != NONE:
        schedule(world, world.now_ns, occurrence.HANDLED, packet)
        cpu.in_hand = NONE
        return 0  # the effect comes first: it may bring another packet
    cpu.in_hand = NONE
    ends_round(cpu)
    if cpu.leaves and cpu.n_in_round == 0:
        return 0
    packet = take_packet(world, cpu)
    cpu.in_hand = packet
    if packet == NONE:
        cpu.n_in_round = 0
        cpu.asks_after = world.asks_after
        return SLEEP
    cpu.n_in_round += 1
    cost_ns = price_ns(world, packet_kind(packet), packet_connection(packet))
    cpu.polled_ns += cost_ns
    return cost_ns


def tick_of_turns(world: World, cpu: Cpu) -> None:
    """Let the clock interrupt *cpu*: a turn may be over, and packets wait for their thread.

    Where a turn is over there is one round of them, whichever thread has the next turn.
    """
    clock_ticks(world, cpu)
    if cpu.n_packets > 0 and is_beside_thread(world, cpu):
        cpu.beside = True
        _deliver_next(world, cpu)
    else:
        cpu.turn_over = False


def _deliver_next(world: World, cpu: Cpu) -> None:
    """Have *cpu* handle packets next, still at the present time."""
    schedule(world, world.now_ns, occurrence.DELIVERY, NO_CONNECTION - cpu.number)


def deliver(world: World, cpu: Cpu) -> None:
    """Let *cpu* handle all packets that have come together, or that wait for a thread.

    What is beyond the bounds of a softirq is left to its thread.
    """
    thread = packet_thread(world, cpu)
    if cpu.after_call and not is_beside_thread(world, cpu):
        cpu.beside = cpu.after_call = False  # the thread has its turn already
        return
    n_delivered = 0
    while cpu.n_packets > 0 and (thread.blocked or cpu.beside):
        if n_delivered == _TOGETHER:
            _deliver_next(world, cpu)
            return
        n_delivered += 1
        if not may_be_handled_at_once(world, cpu):
            if thread.blocked:
                leave_to_thread(world, cpu)
            break
        _handle(world, cpu, take_packet(world, cpu))
    cpu.awaits_delivery = cpu.awaits_delivery and cpu.beside
    cpu.beside = cpu.turn_over = cpu.after_call = False


def _handle(world: World, cpu: Cpu, packet: int) -> None:
    """Handle *packet* in the interrupt of *cpu*; it has its effect when it has been handled."""
    kind = packet_kind(packet)
    if kind == occurrence.DATAGRAM:
        handle_packet(world, cpu, datagram_price_ns(world, cpu))
        world.counts[count.DATAGRAMS] += 1
    else:
        cost_ns = price_ns(world, kind, packet_connection(packet))
        schedule(world, handle_packet(world, cpu, cost_ns), occurrence.HANDLED, packet)
