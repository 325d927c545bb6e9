"""Signals that a server fetches from a queue: one or many a call, one an event or a descriptor.

    watch: arm ──► notify: send ──► ask: dequeue up to n_max, or recover ──► readiness ──► wait

They differ in the number of signals a call takes, in coalescing by the kernel, and in their costs.
Sources: as for models/signals/signal_queue.py; calibration/c/servers/signal_queue.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...sim.kernel import interest_set
from ...sim.kernel.handing_over import is_sibling
from ...sim.kernel.sleeping import sleep
from ...sim.state.columns import MakeColumn, fill
from ...sim.state.family_settings import Recovery
from ...sim.state.kinds import NONE, READABLE, WRITABLE, activity, count
from ...sim.state.mechanism import Mechanism, Trait, spend, step
from ...sim.state.settings import RunSettings
from ...sim.state.world import InterestSet, Worker, World
from ..entry import CSupport, entry
from ..remembering import readiness
from . import signal_queue
from .overflow_recovery import ask_by_poll, recover
from .sibling import keep_ns, signalled_set

_NOTHING = int(Recovery.NOTHING)
_EITHER = READABLE | WRITABLE


def arm(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Call fcntl three times (F_SETSIG, F_SETOWN, O_ASYNC): events of *fd* are signalled now.

    Events that came before are never signalled, so *fd* is taken to be ready.
    """
    arm_ns = world.costs.mechanism.arm_ns + keep_ns(world)
    yield from spend(worker, activity.WATCH, arm_ns)
    interest_set.add_interest(world, worker.interests, fd, interest)
    readiness.assume(world, worker.interests, fd, _EITHER)


