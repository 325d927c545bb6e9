"""Recovery of a server that takes signals, after a loss or when too many are queued.

    SIGIO ──► flush ──► poll all ──► signals again
                          └─ until calm, or for ever ─┘

A poll reports the states that the lost signals would have reported. It costs a scan and an array of
all descriptors, which is built for it or kept up to date at each change. A hybrid server also polls
without a loss: for a short queue signals are cheaper, for a long queue a poll is.

If each worker has a sibling, that thread polls, and gets all descriptors for that time:
models/signals/sibling.py.

Sources: Chandra and Mosberger 2001, §4.1, §4.3 (flush, then multi-accept select); Provos and Lever
2000, §5 (old phhttpd: for ever; hybrid); Provos, Lever and Tweedie 2000, §2.4 (0.1.2);
calibration/c/servers/signal_queue.c signal_queue_recover() is Recovery.POLL.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ...sim.kernel import interest_set
from ...sim.kernel.handing_over import has_sibling, is_sibling
from ...sim.kernel.sleeping import sleep
from ...sim.state.columns import sort_prefix
from ...sim.state.costs import curve_ns
from ...sim.state.family_settings import Recovery
from ...sim.state.kinds import NONE, activity, count
from ...sim.state.mechanism import spend
from ...sim.state.world import InterestSet, Worker, World
from ..remembering import readiness
from . import signal_queue
from .sibling import hand_over_all, lend_all, receive_all

_POLL, _FOR_EVER = int(Recovery.POLL), int(Recovery.POLL_FOR_EVER)
_UNTIL_CALM = int(Recovery.POLL_UNTIL_CALM)


def recover(world: World, worker: Worker) -> Iterator[int]:
    """Flush the queue, and poll all descriptors, or have the sibling poll them.

    First flush, then poll: events in between are reported twice, and not lost.
    """
    costs, interests = world.costs.mechanism, worker.interests
    queue = signal_queue.queue_of(interests)
    flush_ns = costs.flush_ns + queue.n * costs.discard_ns
    yield from spend(worker, activity.WAIT, flush_ns)
    signal_queue.flush(queue)
    signal_queue.count_queued(world)
    if has_sibling(world):
        yield from lend_all(world, worker)
    elif world.signals.recovery == _POLL:
        yield from poll_all(world, worker)
    else:
        interests.own.polls = True
    interests.own.recovers = False


def ask_by_poll(world: World, worker: Worker) -> Iterator[int]:
    """Poll all descriptors instead of taking signals, until few are ready."""
    interests = worker.interests
    if is_sibling(world, worker.number):
        yield from ask_as_sibling(world, worker)
        return
    world.counts[count.ASKS] += 1
    blocks = readiness.may_block(world, worker)
    n_ready = yield from poll_all(world, worker)
    if world.signals.recovery != _FOR_EVER and is_calm(world, n_ready):
        interests.own.polls = False
        return
    if blocks and n_ready == 0:
        yield from sleep_until_ready(world, worker)


def ask_as_sibling(world: World, worker: Worker) -> Iterator[int]:
    """Poll all descriptors received from the worker; return them when it takes signals again."""
    own, recovery = worker.interests.own, world.signals.recovery
    if not own.holds:
        yield from receive_all(world, worker)
        own.holds = True
    elif recovery == _POLL:  # it has polled, and served a batch of what it found
        yield from hand_back(world, worker)
        return
    world.counts[count.ASKS] += 1
    blocks = readiness.may_block(world, worker)
    n_ready = yield from poll_all(world, worker)
    if recovery == _FOR_EVER and blocks and n_ready == 0:
        yield from sleep_until_ready(world, worker)
    elif recovery == _UNTIL_CALM and is_calm(world, n_ready):
        yield from hand_back(world, worker)


def is_calm(world: World, n_ready: int) -> bool:
    """Return whether the server returns to signals after a poll that found *n_ready*."""
    return n_ready < world.signals.calm_below


def hand_back(world: World, worker: Worker) -> Iterator[int]:
    """Hand all descriptors of a sibling back to its worker."""
    worker.interests.own.holds = False
    yield from hand_over_all(world, worker)


def sleep_until_ready(world: World, worker: Worker) -> Iterator[int]:
    """Sleep in poll until a descriptor is ready."""
    worker.spin_ns = poll_ns(world, worker.interests)
    n_ready = 0
    while n_ready == 0:
        yield from sleep(world, worker)
        n_ready = yield from poll_all(world, worker)


def poll_all(world: World, worker: Worker) -> Generator[int, None, int]:
    """Call poll once on all watched descriptors; return the number of ready ones."""
    world.counts[count.SCANNED] += worker.interests.n_watched
    yield from spend(worker, activity.WAIT, poll_ns(world, worker.interests))
    return _mark_ready(world, worker)


def poll_ns(world: World, interests: InterestSet) -> int:
    """Return the CPU time of a poll of all watched descriptors, with its array."""
    costs, n = world.costs.mechanism, interests.n_watched
    cost_ns = curve_ns(costs.poll, n)
    if world.signals.recovery_array_kept:
        cost_ns = max(0, cost_ns - curve_ns(costs.rebuild, n))
    return cost_ns


def _mark_ready(world: World, worker: Worker) -> int:
    """Mark the ready descriptors, lowest first; return their number.

    The ready list is not the kernel's here: it saves the simulator a check of all descriptors.
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
