"""The kernel's scan, common to select and poll: a check of every watched descriptor.

    call │ scan + register ... scan + register │ scan ... scan │ release ... │ return
         0                              first ready            n
              a wait-queue entry for each        no more entries once one is ready

A scan that may block puts the process on the wait queue of every descriptor it passes before the
first ready one, and takes it off all of them before the call returns. A descriptor that becomes
ready behind the scan is missed by it; if the scan finds nothing, the wait-queue entry of that
descriptor starts another scan instead of a sleep.

Sources: Linux fs/select.c do_select(), do_poll(), poll_schedule_timeout(), __pollwait(),
poll_freewait();
Provos and Lever 2000, §6 (wait queues).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...sim.cpu.processor import step_progress_ns
from ...sim.kernel.interest_set import take_ready
from ...sim.kernel.sleeping import sleep
from ...sim.state import activity, count
from ...sim.state.costs import curve_ns
from ...sim.state.interests import InterestSet
from ...sim.state.kinds import NONE
from ...sim.state.spending import step
from ...sim.state.threads import Worker
from ...sim.state.world import World


@dataclass(slots=True, eq=False)
class Scan:
    """The scan of an interest set that runs, if one does: how far it is at which time."""

    runs: bool = False
    scanner: int = NONE  # the worker whose scan it is
    before_ns: int = 0
    n: int = 0
    ns: int = 0
    register_n: int = 0
    register_ns: int = 0
    any_passed: bool = False


def scan_all(world: World, worker: Worker, call_ns: int, first: int) -> Iterator[int]:
    """Check all watched descriptors, and enter the wait queues of the *first* ones.

    *call_ns* is the CPU time of the call besides the scan; 0: the call scans again.
    """
    step_ns = _begin_scan(world, worker, call_ns, first)
    yield from step(worker, activity.WAIT, step_ns)
    worker.interests.own.scan.runs = False


def _begin_scan(world: World, worker: Worker, call_ns: int, first: int) -> int:
    """Note how far the scan will be at which time; return the CPU time of the whole step.

    The first descriptor is checked when the set has been copied (`look`), or, where that is not
    known, after *call_ns*.
    """
    interests, costs = worker.interests, world.costs.mechanism
    scan: Scan = interests.own.scan
    n = interests.n_watched
    step_ns = call_ns + curve_ns(costs.scan, n)
    before_ns = min(step_ns, curve_ns(costs.look, n)) if call_ns > 0 else 0
    if before_ns == 0:
        before_ns = call_ns
    if call_ns > 0:
        worker.spin_ns = step_ns
    scan.runs = True
    scan.scanner = worker.number
    scan.any_passed = False
    scan.before_ns = before_ns
    scan.n = n
    scan.ns = step_ns - before_ns
    scan.register_n = first
    scan.register_ns = curve_ns(costs.register, first) if first > 0 else 0
    world.counts[count.SCANNED] += n
    world.counts[count.REGISTERED] += first
    return step_ns + scan.register_ns


def scan_until_found(
    world: World, worker: Worker, call_ns: int, built_ns: int, n_registered: int
) -> Iterator[int]:
    """Scan, and sleep and scan again, until there is an event; take all events.

    *built_ns* is the CPU time of the set, for a server that builds it anew when it asks once more.
    """
    scan: Scan = worker.interests.own.scan
    yield from scan_all(world, worker, call_ns, n_registered)
    worker.spin_ns += built_ns
    take_ready(world, worker, len(worker.event_fd))
    while worker.n_events == 0:
        if world.server.busy or not scan.any_passed:
            yield from sleep(world, worker)
        if not world.server.busy:  # a server that spins has scanned again already
            yield from scan_all(world, worker, 0, 0)
        take_ready(world, worker, len(worker.event_fd))


def rebuilding_ns(world: World, worker: Worker) -> int:
    """Return the CPU time of building the set anew, for a server that does so for each call."""
    if not world.server.array_rebuilt:
        return 0
    return curve_ns(world.costs.mechanism.rebuild, worker.interests.n_watched)


def release_ns(world: World, n_registered: int) -> int:
    """Return the CPU time of leaving the wait queues of *n_registered* descriptors."""
    return curve_ns(world.costs.mechanism.release, n_registered) if n_registered > 0 else 0


def note_passed(world: World, interests: InterestSet, fd: int, position: int) -> None:
    """Mark *fd*, at *position* of the scan, as missed if the running scan is past it."""
    scan: Scan = interests.own.scan
    reached_ns = scan.before_ns + scan.ns * position // max(1, scan.n)
    reached_ns += scan.register_ns * min(position, scan.register_n) // max(1, scan.register_n)
    if step_progress_ns(world, world.workers[scan.scanner]) > reached_ns:
        world.passed[fd] = 1
        scan.any_passed = True
