"""poll: the server passes an array of descriptors, the kernel checks every one.

            pollfd[n]           scan all n              pollfd[n]
    server ─────────► kernel ───────────────► sleep? ───────────► server checks all revents

Level-triggered, no memory between calls. The array stays dense: the last entry moves to the slot
of a descriptor that leaves. The listener is watched first, so it stays in slot 0. A server that
builds its array anew for each call (thttpd) has the same entries, and spends CPU time on each.
Sources: poll(2); Linux fs/select.c do_sys_poll(), do_poll(); Gammo et al. 2004, §2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...sim.kernel.interest_set import (
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    list_ready,
    listed_at,
    set_of,
    wake_one,
)
from ...sim.state import activity, count
from ...sim.state.columns import MakeColumn
from ...sim.state.containers import fill_range, sort_prefix
from ...sim.state.costs import Curve, flat
from ...sim.state.interests import InterestSet
from ...sim.state.kinds import NONE
from ...sim.state.mechanism import Mechanism
from ...sim.state.settings import ServerSettings
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from .scan import Scan, note_passed, rebuilding_ns, release_ns, scan_until_found


class PollCosts(NamedTuple):
    """CPU time of poll: the call, the scan (with its pollfd copies), by n on and off the queues.

    rebuild is the server's own, where it builds the array anew for each call.
    """

    call_ns: int
    scan: Curve
    register: Curve
    event_ns: int
    release: Curve = flat(0)
    look: Curve = flat(0)
    rebuild: Curve = flat(0)


@dataclass(slots=True, eq=False)
class PollArray:
    """The program's array, and where each descriptor is in it."""

    slots: list[int]  # slot -> fd, shape (D,)
    slot_of: list[int]  # fd -> slot, shape (D,)
    scan: Scan


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> PollArray:
    """Return an empty array."""
    del server
    return PollArray(column(n_fds, 0, np.int32), column(n_fds, 0, np.int32), Scan())


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Append *fd* to the array, which is the program's own: no call is made."""
    yield from spend(worker, activity.WATCH, 0)
    interests = worker.interests
    slot = interests.n_watched
    add_interest(world, interests, fd, interest)
    interests.own.slots[slot] = fd
    interests.own.slot_of[fd] = slot


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Change the events of the entry of *fd*: no call is made."""
    yield from spend(worker, activity.REWATCH, 0)
    change_interest(world, worker.interests, fd, interest)


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Fill the slot of *fd* with the last entry: no call is made."""
    yield from spend(worker, activity.UNWATCH, 0)
    interests = worker.interests
    drop_interest(world, interests, fd)
    slot = interests.own.slot_of[fd]
    last = interests.own.slots[interests.n_watched]
    interests.own.slots[slot] = last
    interests.own.slot_of[last] = slot
    interests.own.slot_of[fd] = NONE


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the array before the run."""
    first_slot = interests.n_watched - (end_fd - first_fd)
    fill_range(interests.own.slots, first_slot, interests.n_watched, first_fd)
    fill_range(interests.own.slot_of, first_fd, end_fd, first_slot)


def notify(world: World, fd: int) -> bool:
    """Wake the server if it sleeps in poll; note whether a running scan has passed *fd*."""
    if not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    list_ready(world, interests, fd)
    if interests.own.scan.runs and world.fresh:
        note_passed(world, interests, fd, interests.own.slot_of[fd])
    return wake_one(world, interests)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call poll once; its events are in the order of the array."""
    costs = world.costs.mechanism
    built_ns = rebuilding_ns(world, worker)
    yield from spend(worker, activity.WAIT, built_ns)
    world.counts[count.WAITS] += 1
    n_registered = 0 if world.server.busy else _first_ready(world, worker.interests)
    yield from scan_until_found(world, worker, costs.call_ns, built_ns, n_registered)
    _order_by_slot(world, worker)
    after_ns = release_ns(world, n_registered) + costs.event_ns * worker.n_events
    yield from spend(worker, activity.WAIT, after_ns)


def _order_by_slot(world: World, worker: Worker) -> None:
    interests = worker.interests
    for i in range(worker.n_events):
        worker.event_fd[i] = interests.own.slot_of[worker.event_fd[i]]
    sort_prefix(worker.event_fd, worker.n_events)
    for i in range(worker.n_events):
        worker.event_fd[i] = interests.own.slots[worker.event_fd[i]]


def _first_ready(world: World, interests: InterestSet) -> int:
    """Return the slot of the first ready entry, or the length of the array."""
    first = interests.n_watched
    for i in range(interests.first_ready, interests.first_ready + interests.n_ready):
        fd = listed_at(world, interests, i)
        if fd != NONE and is_ready(world, fd) and interests.own.slot_of[fd] < first:
            first = interests.own.slot_of[fd]
    return first


POLL = Mechanism(
    "poll",
    fds=0,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait,
    memory=memory,
)
