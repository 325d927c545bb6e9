"""Overload control: who comes in too many is reset at once, so that the others are served.

    limiter    events told of in a call ──running mean──► above the threshold: reset who is accepted
    deadline   time in the accept queue ──► older than it may be: reset
    gradient   latency ──► limit on open connections (models/concurrency_limit.py) ──► reset
    drop       open connections ──► above the bound: SYNs are lost in the interrupt, at its price

A reset costs an accept and a close, a reply several times that: rejecting early is cheap, and the
earlier the cheaper. The mean is taken of the events that the kernel tells in one call, so it is
bounded by how many a call may return, and it lags: that is all that the limiter knows.

Sources: Provos, Lever and Tweedie 2000, §5 (23 signals a call, gain 0.3, threshold 18); Nichols and
Jacobson 2012, "Controlling queue delay", and Maurer 2015, "Fail at scale" (a deadline that is short
while the queue has been standing); Mogul and Ramakrishnan 1997 (drop as early as you can).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..sim.columns import MakeColumn
from ..sim.jitable import inlined
from ..sim.processor import Worker
from ..sim.settings import ServerSettings
from ..sim.world import World
from .concurrency_limit import ConcurrencyLimit, is_beyond, note_latency

_MICRO = 1_000_000
_PERMILLE = 1_000


@dataclass(slots=True, eq=False)
class Control:
    """What a worker knows of its load."""

    concurrency: ConcurrencyLimit
    mean_told: int = 0  # events told of in a call, a running mean in millionths


def control(server: ServerSettings, n_fds: int, column: MakeColumn) -> Control:
    """Return the knowledge of a worker that was told of nothing yet."""
    del server, n_fds, column
    return Control(ConcurrencyLimit())


@inlined
def note_told(world: World, worker: Worker, n_told: int) -> None:
    """Let the running mean know of a call that told of *n_told* events."""
    gain = world.server.limiter_gain_permille
    if gain > 0:
        knows: Control = worker.own
        rest = (_PERMILLE - gain) * knows.mean_told
        knows.mean_told = (gain * n_told * _MICRO + rest) // _PERMILLE


@inlined
def note_reply(world: World, worker: Worker, fd: int, left: int) -> None:
    """Let the limit on open connections know of a reply on *fd*, unless bytes of it are left."""
    knows: Control = worker.own
    if left == 0:
        note_latency(world, knows.concurrency, fd)


@inlined
def is_unwanted(world: World, worker: Worker, fd: int) -> bool:
    """Return whether the connection that was accepted as *fd* is to be reset."""
    server = world.server
    knows: Control = worker.own
    if server.limiter_gain_permille > 0 and knows.mean_told > server.limiter_threshold * _MICRO:
        return True
    if is_beyond(world, knows.concurrency):
        return True
    if server.queue_deadline_ns > 0:
        waited_ns = world.now_ns - world.queued_ns[world.connection_of[fd]]
        standing_ns = world.now_ns - worker.listener.empty_ns
        if standing_ns > server.queue_interval_ns:
            return waited_ns > server.queue_deadline_ns
        return waited_ns > server.queue_interval_ns
    return False
