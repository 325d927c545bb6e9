"""/dev/poll as on Solaris: what is written is added to an item's interest, and replaces nothing.

    write(fd, POLLIN)                        item: POLLIN
    write(fd, POLLOUT)                       item: POLLIN | POLLOUT
    write(fd, POLLREMOVE), (fd, POLLIN)      item: POLLIN, the last of the scan

So to want less of a descriptor takes two entries of a write, one that removes the item and one
that adds it. A server that writes what it wants, and no more, is told of what it wanted once, too:
after one reply that did not fit, a connection is writable whenever it is looked at, and no wait
blocks while it is open. What is told and not wanted is discarded.

Sources: poll(7D) of Solaris 8; Provos and Lever 2000, §3 (who replace instead).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..sim.costs import curve_ns
from ..sim.event_calendar import first_due_ns
from ..sim.interest_set import InterestSet, any_ready, n_listed
from ..sim.jitable import inlined, jitable
from ..sim.kinds import Activity, Count
from ..sim.processor import Worker
from ..sim.world import World
from .changes import change, telling
from .dev_poll import DEV_POLL, Items, append, waiting

_WATCH, _WAITS = int(Activity.WATCH), int(Count.WAITS)
_SCANNED, _UNWANTED = int(Count.SCANNED), int(Count.NOTICES_UNWANTED)


@inlined
def rewatch(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Have *interest* added to the item of *fd*, or the item removed before."""
    items: Items = interests.own
    if items.changes.told[fd] == 0:
        items.held[fd] = interest  # the write that adds it is still to come
    elif world.server.removes_first and items.held[fd] & ~interest:
        items.n_narrowed += 1
        items.changes.told[fd] = 0
        items.position[fd] = 0
        items.held[fd] = interest
        append(items, fd)
    else:
        items.held[fd] |= interest
    change(world, interests, fd, interest)


tell_what_is_wanted = telling(lists_all=True)


@jitable
def tell_changes(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one write, in which the entries that remove come first."""
    costs = world.costs.mechanism
    items: Items = worker.interests.own
    if items.n_narrowed > 0:
        worker.activity = _WATCH
        yield items.n_narrowed * max(0, costs.delete_ns - costs.entry_ns)
        items.n_narrowed = 0
    for cost_ns in tell_what_is_wanted(world, worker):
        yield cost_ns


wait_once = waiting(tell_changes, hinted=True)


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of a wait; all that it told may be of no interest."""
    for cost_ns in wait_once(world, worker):
        yield cost_ns
    if worker.n_events == 0:
        spun_ns = _spin(world, worker)
        if spun_ns > 0:
            yield spun_ns


@jitable
def _spin(world: World, worker: Worker) -> int:
    """Return the CPU time of the whole waits that would tell the same, and count them.

    Nothing happens until the next occurrence, so they are taken in one step: a server that has
    nothing to do waits a million times a second.
    """
    costs, interests = world.costs.mechanism, worker.interests
    n_told = worker.n_notices
    if len(world.workers) > 1 or n_told == world.server.max_events:
        return 0
    if n_listed(interests) > n_told:
        return 0  # one was hinted at when the scan had passed it
    if any_ready(world, interests):
        return 0  # something was wanted while the server was being told
    told_ns = max(1, n_told * (costs.ask_ns + costs.event_ns))
    wait_ns = costs.call_ns + curve_ns(costs.scan, interests.n_watched) + told_ns
    n_waits = max(0, first_due_ns(world) - world.now_ns) // wait_ns
    world.counts[_WAITS] += n_waits
    world.counts[_SCANNED] += n_waits * interests.n_watched
    world.counts[_UNWANTED] += n_waits * n_told
    spun_ns: int = n_waits * wait_ns
    return spun_ns


DEV_POLL_OR = DEV_POLL._replace(name="dev_poll_or", rewatch=rewatch, wait=wait)
