"""select: the server hands over bitmaps, the kernel looks at every descriptor named in them.

            bitmaps             scan all n              bitmaps
    server ─────────► kernel ───────────────► sleep? ───────────► server looks at every bit

Level-triggered, no memory between calls. The listener is the lowest descriptor, so it comes first.
Sources: select(2); Linux fs/select.c core_sys_select(), do_select(); Chandra and Mosberger 2001,
§2 (bitmap copies); FD_SETSIZE bounds the descriptors of a stock program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.columns import MakeColumn
from ..sim.containers import sort_prefix
from ..sim.costs import Curve, curve_ns, flat
from ..sim.interest_set import (
    InterestSet,
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    list_ready,
    listed_at,
    set_of,
    take_ready,
    wake_one,
)
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, Activity, Count
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.rank_tree import rank_add, rank_below, rank_fill
from ..sim.settings import ServerSettings
from ..sim.sleeping import sleep
from ..sim.world import World
from .scan import Scan, begin_scan, note_passed, rebuilding_ns, release_ns

_WAIT, _WAITS = int(Activity.WAIT), int(Count.WAITS)


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


@inlined
def watch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Set the bit of *fd*."""
    add_interest(world, interests, fd, interest)
    rank_add(interests.own.tree, fd, 1)


@inlined
def rewatch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Move *fd* between the read and the write bitmap."""
    change_interest(world, interests, fd, interest)


@inlined
def unwatch(world: World, interests: InterestSet, fd: int) -> None:
    """Clear the bit of *fd*."""
    drop_interest(world, interests, fd)
    rank_add(interests.own.tree, fd, -1)


@jitable
def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have the bits of a range set before the run."""
    rank_fill(interests.own.tree, first_fd, end_fd)


@inlined
def notify(world: World, fd: int) -> bool:
    """Wake the server if it sleeps in select; note whether a running scan has passed *fd*."""
    if not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    list_ready(world, interests, fd)
    if interests.own.scan.runs and world.fresh:
        note_passed(world, interests, fd, rank_below(interests.own.tree, fd))
    return wake_one(world, interests)


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one select call; its events are in order of descriptors."""
    costs, interests = world.costs.mechanism, worker.interests
    worker.activity = _WAIT
    built_ns = rebuilding_ns(world, worker)
    if built_ns > 0:
        yield built_ns
    world.counts[_WAITS] += 1
    before_ns = costs.call_ns + curve_ns(costs.bitmap, world.next_fd)
    n_registered = 0 if world.server.busy else _first_ready(world, interests)
    yield begin_scan(world, worker, before_ns, n_registered)
    worker.spin_ns += built_ns
    interests.own.scan.runs = False
    take_ready(world, worker, len(worker.event_fd))
    while worker.n_events == 0:
        if world.server.busy or not interests.own.scan.any_passed:
            for cost_ns in sleep(world, worker):
                yield cost_ns
            worker.activity = _WAIT
        if not world.server.busy:  # who spins has scanned again already
            yield begin_scan(world, worker, 0, 0)
        interests.own.scan.runs = False
        take_ready(world, worker, len(worker.event_fd))
    sort_prefix(worker.event_fd, worker.n_events)
    after_ns = release_ns(world, n_registered) + costs.event_ns * worker.n_events
    if after_ns > 0:
        yield after_ns


@jitable
def _first_ready(world: World, interests: InterestSet) -> int:
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
    0,
    no_call_ns,
    watch,
    no_call_ns,
    rewatch,
    no_call_ns,
    unwatch,
    watch_idle,
    notify,
    wait,
    memory,
)
