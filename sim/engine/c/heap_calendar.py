"""The calendar as C keeps it: a heap of keys in one array, and their subjects beside.

A key is two words: the order (kind and sequence number), then the time; C reads both as one number
of 128 bits. The order is that of sim/state/event_calendar.py, where SimPy keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...state.kinds import NEVER_NS

Words = NDArray[np.int64]

MARGIN = 64
"""Free entries that the engine makes sure of before each step and each occurrence: more than follow
from any one of them."""
N_UNTIL_RETURN = 500_000
"""Occurrences between two returns to Python: about a tenth of a second."""
SEQUENCE_BITS = 58
_CACHE_LINE = 64
_NEVER_DUE = (1 << 63) - 1


@dataclass(slots=True, eq=False)
class HeapCalendar:
    """The calendar of a run in C."""

    keys: Any
    subjects: Any
    full: int  # entries at which more room is needed: MARGIN below the room
    n: int = 0
    sequence: int = 0
    n_until_return: int = N_UNTIL_RETURN
    stop_ns: int = NEVER_NS  # the end of the run
    n_begun: int = 0  # CPUs whose first program has begun
    quiet_ns: int = -1  # until when nothing can come in between
    engine: int = 0  # the address of the engine's own state

    def enlarge(self) -> None:
        """Double the room."""
        n = self.n
        room = 2 * (self.full + MARGIN)
        keys, subjects = _columns(room)
        keys[: 2 * n], subjects[:n] = self.keys[: 2 * n], self.subjects[:n]
        self.keys, self.subjects, self.full = keys, subjects, room - MARGIN

    def take_call(self) -> None:
        """Set what `call_python` had taken for full right again."""
        self.full = self.subjects.size - MARGIN

    def columns(self) -> tuple[Words, Words, Words]:
        """Return times, kinds and subjects of all entries, in no order; the last is a view."""
        keys = self.keys[: 2 * self.n]
        return keys[1::2], keys[0::2] >> SEQUENCE_BITS, self.subjects[: self.n]


def heap_calendar(room: int) -> HeapCalendar:
    """Return an empty calendar for *room* entries."""
    return HeapCalendar(*_columns(room), room - MARGIN)


def _columns(room: int) -> tuple[Words, Words]:
    """Return keys that are never due, and as many subjects."""
    # The first key ends a cache line: so the four children of each node share one.
    raw = np.zeros(2 * room + 32, np.int64)
    at = -(raw.ctypes.data + 16) % _CACHE_LINE // 8
    keys = raw[at : at + 2 * room + 8]
    keys[0::2], keys[1::2] = -1, _NEVER_DUE
    return keys, np.zeros(room, np.int64)
