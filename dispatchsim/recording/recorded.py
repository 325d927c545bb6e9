"""The data of a recorded run: spans of CPUs, occurrences, queues, states, requests.

A state is a snapshot of a server, read from its world: queues, the interest set, the batch. A
request has the time at which its client wanted to send it, and that of its reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..models.catalogue import CATALOGUE
from ..models.completions.completion_port import Port
from ..models.scans.poll_pollfd import PollArray
from ..models.signals.signal_queue import SignalMemory, SignalQueue
from ..scenario.scenario import Scenario
from ..sim.figures.outcome import Outcome
from ..sim.figures.outcome import requests_of as known_requests
from ..sim.figures.queue_lengths import Measure
from ..sim.figures.recording import Event, Lengths, NotedColumn, Span
from ..sim.kernel.interest_set import listed_at
from ..sim.state.kinds import NONE, Activity, Occurrence, Status
from ..sim.state.world import InterestSet, World

IN_INTERRUPT = frozenset({Activity.INTERRUPT, Activity.INTERRUPT_IDLE, Activity.INTERRUPT_OTHER})
"""Work of a CPU for packets that interrupt it, no matter which thread loses the time."""
SHOWN_MAX = 64
"""Most descriptors, or connections of a queue, listed in a state; others are only counted."""


class Watched(NamedTuple):
    """One descriptor in an interest set: its connection, and whether it is ready.

    The connection of the listener is NONE.
    """

    fd: int
    connection: int
    is_ready: bool


class State(NamedTuple):
    """A snapshot of the server and its kernel.

    Attributes
    ----------
    accept_queue:
        Connections that wait to be accepted, in order.
    watched:
        The descriptors of the interest sets, in the order of a scan, without idle connections.
    n_idle:
        Number of idle connections that are watched, too.
    first_idle:
        Number of `watched` before the idle ones in the order of a scan.
    ready:
        Descriptors on the ready list, in order.
    queued:
        Descriptors in the queue of signals, or of completions, in order.
    batch:
        Descriptors that the last wait of the first worker returned.
    """

    accept_queue: tuple[int, ...]
    watched: tuple[Watched, ...]
    n_idle: int
    first_idle: int
    ready: tuple[int, ...]
    queued: tuple[int, ...]
    batch: tuple[int, ...]


def state_of(world: World) -> State:
    """Return the state of the server now."""
    connection_of = world.connection_of
    assert isinstance(connection_of, NotedColumn)
    listeners = {fd for listener in world.listeners for fd in listener.fds[: listener.n_fds]}
    ours = [fd for fd in connection_of.assigned if _peek(world.connection_of, fd) >= world.n_idle]
    found = [fd for fd in (*listeners, *ours) if _peek(world.watched_by, fd) != NONE]
    idle_fd = world.fd_of[0] if world.n_idle else 0
    found.sort(key=lambda fd: _place(world, fd))
    first_idle = sum(_place(world, fd) < _place(world, idle_fd) for fd in found)
    n_watched = sum(interests.n_watched for interests in world.sets)
    worker = world.workers[0]
    return State(
        accept_queue=_accept_queue(world),
        watched=tuple(
            Watched(
                fd,
                NONE if fd in listeners else _peek(connection_of, fd),
                bool(world.state[fd] & world.interest[fd]),
            )
            for fd in found[:SHOWN_MAX]
        ),
        n_idle=max(0, n_watched - len(found)),
        first_idle=min(first_idle, SHOWN_MAX),
        ready=tuple(fd for interests in world.sets for fd in _listed(world, interests)),
        queued=tuple(fd for interests in world.sets for fd in queued_of(interests)),
        batch=tuple(worker.event_fd[: min(worker.n_events, SHOWN_MAX)]),
    )


def _told(world: World) -> int:
    return sum(_n_queued(interests) for interests in world.sets)


TOLD: Mapping[str, Measure] = {"told": _told}
"""The length of the mechanism's own queue: of signals, or of completions."""


def _n_queued(interests: InterestSet) -> int:
    own = interests.own
    if isinstance(own, SignalMemory):
        return own.queue.n
    return own.n if isinstance(own, Port) else 0


def queued_of(interests: InterestSet) -> list[int]:
    """Return the descriptors in the mechanism's own queue, in order."""
    own = interests.own
    if isinstance(own, SignalMemory):
        return _signals(own.queue)
    if isinstance(own, Port):
        last = len(own.packets)
        return [own.packets[(own.first + i) % last] for i in range(min(own.n, SHOWN_MAX))]
    return []


def _signals(queue: SignalQueue) -> list[int]:
    found: list[int] = []
    for head in queue.heads:
        entry = head
        while entry != NONE and len(found) < SHOWN_MAX:
            found.append(queue.fds[entry])
            entry = queue.after[entry]
    return found


def _accept_queue(world: World) -> tuple[int, ...]:
    found: list[int] = []
    for listener in world.listeners:
        last = len(listener.queue) - 1
        n = min(listener.n_queued, SHOWN_MAX)
        found += [listener.queue[(listener.first_queued + i) & last] for i in range(n)]
    return tuple(found)


def _listed(world: World, interests: InterestSet) -> list[int]:
    places = range(interests.first_ready, interests.first_ready + interests.n_ready)
    found = (listed_at(world, interests, place) for place in places)
    return [fd for fd in found if fd != NONE][:SHOWN_MAX]


def _place(world: World, fd: int) -> int:
    """Return the place of *fd* in the order of a scan: that of the array, or of descriptors."""
    number = _peek(world.watched_by, fd)
    own = world.sets[number].own if number != NONE else None
    return own.slot_of[fd] if isinstance(own, PollArray) else fd


