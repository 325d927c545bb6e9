"""The record of a run: times of every connection, every counter, every nanosecond of CPU time.

A connection of the trace may take several attempts, each a row:

    trace    connection 0             connection 1
    rows     0 1 2                    3 4 5              each `rows_each` attempts, used or not
    record   due ─── first ...        ... last ─── done, status

A user sees one connection: it is due with its first attempt, and ends as its last attempt. An
attempt continues with the request that the previous one left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..clients.backend import count_backend_times
from ..cpu.interrupts import take_ledger
from ..kernel.handing_over import hands_over
from ..state.family_settings import Threads
from ..state.kinds import NEVER_NS, NONE, Status
from ..state.mechanism import Mechanism
from ..state.program_settings import Sharing
from ..state.world import World
from ..wire.paths import paths_of
from .fates import fates_of, stranded
from .queue_lengths import SAMPLE_COLUMNS

Integers = NDArray[np.int64]


def last_attempts(intended_ns: Integers, rows_each: int) -> Integers:
    """Return the row of each connection's last attempt that is planned, shape (connections,).

    Parameters
    ----------
    intended_ns:
        When each attempt is due, -1 where it is not; shape (connections * rows_each,).
    rows_each:
        Attempts of a connection at most.
    """
    n_planned = (intended_ns.reshape(-1, rows_each) != NONE).sum(axis=1)
    first = np.arange(n_planned.size) * rows_each
    return np.asarray(first + np.maximum(n_planned, 1) - 1, np.int64)


class Requests(NamedTuple):
    """Requests that were due; one entry each, int64, shape (requests,).

    Attributes
    ----------
    due_ns:
        Time when its client wanted to send it.
    row:
        The row of the connection that carried it last, -1 while it waits at its client.
    ended_ns, status:
        Time of its reply or failure, -1 without one; as in `Status`.
    """

    due_ns: Integers
    row: Integers
    ended_ns: Integers
    status: Integers

    def take(self, index: NDArray[Any]) -> Requests:
        """Return the entries at *index*."""
        return Requests(*(column[index] for column in self))


def requests_of(world: World, end_ns: int) -> Requests:
    """Return all requests of *world* as they were at *end_ns*, in order of their numbers.

    A request without a reply ends as its connection does. If a connection is lost in a pause, the
    request after the pause is never due (NEVER_NS).
    """
    due_ns, reply_ns, row = (
        _array(column[: world.n_requests])
        for column in (world.due_ns, world.reply_ns, world.asked_on)
    )
    ended_ns, status = _array(world.done_ns)[row], _array(world.status)[row]
    if world.is_kept:
        row = np.where(_is_sent_beyond(row, reply_ns, end_ns), NONE, row)
    waits = row == NONE
    ended_ns[waits], status[waits] = NONE, int(Status.OPEN)
    replied = reply_ns >= 0
    ended_ns[replied], status[replied] = reply_ns[replied], int(Status.REPLIED)
    timeout_ns = world.client.timeout_ns
    if timeout_ns > 0:
        over = waits & (due_ns + timeout_ns <= end_ns)
        ended_ns[over], status[over] = due_ns[over] + timeout_ns, int(Status.TIMEOUT)
    # Free clients know their future: what lies beyond the end has not happened.
    due_ns = np.where((ended_ns != NONE) & (ended_ns < due_ns), NEVER_NS, due_ns)
    beyond = ended_ns > end_ns
    ended_ns[beyond], status[beyond] = NONE, int(Status.OPEN)
    return Requests(due_ns, row, ended_ns, status)


def _is_sent_beyond(row: Integers, reply_ns: Integers, end_ns: int) -> NDArray[np.bool_]:
    """Return which requests of kept connections were sent after a reply beyond *end_ns*.

    A client computes when it will have read a reply, and sends its next request then: beyond the
    end, that has not happened either.
    """
    beyond: NDArray[np.bool_] = reply_ns > end_ns
    if not beyond.any():
        return beyond
    not_replied: NDArray[np.bool_] = reply_ns == NONE
    return not_replied & np.isin(row, row[beyond])


_EVERY = slice(None)
"""An index that takes all, without a copy."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The record of one run; all times are int64 ns from its start, -1 where not reached.

    Attributes
    ----------
    duration_ns, mark_ns:
        End of the run and beginning of the measured window (0: it is the whole run).
    intended_ns, started_ns, connected_ns, done_ns, status:
        One entry a connection that was due, in order of start; status as in `Status`. Of several
        attempts it is the first that was intended and started, the last that ended it.
    attempts:
        How many connections its client has opened for each, or is about to.
    due_ns, reply_ns, asked_on:
        One entry a request that was due, in order of their connections: when its client wanted to
        send it, when it had the whole reply, and its connection by its place in this record, -1
        where it waits at its client for one.
    ended_ns, ended_as:
        When each of these ended, and how, as in `Status`: without a reply as its connection did.
    cpu_ledger_ns, cpu_ledger_mark_ns:
        CPU time, shape (CPUs, activities), over the run, and up to the mark; each row adds up to
        the time elapsed.
    counts, counts_mark:
        Counters by `Count` over the run, and up to the mark.
    samples:
        Queue lengths over time, shape (samples, len(SAMPLE_COLUMNS)).
    worker_accepts:
        Connections that each worker accepted.
    worker_connections:
        Connections that each worker has had: see `connections_of_workers`.
    stranded:
        Connections that wait for an event that the server will never get, shape (n, 2): see
        `fates.stranded`.
    path:
        Number of the path that each connection that was due takes, shape (n,); empty without paths.
    n_paths:
        How many paths there are.
    n_silent:
        Requests that clients did not make because the run had no room: above 0, run it again.
    class_of_requests:
        The class of the client of each request that was due, shape (requests,); empty where there
        is one class.
    n_classes:
        How many classes there are; 0 where there is one.
    """

    duration_ns: int
    mark_ns: int
    intended_ns: Integers
    started_ns: Integers
    connected_ns: Integers
    done_ns: Integers
    status: Integers
    attempts: Integers
    due_ns: Integers
    reply_ns: Integers
    asked_on: Integers
    ended_ns: Integers
    ended_as: Integers
    cpu_ledger_ns: Integers
    cpu_ledger_mark_ns: Integers
    counts: Integers
    counts_mark: Integers
    samples: Integers
    worker_accepts: Integers
    stranded: Integers
    path: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    n_paths: int = 0
    n_silent: int = 0
    worker_connections: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    class_of_requests: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    n_classes: int = 0

    @property
    def ledger_ns(self) -> Integers:
        """CPU time by `Activity` over the run, of all CPUs together."""
        return np.asarray(self.cpu_ledger_ns.sum(axis=0), np.int64)

    def fates(self) -> Integers:
        """Return what became of each connection that was due, as in `Fate`, shape (n,)."""
        return fates_of(self.status, np.arange(self.status.size, dtype=np.int64), self.stranded)

    def request_ends(self) -> tuple[Integers, Integers]:
        """Return when each request ended, -1 where it has not, and its fate; shape (requests,).

        One that is open is stranded if its connection is.
        """
        of_connection = self.fates()[self.asked_on]
        is_open = (self.ended_as == Status.OPEN) & (self.asked_on != NONE)
        return self.ended_ns, np.where(is_open, of_connection, self.ended_as)

    def same_as(self, other: Outcome) -> bool:
        """Return whether every entry of both outcomes is equal."""
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in self.__dataclass_fields__
        )


def outcome_of(world: World, duration_ns: int, mechanism: Mechanism) -> Outcome:
    """Return the record of the run of *mechanism* that ended in *world* at *duration_ns*."""
    world.now_ns = duration_ns
    count_backend_times(world)
    first, end, each = world.n_idle, world.end_row, world.rows_each

    def of_trace(column: list[int]) -> Integers:
        rows = _array(column[first:end])
        # A view would keep what the column holds of the idle connections, perhaps millions.
        return rows.copy() if first > 0 else rows

    planned_ns = of_trace(world.intended_ns)
    last: Integers | slice = _EVERY
    n_attempts = np.ones(planned_ns.size // each, np.int64)
    if each > 1:
        last = last_attempts(planned_ns, each)
        n_attempts += last - np.arange(last.size) * each
    intended_ns = planned_ns[::each]
    # Free clients know their future: what lies beyond the end has not happened.
    due = (intended_ns != NONE) & (intended_ns <= duration_ns)
    came = _EVERY if due.all() else due
    done_ns = of_trace(world.done_ns)[last][came]
    status = of_trace(world.status)[last][came]
    late = done_ns > duration_ns
    if late.any():
        status = np.where(late, int(Status.OPEN), status)
    requests = requests_of(world, duration_ns)
    place = np.append(np.cumsum(due) - 1, NONE)  # the last is that of no connection
    connection = place[np.where(requests.row == NONE, NONE, (requests.row - first) // each)]
    order = np.argsort(connection, kind="stable")
    order = order[requests.due_ns[order] <= duration_ns]
    client_class = class_of_requests(world, requests.row)[order] if world.n_classes > 1 else None
    requests = requests.take(order)
    return Outcome(
        duration_ns=duration_ns,
        mark_ns=world.mark_ns,
        intended_ns=intended_ns[came],
        started_ns=of_trace(world.started_ns)[::each][came],
        connected_ns=of_trace(world.connected_ns)[last][came],
        done_ns=_known_by(duration_ns, done_ns),
        status=status,
        attempts=n_attempts[came],
        due_ns=requests.due_ns,
        reply_ns=np.where(requests.status == Status.REPLIED, requests.ended_ns, NONE),
        asked_on=connection[order],
        ended_ns=requests.ended_ns,
        ended_as=requests.status,
        cpu_ledger_ns=ledgers_of(world),
        cpu_ledger_mark_ns=_array([list(cpu.ledger_mark_ns) for cpu in world.cpus]),
        counts=_array(world.counts),
        counts_mark=_array(world.counts_mark),
        samples=samples_of(world),
        worker_accepts=_array([worker.n_accepts for worker in world.workers]),
        stranded=stranded(world, mechanism.tells),
        path=paths_of(np.flatnonzero(due), of_trace(world.class_of)[::each][came], world),
        n_paths=world.n_paths,
        n_silent=world.n_silent,
        worker_connections=connections_of_workers(world),
        class_of_requests=np.zeros(0, np.int64) if client_class is None else client_class,
        n_classes=0 if client_class is None else world.n_classes,
    )


def class_of_requests(world: World, row: Integers) -> Integers:
    """Return the class of the client of each request, made on the connection *row*.

    One that waits at its client for a connection has none: requests on kept connections are
    numbered as the trace has them.
    """
    if world.is_kept:
        user = _array(world.arrival_user[: row.size])
        return np.asarray(_array(world.class_of_user)[user], np.int64)
    return np.asarray(_array(world.class_of)[row], np.int64)


def ledgers_of(world: World) -> Integers:
    """Return the CPU time as of now, shape (CPUs, activities)."""
    ledgers_ns = [[0] * len(cpu.ledger_ns) for cpu in world.cpus]
    for cpu, ledger_ns in zip(world.cpus, ledgers_ns, strict=True):
        take_ledger(world, cpu, ledger_ns)
    return _array(ledgers_ns)


def connections_of_workers(world: World) -> Integers:
    """Return how many connections each worker has had: accepted, handed to it, or open before.

    Silent connections are not counted. Empty with one worker, or where connections belong to no
    worker: threads that wait in one set serve any connection, and a thread that was started for a
    connection has no other.
    """
    n = world.n_siblings or len(world.workers)
    is_shared = world.program.sharing == Sharing.READY_LIST
    if n == 1 or is_shared or world.blocking.threads != Threads.POOL:
        return np.zeros(0, np.int64)
    accepts = _array([worker.n_accepts for worker in world.workers])
    found = accepts.reshape(-1, n).sum(axis=0)  # a sibling accepts for its worker
    first = 0
    if hands_over(world):
        first, takers = 1, np.arange(n - 1)
        found = np.append(0, (accepts.sum() + n - 2 - takers) // (n - 1))
    if world.is_kept and len(world.sets) - world.n_siblings == n:
        ends = world.n_users * np.arange(n - first + 1) // (n - first)
        found[first:] += np.diff(ends)  # as `beginning` divides them
    return np.asarray(found if found.any() else [], np.int64)  # a client accepts none


def samples_of(world: World) -> Integers:
    """Return the queue lengths over time, shape (samples, len(SAMPLE_COLUMNS))."""
    n_columns = len(SAMPLE_COLUMNS)
    return _array(world.samples[: world.n_samples * n_columns]).reshape(-1, n_columns)


def _known_by(duration_ns: int, times_ns: Integers) -> Integers:
    """Return *times_ns*, without those that lie beyond the end of the run."""
    beyond = times_ns > duration_ns
    return np.where(beyond, NONE, times_ns) if beyond.any() else times_ns


def _array(values: list[int] | list[list[int]]) -> Integers:
    """Return *values* as int64; an array of them is not copied, as a run happens once."""
    return np.asarray(values, dtype=np.int64)
