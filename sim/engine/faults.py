"""What goes wrong during a run, and when it is over: a stall, a slow link, signals, readers.

- stall: a CPU does nothing but handle interrupts (a collector of garbage that stops the world, a
  page that has to come from the disk, a hypervisor that runs somebody else). Two at once on one CPU
  are one, to the end of the later.
- link: another bandwidth (a path that fails over, a neighbour's transfer). Of several at once the
  last of the scenario counts.
- signals: a process of the same user holds signals, so that fewer are left to the server's queue.
- reading: some clients do not read. Nothing happens when that begins or ends: sim/reading.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cpu.processor import stall_of
from ..cpu.receiving import NO_CONNECTION
from ..cpu.scheduling import wake_other
from ..state import occurrence
from ..state.event_calendar import schedule
from ..state.kinds import NONE
from ..state.settings import FaultKind
from ..state.threads import Cpu

if TYPE_CHECKING:
    from ..state.world import World


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