def _peek(column: list[int], fd: int) -> int:
    """Return an entry without recording the access."""
    return list.__getitem__(column, fd)


class Request(NamedTuple):
    """One request of a connection: the first of its attempts.

    Attributes
    ----------
    connection, number:
        Its connection and its number there, from 0; NONE while it waits at its client.
    due_ns, end_ns:
        The time at which its client wanted to send it, and that at which it had the whole reply or
        gave up; NONE if neither is in the window.
    status:
        Its end; OPEN if it did not end within the window.
    """

    connection: int
    number: int
    due_ns: int
    end_ns: int
    status: Status

    @property
    def replied(self) -> bool:
        """Whether the whole reply arrived within the window."""
        return self.status is Status.REPLIED


def requests_of(world: World, begin_ns: int, end_ns: int) -> tuple[Request, ...]:
    """Return the requests that were due or under way within the window, in order of due times.

    Requests that ended before it, with or without a reply, are not included.
    """
    first, each = world.n_idle, world.rows_each
    asked = known_requests(world, end_ns - 1)  # events after the window have not happened
    is_near = (asked.due_ns < end_ns) & ((asked.ended_ns == NONE) | (asked.ended_ns >= begin_ns))
    # The attempts of a connection share its number, and the requests of one follow each other.
    connection = first + (asked.row - first) // each * each
    order = np.argsort(connection, kind="stable")
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size) - np.searchsorted(connection[order], connection[order])
    found = [
        Request(
            int(connection[i]) if asked.row[i] != NONE else NONE,
            int(number[i]),
            int(asked.due_ns[i]),
            int(asked.ended_ns[i]),
            Status(int(asked.status[i])),
        )
        for i in np.flatnonzero(is_near)
    ]
    return tuple(sorted(found, key=lambda one: (one.due_ns, one.connection, one.number)))


if TYPE_CHECKING:
    import pandas as pd

STATES = 600
"""Number of states of the server that are kept, for the step-through."""


@dataclass(frozen=True, repr=False)
class Recorded:
    """A run of *scenario* from *begin_ns* until *end_ns*.

    Attributes
    ----------
    scenario, seed, profile:
        The run; the profile by its name.
    begin_ns, end_ns:
        The window that was recorded in full, in ns from the start of the run.
    asked_end_ns:
        The end of the requested window; later than *end_ns* if there were too many entries.
    spans, events, lengths:
        As in `sim.recording.Recorder`.
    queue_names:
        The columns of *lengths*.
    states:
        The first `STATES` states of the server in the window, each with its beginning.
    requests:
        Requests of clients that were due or under way in the window.
    n_cpus, n_workers:
        CPUs of the server, and threads of its program; other threads have higher numbers.
    outcome:
        The record of the run until *asked_end_ns*.
    """

    scenario: Scenario
    seed: int
    profile: str
    begin_ns: int
    end_ns: int
    asked_end_ns: int
    spans: tuple[Span, ...]
    events: tuple[Event, ...]
    lengths: tuple[Lengths, ...]
    queue_names: tuple[str, ...]
    states: tuple[tuple[int, State], ...]
    requests: tuple[Request, ...]
    n_cpus: int
    n_workers: int
    outcome: Outcome

    @property
    def frame(self) -> pd.DataFrame:
        """One row per span of a CPU, by its beginning; -1 means none."""
        import pandas as pd

        frame = pd.DataFrame(self.spans, columns=list(Span._fields))
        frame.insert(4, "what", [Activity(a).name for a in frame.pop("activity")])
        frame["kind"] = ["" if k == NONE else Occurrence(k).name for k in frame["kind"]]
        return frame.sort_values(["begin_ns", "cpu"], kind="stable", ignore_index=True)

    @property
    def queues(self) -> pd.DataFrame:
        """One row per change: the length of each queue from *at_ns* on."""
        import pandas as pd

        rows = [(at_ns, *lengths) for at_ns, lengths in self.lengths]
        return pd.DataFrame(rows, columns=["at_ns", *self.queue_names])

    @property
    def occurrences(self) -> pd.DataFrame:
        """One row per occurrence: time, kind, connection (-1: none)."""
        import pandas as pd

        frame = pd.DataFrame(self.events, columns=list(Event._fields))
        frame["kind"] = [Occurrence(kind).name for kind in frame["kind"]]
        return frame

    def name_of(self, activity: int) -> str:
        """Return the name of *activity*, with the call of the mechanism for waits."""
        if activity == Activity.WAIT:
            return CATALOGUE[self.scenario.server.mechanism].wait_call
        return str(Activity(activity).name).lower().replace("_", " ")

    def thread_name(self, thread: int) -> str:
        """Return the name of the thread with this number."""
        other = thread - self.n_workers
        if other < 0:
            return f"worker {thread}"
        if other < self.n_cpus:
            return f"ksoftirqd/{other}"
        if other < 2 * self.n_cpus:
            return f"stall of CPU {other - self.n_cpus}"
        return f"other process {other - 2 * self.n_cpus}"

    def steps_of_threads(self) -> list[Span]:
        """Return each step of a thread as one span, including interrupts within it."""
        steps: dict[int, Span] = {}
        for span in self.spans:
            if span.step == NONE:
                continue
            first = steps.setdefault(span.step, span)
            steps[span.step] = first._replace(end_ns=span.end_ns)
        return list(steps.values())

    @property
    def states_end_ns(self) -> int:
        """The time until which states of the server are known."""
        return self.states[-1][0] if len(self.states) == STATES else self.end_ns
