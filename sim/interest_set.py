"""Which descriptors the server watches, and the list of those that may be ready.

The list is what a kernel's wake-up callbacks leave behind. It is a ring of descriptors in the
order in which they became ready; an entry is valid while `listed[fd]` holds its number, so that
leaving the set costs nothing and stale entries are skipped. A descriptor that was returned stays
on the list until a later look finds it no longer ready: level-triggered re-insertion, at the tail.

Source: Linux fs/eventpoll.c (rdllist, ep_send_events).
"""

from __future__ import annotations

from numba.extending import register_jitable

from .kinds import Count
from .world import World

_EVENTS, _RECHECKED = int(Count.EVENTS), int(Count.RECHECKED)


@register_jitable
def is_ready(world: World, fd: int) -> bool:
    """Return whether *fd* is in a state that the server watches it for."""
    return (world.state[fd] & world.interest[fd]) != 0


@register_jitable
def list_ready(world: World, fd: int) -> None:
    """Put *fd* at the tail of the ready list unless it is on it."""
    if world.listed[fd] != 0:
        return
    size = len(world.ready)
    if world.n_ready == size:
        _drop_stale(world)
    position = world.first_ready + world.n_ready
    world.ready[position % size] = fd
    world.listed[fd] = position + 1
    world.n_ready += 1


@register_jitable
def _drop_stale(world: World) -> None:
    """Close the gaps that descriptors left on the ring; there are as many slots as descriptors."""
    size = len(world.ready)
    kept = 0
    for i in range(world.first_ready, world.first_ready + world.n_ready):
        fd = world.ready[i % size]
        if world.listed[fd] == i + 1:
            position = world.first_ready + kept
            world.ready[position % size] = fd
            world.listed[fd] = position + 1
            kept += 1
    assert kept < size
    world.n_ready = kept


@register_jitable
def add_interest(world: World, fd: int, interest: int) -> None:
    """Watch *fd*; it is on the ready list at once if it is ready already."""
    assert world.interest[fd] == 0
    world.interest[fd] = interest
    world.n_watched += 1
    if is_ready(world, fd):
        list_ready(world, fd)


@register_jitable
def change_interest(world: World, fd: int, interest: int) -> None:
    """Watch *fd* for something else."""
    assert world.interest[fd] != 0
    world.interest[fd] = interest
    if is_ready(world, fd):
        list_ready(world, fd)


@register_jitable
def drop_interest(world: World, fd: int) -> None:
    """Watch *fd* no longer."""
    assert world.interest[fd] != 0
    world.interest[fd] = 0
    world.n_watched -= 1
    world.listed[fd] = 0
    world.passed[fd] = 0


@register_jitable
def take_ready(world: World, n_max: int) -> int:
    """Fill the events with at most *n_max* ready descriptors; return the looks in vain.

    The batch is fixed before it is served: what becomes ready meanwhile belongs to the next
    wait, as in the kernel (otherwise a busy connection would starve the others).
    """
    size = len(world.ready)
    n_events = 0
    n_vain = 0
    for _ in range(world.n_ready):
        if n_events == n_max:
            break
        number = world.first_ready + 1
        fd = world.ready[world.first_ready % size]
        world.first_ready += 1
        world.n_ready -= 1
        if world.listed[fd] != number:
            continue
        world.listed[fd] = 0
        if not is_ready(world, fd):
            world.passed[fd] = 0
            n_vain += 1
            continue
        list_ready(world, fd)
        if world.passed[fd]:
            world.passed[fd] = 0
            continue
        world.event_fd[n_events] = fd
        n_events += 1
    world.n_events = n_events
    world.counts[_EVENTS] += n_events
    world.counts[_RECHECKED] += n_vain
    return n_vain
