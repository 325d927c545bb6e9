"""Changes of interest that the kernel has not been told yet, at most one a descriptor.

    watch, rewatch ──► list of descriptors, in order of their first change ──before the wait──► call
    unwatch ──► off the list; a call of its own if the kernel knew of the descriptor

Source: Gammo et al. 2004, §3.4 (deleting cannot be put off: the descriptor is closed by then);
calibration/servers/changes.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..sim.columns import MakeColumn
from ..sim.interest_set import InterestSet, drop_interest, is_ready, list_ready, set_of
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, Activity, Count
from ..sim.processor import Worker
from ..sim.world import World
from .readiness import Wait

_WATCH, _UPDATES = int(Activity.WATCH), int(Count.UPDATES)


@dataclass(slots=True, eq=False)
class Changes:
    """The list, and what the kernel knows."""

    fds: list[int]  # shape (D,)
    place: list[int]  # of each descriptor in the list + 1; 0: no change
    told: list[int]  # 1: the kernel knows of the descriptor
    n: int = 0


def no_changes(n_fds: int, column: MakeColumn) -> Changes:
    """Return an empty list for a kernel that knows of no descriptor."""
    return Changes(
        fds=column(n_fds, 0, np.int32),
        place=column(n_fds, 0, np.int32),
        told=column(n_fds, 0, np.int8),
    )


@inlined
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


@inlined
def withdraw(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd* off the list; the kernel, if it knew of it, was told by a call to forget it."""
    changes: Changes = interests.own.changes
    world.counts[_UPDATES] += changes.told[fd]
    forget(world, interests, fd)


@inlined
def forget(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd* off the list; the kernel knows of it no longer."""
    changes: Changes = interests.own.changes
    changes.told[fd] = 0
    if changes.place[fd] == 0:
        return
    changes.n -= 1
    last = changes.fds[changes.n]
    changes.fds[changes.place[fd] - 1] = last
    changes.place[last] = changes.place[fd]
    changes.place[fd] = 0


@inlined
def unwatch_by_close(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd*, which is being closed, out of the set: nobody has to tell the kernel."""
    drop_interest(world, interests, fd)
    forget(world, interests, fd)


@inlined
def withdraw_ns(world: World, fd: int) -> int:
    """Return the CPU time of a call that deletes *fd*, 0 if the kernel was never told of it."""
    changes: Changes = set_of(world, fd).own.changes
    cost_ns: int = world.costs.mechanism.delete_ns
    return changes.told[fd] * cost_ns


@inlined
def is_told(world: World, fd: int) -> bool:
    """Return whether the kernel knows of *fd*."""
    if world.watched_by[fd] == NONE:
        return False
    changes: Changes = set_of(world, fd).own.changes
    return changes.told[fd] != 0


@inlined
def tells(world: World, fd: int) -> bool:
    """Return whether *fd* is on the ready list, or the kernel is about to be told of it."""
    changes: Changes = set_of(world, fd).own.changes
    return world.listed[fd] != 0 or changes.place[fd] != 0


TellingPrice = Callable[[Any, int, int], int]
"""(costs of the mechanism, descriptors the kernel does not know, those it knows) -> CPU time."""


@inlined
def vector_ns(costs: Any, n_new: int, n_known: int) -> int:
    """Return the CPU time of a call that tells of changes, each of which has its price."""
    cost_ns: int = costs.entry_ns + n_new * costs.add_ns + n_known * costs.modify_ns
    return cost_ns


def telling(
    price_ns: TellingPrice = vector_ns, *, lists_all: bool, by_own_call: bool = True
) -> Wait:
    """Return how all changes are told: by a call of their own, or as a part of the wait.

    A descriptor that is told of is listed if it is ready, or, where *lists_all*, in any case.
    """
    n_calls = 1 if by_own_call else 0

    @jitable
    def tell_changes(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time of one call, if there is something to tell."""
        interests = worker.interests
        changes: Changes = interests.own.changes
        if changes.n > 0:
            worker.activity = _WATCH
            world.counts[_UPDATES] += n_calls
            n_known = 0
            for i in range(changes.n):
                n_known += changes.told[changes.fds[i]]
            yield price_ns(world.costs.mechanism, changes.n - n_known, n_known)
            for i in range(changes.n):
                fd = changes.fds[i]
                changes.place[fd] = 0
                changes.told[fd] = 1
                if lists_all or is_ready(world, fd):
                    list_ready(world, interests, fd)
            changes.n = 0

    return tell_changes
