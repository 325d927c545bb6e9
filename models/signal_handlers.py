"""RT signals by handlers: each is delivered when the server comes back to user mode.

    event ──► queue of signals ──back to user mode──► frame ─► handler: note it ─ sigreturn ─┐
                                                        ▲         one signal after another   │
                                                        └────────────────────────────────────┘
    nothing noted: block signals, look again, sigsuspend ─► asleep ─► woken: unblock, be told

The handler does no more than note what the signal says, as it may interrupt the server anywhere;
the loop serves what was noted. So no call fetches a signal, but each costs a frame on the stack and
a call that takes it away (rt_sigreturn), at a time that the server does not choose. While a handler
runs signals are blocked; so they are from the last look at what was noted until sigsuspend sleeps,
as one that came in between would be slept over.

Here a signal waits for the end of a step of user code, which it would interrupt. A lost signal is
told by the handler of SIGIO, before all others; the server recovers when it comes to wait. While it
polls instead, signals are blocked.

Sources: Provos and Lever 2000, §5; Chandra and Mosberger 2001, §3.4 (why signals are blocked and
fetched instead); sigsuspend(2), sigreturn(2); Linux kernel/entry/common.c exit_to_user_mode_loop().
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..sim.columns import MakeColumn
from ..sim.costs import Curve, flat
from ..sim.jitable import inlined, jitable
from ..sim.kinds import Activity, Count
from ..sim.mechanism import Mechanism, Program
from ..sim.processor import Worker
from ..sim.settings import Recovery, ServerSettings
from ..sim.sleeping import sleep
from ..sim.world import World
from .event_loop import event_loop
from .overflow_recovery import ask_by_poll, recover
from .overload_control import control
from .readiness import may_block, note, wait_with
from .signal_queue import SignalMemory, dequeue, queue_of, says, signal_memory
from .signalled import signalled

_WAIT, _ASKS = int(Activity.WAIT), int(Count.ASKS)
_NOTHING = int(Recovery.NOTHING)


class SignalHandlerCosts(NamedTuple):
    """CPU time of queued signals that handlers take.

    deliver_ns is what a frame takes until its handler has noted the signal, return_ns sigreturn,
    mask_ns a call that blocks signals or lets them in, call_ns sigsuspend until it looks. The
    others are those of signals that are fetched: models/signal_queue.py.
    """

    arm_ns: int
    queue_ns: int
    call_ns: int
    mask_ns: int
    deliver_ns: int
    return_ns: int
    event_ns: int = 0
    lost_ns: int = 0
    merged_ns: int = 0
    flush_ns: int = 0
    discard_ns: int = 0
    poll: Curve = flat(0)
    rebuild: Curve = flat(0)
    keep_ns: int = 0
    transfer_ns: int = 0


@dataclass(slots=True, eq=False)
class HandlerMemory(SignalMemory):
    """What a worker has whose signals are let in: whether they are blocked, and how many came."""

    blocked: bool = False
    n_told: int = 0  # since the last wait


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> HandlerMemory:
    """Return an empty queue, for a worker that has heard of nothing and lets signals in."""
    kept = signal_memory(server, n_fds, column)
    return HandlerMemory(kept.queue, kept.readiness)


@inlined
def is_let_in(worker: Worker) -> bool:
    """Return whether a signal is queued that *worker* takes as it comes back to user mode."""
    own: HandlerMemory = worker.interests.own
    return not own.blocked and not own.polls and (own.queue.n > 0 or own.queue.sigio)


@jitable
def let_in(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of a handler for each queued signal; SIGIO comes first."""
    costs, own = world.costs.mechanism, worker.interests.own
    queue, activity = queue_of(worker.interests), worker.activity
    while is_let_in(worker):
        # One is taken all the same, or a full queue would have it poll again for ever.
        own.polls = 0 < world.server.poll_above <= queue.n
        own.blocked = True
        if queue.sigio:
            queue.sigio = False
            own.recovers = world.server.recovery != _NOTHING
        else:
            entry = dequeue(queue)
            note(world, worker.interests, queue.fds[entry], says(queue, entry))
        own.n_told += 1
        worker.activity = _WAIT
        yield costs.deliver_ns + costs.return_ns
        own.blocked = False
    worker.activity = activity


@jitable
def ask(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of what a server does that has nothing noted: it sleeps until a signal."""
    costs, own = world.costs.mechanism, worker.interests.own
    queue = queue_of(worker.interests)
    for cost_ns in let_in(world, worker):
        yield cost_ns
    worker.activity = _WAIT
    if own.recovers:
        for cost_ns in recover(world, worker):
            yield cost_ns
        return
    if own.polls:
        for cost_ns in ask_by_poll(world, worker):
            yield cost_ns
        return
    if not may_block(world, worker):
        return
    world.counts[_ASKS] += 1
    worker.spin_ns = costs.event_ns  # who spins looks at what was noted
    if not world.server.busy:
        own.blocked = True
        yield costs.mask_ns + costs.call_ns
    while queue.n == 0 and not queue.sigio:
        for cost_ns in sleep(world, worker):
            yield cost_ns
        worker.activity = _WAIT
    if own.blocked:
        yield costs.mask_ns
        own.blocked = False
    for cost_ns in let_in(world, worker):
        yield cost_ns


wait_for_notes = wait_with(ask)


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one wait; who was told since the last one counts for it."""
    for cost_ns in wait_for_notes(world, worker):
        yield cost_ns
    worker.n_notices = worker.interests.own.n_told
    worker.interests.own.n_told = 0


@functools.cache
def interrupted_loop(mechanism: Mechanism) -> Program:
    """Return the event loop whose steps are followed by the handlers of what was queued."""
    serve_events = event_loop(mechanism).serve

    @jitable
    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Yield the CPU time, in ns, of each step of the loop, and of handlers in between."""
        for cost_ns in serve_events(world, worker):
            if is_let_in(worker):
                for handler_ns in let_in(world, worker):
                    yield handler_ns
            yield cost_ns

    return Program(serve, mechanism, control)


RT_SIGNALS_HANDLER = signalled("rt_signals_handler", ask)._replace(wait=wait, memory=memory)
