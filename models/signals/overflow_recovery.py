"""What a server that takes signals does when some were lost, or when too many wait.

    SIGIO ──► flush ──► [hand over each descriptor] ──► poll all ──► signals again
                                                          └─ until calm, or for ever ─┘

A poll reports the states that the lost signals would have reported. It costs a scan, and an array
of all descriptors, which is built for it or kept up to date at each change. A hybrid server does
the same without a loss: for a short queue signals are cheap, for a long one a poll is.

A hand-over to a sibling thread costs a message for each descriptor, and no second thread runs: the
first one would have nothing left to do (docs/explanation/limits.md has bounds).

Sources: Chandra and Mosberger 2001, §4.1, §4.3 (flush, then multi-accept select); Provos and Lever
2000, §5 (old phhttpd: hand-over, for ever; hybrid); Provos, Lever and Tweedie 2000, §2.4 (0.1.2);
calibration/c/servers/signal_queue.c signal_queue_recover() is Recovery.POLL.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ...sim.kernel import interest_set
from ...sim.kernel.sleeping import sleep
from ...sim.state.columns import sort_prefix
from ...sim.state.costs import curve_ns
from ...sim.state.family_settings import Recovery
from ...sim.state.kinds import NONE, activity, count
from ...sim.state.mechanism import spend
from ...sim.state.world import InterestSet, Worker, World
from ..remembering import readiness
from . import signal_queue

_POLL, _FOR_EVER = int(Recovery.POLL), int(Recovery.POLL_FOR_EVER)


def recover(world: World, worker: Worker) -> Iterator[int]:
    """Flush the queue, hand over all descriptors, and poll them.

    First flush, then poll: what happens in between is reported twice, and not lost.
    """
    costs, interests = world.costs.mechanism, worker.interests
    queue = signal_queue.queue_of(interests)
    flush_ns = costs.flush_ns + queue.n * costs.discard_ns
    yield from spend(worker, activity.WAIT, flush_ns)
    signal_queue.flush(queue)
    signal_queue.count_queued(world)
    if world.signals.recovery_hands_over:
        transfer_ns = interests.n_watched * costs.transfer_ns
        yield from spend(worker, activity.WAIT, transfer_ns)
    if world.signals.recovery == _POLL:
        yield from poll_all(world, worker)
    else:
        interests.own.polls = True
    interests.own.recovers = False


def ask_by_poll(world: World, worker: Worker) -> Iterator[int]:
    """Poll all instead of taking signals, until it is calm again."""
    interests = worker.interests
    world.counts[count.ASKS] += 1
    blocks = readiness.may_block(world, worker)
    n_ready = yield from poll_all(world, worker)
    if world.signals.recovery != _FOR_EVER and n_ready < world.signals.calm_below:
        interests.own.polls = False
        return
    worker.spin_ns = poll_ns(world, interests)
    while blocks and n_ready == 0:
        yield from sleep(world, worker)
        n_ready = yield from poll_all(world, worker)


def poll_all(world: World, worker: Worker) -> Generator[int, None, int]:
    """Call poll once on all that is watched; return how many are ready."""
    world.counts[count.SCANNED] += worker.interests.n_watched
    yield from spend(worker, activity.WAIT, poll_ns(world, worker.interests))
    return _mark_ready(world, worker)


def poll_ns(world: World, interests: InterestSet) -> int:
    """Return the CPU time of a poll of all that is watched, with its array."""
    costs, n = world.costs.mechanism, interests.n_watched
    cost_ns = curve_ns(costs.poll, n)
    if world.signals.recovery_array_kept:
        cost_ns = max(0, cost_ns - curve_ns(costs.rebuild, n))
    return cost_ns


def _mark_ready(world: World, worker: Worker) -> int:
    """Mark what is ready, lowest first; return how many are.

    The ready list is no part of a kernel here: it spares the simulator a check of all descriptors.
    """
    interests = worker.interests
    n_ready = 0
    for _ in range(interests.n_ready):
        fd = interest_set.take_first(world, interests)
        if fd == NONE:
            continue
        if interest_set.is_ready(world, fd):
            worker.event_fd[n_ready] = fd
            n_ready += 1
    sort_prefix(worker.event_fd, n_ready)
    for i in range(n_ready):
        fd = worker.event_fd[i]
        interest_set.list_ready(world, interests, fd)
        readiness.mark(world, interests, fd, world.state[fd])
    return n_ready
