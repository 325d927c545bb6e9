"""What a run leaves behind: times of every connection, every counter, every CPU nanosecond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .happenings import SAMPLE_COLUMNS
from .interrupts import take_ledger
from .kinds import NONE, Status
from .world import World

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The record of one run; all times are int64 ns from its start, -1 where not reached.

    Attributes
    ----------
    duration_ns, mark_ns:
        End of the run and beginning of the measured window (0: it is the whole run).
    intended_ns, started_ns, connected_ns, done_ns, status:
        One entry a connection that was due, in order of start; status as in `Status`.
    due_ns, reply_ns:
        One entry a request: when the client wanted to send it, when it had the whole reply.
    ledger_ns, ledger_mark_ns:
        CPU time by `Activity` over the run, and up to the mark; they add up to the time elapsed.
    counts, counts_mark:
        Counters by `Count` over the run, and up to the mark.
    samples:
        Queue lengths over time, shape (samples, len(SAMPLE_COLUMNS)).
    """

    duration_ns: int
    mark_ns: int
    intended_ns: Integers
    started_ns: Integers
    connected_ns: Integers
    done_ns: Integers
    status: Integers
    due_ns: Integers
    reply_ns: Integers
    ledger_ns: Integers
    ledger_mark_ns: Integers
    counts: Integers
    counts_mark: Integers
    samples: Integers

    def same_as(self, other: Outcome) -> bool:
        """Return whether every entry of both outcomes is equal."""
        return all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in self.__dataclass_fields__
        )


def outcome_of(world: World, duration_ns: int) -> Outcome:
    """Return the record of the run that ended in *world* at *duration_ns*."""
    world.now_ns = duration_ns
    n = world.n_traced
    ledger_ns = [0] * len(world.ledger_ns)
    take_ledger(world, ledger_ns)
    intended_ns = _array(world.intended_ns)[:n]
    done_ns = _array(world.done_ns)[:n]
    status = _array(world.status)[:n]
    reply_ns = _array(world.reply_ns)
    # Free clients know their future: what lies beyond the end has not happened.
    due = (intended_ns != NONE) & (intended_ns <= duration_ns)
    late = done_ns > duration_ns
    status = np.where(late, int(Status.OPEN), status)
    done_ns = np.where(late, NONE, done_ns)
    reply_ns = np.where(reply_ns > duration_ns, NONE, reply_ns)
    n_columns = len(SAMPLE_COLUMNS)
    samples = _array(world.samples[: world.n_samples * n_columns]).reshape(-1, n_columns)
    return Outcome(
        duration_ns=duration_ns,
        mark_ns=world.mark_ns,
        intended_ns=intended_ns[due],
        started_ns=_array(world.started_ns)[:n][due],
        connected_ns=_array(world.connected_ns)[:n][due],
        done_ns=done_ns[due],
        status=status[due],
        due_ns=_array(world.due_ns),
        reply_ns=reply_ns,
        ledger_ns=_array(ledger_ns),
        ledger_mark_ns=_array(world.ledger_mark_ns),
        counts=_array(world.counts),
        counts_mark=_array(world.counts_mark),
        samples=samples,
    )


def _array(values: list[int]) -> Integers:
    return np.array(values, dtype=np.int64)
