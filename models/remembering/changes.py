"""Changes of interest that are not yet declared to the kernel, at most one a descriptor.

    watch, rewatch ──► list of descriptors, in order of their first change ──before the wait──► call
    unwatch ──► off the list; a call of its own if the descriptor is in the kernel's set

Source: Gammo et al. 2004, §3.4 (a deletion cannot wait: the descriptor is closed by then);
calibration/c/servers/changes.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...sim.kernel import interest_set
from ...sim.state.columns import I8, I32, per_descriptor
from ...sim.state.kinds import NONE, activity, count
from ...sim.state.mechanism import spend
from ...sim.state.world import InterestSet, Worker, World
from .readiness import Wait


@dataclass(slots=True, eq=False)
class Changes:
    """The list of changes, and the descriptors in the kernel's set."""

    fds: list[int] = per_descriptor(0, I32)
    place: list[int] = per_descriptor(0, I32)  # of each descriptor in the list + 1; 0: no change
    told: list[int] = per_descriptor(0, I8)  # 1: the descriptor is in the kernel's set
    n: int = 0


def change(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Put *fd* on the list: watched for *interest* from the next call on."""
    changes: Changes = interests.own.changes
    if world.watched_by[fd] == NONE:
        world.watched_by[fd] = interests.number
        interests.n_watched += 1
    world.interest[fd] = interest
    if changes.place[fd] == 0:
        changes.fds[changes.n] = fd
        changes.n += 1
        changes.place[fd] = changes.n


def forget(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd* off the list; the kernel no longer has it."""
    changes: Changes = interests.own.changes
    changes.told[fd] = 0
    if changes.place[fd] == 0:
        return
    changes.n -= 1
    last = changes.fds[changes.n]
    changes.fds[changes.place[fd] - 1] = last
    changes.place[last] = changes.place[fd]
    changes.place[fd] = 0


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Put *fd* on the list: no call is made before the wait."""
    yield from spend(worker, activity.WATCH, 0)
    change(world, worker.interests, fd, interest)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Put *fd* on the list, or change its entry: no call is made before the wait."""
    yield from spend(worker, activity.REWATCH, 0)
    change(world, worker.interests, fd, interest)


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Take *fd* off the list, and delete it from the kernel's set by a call if it is there."""
    changes: Changes = worker.interests.own.changes
    delete_ns = changes.told[fd] * world.costs.mechanism.delete_ns
    yield from spend(worker, activity.UNWATCH, delete_ns)
    world.counts[count.UPDATES] += changes.told[fd]
    interest_set.drop_interest(world, worker.interests, fd)
    forget(world, worker.interests, fd)


def unwatch_by_close(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Take *fd*, which is about to be closed, off the list: close() takes it out of the set."""
    yield from spend(worker, activity.UNWATCH, 0)
    interest_set.drop_interest(world, worker.interests, fd)
    forget(world, worker.interests, fd)


def is_told(world: World, fd: int) -> bool:
    """Return whether *fd* is in the kernel's set."""
    if world.watched_by[fd] == NONE:
        return False
    changes: Changes = interest_set.set_of(world, fd).own.changes
    return changes.told[fd] != 0


def tells(world: World, fd: int) -> bool:
    """Return whether *fd* is on the ready list, or on the list of changes."""
    changes: Changes = interest_set.set_of(world, fd).own.changes
    return world.listed[fd] != 0 or changes.place[fd] != 0


ChangesCost = Callable[[Any, int, int], int]
"""(costs of the mechanism, descriptors new to the kernel's set, others) -> CPU time."""


def vector_ns(costs: Any, n_new: int, n_known: int) -> int:
    """Return the CPU time of a call that takes the whole list, each change at its own cost."""
    cost_ns: int = costs.entry_ns + n_new * costs.add_ns + n_known * costs.modify_ns
    return cost_ns


def n_known(changes: Changes) -> int:
    """Return the number of descriptors on the list that are in the kernel's set."""
    n = 0
    for i in range(changes.n):
        n += changes.told[changes.fds[i]]
    return n


def declaring(
    cost_ns: ChangesCost = vector_ns, *, lists_all: bool, by_own_call: bool = True
) -> Wait:
    """Return the function that declares all changes, in a separate call or as part of the wait.

    A descriptor of the list goes on the ready list if it is ready, or, with *lists_all*, always.
    """
    n_calls = 1 if by_own_call else 0

    def declare_changes(world: World, worker: Worker) -> Iterator[int]:
        """Hand the list to the kernel, unless it is empty."""
        changes: Changes = worker.interests.own.changes
        if changes.n == 0:
            return
        world.counts[count.UPDATES] += n_calls
        known = n_known(changes)
        call_ns = cost_ns(world.costs.mechanism, changes.n - known, known)
        yield from spend(worker, activity.WATCH, call_ns)
        for i in range(changes.n):
            fd = changes.fds[i]
            changes.place[fd] = 0
            changes.told[fd] = 1
            if lists_all or interest_set.is_ready(world, fd):
                interest_set.list_ready(world, worker.interests, fd)
        changes.n = 0

    return declare_changes
