"""Overload control: excess connections are reset at once, so that the server serves the others.

    limiter    events of a wait ──running mean──► above the threshold: reset what is accepted
    deadline   time in the accept queue ──► older than it may be: reset
    gradient   latency ──► limit on open connections (models/overload/concurrency_limit.py) ──►
    reset drop       open connections ──► above the bound: SYNs are lost in the interrupt, at its
    cost

A reset costs an accept and a close, a reply several times that: rejecting early is cheap, and the
earlier the cheaper. The mean is taken of the events that one call returns, so it is bounded by how
many a call may return, and it lags: the limiter knows nothing else.

Sources: Provos, Lever and Tweedie 2000, §5 (23 signals a call, gain 0.3, threshold 18); Nichols and
Jacobson 2012, "Controlling queue delay", and Maurer 2015, "Fail at scale" (a deadline that is short
while the queue has been standing); Mogul and Ramakrishnan 1997 (drop as early as you can).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...sim.state.columns import MakeColumn
from ...sim.state.settings import ServerSettings
from ...sim.state.threads import Worker
from ...sim.state.world import World
from .concurrency_limit import ConcurrencyLimit, is_beyond, note_latency

_MICRO = 1_000_000
_PERMILLE = 1_000


@dataclass(slots=True, eq=False)
class Control:
    """What a worker knows of its load."""

    concurrency: ConcurrencyLimit
    mean_told: int = 0  # events of a wait, a running mean in millionths


def control(server: ServerSettings, n_fds: int, column: MakeColumn) -> Control:
    """Return the knowledge of a worker that has not waited yet."""
    del server, n_fds, column
    return Control(ConcurrencyLimit())


def note_batch(world: World, worker: Worker, n_events: int) -> None:
    """Have the running mean include a wait that returned *n_events*."""
    gain = world.server.limiter_gain_permille
    if gain > 0:
        knows: Control = worker.own
        rest = (_PERMILLE - gain) * knows.mean_told
        knows.mean_told = (gain * n_events * _MICRO + rest) // _PERMILLE


def note_reply(world: World, worker: Worker, fd: int, n_left: int) -> None:
    """Have the limit on open connections learn from a reply on *fd*, unless bytes are left."""
    knows: Control = worker.own
    if n_left == 0:
        note_latency(world, knows.concurrency, fd)


def is_unwanted(world: World, worker: Worker, fd: int) -> bool:
    """Return whether the connection that was accepted as *fd* is to be reset."""
    server = world.server
    knows: Control = worker.own
    if server.limiter_gain_permille > 0 and knows.mean_told > server.limiter_threshold * _MICRO:
        return True
    if is_beyond(world, knows.concurrency):
        return True
    return server.queue_deadline_ns > 0 and has_waited_too_long(world, worker, fd)


def has_waited_too_long(world: World, worker: Worker, fd: int) -> bool:
    """Return whether *fd* waited beyond its deadline, which is short while the queue stands."""
    server = world.server
    waited_ns = world.now_ns - world.queued_ns[world.connection_of[fd]]
    standing_ns = world.now_ns - worker.listener.empty_ns
    if standing_ns > server.queue_interval_ns:
        return waited_ns > server.queue_deadline_ns
    return waited_ns > server.queue_interval_ns
