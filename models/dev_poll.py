"""/dev/poll: the kernel keeps the set, and asks the descriptors that it was given a hint about.

    changes ──write──► items ◄──hint── device          ioctl(DP_POLL): scan all items,
                         └─ hinted, or ready last time: ask ──► ready ──► events, at most max_events
                         └─ neither: not ready, without asking

A hint is for changes towards ready: what was not ready stays so until there is one, what was ready
is asked again in each scan. So the scan touches every item, at item_ns, but asks few, at ask_ns;
where drivers give no hints (`dev_poll_unhinted`) it asks every one. Items stand in the order in
which they were added; a scan that found no more room begins behind its last the next time.

The write that adds an item replaces its interest; on Solaris it adds to it (models/dev_poll_or.py).
Removing is a call of its own, before close: the set would keep the connection open.

Where the server maps a result area (DP_ALLOC and mmap, then DP_POLL with no dp_fds), the kernel
leaves its results there instead of copying them: `dev_poll_mmap`, the same but for the price of an
event. Never merged into Linux.
Sources: Provos and Lever 2000, §3; calibration/servers/dev_poll.c, and the kernel's part in
calibration/emulated/kernel_mechanisms/dev_poll/dev_poll.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..sim.build import power_of_two
from ..sim.columns import MakeColumn
from ..sim.containers import fill, sort_prefix
from ..sim.costs import Curve, flat
from ..sim.interest_set import (
    InterestSet,
    drop_interest,
    is_ready,
    list_ready,
    set_of,
    take_first,
    wake_one,
)
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, Activity, Count
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.settings import ServerSettings
from ..sim.sleeping import sleep
from ..sim.world import World
from .changes import Changes, change, is_told, no_changes, telling, tells, withdraw, withdraw_ns
from .readiness import Wait
from .scan import Scan, begin_scan, note_passed

_WAIT, _WAITS, _EVENTS = int(Activity.WAIT), int(Count.WAITS), int(Count.EVENTS)
_RECHECKED, _UNWANTED = int(Count.RECHECKED), int(Count.NOTICES_UNWANTED)


class DevPollCosts(NamedTuple):
    """CPU time of /dev/poll: the scan by items, each one asked, each event, and the writes.

    entry_ns is that of a write, add_ns and modify_ns of an entry of it; delete_ns is a whole write.
    A scan may sleep without entering wait queues, so `register` and `release` are 0.
    """

    call_ns: int
    scan: Curve
    ask_ns: int
    event_ns: int
    entry_ns: int
    add_ns: int
    modify_ns: int
    delete_ns: int
    register: Curve = flat(0)
    look: Curve = flat(0)


@dataclass(slots=True, eq=False)
class Items:
    """What was not told yet, and the items in the order of the scan: a ring with gaps."""

    changes: Changes
    scan: Scan
    ring: list[int]  # at least 2 D, a power of two
    position: list[int]  # of each descriptor + 1; 0: no item
    held: list[int]  # what the kernel is interested in, of each descriptor
    first: int = 0
    end: int = 0
    n_narrowed: int = 0  # items to be removed by the next write, and added again by it
    hinted: bool = False  # since the last scan began: then there is no sleep


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Items:
    """Return an empty set."""
    del server
    return Items(
        no_changes(n_fds, column),
        Scan(),
        ring=column(power_of_two(2 * n_fds), NONE, np.int32),
        position=column(n_fds, 0, np.int64),
        held=column(n_fds, 0, np.int8),
    )


@inlined
def is_ready_in_kernel(world: World, fd: int) -> bool:
    """Return whether *fd* is in a state that the kernel was told to look for."""
    items: Items = set_of(world, fd).own
    return (world.state[fd] & items.held[fd]) != 0


@inlined
def _item_at(items: Items, position: int) -> int:
    """Return the descriptor at that *position* of the ring, or NONE if it has left."""
    fd = items.ring[position & (len(items.ring) - 1)]
    return fd if fd != NONE and items.position[fd] == position + 1 else NONE


@jitable
def append(items: Items, fd: int) -> None:
    """Have *fd* as the last item."""
    last = len(items.ring) - 1  # a mask, as the size is a power of two
    if items.end - items.first > last:
        _close_gaps(items)
    items.ring[items.end & last] = fd
    items.end += 1
    items.position[fd] = items.end


@jitable
def _close_gaps(items: Items) -> None:
    """Move the items together: the ring has two places for each descriptor."""
    kept = items.first
    for position in range(items.first, items.end):
        fd = _item_at(items, position)
        if fd != NONE:
            items.ring[kept & (len(items.ring) - 1)] = fd
            kept += 1
            items.position[fd] = kept
    items.end = kept


@jitable
def _begin_behind(items: Items, position: int) -> None:
    """Have the next scan begin behind *position*: what stands before it goes to the end."""
    while items.first <= position:
        fd = _item_at(items, items.first)
        items.first += 1
        if fd != NONE:
            append(items, fd)


@inlined
def watch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Put *fd* on the list of changes; it will be the last item."""
    change(world, interests, fd, interest)
    interests.own.held[fd] = interest
    append(interests.own, fd)


