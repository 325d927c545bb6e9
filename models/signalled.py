"""What the mechanisms that read a queue of signals have in common.

    watch: arm ──► notify: send ──► ask: dequeue up to so many, or recover ──► readiness ──► wait

They differ in how many signals a call takes, in whether the kernel coalesces, and in their prices.
Sources: as for models/signal_queue.py; calibration/servers/signal_queue.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..sim.columns import MakeColumn
from ..sim.containers import fill
from ..sim.interest_set import (
    InterestSet,
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    list_ready,
    set_of,
    wake_one,
)
from ..sim.jitable import inlined, jitable
from ..sim.kinds import NONE, READABLE, WRITABLE, Activity, Count
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.settings import Recovery, ServerSettings
from ..sim.sleeping import sleep
from ..sim.world import World
from .overflow_recovery import ask_by_poll, recover
from .readiness import (
    Wait,
    assume,
    is_pending,
    may_block,
    note,
    wait_with,
    want,
    would_block,
)
from .signal_queue import (
    SignalMemory,
    dequeue,
    queue_of,
    says,
    send,
    signal_memory,
)

_WAIT, _ASKS = int(Activity.WAIT), int(Count.ASKS)
_NOTHING = int(Recovery.NOTHING)
_EITHER = READABLE | WRITABLE


@inlined
def arm_ns(world: World, fd: int) -> int:
    """Return the CPU time of three calls of fcntl: F_SETSIG, F_SETOWN and O_ASYNC."""
    cost_ns: int = world.costs.mechanism.arm_ns
    return cost_ns + keep_ns(world, fd)


@inlined
def pass_ns(world: World, fd: int) -> int:
    """Return the CPU time of F_SETOWN alone: one of the three calls that arm a descriptor."""
    cost_ns: int = world.costs.mechanism.arm_ns
    return cost_ns // 3


@inlined
def keep_ns(world: World, fd: int) -> int:
    """Return the CPU time of a change in the array for poll, if it is kept up to date."""
    cost_ns: int = world.costs.mechanism.keep_ns
    return cost_ns if world.server.recovery_array_kept else 0


@inlined
def arm(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Have events of *fd* signalled from now on; for what was before, take it to be ready."""
    add_interest(world, interests, fd, interest)
    assume(world, interests, fd, _EITHER)


@inlined
def rearm(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Want something else of *fd*: the kernel does not know, it signals all events."""
    change_interest(world, interests, fd, interest)
    want(world, interests, fd)


@inlined
def disarm(world: World, interests: InterestSet, fd: int) -> None:
    """Hear of *fd* no longer: what is queued of it stays there."""
    drop_interest(world, interests, fd)
    would_block(world, interests, fd, _EITHER)


@jitable
def arm_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors armed, which the server has tried to read from, in vain."""
    fill(interests.own.readiness.known, first_fd, end_fd, WRITABLE)


@inlined
def notify(world: World, fd: int) -> bool:
    """Queue a signal of what happened to *fd*; nothing if it is not armed yet."""
    if world.watched_by[fd] == NONE:
        return False
    interests = set_of(world, fd)
    if is_ready(world, fd):
        list_ready(world, interests, fd)  # for recovery: what a poll would find
    woken = send(world, interests, fd, world.news)
    if interests.own.polls:
        return wake_one(world, interests) or woken
    return woken


@inlined
def tells(world: World, fd: int) -> bool:
    """Return whether a signal of *fd* is queued, or pending, or whatever was lost will be found."""
    interests = set_of(world, fd)
    queue = queue_of(interests)
    memory: SignalMemory = interests.own
    recovers = memory.recovers or (queue.sigio and world.server.recovery != _NOTHING)
    return queue.queued[fd] > 0 or is_pending(world, fd) or recovers or memory.polls


def asking(n_max: int) -> Wait:
    """Return the call that takes up to *n_max* signals, and recovers if one of them is SIGIO."""

    @jitable
    def ask(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time of one call that takes signals; EAGAIN if it may not block."""
        costs, memory = world.costs.mechanism, worker.interests.own
        queue = queue_of(worker.interests)
        if memory.polls:
            for cost_ns in ask_by_poll(world, worker):
                yield cost_ns
            return
        world.counts[_ASKS] += 1
        blocks = may_block(world, worker)
        worker.spin_ns = costs.call_ns
        yield costs.call_ns
        while blocks and queue.n == 0 and not queue.sigio:
            for cost_ns in sleep(world, worker):
                yield cost_ns
            worker.activity = _WAIT
        if world.server.poll_above > 0 and queue.n >= world.server.poll_above:
            memory.polls = True
        lost = queue.sigio and (queue.n == 0 or not world.server.overflow_told_last)
        if lost:
            queue.sigio = False
        memory.recovers = lost and world.server.recovery != _NOTHING
        n_room = min(n_max, world.server.max_events) if n_max > 1 else 1
        n_taken = 1 if lost else 0
        while n_taken < n_room:
            entry = dequeue(queue)
            if entry == NONE:
                break
            note(world, worker.interests, queue.fds[entry], says(queue, entry))
            n_taken += 1
            if queue.fds[entry] == worker.listener_fd and not queue.coalesced:
                worker.n_listener_signals += 1
        worker.n_notices += n_taken
        worker.n_listener_left = 0 if queue.coalesced else queue.queued[worker.listener_fd]
        if n_taken > 0:
            yield n_taken * costs.signal_ns
        if memory.recovers:
            worker.n_listener_signals = 0  # others were lost: who accepts must drain the queue
            worker.n_listener_left = 0
            for cost_ns in recover(world, worker):
                yield cost_ns

    return ask


def _plain_memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> SignalMemory:
    return signal_memory(server, n_fds, column)


def signalled(
    name: str,
    ask: Wait,
    *,
    fds: int = 0,
    memory: Callable[[ServerSettings, int, MakeColumn], SignalMemory] = _plain_memory,
) -> Mechanism:
    """Return the mechanism of that *name* that takes signals by *ask*, from so many descriptors."""
    return Mechanism(
        name,
        fds,
        arm_ns,
        arm,
        no_call_ns,
        rearm,
        keep_ns,
        disarm,
        arm_idle,
        notify,
        wait_with(ask),
        memory,
        would_block,
        tells=tells,
        pass_ns=pass_ns,
    )
