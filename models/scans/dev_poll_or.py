"""/dev/poll as on Solaris: a write adds to the interest of an item, and replaces nothing.

    write(fd, POLLIN)                        item: POLLIN
    write(fd, POLLOUT)                       item: POLLIN | POLLOUT
    write(fd, POLLREMOVE), (fd, POLLIN)      item: POLLIN, the last of the scan

So a smaller interest takes two entries of a write, one that removes the item and one that adds it.
A server that writes its new interest only is notified of its old one, too: after one reply that did
not fit, every check finds the connection writable, and no wait blocks while it is open. The server
discards results that it does not want.

Sources: poll(7D) of Solaris 8; Provos and Lever 2000, §3 (there a write replaces).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...sim.kernel.interest_set import any_ready, n_listed
from ...sim.state import activity, count
from ...sim.state.costs import curve_ns
from ...sim.state.event_calendar import first_due_ns
from ...sim.state.spending import spend
from ...sim.state.threads import Worker
from ...sim.state.world import World
from ..entry import entry
from ..remembering.changes import declaring
from ..remembering.changes import rewatch as redeclare_later
from .dev_poll import BY_DEV_POLL, DEV_POLL, DevPollCosts, Items, append, waiting


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Have *interest* added to the item of *fd*, or the item removed before."""
    items: Items = worker.interests.own
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
    yield from redeclare_later(world, worker, fd, interest)


declare_what_is_wanted = declaring(lists_all=True)


def declare_changes(world: World, worker: Worker) -> Iterator[int]:
    """Write the changes; the entries that remove items come first."""
    costs = world.costs.mechanism
    items: Items = worker.interests.own
    if items.n_narrowed > 0:
        remove_ns = max(0, costs.delete_ns - costs.entry_ns)
        yield from spend(worker, activity.WATCH, items.n_narrowed * remove_ns)
        items.n_narrowed = 0
    yield from declare_what_is_wanted(world, worker)


wait_once = waiting(declare_changes, hinted=True)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Wait once; all results may be of no interest."""
    yield from wait_once(world, worker)
    if worker.n_events == 0:
        yield from spend(worker, activity.WAIT, _spin(world, worker))


def _spin(world: World, worker: Worker) -> int:
    """Count the whole waits that would return the same results; return their CPU time.

    Nothing happens until the next occurrence, so they are taken in one step: a server that has
    nothing to do waits a million times a second.
    """
    costs, interests = world.costs.mechanism, worker.interests
    n_results = worker.n_notices
    if len(world.workers) > 1 or n_results == world.server.max_events:
        return 0
    if n_listed(interests) > n_results:
        return 0  # one was hinted at when the scan had passed it
    if any_ready(world, interests):
        return 0  # something was wanted while the call returned
    results_ns = max(1, n_results * (costs.ask_ns + costs.event_ns))
    wait_ns = costs.call_ns + curve_ns(costs.scan, interests.n_watched) + results_ns
    n_waits = max(0, first_due_ns(world) - world.now_ns) // wait_ns
    world.counts[count.WAITS] += n_waits
    world.counts[count.SCANNED] += n_waits * interests.n_watched
    world.counts[count.NOTICES_UNWANTED] += n_waits * n_results
    spun_ns: int = n_waits * wait_ns
    return spun_ns


DEV_POLL_OR = DEV_POLL._replace(name="dev_poll_or", rewatch=rewatch, wait=wait)

ENTRIES = (
    entry(
        __name__,
        DEV_POLL_OR,
        DevPollCosts,
        "poll(7D) of Solaris 8",
        wait_call="DP_POLL",
        borrowed=BY_DEV_POLL,
    ),
)
