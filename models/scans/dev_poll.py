"""/dev/poll: the kernel keeps the set, and checks only descriptors for which drivers gave hints.

    changes ──write──► items ◄──hint── device          ioctl(DP_POLL): scan all items,
                         └─ hinted, or ready last time: check ──► ready ──► at most max_events
                         └─ neither: not ready, without a check

Drivers give hints when a descriptor becomes ready. An item that was not ready stays so until its
hint; an item that was ready is checked in each scan. So the scan touches every item, but checks
few, at ask_ns each. Without hints (`dev_poll_unhinted`) it checks every item. Items are in the
order of their addition. A scan that runs out of room continues there the next time.

A write that adds an item replaces its interest; on Solaris it adds to the interest (`DEV_POLL_OR`).
Removal is a separate call before close, as the set would keep the connection open.

If the server maps a result area (DP_ALLOC and mmap, then DP_POLL with no dp_fds), the kernel leaves
its results there instead of copying them: `dev_poll_mmap`, which differs only in the cost of an
event. Never merged into Linux.
Sources: Provos and Lever 2000, §3; calibration/c/servers/dev_poll.c, and the kernel's part in
calibration/emulated/kernel_mechanisms/dev_poll/dev_poll.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...sim.kernel import interest_set
from ...sim.kernel.sleeping import sleep
from ...sim.state.columns import I8, I32, Per, fill, per_descriptor, per_run, sort_prefix
from ...sim.state.costs import Curve, curve_ns, flat
from ...sim.state.event_calendar import first_due_ns
from ...sim.state.kinds import NONE, READABLE, activity, count
from ...sim.state.mechanism import Mechanism, kept, spend
from ...sim.state.world import InterestSet, Worker, World
from ..entry import Borrowed, CSupport, entry
from ..remembering import readiness
from ..remembering.changes import Changes, declaring, is_told, tells
from ..remembering.changes import rewatch as redeclare_later
from ..remembering.changes import unwatch as withdraw
from ..remembering.changes import watch as declare_later
from .scan import Scan, note_passed, scan_all


class DevPollCosts(NamedTuple):
    """CPU time of /dev/poll: the scan by items, each one checked, each event, and the writes.

    entry_ns is the cost of a write, add_ns and modify_ns of an entry in it; delete_ns is a whole
    write. A scan may sleep without joining wait queues, so `register` and `release` are 0.
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
    """Undeclared changes, and the items in order of the scan: a ring with gaps."""

    changes: Changes
    scan: Scan
    ring: list[int] = per_run(Per.LONG_RING, NONE, I32)
    position: list[int] = per_descriptor()  # of each descriptor + 1; 0: no item
    held: list[int] = per_descriptor(0, I8)  # what the kernel is interested in, of each descriptor
    first: int = 0
    end: int = 0
    n_narrowed: int = 0  # items to be removed by the next write, and added again by it
    hinted: bool = False  # since the last scan began: then there is no sleep


def is_ready_in_kernel(world: World, fd: int) -> bool:
    """Return whether *fd* is in a state for which the kernel holds an interest."""
    items: Items = interest_set.set_of(world, fd).own
    return (world.state[fd] & items.held[fd]) != 0


def _item_at(items: Items, position: int) -> int:
    """Return the descriptor at that *position* of the ring, or NONE if it has left."""
    fd = items.ring[position & (len(items.ring) - 1)]
    return fd if fd != NONE and items.position[fd] == position + 1 else NONE


def append(items: Items, fd: int) -> None:
    """Have *fd* as the last item."""
    last = len(items.ring) - 1  # a mask, as the size is a power of two
    if items.end - items.first > last:
        _close_gaps(items)
    items.ring[items.end & last] = fd
    items.end += 1
    items.position[fd] = items.end


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


def _begin_behind(items: Items, position: int) -> None:
    """Have the next scan begin behind *position*: what stands before it goes to the end."""
    while items.first <= position:
        fd = _item_at(items, items.first)
        items.first += 1
        if fd != NONE:
            append(items, fd)


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Put *fd* on the list of changes; it will be the last item."""
    yield from declare_later(world, worker, fd, interest)
    items: Items = worker.interests.own
    items.held[fd] = interest
    append(items, fd)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Put *fd* on the list of changes: its item will have that interest, and no other."""
    yield from redeclare_later(world, worker, fd, interest)
    worker.interests.own.held[fd] = interest


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Remove *fd* from the list of changes, and from the set by a write if it is there."""
    yield from withdraw(world, worker, fd)
    worker.interests.own.position[fd] = 0
    worker.interests.own.held[fd] = 0


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the set since before the run."""
    fill(interests.own.changes.told, first_fd, end_fd, 1)
    fill(interests.own.held, first_fd, end_fd, READABLE)
    for fd in range(first_fd, end_fd):
        append(interests.own, fd)


