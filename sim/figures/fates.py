"""What became of each connection, and of each request: one class each, and they add up.

    offered ─┬─ replied                     all its replies, in time for its client
             ├─ timeout, refused, reset     its client gave up, or was turned away
             ├─ descriptors, ports, dropped it never came to be: none of these, no SYN answered
             ├─ stranded                    it waits for an event of which the server will not hear
             └─ open                        it waits, and may yet be answered

Whoever is open at the end of a run is counted as such: nobody disappears.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ..state import status
from ..state.kinds import NONE
from .histogram import Integers
from .outcome import Outcome

NOT_OFFERED = -1
"""The fate of a request that its client never wanted to send."""


class Fate(IntEnum):
    """What became of a connection or a request; but for STRANDED, the codes of `Status`."""

    REPLIED = status.REPLIED
    TIMEOUT = status.TIMEOUT
    REFUSED = status.REFUSED
    RESET = status.RESET
    DESCRIPTORS = status.DESCRIPTORS
    OPEN = status.OPEN
    DROPPED = status.DROPPED
    PORTS = status.PORTS
    STRANDED = 7


def fates(outcome: Outcome) -> Integers:
    """Return what became of each connection that was offered, as in `Fate`, shape (n,)."""
    numbers = np.arange(outcome.status.size, dtype=np.int64)
    return fates_of(outcome.status, numbers, outcome.stranded)


def fates_of(status: NDArray[np.integer], numbers: Integers, stranded: Integers) -> Integers:
    """Return what became of the connections of these *numbers* in the trace.

    Parameters
    ----------
    status, numbers:
        One entry a connection, shape (n,): as in `Status`, and its row in the trace.
    stranded:
        As of `sim.stranded.stranded`. Whoever has given up is not stranded, whatever waits at the
        server.
    """
    if len(stranded) == 0:
        return np.asarray(status, np.int64)
    found = status.astype(np.int64)
    found[(found == Fate.OPEN) & np.isin(numbers, stranded[:, 0])] = Fate.STRANDED
    return found


def request_fates(outcome: Outcome, requests: Integers) -> Integers:
    """Return what became of each single request, shape (sum of *requests*,).

    Parameters
    ----------
    outcome:
        The record of a run.
    requests:
        How many each connection of the trace makes, as in `Trace`.

    One that has its reply is REPLIED, whatever became of its connection; another that was due by
    the end of the run shares its connection's fate, and what never was due is NOT_OFFERED.
    """
    of_connection = np.full(requests.size, NOT_OFFERED, np.int64)
    of_connection[: outcome.status.size] = fates(outcome)
    found = np.repeat(of_connection, requests)
    found[outcome.reply_ns != NONE] = Fate.REPLIED
    found[(outcome.due_ns == NONE) | (outcome.due_ns > outcome.duration_ns)] = NOT_OFFERED
    return found
