"""Gaps of the host on the server's CPUs: neither threads nor interrupts run.

    softirq      ▇▇▇▇│      host      │▇▇▇▇▇      what it cuts goes on behind it
    packet                ▲            └ handled behind it, in an interrupt of its own

Two ways lead to a gap. What is at hand for an interrupt is laid out ahead, so that its gaps are
taken as it is (`through_gaps_ns`). All other gaps are occurrences (`gap`), which lengthen the step
or the idleness that they cut. Each gap is taken once, in order of time.

What a gap takes is charged as an interrupt is: to HOST where it is taken from a thread of the
server, else to HOST_OTHER. Linux bills the first to the process.
Timers of the kernel that send a packet by themselves (a SYN-ACK again) are not delayed.
"""

from __future__ import annotations

from ..state.event_calendar import schedule
from ..state.kinds import NO_CONNECTION, activity, occurrence
from ..state.world import Cpu, World
from .processor import is_other


def plan_gaps(world: World) -> None:
    """Schedule the first gap of each CPU, if there are any."""
    if world.n_server_gaps > 0:
        for k in range(len(world.cpus)):
            _plan_next(world, world.cpus[k])


def gap(world: World, cpu: Cpu) -> None:
    """Let the host take *cpu* now, unless an interrupt has had this gap; plan the next one."""
    if next_gap_ns(world, cpu) == world.now_ns:
        if cpu.idle:
            cpu.ledger_ns[activity.IDLE] += world.now_ns - cpu.idle_from_ns
            cpu.idle_from_ns = world.now_ns
        length_ns = _take_gap(world, cpu)
        if cpu.idle and cpu.n_runnable > 0 and cpu.runnable_ns > world.now_ns:
            cpu.runnable_ns += length_ns  # it was on its way out of idleness
    _plan_next(world, cpu)


def _plan_next(world: World, cpu: Cpu) -> None:
    schedule(world, next_gap_ns(world, cpu), occurrence.GAP, NO_CONNECTION - cpu.number)


def next_gap_ns(world: World, cpu: Cpu) -> int:
    """Return when the next gap of *cpu* begins that has not been taken."""
    return world.server_gap_at_ns[cpu.next_gap] + cpu.gap_shift_ns


def through_gaps_ns(world: World, cpu: Cpu, begin_ns: int, work_ns: int) -> int:
    """Return when an interrupt ends that begins at *begin_ns*; the gaps until then are taken."""
    end_ns = begin_ns + work_ns
    if world.n_server_gaps > 0:
        while next_gap_ns(world, cpu) < end_ns:
            end_ns += _take_gap(world, cpu)
    return end_ns


def taken_after_ns(world: World, cpu: Cpu, from_ns: int) -> int:
    """Return the total length of gaps taken from *from_ns* on."""
    sum_ns = 0
    i, shift_ns = cpu.next_gap, cpu.gap_shift_ns
    for _ in range(cpu.n_gaps):
        i -= 1
        if i < 0:
            i = world.n_server_gaps - 1
            shift_ns -= world.server_gap_period_ns
        begin_ns = world.server_gap_at_ns[i] + shift_ns
        end_ns = begin_ns + world.server_gap_length_ns[i]
        if end_ns <= from_ns:
            break
        sum_ns += end_ns - max(begin_ns, from_ns)
    return sum_ns


def host_takes_from(world: World, cpu: Cpu) -> int:
    """Return the activity to which a gap of *cpu* is charged now."""
    if cpu.idle or is_other(world, cpu.running):
        return activity.HOST_OTHER
    return activity.HOST


def _take_gap(world: World, cpu: Cpu) -> int:
    """Have the next gap of *cpu* be taken, and charged; return its length."""
    length_ns = world.server_gap_length_ns[cpu.next_gap]
    cpu.gap_until_ns = next_gap_ns(world, cpu) + length_ns
    cpu.ledger_ns[host_takes_from(world, cpu)] += length_ns
    if cpu.idle:
        cpu.idle_from_ns += length_ns
    else:
        cpu.stolen_ns += length_ns
    cpu.n_gaps += 1
    cpu.next_gap += 1
    if cpu.next_gap == world.n_server_gaps:
        cpu.next_gap = 0
        cpu.gap_shift_ns += world.server_gap_period_ns
    return length_ns
