"""What a run leaves behind: times of every connection, every counter, every CPU nanosecond.

A connection of the trace may take several attempts, each a row:

    trace    connection 0             connection 1
    rows     0 1 2                    3 4 5              each `rows_each` attempts, used or not
    record   due ─── first ...        ... last ─── done, status

A user sees one connection: wanted when the first attempt was due, ended as the last one did. Of
a request it is the first reply that counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..cpu.interrupts import take_ledger
from ..state.kinds import NONE, Status
from ..state.mechanism import Mechanism
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


def first_known(times_ns: Integers, requests: Integers, rows_each: int) -> Integers:
    """Return, of each request of a connection, the time in the first attempt that has one.

    Parameters
    ----------
    times_ns:
        A time for each request of each attempt, -1 where there is none; one row after the other.
    requests:
        Requests of each attempt, shape (connections * rows_each,), the same in all of a connection.
    rows_each:
        Attempts of a connection at most.
    """
    if rows_each == 1:
        return times_ns
    attempt = np.repeat(np.arange(requests.size) % rows_each, requests)
    times_ns = times_ns[: attempt.size]
    known_ns = times_ns[attempt == 0]
    for number in range(1, rows_each):
        known_ns = np.where(known_ns == NONE, times_ns[attempt == number], known_ns)
    return np.asarray(known_ns, np.int64)


def waiting_since(
    is_open: NDArray[np.bool_],
    requests: Integers,
    due_ns: Integers,
    reply_ns: Integers,
    end_ns: int,
) -> Integers:
    """Return when each request was due that waits for its reply at *end_ns*, shape (n,).

    A client that thinks, or that has given up, waits for nothing.

    Parameters
    ----------
    is_open, requests:
        Of each connection, shape (connections,): whether it is due and has not ended by *end_ns*,
        and how many requests it makes.
    due_ns, reply_ns:
        Of each request, one connection after the other; -1 where that never came.
    """
    of_open = is_open if requests.size == due_ns.size else np.repeat(is_open, requests)
    # A client that asks at the very end has not waited.
    waits = of_open & (due_ns != NONE) & (due_ns < end_ns)
    waits &= (reply_ns == NONE) | (reply_ns > end_ns)
    return np.asarray(due_ns[waits], np.int64)


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
    due_ns, reply_ns:
        One entry a request: when the client wanted to send it, when it had the whole reply.
    waiting_since_ns:
        When each request was due that waits for its reply at the end: as of `waiting_since`.
    cpu_ledger_ns, cpu_ledger_mark_ns:
        CPU time, shape (CPUs, activities), over the run, and up to the mark; each row adds up to
        the time elapsed.
    counts, counts_mark:
        Counters by `Count` over the run, and up to the mark.
    samples:
        Queue lengths over time, shape (samples, len(SAMPLE_COLUMNS)).
    worker_accepts:
        Connections that each worker accepted.
    stranded:
        Connections that wait for an event of which the server will not hear, shape (n, 2): as of
        `fates.stranded`.
    path:
        Number of the path that each connection that was due takes, shape (n,); empty without paths.
    n_paths:
        How many paths there are.
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
    waiting_since_ns: Integers
    cpu_ledger_ns: Integers
    cpu_ledger_mark_ns: Integers
    counts: Integers
    counts_mark: Integers
    samples: Integers
    worker_accepts: Integers
    stranded: Integers
    path: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    n_paths: int = 0

    @property
    def ledger_ns(self) -> Integers:
        """CPU time by `Activity` over the run, of all CPUs together."""
        return np.asarray(self.cpu_ledger_ns.sum(axis=0), np.int64)

    @property
    def ledger_mark_ns(self) -> Integers:
        """CPU time by `Activity` up to the mark, of all CPUs together."""
        return np.asarray(self.cpu_ledger_mark_ns.sum(axis=0), np.int64)

    def fates(self) -> Integers:
        """Return what became of each connection that was due, as in `Fate`, shape (n,)."""
        return fates_of(self.status, np.arange(self.status.size, dtype=np.int64), self.stranded)

    def same_as(self, other: Outcome) -> bool:
        """Return whether every entry of both outcomes is equal."""
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in self.__dataclass_fields__
        )


def outcome_of(world: World, duration_ns: int, mechanism: Mechanism) -> Outcome:
    """Return the record of the run of *mechanism* that ended in *world* at *duration_ns*."""
    world.now_ns = duration_ns
    first, end, each = world.n_idle, world.end_row, world.rows_each

    def of_trace(column: list[int]) -> Integers:
        rows = _array(column[first:end])
        # A view would keep what the column holds of the idle connections, perhaps millions.
        return rows.copy() if first > 0 else rows

    planned_ns = of_trace(world.intended_ns)
    requests = of_trace(world.requests)
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
    due_ns = first_known(_array(world.due_ns), requests, each)
    reply_ns = _known_by(duration_ns, first_known(_array(world.reply_ns), requests, each))
    is_open = due.copy()
    is_open[due] = status == Status.OPEN
    return Outcome(
        duration_ns=duration_ns,
        mark_ns=world.mark_ns,
        intended_ns=intended_ns[came],
        started_ns=of_trace(world.started_ns)[::each][came],
        connected_ns=of_trace(world.connected_ns)[last][came],
        done_ns=_known_by(duration_ns, done_ns),
        status=status,
        attempts=n_attempts[came],
        due_ns=due_ns,
        reply_ns=reply_ns,
        waiting_since_ns=waiting_since(is_open, requests[::each], due_ns, reply_ns, duration_ns),
        cpu_ledger_ns=ledgers_of(world),
        cpu_ledger_mark_ns=_array([list(cpu.ledger_mark_ns) for cpu in world.cpus]),
        counts=_array(world.counts),
        counts_mark=_array(world.counts_mark),
        samples=samples_of(world),
        worker_accepts=_array([worker.n_accepts for worker in world.workers]),
        stranded=stranded(world, mechanism.tells),
        path=paths_of(np.flatnonzero(due), world),
        n_paths=world.n_paths,
    )


def ledgers_of(world: World) -> Integers:
    """Return the CPU time as of now, shape (CPUs, activities)."""
    ledgers_ns = [[0] * len(cpu.ledger_ns) for cpu in world.cpus]
    for cpu, ledger_ns in zip(world.cpus, ledgers_ns, strict=True):
        take_ledger(world, cpu, ledger_ns)
    return _array(ledgers_ns)


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
