"""What a packet or a call takes more if the caches have lost its code and data.

    path runs ── path runs again                 the caches still have it
    path runs ── others run ── path runs again   more(0) longer
    path runs ── the CPU is idle for t, in one piece or in many ── path runs again   more(t) longer

A path is the kernel's code for one kind of packet or call. While a CPU of a guest is idle, the host
has its core, and other guests may have it. Time in which the CPU computes without packets or calls
hardly matters, except to a SYN, which has lost most of its first step after 20 us of either.
Source: measured, calibration/c/micro/paced.c and handshake.c; it is no rule of the kernel.
"""

from __future__ import annotations

from ..state.costs import Curve, curve_ns
from ..state.kinds import activity
from ..state.units import MICROSECOND_NS
from ..state.world import Cpu, World


def cooled_ns(world: World, cpu: Cpu, path: int, more: Curve) -> int:
    """Return what *path* takes more on *cpu* now; it is warm afterwards.

    It is called once for each packet or call, when its cost is known to be paid.
    """
    if not world.caches_cool:
        return 0
    idle_ns = cpu.ledger_ns[activity.IDLE]
    if cpu.idle:
        idle_ns += max(0, world.now_ns - cpu.idle_from_ns)
    since_ns = max(0, idle_ns - cpu.idle_at_last_ns[path])
    # Leaving idleness for a softirq is noted as idle after its first packet: not for the second.
    in_softirq = cpu.irq_free_ns >= world.now_ns
    follows_itself = cpu.last_path == path and (in_softirq or since_ns < MICROSECOND_NS)
    cpu.idle_at_last_ns[path] = idle_ns
    cpu.last_path = path
    return 0 if follows_itself else curve_ns(more, since_ns // MICROSECOND_NS)