def rearm(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Change the interest in *fd*: the kernel signals all events, so no call is made."""
    yield from spend(worker, activity.REWATCH, 0)
    interest_set.change_interest(world, worker.interests, fd, interest)
    readiness.want(world, worker.interests, fd)


def disarm(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Take *fd* out of the array for poll; its queued signals stay queued."""
    yield from spend(worker, activity.UNWATCH, keep_ns(world))
    interest_set.drop_interest(world, worker.interests, fd)


def pass_ns(world: World, fd: int) -> int:
    """Return the CPU time of F_SETOWN alone: one of the three calls that arm a descriptor."""
    cost_ns: int = world.costs.mechanism.arm_ns
    return cost_ns // 3


def arm_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors armed, after a read of each has found nothing."""
    fill(interests.own.readiness.known, first_fd, end_fd, WRITABLE)


def notify(world: World, fd: int) -> bool:
    """Queue a signal of the event on *fd*, if it is armed."""
    if world.watched_by[fd] == NONE:
        return False
    interests = interest_set.set_of(world, fd)
    if interest_set.is_ready(world, fd):
        interest_set.list_ready(world, interests, fd)  # for recovery: what a poll would find
    woken = signal_queue.send(world, signalled_set(world, interests), fd, world.news[fd])
    if polls(world, interests):
        return interest_set.wake_one(world, interests) or woken
    return woken


def polls(world: World, interests: InterestSet) -> bool:
    """Return whether the thread of that set polls instead of taking signals."""
    memory: signal_queue.SignalMemory = interests.own
    return memory.polls or is_sibling(world, interests.number)


def tells(world: World, fd: int) -> bool:
    """Return whether *fd* has a signal queued, is pending, or will be found by a poll."""
    interests = interest_set.set_of(world, fd)
    queue = signal_queue.queue_of(interests)
    memory: signal_queue.SignalMemory = interests.own
    recovers = memory.recovers or (queue.sigio and world.signals.recovery != _NOTHING)
    is_found = queue.queued[fd] > 0 or readiness.is_pending(world, fd)
    return is_found or recovers or polls(world, interests)


def asking(n_max: int) -> readiness.Wait:
    """Return the call that takes up to *n_max* signals, and recovers if one of them is SIGIO."""

    def ask(world: World, worker: Worker) -> Iterator[int]:
        """Call once to take signals, or poll; the call returns at once if something is pending."""
        if polls(world, worker.interests):
            yield from ask_by_poll(world, worker)
        else:
            yield from ask_for_signals(world, worker)

    def ask_for_signals(world: World, worker: Worker) -> Iterator[int]:
        costs, memory = world.costs.mechanism, worker.interests.own
        queue = signal_queue.queue_of(worker.interests)
        world.counts[count.ASKS] += 1
        blocks = readiness.may_block(world, worker)
        worker.spin_ns = costs.call_ns
        yield from step(worker, activity.WAIT, costs.call_ns)
        while blocks and queue.n == 0 and not queue.sigio:
            yield from sleep(world, worker)
        if 0 < world.signals.poll_above <= queue.n:
            memory.polls = True
        lost = _take_sigio(world, queue)
        memory.recovers = lost and world.signals.recovery != _NOTHING
        n_room = min(n_max, world.program.max_events) if n_max > 1 else 1
        n_taken = 1 if lost else 0
        n_taken += take_signals(world, worker, n_room - n_taken)
        worker.n_notices += n_taken
        worker.n_listener_left = 0 if queue.coalesced else queue.queued[worker.listener_fd]
        yield from spend(worker, activity.WAIT, n_taken * costs.signal_ns)
        if memory.recovers:
            # Signals were lost, perhaps of the listener: accept must empty its queue.
            worker.n_listener_signals = 0
            worker.n_listener_left = 0
            yield from recover(world, worker)

    return ask


def _take_sigio(world: World, queue: signal_queue.SignalQueue) -> bool:
    """Take SIGIO off the queue if it is the next signal; return whether it was."""
    is_next = queue.sigio and (queue.n == 0 or not world.signals.overflow_told_last)
    if is_next:
        queue.sigio = False
        world.counts[count.OVERFLOWS] += 1
    return is_next


def take_signals(world: World, worker: Worker, n_room: int) -> int:
    """Take up to *n_room* signals off the queue, and note them; return how many."""
    queue = signal_queue.queue_of(worker.interests)
    n_taken = 0
    while n_taken < n_room and queue.n > 0:
        entry = signal_queue.dequeue(queue)
        fd = queue.fds[entry]
        readiness.note(world, worker.interests, fd, signal_queue.reported_by(queue, entry))
        n_taken += 1
        if fd == worker.listener_fd and not queue.coalesced:
            worker.n_listener_signals += 1
    signal_queue.count_queued(world)
    return n_taken


def _plain_memory(
    settings: RunSettings, n_fds: int, column: MakeColumn
) -> signal_queue.SignalMemory:
    return signal_queue.signal_memory(settings, n_fds, column)


def signalled(
    name: str,
    ask: readiness.Wait,
    *,
    fds: int = 0,
    memory: Callable[[RunSettings, int, MakeColumn], signal_queue.SignalMemory] = _plain_memory,
) -> Mechanism:
    """Return the mechanism *name* that takes signals by *ask*, and has its own descriptors."""
    return Mechanism(
        name,
        fds=fds,
        watch=arm,
        rewatch=rearm,
        unwatch=disarm,
        watch_idle=arm_idle,
        notify=notify,
        wait=readiness.wait_with(ask),
        memory=memory,
        blocked=readiness.would_block,
        tells=tells,
        pass_ns=pass_ns,
        traits=frozenset({Trait.BY_SIGNALS}),
        watch_memory="armed_bytes",
    )


def _coalesced_memory(
    settings: RunSettings, n_fds: int, column: MakeColumn
) -> signal_queue.SignalMemory:
    """Return an empty queue that coalesces."""
    return signal_queue.signal_memory(settings, n_fds, column, coalesced=True)


SIGNALS_MAX = 500
"""Signals that one call takes (Provos, Lever and Tweedie 2000, §5)."""

RT_SIGNALS = signalled("rt_signals", asking(1))
"""RT signals: each event on a descriptor queues a signal, and sigwaitinfo takes one a call.

            interrupt                       sigwaitinfo
    event ──────────► queue of signals ──────────────────► readiness ──► event
             steals ns   bounded: SIGIO        one

Three calls of fcntl arm a connection. The signal is blocked, and only ever taken from the queue.
When the queue was full the server flushes it and asks all descriptors for their state (poll).
Sources: Chandra and Mosberger 2001, §3.4; Provos and Lever 2000, §5;
models/signals/signal_queue.py; calibration/c/servers/rt_signals.c.
"""

SIGNAL_PER_FD = signalled("signal_per_fd", asking(1), memory=_coalesced_memory)
"""signal-per-fd: at most one queued signal for each descriptor, for all its events.

                  bit set?  interrupt                       sigwaitinfo, clears the bit
    event ──────► nothing
             └──► no ──────► queue of signals ──────────────────► readiness ──► event
                             one a descriptor        one

The queue holds no more signals than there are descriptors, so a bound of that many is never
reached. A signal reports an event without its kind, so the server tries the descriptor. The bit
belongs to a number: after a close it may stand for the next connection of that number.
Never merged into Linux. Source: Chandra and Mosberger 2001, §5; calibration/c/servers/
signal_per_fd.c.
"""

SIGTIMEDWAIT4 = signalled("sigtimedwait4", asking(SIGNALS_MAX), fds=1)
"""sigtimedwait4: one call takes many queued signals; their number shows the load.

            interrupt                       sigtimedwait4
    event ──────────► queue of signals ──────────────────► readiness ──► events
             steals ns   bounded: SIGIO     up to 500

One pass over the queue returns them all. A timeout of zero returns EAGAIN without queued signals, a
negative timeout waits forever. With room for one signal the call is sigtimedwait.
Never merged into Linux. Source: Provos, Lever and Tweedie 2000, §3 and §5 (500 signals);
calibration/c/servers/sigtimedwait4.c.
"""

SIGNALFD = signalled("signalfd", asking(SIGNALS_MAX), fds=2)
"""signalfd: queued signals are read from a descriptor, many a call.

            interrupt                       read(signalfd)
    event ──────────► queue of signals ──────────────────► readiness ──► events
             steals ns   bounded: SIGIO     up to 500

The closest to sigtimedwait4 in today's Linux. The server has two of these descriptors, a blocking
and a non-blocking one, as blocking is a property of the descriptor.
Sources: signalfd(2); Linux fs/signalfd.c signalfd_read(); calibration/c/servers/signalfd_batch.c.
"""

_WORDS = {
    "call_ns": "a call that fetches signals, until it looks",
    "event_ns": "the server's own, for each event",
}

ENTRIES = (
    entry(
        __name__,
        RT_SIGNALS,
        signal_queue.SignalCosts,
        "Chandra and Mosberger 2001, §3.4",
        aliases=("signals", "sigio", "rtsig"),
        wait_call="sigwaitinfo",
        about="RT signals: each event on a descriptor queues a signal, and sigwaitinfo takes one a "
        "call.",
        c_support=CSupport.LINUX,
        c_server="rt_signals",
        words=_WORDS,
    ),
    entry(
        __name__,
        SIGNAL_PER_FD,
        signal_queue.SignalCosts,
        "Chandra and Mosberger 2001, §5",
        wait_call="sigwaitinfo",
        about="signal-per-fd: at most one queued signal for each descriptor, for all its events.",
        c_support=CSupport.INSERTED,
        c_server="signal_per_fd",
        words=_WORDS,
    ),
    entry(
        __name__,
        SIGTIMEDWAIT4,
        signal_queue.SignalCosts,
        "Provos, Lever and Tweedie 2000, §3",
        wait_call="sigtimedwait4",
        about="sigtimedwait4: one call takes many queued signals; their number shows the load.",
        c_support=CSupport.INSERTED,
        c_server="sigtimedwait4",
        words=_WORDS,
    ),
    entry(
        __name__,
        SIGNALFD,
        signal_queue.SignalCosts,
        "signalfd(2)",
        wait_call="read(signalfd)",
        about="signalfd: queued signals are read from a descriptor, many a call.",
        c_support=CSupport.LINUX,
        c_server="signalfd_batch",
        words=_WORDS,
    ),
)
