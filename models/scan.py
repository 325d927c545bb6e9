"""The kernel's scan, common to select and poll: one look at every watched descriptor.

    call │ scan + register ... scan + register │ scan ... scan │ release ... │ return
         0                              first ready            n
              a wait-queue entry for each        no more entries once one is ready

A scan that may block puts the process on the wait queue of every descriptor it passes before the
first ready one, and takes it off all of them before the call returns. A descriptor that becomes
ready behind the scan is missed by it; if nothing was found, its wait-queue entry sends the scan
round again instead of to sleep.

Sources: Linux fs/select.c do_select(), do_poll(), poll_schedule_timeout(), __pollwait(),
poll_freewait();
Provos and Lever 2000, §6 (wait queues).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..sim.costs import curve_ns
from ..sim.interest_set import InterestSet
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, Count
from ..sim.processor import Worker, step_progress_ns
from ..sim.world import World

_SCANNED, _REGISTERED = int(Count.SCANNED), int(Count.REGISTERED)


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


@jitable
def begin_scan(world: World, worker: Worker, call_ns: int, first: int) -> int:
    """Begin a scan of all watched descriptors, the *first* ones onto their wait queues.

    Returns the CPU time of the step: *call_ns* besides the scan, and the scan. The first descriptor
    is looked at when the set has been copied (`look`), or where that is not known after *call_ns*.
    """
    costs, interests = world.costs.mechanism, worker.interests
    scan: Scan = interests.own.scan
    n = interests.n_watched
    step_ns = call_ns + curve_ns(costs.scan, n)
    before_ns = min(step_ns, curve_ns(costs.look, n)) if call_ns > 0 else 0
    if before_ns == 0:
        before_ns = call_ns
    scan.runs = True
    scan.scanner = worker.number
    scan.any_passed = False
    scan.before_ns = before_ns
    scan.n = n
    scan.ns = step_ns - before_ns
    scan.register_n = first
    scan.register_ns = curve_ns(costs.register, first) if first > 0 else 0
    worker.spin_ns = call_ns + curve_ns(costs.scan, n) if call_ns > 0 else worker.spin_ns
    world.counts[_SCANNED] += n
    world.counts[_REGISTERED] += first
    return step_ns + scan.register_ns


@inlined
def rebuilding_ns(world: World, worker: Worker) -> int:
    """Return the CPU time that the server takes to build its set anew, if it does."""
    if not world.server.array_rebuilt:
        return 0
    return curve_ns(world.costs.mechanism.rebuild, worker.interests.n_watched)


@inlined
def release_ns(world: World, n_registered: int) -> int:
    """Return the CPU time of leaving the wait queues of *n_registered* descriptors."""
    return curve_ns(world.costs.mechanism.release, n_registered) if n_registered > 0 else 0


@jitable
def note_passed(world: World, interests: InterestSet, fd: int, position: int) -> None:
    """Mark *fd*, at *position* of the scan, as missed if the running scan is past it."""
    scan: Scan = interests.own.scan
    reached_ns = scan.before_ns + scan.ns * position // max(1, scan.n)
    reached_ns += scan.register_ns * min(position, scan.register_n) // max(1, scan.register_n)
    if step_progress_ns(world, world.workers[scan.scanner]) > reached_ns:
        world.passed[fd] = 1
        scan.any_passed = True
