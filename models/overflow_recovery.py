"""What a server that is told by signals does when some were lost, or when too many wait.

    SIGIO ──► flush ──► [hand over each descriptor] ──► poll all ──► signals again
                                                          └─ until calm, or for ever ─┘

A poll tells the states that the lost signals would have told. It costs what a scan costs, and an
array of all descriptors, which is built for it or kept up to date at each change. A hybrid server
takes the same way without having lost any: for a short queue signals are cheap, above it a poll is.

Sources: Chandra and Mosberger 2001, §4.1, §4.3 (flush, then multi-accept select); Provos and Lever
2000, §5 (old phhttpd: hand-over, for ever; hybrid); Provos, Lever and Tweedie 2000, §2.4 (0.1.2);
calibration/servers/signal_queue.c signal_queue_recover() is Recovery.POLL.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..sim.containers import sort_prefix
from ..sim.costs import curve_ns
from ..sim.interest_set import InterestSet, is_ready, list_ready, take_first
from ..sim.jitable import jitable
from ..sim.kinds import NONE, Activity, Count
from ..sim.processor import Worker
from ..sim.settings import Recovery
from ..sim.sleeping import sleep
from ..sim.world import World
from .readiness import mark, may_block
from .signal_queue import flush, queue_of

_WAIT, _ASKS = int(Activity.WAIT), int(Count.ASKS)
_OVERFLOWS, _SCANNED = int(Count.OVERFLOWS), int(Count.SCANNED)
_POLL, _FOR_EVER = int(Recovery.POLL), int(Recovery.POLL_FOR_EVER)


@jitable
def recover(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of a flush of the queue, of a hand-over, and of a poll of all.

    First flush, then poll: what happens in between is told twice, and not never.
    """
    costs, interests = world.costs.mechanism, worker.interests
    queue = queue_of(interests)
    world.counts[_OVERFLOWS] += 1
    yield costs.flush_ns + queue.n * costs.discard_ns
    flush(queue)
    if world.server.recovery_hands_over:
        yield interests.n_watched * costs.transfer_ns
    if world.server.recovery == _POLL:
        yield poll_ns(world, interests)
        _hear_of_ready(world, worker)
    else:
        interests.own.polls = True
    interests.own.recovers = False


@jitable
def ask_by_poll(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of a poll of all instead of a call that takes signals."""
    interests = worker.interests
    world.counts[_ASKS] += 1
    blocks = may_block(world, worker)
    yield poll_ns(world, interests)
    n_ready = _hear_of_ready(world, worker)
    if world.server.recovery != _FOR_EVER and n_ready < world.server.calm_below:
        interests.own.polls = False
        return
    worker.spin_ns = poll_ns(world, interests)
    while blocks and n_ready == 0:
        for cost_ns in sleep(world, worker):
            yield cost_ns
        worker.activity = _WAIT
        yield poll_ns(world, interests)
        n_ready = _hear_of_ready(world, worker)


@jitable
def poll_ns(world: World, interests: InterestSet) -> int:
    """Return the CPU time of a poll of all that is watched, with its array."""
    costs, n = world.costs.mechanism, interests.n_watched
    world.counts[_SCANNED] += n
    cost_ns = curve_ns(costs.poll, n)
    if world.server.recovery_array_kept:
        cost_ns = max(0, cost_ns - curve_ns(costs.rebuild, n))
    return cost_ns


@jitable
def _hear_of_ready(world: World, worker: Worker) -> int:
    """Mark what is ready, lowest first; return how many are.

    They stand on the ready list, which here is no part of a kernel: it spares the simulator to look
    at all of them.
    """
    interests = worker.interests
    n_ready = 0
    for _ in range(interests.n_ready):
        fd = take_first(world, interests)
        if fd == NONE:
            continue
        if is_ready(world, fd):
            worker.event_fd[n_ready] = fd
            n_ready += 1
    sort_prefix(worker.event_fd, n_ready)
    for i in range(n_ready):
        fd = worker.event_fd[i]
        list_ready(world, interests, fd)
        mark(world, interests, fd, world.state[fd])
    return n_ready
