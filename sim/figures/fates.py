"""What became of each connection: one class each, and they add up.

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

from ..state.kinds import status
from .histogram import Integers
from .outcome import Outcome


class Fate(IntEnum):
    """What became of a connection; but for STRANDED, the codes of `Status`."""

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
