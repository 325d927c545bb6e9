"""Rows of single attempts, and what they come to for the connections of the trace.

    trace    connection 0             connection 1
    rows     0 1 2                    3 4 5              each `rows_each` attempts, used or not
    record   due ─── first ...        ... last ─── done, status

A user sees one connection: wanted when the first attempt was due, ended as the last one did. Of
a request it is the first reply that counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..state.kinds import NONE

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
