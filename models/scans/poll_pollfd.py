"""poll: the server passes an array of descriptors, the kernel checks every one.

            pollfd[n]           scan all n              pollfd[n]
    server ─────────► kernel ───────────────► sleep? ───────────► server checks all revents

Level-triggered, without memory between calls. The array stays dense: the last entry moves to the
slot of a removed descriptor. The listener is watched first, so it stays in slot 0. A server that
rebuilds its array before each call (thttpd) has the same entries, and spends CPU time on each.
Sources: poll(2); Linux fs/select.c do_sys_poll(), do_poll(); Gammo et al. 2004, §2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...sim.state.columns import I32, fill_range, per_descriptor
from ...sim.state.costs import Curve, flat
from ...sim.state.kinds import NONE
from ...sim.state.mechanism import kept
from ...sim.state.world import InterestSet, World
from ..entry import CSupport, entry
from .scan import ProgramSet, Scan, scanning


class PollCosts(NamedTuple):
    """CPU time of poll: the call, the scan (with its pollfd copies), by n on and off the queues.

    rebuild is the server's own time to rebuild the array before each call. read_back is its time to
    reach the last event that the call returned, by the entries before it. Where it was not
    measured, release has it, for the entries before the first event.
    """

    call_ns: int
    scan: Curve
    register: Curve
    event_ns: int
    release: Curve = flat(0)
    look: Curve = flat(0)
    rebuild: Curve = flat(0)
    read_back: Curve = flat(0)


@dataclass(slots=True, eq=False, kw_only=True)
class PollArray:
    """The program's array, and where each descriptor is in it."""

    slots: list[int] = per_descriptor(0, I32)  # slot -> fd
    slot_of: list[int] = per_descriptor(0, I32)  # fd -> slot
    scan: Scan


def append(interests: InterestSet, fd: int) -> None:
    """Have *fd* as the last entry."""
    slot = interests.n_watched - 1
    interests.own.slots[slot] = fd
    interests.own.slot_of[fd] = slot


def fill_slot(interests: InterestSet, fd: int) -> None:
    """Fill the slot of *fd* with the last entry."""
    slot = interests.own.slot_of[fd]
    last = interests.own.slots[interests.n_watched]
    interests.own.slots[slot] = last
    interests.own.slot_of[last] = slot
    interests.own.slot_of[fd] = NONE


def fill_slots(interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors as the last entries."""
    first_slot = interests.n_watched - (end_fd - first_fd)
    fill_range(interests.own.slots, first_slot, interests.n_watched, first_fd)
    fill_range(interests.own.slot_of, first_fd, end_fd, first_slot)


def slot_of(interests: InterestSet, fd: int) -> int:
    """Return the slot of *fd*."""
    array: PollArray = interests.own
    return array.slot_of[fd]


def fd_at(interests: InterestSet, slot: int) -> int:
    """Return the descriptor in *slot*."""
    array: PollArray = interests.own
    return array.slots[slot]


def n_before(interests: InterestSet, slot: int) -> int:
    """Return how many entries the scan checks before that of *slot*."""
    return slot


def call_ns(world: World) -> int:
    """Return the CPU time of a call besides its scan, which copies the array, too."""
    cost_ns: int = world.costs.mechanism.call_ns
    return cost_ns


POLL = scanning(
    "poll",
    ProgramSet(kept(PollArray), append, fill_slot, fill_slots, slot_of, fd_at, n_before, call_ns),
)._replace(watch_memory="poll_bytes")

ENTRIES = (
    entry(
        __name__,
        POLL,
        PollCosts,
        "poll(2); Gammo et al. 2004, §2",
        wait_call="poll",
        c_support=CSupport.LINUX,
        client="client_loop",
    ),
)
