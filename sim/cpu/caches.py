"""What a packet or a call takes more if the caches have lost its code and data.

    path runs ── path runs again                 the caches still have it
    path runs ── others run ── path runs again   more(0) longer
    path runs ── the CPU is idle for t, in one piece or in many ── path runs again   more(t) longer

While a CPU of a guest is idle, the host has its core, and other guests may have it. Time in which
the CPU computes, without packets or calls, hardly matters.
Source: calibration/c/micro/paced.c; it is no rule of the kernel.
"""

from __future__ import annotations

from ..state.costs import Curve, curve_ns
from ..state.kinds import activity
from ..state.units import MICROSECOND_NS
from ..state.world import Cpu, World


def cooled_ns(world: World, cpu: Cpu, number: int, more: Curve) -> int:
    """Return what the path of that *number* takes more on *cpu* now; it is warm afterwards."""
    if not world.caches_cool:
        return 0
    idle_ns = cpu.ledger_ns[activity.IDLE]
    if cpu.idle:
        idle_ns += max(0, world.now_ns - cpu.idle_from_ns)
    since_ns = max(0, idle_ns - cpu.warm_ns[number])
    follows_itself = cpu.last_path == number and since_ns < MICROSECOND_NS
    cpu.warm_ns[number] = idle_ns
    cpu.last_path = number
    return 0 if follows_itself else curve_ns(more, since_ns // MICROSECOND_NS)
