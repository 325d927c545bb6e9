"""select: the server passes bitmaps, the kernel checks every descriptor in them.

            bitmaps             scan all n              bitmaps
    server ─────────► kernel ───────────────► sleep? ───────────► server checks every bit

Level-triggered, no memory between calls. The listener is the lowest descriptor, so it comes first.
Sources: select(2); Linux fs/select.c core_sys_select(), do_select(); Chandra and Mosberger 2001,
§2 (bitmap copies); FD_SETSIZE bounds the descriptors of a stock program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...sim.state.columns import I32, Per, per_run
from ...sim.state.costs import Curve, curve_ns, flat
from ...sim.state.mechanism import kept
from ...sim.state.world import InterestSet, World
from ..entry import CSupport, entry
from .scan import ProgramSet, Scan, scanning


class SelectCosts(NamedTuple):
    """CPU time of select: call, bitmaps by highest descriptor ever open, the rest by count.

    rebuild is the server's own time to set the bits again before each call, read_back its time to
    reach a bit that the call returned, by the descriptors before it.
    """

    call_ns: int
    bitmap: Curve
    scan: Curve
    register: Curve
    event_ns: int
    release: Curve = flat(0)
    look: Curve = flat(0)
    rebuild: Curve = flat(0)
    read_back: Curve = flat(0)


@dataclass(slots=True, eq=False, kw_only=True)
class Bitmaps:
    """The program's bitmaps, as the number of bits below each descriptor."""

    tree: list[int] = per_run(Per.END, 0, I32)  # a Fenwick tree over watched descriptors
    scan: Scan


def set_bit(interests: InterestSet, fd: int) -> None:
    """Set the bit of *fd*."""
    rank_add(interests.own.tree, fd, 1)


def clear_bit(interests: InterestSet, fd: int) -> None:
    """Clear the bit of *fd*."""
    rank_add(interests.own.tree, fd, -1)


def set_bits(interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Set the bits of a range."""
    rank_fill(interests.own.tree, first_fd, end_fd)


def itself(interests: InterestSet, fd: int) -> int:
    """Return *fd*: the scan is in the order of the descriptors."""
    return fd


def n_before(interests: InterestSet, fd: int) -> int:
    """Return how many watched descriptors the scan checks before *fd*."""
    bitmaps: Bitmaps = interests.own
    return rank_below(bitmaps.tree, fd)


def call_ns(world: World) -> int:
    """Return the CPU time of a call besides its scan: bitmaps up to the highest descriptor."""
    costs = world.costs.mechanism
    cost_ns: int = costs.call_ns + curve_ns(costs.bitmap, world.next_fd)
    return cost_ns


SELECT = scanning(
    "select",
    ProgramSet(kept(Bitmaps), set_bit, clear_bit, set_bits, itself, itself, n_before, call_ns),
)._replace(watch_memory="select_bytes")

ENTRIES = (
    entry(
        __name__,
        SELECT,
        SelectCosts,
        "select(2); Chandra and Mosberger 2001, §2",
        wait_call="select",
        c_support=CSupport.LINUX,
        client="client_loop",
        words={"bitmap": "copying the bitmaps, by the highest descriptor ever open"},
    ),
)


def rank_add(tree: list[int], fd: int, change: int) -> None:
    """Add *change* (1: now watched, -1: no longer) at *fd*."""
    i = fd + 1
    while i < len(tree):
        tree[i] += change
        i += i & -i


def rank_below(tree: list[int], fd: int) -> int:
    """Return how many watched descriptors are lower than *fd*."""
    n = 0
    i = fd
    while i > 0:
        n += tree[i]
        i -= i & -i
    return n


def rank_fill(tree: list[int], first_fd: int, end_fd: int) -> None:
    """Watch all descriptors from *first_fd* up to *end_fd*, exclusive, in one pass."""
    for i in range(1, len(tree)):
        # Entry i covers the descriptors i - (i & -i) .. i - 1.
        tree[i] += max(0, min(i, end_fd) - max(i - (i & -i), first_fd))
