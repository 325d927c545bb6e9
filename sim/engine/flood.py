"""A flood: datagrams to a socket that nobody reads: they cost the kernel what dropping them takes.

They are the load of the classical experiments on livelock: packets whose work is in vain, beside a
server or a process that wants the CPU. Bursts arrive at the CPU that handles packets.

Source: Mogul and Ramakrishnan 1997, section 6 (the packet source).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..cpu.interrupts import datagram_price_ns, interrupt_cpu
from ..cpu.receiving import NO_CONNECTION, datagram_must_wait
from ..load.streams import generator
from ..state import count, occurrence
from ..state.event_calendar import schedule
from ..state.settings import FloodSettings
from ..state.world import World

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
    cpu = world.cpus[max(0, world.server.interrupt_cpu)]
    for _ in range(flood.burst):
        if not datagram_must_wait(world, cpu):
            interrupt_cpu(world, cpu, datagram_price_ns(world, cpu), False)
            world.counts[count.PACKETS] += 1
            world.counts[count.DATAGRAMS] += 1
    world.next_gap = (world.next_gap + 1) % len(world.flood_gap_ns)
    _plan_burst(world, world.now_ns + world.flood_gap_ns[world.next_gap])
