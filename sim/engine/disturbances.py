"""Disturbances of a run: faults, with their start and end, and a flood.

- stall: a CPU only handles interrupts (garbage collection that stops the world, a page fault from
  disk, a hypervisor that runs another machine). Two stalls at once on one CPU count as one, to the
  later end.
- link: another bandwidth (a failover, a neighbour's transfer). The last fault in the scenario
  counts if there are several at once.
- signals: a process of the same user holds signals, so that the server's queue has room for fewer.
- reading: some clients do not read. There is no event at its start or end:
  sim/clients/slow_clients.py.
- flood: datagrams to a socket that no process reads. They cost the time to drop them, as in the
  classical experiments on livelock: useless packets beside a server or a process that needs the
  CPU. Bursts arrive at the CPU that handles packets.

Source of the flood: Mogul and Ramakrishnan 1997, section 6 (the packet source).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..cpu.interrupts import datagram_price_ns, handle_packet
from ..cpu.processor import stall_of
from ..cpu.receiving import datagram_must_wait
from ..cpu.scheduling import wake_other
from ..load.streams import generator
from ..state.event_calendar import schedule
from ..state.kinds import NO_CONNECTION, NONE, count, occurrence
from ..state.settings import FaultKind, FloodSettings
from ..state.world import Cpu, World


def plan_faults(world: World) -> None:
    """Have each fault of the run begin when it is due."""
    for i in range(len(world.fault_at_ns)):
        if world.fault_length_ns[i] > 0 and world.fault_kind[i] != FaultKind.READING:
            schedule(world, world.fault_at_ns[i], occurrence.FAULT, NO_CONNECTION - i)


def fault(world: World, i: int) -> None:
    """Have fault *i* begin, or be over: its second time."""
    kind, value = world.fault_kind[i], world.fault_value[i]
    begins = world.now_ns == world.fault_at_ns[i]
    if begins and kind != FaultKind.STALL:
        schedule(
            world, world.now_ns + world.fault_length_ns[i], occurrence.FAULT, NO_CONNECTION - i
        )
    if kind == FaultKind.STALL:
        _stall(world, world.cpus[value], world.now_ns + world.fault_length_ns[i])
    elif kind == FaultKind.LINK:
        _set_link(world)
    else:
        world.signals_elsewhere += value if begins else -value


def _set_link(world: World) -> None:
    """Give the link the bandwidth of the last of the faults that last, or its own."""
    world.up_bits_per_s = world.network.up_bits_per_s
    world.down_bits_per_s = world.network.down_bits_per_s
    for i in range(len(world.fault_kind)):
        lasts = (
            world.fault_at_ns[i] <= world.now_ns < world.fault_at_ns[i] + world.fault_length_ns[i]
        )
        if world.fault_kind[i] == FaultKind.LINK and lasts:
            world.up_bits_per_s = world.fault_value[i]
            world.down_bits_per_s = world.fault_value[i]


def _stall(world: World, cpu: Cpu, until_ns: int) -> None:
    cpu.stalled_until_ns = max(cpu.stalled_until_ns, until_ns)
    world.waker = NONE  # no CPU: an idle one has to leave its idleness for this
    thread = stall_of(world, cpu)
    if thread.blocked:
        wake_other(world, thread)


_DRAWS = 65_536
"""Gaps drawn for a flood, which begins with the first again after the last."""


def gaps_ns(flood: FloodSettings, seed: int) -> NDArray[np.int64]:
    """Return the times between two bursts of *flood*, drawn before the run; none without a flood.

    Raises
    ------
    ValueError
        If *seed* is negative.
    """
    if flood.gap_ns == 0:
        return np.zeros(0, np.int64)
    if not flood.is_poisson:
        return np.full(1, flood.gap_ns, np.int64)
    drawn = generator(seed, "flood").exponential(flood.gap_ns, _DRAWS)
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def begin_flood(world: World) -> None:
    """Have the first burst come, if there is a flood."""
    if world.flood.gap_ns > 0:
        _plan_burst(world, world.flood.from_ns + world.flood_gap_ns[0])


def _plan_burst(world: World, at_ns: int) -> None:
    if world.flood.until_ns == 0 or at_ns < world.flood.until_ns:
        schedule(world, at_ns, occurrence.DATAGRAM, NO_CONNECTION)


def burst_arrives(world: World) -> None:
    """Let a burst reach the CPU that handles packets, and plan the next one."""
    flood = world.flood
    cpu = world.cpus[max(0, world.machine.interrupt_cpu)]
    for _ in range(flood.burst):
        if not datagram_must_wait(world, cpu):
            handle_packet(world, cpu, datagram_price_ns(world, cpu))
            world.counts[count.DATAGRAMS] += 1
    world.next_gap = (world.next_gap + 1) % len(world.flood_gap_ns)
    _plan_burst(world, world.now_ns + world.flood_gap_ns[world.next_gap])