def notify(world: World, fd: int) -> bool:
    """Take a hint: the next scan checks *fd*; the server wakes if it sleeps."""
    if not is_told(world, fd) or not is_ready_in_kernel(world, fd):
        return False
    interests = interest_set.set_of(world, fd)
    items: Items = interests.own
    items.hinted = True
    interest_set.list_ready(world, interests, fd)
    if items.scan.runs and world.fresh[fd]:
        place = items.position[fd] - 1 - items.first
        n_places = max(1, items.end - items.first)
        note_passed(world, interests, fd, place * interests.n_watched // n_places)
    return interest_set.wake_one(world, interests)


declare_changes = declaring(lists_all=True)


def take_results(world: World, worker: Worker) -> int:
    """Check what was hinted at or ready, in the order of the items; return how many were checked.

    The results, `Worker.n_notices` of them, are events if the server wants them.
    """
    items: Items = worker.interests.own
    n_hinted = _take_hints(world, worker)
    n_checked, n_results, n_events, last = 0, 0, 0, NONE
    for i in range(n_hinted):
        place = worker.event_fd[i]
        fd = _item_at(items, items.first + place)
        if world.passed[fd] or n_results == world.program.max_events:
            # Hinted at when the scan had passed it, or beyond the last result: checked next time.
            world.passed[fd] = 0
            interest_set.list_ready(world, worker.interests, fd)
            continue
        n_checked += 1
        if not is_ready_in_kernel(world, fd):
            continue
        interest_set.list_ready(world, worker.interests, fd)
        n_results += 1
        last = items.first + place
        if interest_set.is_ready(world, fd):
            worker.event_fd[n_events] = fd
            n_events += 1
    if n_results == world.program.max_events:
        _begin_behind(items, last)
    worker.n_events = n_events
    worker.n_notices = n_results
    world.counts[count.EVENTS] += n_events
    world.counts[count.NOTICES_UNWANTED] += n_results - n_events
    world.counts[count.RECHECKED] += n_checked - n_results
    return n_checked


def _take_hints(world: World, worker: Worker) -> int:
    """Fill `event_fd` with the places of the items hinted at or ready, in order; return how many.

    A place is a position behind the first item: numbers for which the column has room.
    """
    interests = worker.interests
    items: Items = interests.own
    n_hinted = 0
    for _ in range(interests.n_ready):
        fd = interest_set.take_first(world, interests)
        if fd != NONE:
            worker.event_fd[n_hinted] = items.position[fd] - 1 - items.first
            n_hinted += 1
    sort_prefix(worker.event_fd, n_hinted)
    return n_hinted


def waiting(declare_changes: readiness.Wait, *, hinted: bool) -> readiness.Wait:
    """Return the wait where drivers give hints, or that where every item must be checked."""

    def check_items(world: World, worker: Worker) -> int:
        """Take the results; return the number of items checked."""
        n_checked = take_results(world, worker)
        if hinted:
            return n_checked
        n_all = worker.interests.n_watched
        world.counts[count.RECHECKED] += n_all - n_checked
        return n_all

    def wait(world: World, worker: Worker) -> Iterator[int]:
        """Write the changes, if there are any, and call DP_POLL once."""
        costs = world.costs.mechanism
        items: Items = worker.interests.own
        yield from declare_changes(world, worker)
        world.counts[count.WAITS] += 1
        items.hinted = False
        yield from scan_all(world, worker, costs.call_ns, 0)
        n_checked = check_items(world, worker)
        while worker.n_notices == 0:
            yield from spend(worker, activity.WAIT, n_checked * costs.ask_ns)
            if world.program.busy or not items.hinted:
                yield from sleep(world, worker)
            items.hinted = False
            if not world.program.busy:  # a server that spins has scanned again already
                yield from scan_all(world, worker, 0, 0)
            n_checked = check_items(world, worker)
        results_ns = n_checked * costs.ask_ns + worker.n_notices * costs.event_ns
        if worker.n_events == 0:
            results_ns = max(1, results_ns)  # or time could stand still
        yield from spend(worker, activity.WAIT, results_ns)

    return wait


DEV_POLL = Mechanism(
    "dev_poll",
    fds=1,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=waiting(declare_changes, hinted=True),
    memory=kept(Items),
    tells=tells,
)

DEV_POLL_UNHINTED = DEV_POLL._replace(
    name="dev_poll_unhinted", wait=waiting(declare_changes, hinted=False)
)

DEV_POLL_MMAP = DEV_POLL._replace(name="dev_poll_mmap")


def rewatch_adding(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Have *interest* added to the item of *fd*, or the item removed before."""
    items: Items = worker.interests.own
    if items.changes.told[fd] == 0:
        items.held[fd] = interest  # the write that adds it is still to come
    elif world.scans.removes_first and items.held[fd] & ~interest:
        items.n_narrowed += 1
        items.changes.told[fd] = 0
        items.position[fd] = 0
        items.held[fd] = interest
        append(items, fd)
    else:
        items.held[fd] |= interest
    yield from redeclare_later(world, worker, fd, interest)


def declare_removals_first(world: World, worker: Worker) -> Iterator[int]:
    """Write the changes; the entries that remove items come first."""
    costs = world.costs.mechanism
    items: Items = worker.interests.own
    if items.n_narrowed > 0:
        remove_ns = max(0, costs.delete_ns - costs.entry_ns)
        yield from spend(worker, activity.WATCH, items.n_narrowed * remove_ns)
        items.n_narrowed = 0
    yield from declare_changes(world, worker)


wait_adding_once = waiting(declare_removals_first, hinted=True)


def wait_adding(world: World, worker: Worker) -> Iterator[int]:
    """Wait once; all results may be of no interest."""
    yield from wait_adding_once(world, worker)
    if worker.n_events == 0:
        yield from spend(worker, activity.WAIT, _spin(world, worker))


def _spin(world: World, worker: Worker) -> int:
    """Count the whole waits that would return the same results; return their CPU time.

    Nothing changes until the next event of the run, so one step covers them all: an idle server
    waits a million times a second.
    """
    costs, interests = world.costs.mechanism, worker.interests
    n_results = worker.n_notices
    if len(world.workers) > 1 or n_results == world.program.max_events:
        return 0
    if interest_set.n_listed(interests) > n_results:
        return 0  # one was hinted at when the scan had passed it
    if interest_set.any_ready(world, interests):
        return 0  # something was wanted while the call returned
    results_ns = max(1, n_results * (costs.ask_ns + costs.event_ns))
    wait_ns = costs.call_ns + curve_ns(costs.scan, interests.n_watched) + results_ns
    n_waits = max(0, first_due_ns(world) - world.now_ns) // wait_ns
    world.counts[count.WAITS] += n_waits
    world.counts[count.SCANNED] += n_waits * interests.n_watched
    world.counts[count.NOTICES_UNWANTED] += n_waits * n_results
    spun_ns: int = n_waits * wait_ns
    return spun_ns


DEV_POLL_OR = DEV_POLL._replace(name="dev_poll_or", rewatch=rewatch_adding, wait=wait_adding)
"""/dev/poll as on Solaris: a write adds to the interest of an item instead of replacing it.

    write(fd, POLLIN)                        item: POLLIN
    write(fd, POLLOUT)                       item: POLLIN | POLLOUT
    write(fd, POLLREMOVE), (fd, POLLIN)      item: POLLIN, the last of the scan

So a smaller interest takes two entries of a write, one that removes the item and one that adds it.
A server that writes only its new interest is notified of the old one, too: after one reply that did
not fit, every check finds the connection writable, and no wait blocks while it is open. The server
discards unwanted results.

Sources: poll(7D) of Solaris 8; Provos and Lever 2000, §3 (there a write replaces).
"""


_FROM_DEV_POLL: Borrowed = {
    name: (f"dev_poll.{name}",)
    for name in (
        *("call_ns", "scan", "ask_ns", "event_ns", "entry_ns"),
        *("add_ns", "modify_ns", "delete_ns", "look"),
    )
}

ENTRIES = (
    entry(
        __name__,
        DEV_POLL,
        DevPollCosts,
        "Provos and Lever 2000, §3",
        aliases=("/dev/poll", "devpoll"),
        wait_call="DP_POLL",
        c_support=CSupport.INSERTED,
        words={
            "ask_ns": "each driver that is asked for the state of its descriptor",
            "entry_ns": "a write of changes, without the changes in it",
            "delete_ns": "a write that takes a descriptor out",
        },
    ),
    entry(
        __name__,
        DEV_POLL_UNHINTED,
        DevPollCosts,
        "Provos and Lever 2000, §3.2",
        wait_call="DP_POLL",
        about="/dev/poll without hints: the kernel keeps the set, and checks all of it.",
        borrowed=_FROM_DEV_POLL,
    ),
    entry(
        __name__,
        DEV_POLL_MMAP,
        DevPollCosts,
        "Provos and Lever 2000, §3",
        wait_call="DP_POLL",
        about="/dev/poll with a mapped result area: results are returned there, not copied.",
        # poll always copies its array, so its event cost is only the server's part.
        borrowed={**_FROM_DEV_POLL, "event_ns": ("poll.event_ns",)},
    ),
    entry(
        __name__,
        DEV_POLL_OR,
        DevPollCosts,
        "poll(7D) of Solaris 8",
        wait_call="DP_POLL",
        about="/dev/poll as on Solaris: a write adds to the interest of an item instead of "
        "replacing it.",
        borrowed=_FROM_DEV_POLL,
    ),
)
