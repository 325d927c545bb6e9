"""RT signals by handlers: each signal interrupts the server in a handler, on return to user mode.

    event ──► queue of signals ──back to user mode──► frame ─► handler: note it ─ sigreturn ─┐
                                                        ▲         one signal after another   │
                                                        └────────────────────────────────────┘
    nothing noted: block signals, check again, sigsuspend ─► asleep ─► woken: unblock, handler

The handler only records the event, as it may interrupt the server anywhere; the loop serves the
recorded events. No call fetches a signal, but each signal costs a stack frame and a call that
removes it (rt_sigreturn), at a time that the server does not choose. Signals are blocked while a
handler runs. They are also blocked from the last check of recorded events until sigsuspend sleeps:
otherwise the server would sleep despite a signal in between.

Here a signal waits for the end of a step of user code, which it would interrupt in reality. The
handler of SIGIO, before all others, reports a lost signal; the server recovers at its next wait.
While it polls instead, signals are blocked.

Sources: Provos and Lever 2000, §5; Chandra and Mosberger 2001, §3.4 (why signals are blocked and
fetched instead); sigsuspend(2), sigreturn(2); Linux kernel/entry/common.c exit_to_user_mode_loop().
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...sim.kernel.sleeping import sleep
from ...sim.state.columns import MakeColumn
from ...sim.state.costs import Curve, flat
from ...sim.state.family_settings import Recovery
from ...sim.state.kinds import activity, count
from ...sim.state.mechanism import Mechanism, Program, spend
from ...sim.state.settings import RunSettings
from ...sim.state.world import Worker, World
from ..entry import Borrowed, entry
from ..programs.event_loop import event_loop
from ..remembering import readiness
from ..remembering.overload import control
from . import signal_queue
from .overflow_recovery import ask_by_poll, recover
from .signalled import polls, signalled

_NOTHING = int(Recovery.NOTHING)


class SignalHandlerCosts(NamedTuple):
    """CPU time of queued signals that handlers take.

    deliver_ns is what a frame takes until its handler has noted the signal, return_ns sigreturn,
    mask_ns a call that blocks or unblocks signals, call_ns sigsuspend until it sleeps. The
    others are those of signals that are fetched: models/signals/signal_queue.py.
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
    send_fd_ns: int = 0
    receive_fd_ns: int = 0


@dataclass(slots=True, eq=False)
class HandlerMemory(signal_queue.SignalMemory):
    """The memory of a worker with handlers: whether signals are blocked, and how many came."""

    blocked: bool = False
    n_told: int = 0  # since the last wait


def memory(settings: RunSettings, n_fds: int, column: MakeColumn) -> HandlerMemory:
    """Return an empty queue, for a worker without reports that lets signals in."""
    kept = signal_queue.signal_memory(settings, n_fds, column)
    return HandlerMemory(kept.queue, kept.readiness)


def is_let_in(worker: Worker) -> bool:
    """Return whether *worker* will take a queued signal on its return to user mode."""
    own: HandlerMemory = worker.interests.own
    return not own.blocked and not own.polls and (own.queue.n > 0 or own.queue.sigio)


def let_in(world: World, worker: Worker) -> Iterator[int]:
    """Run a handler for each queued signal; SIGIO comes first."""
    costs, own = world.costs.mechanism, worker.interests.own
    queue, interrupted = signal_queue.queue_of(worker.interests), worker.activity
    while is_let_in(worker):
        # One signal is taken nevertheless: otherwise the server would poll forever at a full queue.
        own.polls = 0 < world.signals.poll_above <= queue.n
        own.blocked = True
        if queue.sigio:
            queue.sigio = False
            world.counts[count.OVERFLOWS] += 1
            own.recovers = world.signals.recovery != _NOTHING
        else:
            entry = signal_queue.dequeue(queue)
            signal_queue.count_queued(world)
            readiness.note(
                world, worker.interests, queue.fds[entry], signal_queue.reported_by(queue, entry)
            )
        own.n_told += 1
        yield from spend(worker, activity.WAIT, costs.deliver_ns + costs.return_ns)
        own.blocked = False
    worker.activity = interrupted


def ask(world: World, worker: Worker) -> Iterator[int]:
    """Take the queued signals; sleep until there is one if nothing is noted."""
    own = worker.interests.own
    yield from let_in(world, worker)
    if own.recovers:
        yield from recover(world, worker)
    elif polls(world, worker.interests):
        yield from ask_by_poll(world, worker)
    elif readiness.may_block(world, worker):
        yield from suspend(world, worker)
        yield from let_in(world, worker)


def suspend(world: World, worker: Worker) -> Iterator[int]:
    """Block signals, sleep in sigsuspend until one is queued, and unblock them."""
    costs, own = world.costs.mechanism, worker.interests.own
    queue = signal_queue.queue_of(worker.interests)
    world.counts[count.ASKS] += 1
    worker.spin_ns = costs.event_ns  # a server that spins checks what was noted
    if not world.program.busy:
        own.blocked = True
        yield from spend(worker, activity.WAIT, costs.mask_ns + costs.call_ns)
    while queue.n == 0 and not queue.sigio:
        yield from sleep(world, worker)
    if own.blocked:
        yield from spend(worker, activity.WAIT, costs.mask_ns)
        own.blocked = False


wait_for_notes = readiness.wait_with(ask)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Wait for events; signals that were taken since the last wait count for this one."""
    yield from wait_for_notes(world, worker)
    worker.n_notices = worker.interests.own.n_told
    worker.interests.own.n_told = 0


@functools.cache
def interrupted_loop(mechanism: Mechanism) -> Program:
    """Return the event loop in which handlers run before each step, if signals are queued."""
    serve_events = event_loop(mechanism).serve

    def serve(world: World, worker: Worker) -> Iterator[int]:
        """Run the steps of the loop, and handlers in between."""
        for cost_ns in serve_events(world, worker):
            if is_let_in(worker):
                yield from let_in(world, worker)
            yield cost_ns

    return Program(serve, mechanism, control, asks_backend=True)


RT_SIGNALS_HANDLER = signalled("rt_signals_handler", ask)._replace(wait=wait, memory=memory)

_FROM_RT_SIGNALS: Borrowed = {
    name: (f"rt_signals.{name}",)
    for name in (
        *("arm_ns", "queue_ns", "call_ns", "event_ns", "lost_ns", "flush_ns"),
        *("discard_ns", "poll"),
    )
}

ENTRIES = (
    entry(
        __name__,
        RT_SIGNALS_HANDLER,
        SignalHandlerCosts,
        "Provos and Lever 2000, §5",
        wait_call="sigsuspend",
        program="interrupted_loop",
        words={
            "call_ns": "sigsuspend, until it looks",
            "mask_ns": "a call that blocks signals, or lets them in",
            "deliver_ns": "a frame on the stack, until its handler has noted the signal",
            "return_ns": "the call that takes the frame away (sigreturn)",
            "event_ns": "the server's own, for each event",
        },
        # A frame is made where sigwaitinfo returns one signal's siginfo; the rest of the registers,
        # which it holds too, is not in that. sigreturn and sigprocmask do little but enter the
        # kernel.
        borrowed={
            **_FROM_RT_SIGNALS,
            "mask_ns": ("call.crossing_ns",),
            "deliver_ns": ("rt_signals.signal_ns",),
            "return_ns": ("call.crossing_ns",),
        },
    ),
)
