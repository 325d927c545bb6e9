"""A limit on open connections that follows their latency: it shrinks as that grows.

    first reply ──latency──► least so far ──► gradient = tolerance x least / latency, in 1/2 .. 1
                               limit ──a fifth of the way──► limit x gradient + √limit

The root is the queue that is allowed for: without it a limit could never grow. A server that uses
less than half of its limit learns nothing about it, so then the limit stays. The latency is from
the accept queue to the first reply, all that a server can see of it. A connection that waits to be
accepted is not open, so an accept limit leaves little to this one.

Sources: Netflix 2018, "Performance under load" (adaptive concurrency limits, "gradient"); the idea
is that of TCP Vegas (Brakmo and Peterson 1995).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...sim.state import count
from ...sim.state.world import World

_MICRO = 1_000_000
_PERMILLE = 1_000
_STEP = 5  # of the way to where the limit should be
LIMIT_AT_FIRST = 20


@dataclass(slots=True, eq=False)
class ConcurrencyLimit:
    """What a worker makes of the latencies that it saw."""

    limit: int = LIMIT_AT_FIRST * _MICRO  # in millionths of a connection
    least_ns: int = 0  # 0: none was seen


def _n_open(world: World) -> int:
    """Return how many connections are open, the idle population left out."""
    return max(0, world.counts[count.CONNECTIONS_OPEN] - world.n_idle)


def is_beyond(world: World, limit: ConcurrencyLimit) -> bool:
    """Return whether more connections are open than the limit allows."""
    if world.server.concurrency_tolerance_permille == 0:
        return False
    return _n_open(world) * _MICRO > limit.limit


def note_latency(world: World, limit: ConcurrencyLimit, fd: int) -> None:
    """Learn from the reply that was just sent on *fd*, if it is the first one."""
    c = world.connection_of[fd]
    if world.server.concurrency_tolerance_permille > 0 and world.answered[c] == 1:
        learn(world, limit, max(1, world.now_ns - world.queued_ns[c]), _n_open(world))


def learn(world: World, limit: ConcurrencyLimit, latency_ns: int, n_open: int) -> None:
    """Move the limit by one *latency_ns* that was seen with so many connections open."""
    if limit.least_ns == 0 or latency_ns < limit.least_ns:
        limit.least_ns = latency_ns
    if 2 * n_open * _MICRO < limit.limit:
        return
    tolerated_ns = world.server.concurrency_tolerance_permille * limit.least_ns
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