@inlined
def rewatch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Put *fd* on the list of changes: its item will be interested in that, and nothing else."""
    change(world, interests, fd, interest)
    interests.own.held[fd] = interest


@inlined
def unwatch(world: World, interests: InterestSet, fd: int) -> None:
    """Remove *fd* from the set, and from what was not told yet."""
    drop_interest(world, interests, fd)
    withdraw(world, interests, fd)
    interests.own.position[fd] = 0
    interests.own.held[fd] = 0


@jitable
def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the set, as the kernel was told long ago."""
    fill(interests.own.changes.told, first_fd, end_fd, 1)
    fill(interests.own.held, first_fd, end_fd, READABLE)
    for fd in range(first_fd, end_fd):
        append(interests.own, fd)


@inlined
def notify(world: World, fd: int) -> bool:
    """Take a hint: *fd* is asked in the next scan; the server is woken if it sleeps."""
    if not is_told(world, fd) or not is_ready_in_kernel(world, fd):
        return False
    interests = set_of(world, fd)
    items: Items = interests.own
    items.hinted = True
    list_ready(world, interests, fd)
    if items.scan.runs and world.fresh:
        place = items.position[fd] - 1 - items.first
        note_passed(
            world, interests, fd, place * interests.n_watched // max(1, items.end - items.first)
        )
    return wake_one(world, interests)


tell_changes = telling(lists_all=True)


@jitable
def _harvest(world: World, worker: Worker) -> int:
    """Ask what was hinted at or ready, in the order of the items; return how many were asked.

    The results, `Worker.n_notices` of them, are events as far as the server wants them.
    """
    interests = worker.interests
    items: Items = interests.own
    n_hinted, n_asked, n_told, n_events = 0, 0, 0, 0
    for _ in range(interests.n_ready):
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        worker.event_fd[n_hinted] = items.position[fd] - 1 - items.first
        n_hinted += 1
    sort_prefix(worker.event_fd, n_hinted)
    last = NONE
    for i in range(n_hinted):
        place = worker.event_fd[i]
        fd = _item_at(items, items.first + place)
        if world.passed[fd]:
            world.passed[fd] = 0  # hinted at when the scan had passed it
            list_ready(world, interests, fd)
        elif n_told == world.server.max_events:
            list_ready(world, interests, fd)
        else:
            n_asked += 1
            if is_ready_in_kernel(world, fd):
                list_ready(world, interests, fd)
                n_told += 1
                last = items.first + place
                if is_ready(world, fd):
                    worker.event_fd[n_events] = fd
                    n_events += 1
    if n_told == world.server.max_events:
        _begin_behind(items, last)
    worker.n_events = n_events
    worker.n_notices = n_told
    world.counts[_EVENTS] += n_events
    world.counts[_UNWANTED] += n_told - n_events
    world.counts[_RECHECKED] += n_asked - n_told
    return n_asked


def waiting(tell_changes: Wait, *, hinted: bool) -> Wait:
    """Return the wait where drivers give hints, or that where each item must be asked."""

    @jitable
    def look(world: World, worker: Worker) -> int:
        """Take the results; return how many items were asked."""
        n_asked = _harvest(world, worker)
        if hinted:
            return n_asked
        n_all = worker.interests.n_watched
        world.counts[_RECHECKED] += n_all - n_asked
        return n_all

    @jitable
    def wait(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time of a write, if there is something to tell, and of one DP_POLL."""
        costs = world.costs.mechanism
        items: Items = worker.interests.own
        for cost_ns in tell_changes(world, worker):
            yield cost_ns
        worker.activity = _WAIT
        world.counts[_WAITS] += 1
        items.hinted = False
        yield begin_scan(world, worker, costs.call_ns, 0)
        items.scan.runs = False
        n_asked = look(world, worker)
        while worker.n_notices == 0:
            if n_asked > 0:
                yield n_asked * costs.ask_ns
            if world.server.busy or not items.hinted:
                for cost_ns in sleep(world, worker):
                    yield cost_ns
                worker.activity = _WAIT
            items.hinted = False
            if not world.server.busy:  # who spins has scanned again already
                yield begin_scan(world, worker, 0, 0)
            items.scan.runs = False
            n_asked = look(world, worker)
        told_ns = n_asked * costs.ask_ns + worker.n_notices * costs.event_ns
        if worker.n_events == 0:
            told_ns = max(1, told_ns)  # or time could stand still
        yield told_ns

    return wait


DEV_POLL = Mechanism(
    "dev_poll",
    1,
    no_call_ns,
    watch,
    no_call_ns,
    rewatch,
    withdraw_ns,
    unwatch,
    watch_idle,
    notify,
    waiting(tell_changes, hinted=True),
    memory,
    tells=tells,
)

DEV_POLL_UNHINTED = DEV_POLL._replace(
    name="dev_poll_unhinted", wait=waiting(tell_changes, hinted=False)
)

DEV_POLL_MMAP = DEV_POLL._replace(name="dev_poll_mmap")
