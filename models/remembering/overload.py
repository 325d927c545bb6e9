"""Overload control: a server measures its load and resets excess connections at once.

    limiter    events of a wait ──running mean──► above the threshold: reset what is accepted
    deadline   time in the accept queue ──► above the deadline: reset
    gradient   latency ──► limit on open connections ──► reset
    drop       open connections ──► above the bound: SYNs are lost in the interrupt, at its cost

A reset costs an accept and a close, a reply several times as much: rejecting early is cheap. The
limiter uses only the mean number of events that one call returns. This mean cannot exceed the
largest number of events in a call, and it lags.

The limit on open connections follows their latency: it shrinks as that grows.

    first reply ──latency──► least so far ──► gradient = tolerance x least / latency, in 1/2 .. 1
                               limit ──a fifth of the way──► limit x gradient + √limit

The root is an allowance for a queue: without it a limit could never grow. The limit stays while the
server uses less than half of it. The latency runs from the accept queue to the first reply, the
part that a server can see. A connection in the accept queue is not open, so an accept limit leaves
little work for this control.

Sources: Provos, Lever and Tweedie 2000, §5 (23 signals a call, gain 0.3, threshold 18); Nichols and
Jacobson 2012, "Controlling queue delay", and Maurer 2015, "Fail at scale" (a deadline that is short
while the queue has been standing); Mogul and Ramakrishnan 1997 (drop as early as you can); Netflix
2018, "Performance under load" (adaptive concurrency limits, "gradient"); the idea is that of TCP
Vegas (Brakmo and Peterson 1995).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...sim.clients.kept import n_before
from ...sim.kernel import sockets
from ...sim.state.columns import MakeColumn
from ...sim.state.kinds import count
from ...sim.state.settings import RunSettings
from ...sim.state.world import Worker, World

_MICRO = 1_000_000
_PERMILLE = 1_000
_STEP = 5  # of the way to where the limit should be
LIMIT_AT_FIRST = 20


@dataclass(slots=True, eq=False)
class ConcurrencyLimit:
    """The limit on open connections of a worker, from the latencies of its replies."""

    limit: int = LIMIT_AT_FIRST * _MICRO  # in millionths of a connection
    least_ns: int = 0  # 0: none was seen


def _n_open(world: World) -> int:
    """Return the number of open connections, without those that were open before the run."""
    return max(0, world.counts[count.CONNECTIONS_OPEN] - n_before(world))


def learn(world: World, limit: ConcurrencyLimit, latency_ns: int, n_open: int) -> None:
    """Move the limit by one *latency_ns*, measured with *n_open* connections open."""
    if limit.least_ns == 0 or latency_ns < limit.least_ns:
        limit.least_ns = latency_ns
    if 2 * n_open * _MICRO < limit.limit:
        return
    tolerated_ns = world.overload.concurrency_tolerance_permille * limit.least_ns
    gradient = max(_PERMILLE // 2, min(_PERMILLE, tolerated_ns // latency_ns))
    wanted = limit.limit * gradient // _PERMILLE + _root(limit.limit // _MICRO) * _MICRO
    limit.limit = max(_MICRO, limit.limit + (wanted - limit.limit) // _STEP)


def _root(n: int) -> int:
    """Return the integer square root of *n* (Newton's method, from above)."""
    root = n
    better = (root + 1) // 2
    while better < root:
        root = better
        better = (root + n // root) // 2
    return root


@dataclass(slots=True, eq=False)
class Control:
    """A worker's measurements of its load."""

    concurrency: ConcurrencyLimit
    mean_told: int = 0  # events of a wait, a running mean in millionths


def control(settings: RunSettings, n_fds: int, column: MakeColumn) -> Control:
    """Return the measurements of a worker before its first wait."""
    del settings, n_fds, column
    return Control(ConcurrencyLimit())


def note_batch(world: World, worker: Worker, n_events: int) -> None:
    """Include a wait that returned *n_events* in the running mean."""
    gain = world.overload.limiter_gain_permille
    if gain > 0:
        knows: Control = worker.own
        rest = (_PERMILLE - gain) * knows.mean_told
        knows.mean_told = (gain * n_events * _MICRO + rest) // _PERMILLE


def note_reply(world: World, worker: Worker, fd: int, n_left: int) -> None:
    """Update the limit on open connections from the first reply on *fd*, when it is whole."""
    if world.overload.concurrency_tolerance_permille > 0 and n_left == 0:
        c, knows = world.connection_of[fd], worker.own
        if world.answered[c] == 1:
            latency_ns = max(1, world.now_ns - world.queued_ns[c])
            learn(world, knows.concurrency, latency_ns, _n_open(world))


def is_unwanted(world: World, worker: Worker, fd: int) -> bool:
    """Return whether overload control resets the connection accepted as *fd*."""
    limits = world.overload
    knows: Control = worker.own
    if limits.limiter_gain_permille > 0 and knows.mean_told > limits.limiter_threshold * _MICRO:
        return True
    limit = knows.concurrency.limit
    if limits.concurrency_tolerance_permille > 0 and _n_open(world) * _MICRO > limit:
        return True
    return limits.queue_deadline_ns > 0 and has_waited_too_long(world, worker, fd)


def has_waited_too_long(world: World, worker: Worker, fd: int) -> bool:
    """Return whether *fd* waited beyond its deadline, which is short while the queue persists."""
    limits = world.overload
    waited_ns = world.now_ns - world.queued_ns[world.connection_of[fd]]
    standing_ns = world.now_ns - worker.listener.empty_ns
    if standing_ns > limits.queue_interval_ns:
        return waited_ns > limits.queue_deadline_ns
    return waited_ns > limits.queue_interval_ns


def turn_away(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Reset the connection accepted as *fd*."""
    yield from sockets.spend_closing(world, worker, fd, world.costs.call.close_ns)
    sockets.shed(world, fd)
    sockets.close(world, worker, fd)
