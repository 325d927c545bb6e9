"""select: the server passes bitmaps, the kernel checks every descriptor named in them.

            bitmaps             scan all n              bitmaps
    server ─────────► kernel ───────────────► sleep? ───────────► server checks every bit

Level-triggered, no memory between calls. The listener is the lowest descriptor, so it comes first.
Sources: select(2); Linux fs/select.c core_sys_select(), do_select(); Chandra and Mosberger 2001,
§2 (bitmap copies); FD_SETSIZE bounds the descriptors of a stock program.
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
from ...sim.kernel.rank_tree import rank_add, rank_below, rank_fill
from ...sim.state import activity, count
from ...sim.state.columns import MakeColumn
from ...sim.state.containers import sort_prefix
from ...sim.state.costs import Curve, curve_ns, flat
from ...sim.state.interests import InterestSet
from ...sim.state.kinds import NONE
from ...sim.state.mechanism import Mechanism
from ...sim.state.settings import ServerSettings
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from .scan import Scan, note_passed, rebuilding_ns, release_ns, scan_until_found


class SelectCosts(NamedTuple):
    """CPU time of select: call, bitmaps by highest descriptor ever open, the rest by count.

    rebuild is the server's own, where it sets the bits anew for each call.
    """

    call_ns: int
    bitmap: Curve
    scan: Curve
    register: Curve
    event_ns: int
    release: Curve = flat(0)
    look: Curve = flat(0)
    rebuild: Curve = flat(0)


@dataclass(slots=True, eq=False)
class Bitmaps:
    """The program's bitmaps, as how many of their bits lie below each descriptor."""

    tree: list[int]  # a Fenwick tree over watched descriptors, shape (D + 1,)
    scan: Scan


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Bitmaps:
    """Return empty bitmaps."""
    del server
    return Bitmaps(column(n_fds + 1, 0, np.int32), Scan())


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Set the bit of *fd*, in bitmaps that are the program's own: no call is made."""
    yield from spend(worker, activity.WATCH, 0)
    add_interest(world, worker.interests, fd, interest)
    rank_add(worker.interests.own.tree, fd, 1)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Move *fd* between the read and the write bitmap: no call is made."""
    yield from spend(worker, activity.REWATCH, 0)
    change_interest(world, worker.interests, fd, interest)


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Clear the bit of *fd*: no call is made."""
    yield from spend(worker, activity.UNWATCH, 0)
    drop_interest(world, worker.interests, fd)
    rank_add(worker.interests.own.tree, fd, -1)


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have the bits of a range set before the run."""
    rank_fill(interests.own.tree, first_fd, end_fd)


def notify(world: World, fd: int) -> bool:
    """Wake the server if it sleeps in select; note whether a running scan has passed *fd*."""
    if not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    list_ready(world, interests, fd)
    if interests.own.scan.runs and world.fresh:
        note_passed(world, interests, fd, rank_below(interests.own.tree, fd))
    return wake_one(world, interests)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call select once; its events are in the order of descriptors."""
    costs = world.costs.mechanism
    built_ns = rebuilding_ns(world, worker)
    yield from spend(worker, activity.WAIT, built_ns)
    world.counts[count.WAITS] += 1
    call_ns = costs.call_ns + curve_ns(costs.bitmap, world.next_fd)
    n_registered = 0 if world.server.busy else _n_before_ready(world, worker.interests)
    yield from scan_until_found(world, worker, call_ns, built_ns, n_registered)
    sort_prefix(worker.event_fd, worker.n_events)
    after_ns = release_ns(world, n_registered) + costs.event_ns * worker.n_events
    yield from spend(worker, activity.WAIT, after_ns)


def _n_before_ready(world: World, interests: InterestSet) -> int:
    """Return how many watched descriptors the scan passes before the first ready one."""
    beyond = len(interests.ready)
    first_fd = beyond
    for i in range(interests.first_ready, interests.first_ready + interests.n_ready):
        fd = listed_at(world, interests, i)
        if fd != NONE and fd < first_fd and is_ready(world, fd):
            first_fd = fd
    if first_fd == beyond:
        return interests.n_watched
    return rank_below(interests.own.tree, first_fd)


SELECT = Mechanism(
    "select",
    fds=0,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait,
    memory=memory,
)
