"""The scan of select and poll: a check of every descriptor in the set that the program passes.

    call │ scan + register ... scan + register │ scan ... scan │ release ... │ return
         0                              first ready            n
              a wait-queue entry for each        no more entries once one is ready

A scan that may block adds the process to the wait queue of every descriptor before the first ready
one, and removes it from all of them before the call returns. The scan does not find a
descriptor that becomes ready behind it. If the scan finds nothing, the wait-queue entry of that
descriptor starts another scan instead of a sleep.

The two calls differ in the program's set (`ProgramSet`), so in the order of the scan, and in costs.

Sources: Linux fs/select.c do_select(), do_poll(), poll_schedule_timeout(), __pollwait(),
poll_freewait();
Provos and Lever 2000, §6 (wait queues).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...sim.cpu.processor import step_progress_ns
from ...sim.kernel import interest_set
from ...sim.kernel.sleeping import sleep
from ...sim.state.columns import sort_prefix
from ...sim.state.costs import curve_ns
from ...sim.state.kinds import NONE, activity, count
from ...sim.state.mechanism import MakeMemory, Mechanism, spend, step
from ...sim.state.world import InterestSet, Worker, World


@dataclass(slots=True, eq=False)
class Scan:
    """The running scan of an interest set, if there is one: its position over time."""

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
    """Record the position of the scan over time; return the CPU time of the whole step.

    The first descriptor is checked when the set has been copied (`look`), or, if that time is
    unknown, after *call_ns*.
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


def _scan_until_found(
    world: World, worker: Worker, call_ns: int, built_ns: int, n_registered: int
) -> Iterator[int]:
    """Scan, sleep and scan again, until there is an event; take all events.

    *built_ns* is the CPU time to build the set, for a server that rebuilds it before each call.
    """
    scan: Scan = worker.interests.own.scan
    yield from scan_all(world, worker, call_ns, n_registered)
    worker.spin_ns += built_ns
    interest_set.take_ready(world, worker, len(worker.event_fd))
    while worker.n_events == 0:
        if world.program.busy or not scan.any_passed:
            yield from sleep(world, worker)
        if not world.program.busy:  # a server that spins has scanned again already
            yield from scan_all(world, worker, 0, 0)
        interest_set.take_ready(world, worker, len(worker.event_fd))


def _rebuilding_ns(world: World, worker: Worker) -> int:
    """Return the CPU time to rebuild the set, for a server that does so before each call."""
    if not world.scans.array_rebuilt:
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


class ProgramSet(NamedTuple):
    """The operations of a program on the set that it passes to the kernel in each call.

    A *key* is a number that orders the descriptors as the scan does.

    Attributes
    ----------
    memory:
        Makes the set, with its `scan`.
    added:
        (interests, fd) -> None: *fd* is watched from now on.
    removed:
        (interests, fd) -> None: *fd* is watched no longer.
    idle:
        (interests, first_fd, end_fd) -> None: a range is in the set before the run.
    key:
        (interests, fd) -> key of a watched descriptor.
    fd_at:
        (interests, key) -> the descriptor.
    n_before:
        (interests, key) -> how many descriptors the scan checks before.
    call_ns:
        (world) -> CPU time of a call besides its scan.
    """

    memory: MakeMemory
    added: Callable[[InterestSet, int], None]
    removed: Callable[[InterestSet, int], None]
    idle: Callable[[InterestSet, int, int], None]
    key: Callable[[InterestSet, int], int]
    fd_at: Callable[[InterestSet, int], int]
    n_before: Callable[[InterestSet, int], int]
    call_ns: Callable[[World], int]


def scanning(name: str, kept: ProgramSet) -> Mechanism:
    """Return the mechanism of that *name*: only its waits are calls."""
    added, removed, idle = kept.added, kept.removed, kept.idle
    key, fd_at, n_before, call_ns = kept.key, kept.fd_at, kept.n_before, kept.call_ns

    def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
        """Put *fd* in the set."""
        yield from spend(worker, activity.WATCH, 0)
        interest_set.add_interest(world, worker.interests, fd, interest)
        added(worker.interests, fd)

    def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
        """Have another interest in *fd*."""
        yield from spend(worker, activity.REWATCH, 0)
        interest_set.change_interest(world, worker.interests, fd, interest)

    def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
        """Take *fd* out of the set."""
        yield from spend(worker, activity.UNWATCH, 0)
        interest_set.drop_interest(world, worker.interests, fd)
        removed(worker.interests, fd)

    def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
        """Have a range of descriptors in the set before the run."""
        idle(interests, first_fd, end_fd)

    def notify(world: World, fd: int) -> bool:
        """Wake the server if it sleeps in the call; note whether a running scan has passed *fd*."""
        if not interest_set.is_ready(world, fd):
            return False
        interests = interest_set.set_of(world, fd)
        interest_set.list_ready(world, interests, fd)
        if interests.own.scan.runs and world.fresh[fd]:
            note_passed(world, interests, fd, n_before(interests, key(interests, fd)))
        return interest_set.wake_one(world, interests)

    def wait(world: World, worker: Worker) -> Iterator[int]:
        """Call once; the events are in the order of the scan."""
        built_ns = _rebuilding_ns(world, worker)
        yield from spend(worker, activity.WAIT, built_ns)
        world.counts[count.WAITS] += 1
        n_registered = 0 if world.program.busy else n_before_ready(world, worker.interests)
        yield from _scan_until_found(world, worker, call_ns(world), built_ns, n_registered)
        events_ns = world.costs.mechanism.event_ns * worker.n_events + sort_events(world, worker)
        yield from spend(worker, activity.WAIT, release_ns(world, n_registered) + events_ns)

    def n_before_ready(world: World, interests: InterestSet) -> int:
        """Return how many watched descriptors the scan checks before the first ready one."""
        beyond = len(interests.ready)
        first = beyond
        for i in range(interests.first_ready, interests.first_ready + interests.n_ready):
            fd = interest_set.listed_at(world, interests, i)
            if fd != NONE and interest_set.is_ready(world, fd):
                first = min(first, key(interests, fd))
        return interests.n_watched if first == beyond else n_before(interests, first)

    def sort_events(world: World, worker: Worker) -> int:
        """Sort the events; return the CPU time in which the server reaches the last of them."""
        interests = worker.interests
        for i in range(worker.n_events):
            worker.event_fd[i] = key(interests, worker.event_fd[i])
        sort_prefix(worker.event_fd, worker.n_events)
        n_read = n_before(interests, worker.event_fd[worker.n_events - 1])
        for i in range(worker.n_events):
            worker.event_fd[i] = fd_at(interests, worker.event_fd[i])
        return curve_ns(world.costs.mechanism.read_back, n_read)

    return Mechanism(
        name,
        fds=0,
        watch=watch,
        rewatch=rewatch,
        unwatch=unwatch,
        watch_idle=watch_idle,
        notify=notify,
        wait=wait,
        memory=kept.memory,
    )
