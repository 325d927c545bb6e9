"""poll: the server hands over an array of descriptors, the kernel looks at every one.

            pollfd[n]           scan all n              pollfd[n]
    server ─────────► kernel ───────────────► sleep? ───────────► server looks for set revents

Level-triggered, no memory between calls. The array is kept dense: a leaver's slot is filled by
the last entry. The listener is watched first, so it stays in slot 0.
Sources: poll(2); Linux fs/select.c do_sys_poll(), do_poll(); Gammo et al. 2004, §2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from numba.extending import register_jitable

from ..sim.containers import sort_prefix
from ..sim.costs import Curve
from ..sim.interest_set import (
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    list_ready,
    take_ready,
)
from ..sim.kinds import NONE, Activity, Count
from ..sim.mechanism import Mechanism
from ..sim.sleeping import sleep
from ..sim.world import World
from .scan import begin_scan, note_passed

_WAIT, _WAITS = int(Activity.WAIT), int(Count.WAITS)


class PollCosts(NamedTuple):
    """CPU time of poll: the call, the scan (with its pollfd copies) and registration by n."""

    call_ns: int
    scan: Curve
    register: Curve
    event_ns: int


@register_jitable
def open_poll(world: World) -> None:
    """Take nothing: the array lives in the program."""


@register_jitable
def watch_ns(world: World) -> int:
    """Return 0: an entry in the program's own array."""
    return 0


@register_jitable
def watch(world: World, fd: int, interest: int) -> None:
    """Append *fd* to the array."""
    slot = world.n_watched
    add_interest(world, fd, interest)
    world.slots[slot] = fd
    world.slot_of[fd] = slot


@register_jitable
def rewatch(world: World, fd: int, interest: int) -> None:
    """Change the events of the entry of *fd*."""
    change_interest(world, fd, interest)


@register_jitable
def unwatch(world: World, fd: int) -> None:
    """Fill the slot of *fd* with the last entry."""
    drop_interest(world, fd)
    slot = world.slot_of[fd]
    last = world.slots[world.n_watched]
    world.slots[slot] = last
    world.slot_of[last] = slot
    world.slot_of[fd] = NONE


def watch_idle(world: World, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the array before the run."""
    first_slot = world.n_watched - (end_fd - first_fd)
    world.slots[first_slot : world.n_watched] = range(first_fd, end_fd)
    world.slot_of[first_fd:end_fd] = range(first_slot, world.n_watched)


@register_jitable
def notify(world: World, fd: int) -> None:
    """Wake the server if it sleeps in poll; note whether a running scan has passed *fd*."""
    if not is_ready(world, fd):
        return
    list_ready(world, fd)
    world.woken = True
    if world.scanning and world.fresh:
        note_passed(world, fd, world.slot_of[fd])


@register_jitable
def wait(world: World) -> Iterator[int]:
    """Yield the CPU time of one poll call; its events are in order of the array."""
    costs = world.costs.mechanism
    world.activity = _WAIT
    world.counts[_WAITS] += 1
    yield begin_scan(world, costs.call_ns, costs.scan, costs.register, _first_ready(world))
    world.scanning = False
    take_ready(world, len(world.event_fd))
    while world.n_events == 0:
        if not world.any_passed:
            for cost_ns in sleep(world):
                yield cost_ns
            world.activity = _WAIT
        yield begin_scan(world, 0, costs.scan, costs.register, 0)
        world.scanning = False
        take_ready(world, len(world.event_fd))
    _order_by_slot(world)
    if costs.event_ns > 0:
        yield costs.event_ns * world.n_events


@register_jitable
def _order_by_slot(world: World) -> None:
    for i in range(world.n_events):
        world.event_fd[i] = world.slot_of[world.event_fd[i]]
    sort_prefix(world.event_fd, world.n_events)
    for i in range(world.n_events):
        world.event_fd[i] = world.slots[world.event_fd[i]]


@register_jitable
def _first_ready(world: World) -> int:
    """Return the slot of the first ready entry, or the length of the array."""
    size = len(world.ready)
    first = world.n_watched
    for i in range(world.first_ready, world.first_ready + world.n_ready):
        fd = world.ready[i % size]
        if is_ready(world, fd) and world.slot_of[fd] < first:
            first = world.slot_of[fd]
    return first


POLL = Mechanism(
    "poll",
    open_poll,
    watch_ns,
    watch,
    watch_ns,
    rewatch,
    watch_ns,
    unwatch,
    watch_idle,
    notify,
    wait,
)
