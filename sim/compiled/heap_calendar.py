# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
"""The calendar as a heap in one array: three words an entry, (time_ns, rank and sequence, subject).

The order is that of sim/event_calendar.py, where SimPy keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba.extending import overload

from ..event_calendar import RANK_SHIFT, schedule
from ..jitable import inlined, jitable
from ..processor import NEVER_NS

_WORDS = 3
MARGIN = 64
"""Free entries that the engine makes sure of: more than the consequences of any one thing."""


@dataclass(slots=True, eq=False)
class HeapCalendar:
    """The calendar of a compiled run; `entries` has room for `room` of them."""

    entries: list[int]
    room: int
    n: int = 0
    sequence: int = 0

    def schedule_at(self, at_ns: int, kind: int, subject: int) -> None:
        """Let the occurrence *kind* befall *subject* at *at_ns* (the engine run as Python)."""
        push(self, at_ns, kind, subject)


def heap_calendar(room: int) -> HeapCalendar:
    """Return an empty calendar for *room* entries."""
    return HeapCalendar(np.zeros(_WORDS * room, np.int64), room)  # type: ignore[arg-type]


def enlarge(calendar: HeapCalendar) -> None:
    """Double the room of *calendar*."""
    larger = np.zeros(2 * len(calendar.entries), np.int64)
    larger[: len(calendar.entries)] = calendar.entries
    calendar.entries = larger  # type: ignore[assignment]
    calendar.room *= 2


@jitable
def next_ns(calendar: HeapCalendar) -> int:
    """Return when the next occurrence is due."""
    return calendar.entries[0] if calendar.n > 0 else NEVER_NS


@inlined
def push(calendar: HeapCalendar, at_ns: int, kind: int, subject: int) -> None:
    """Let the occurrence *kind* befall *subject* at *at_ns*."""
    entries = calendar.entries
    calendar.sequence += 1
    order = (kind << RANK_SHIFT) + calendar.sequence
    i = _WORDS * calendar.n
    calendar.n += 1
    while i > 0:
        parent = (i // _WORDS - 1) // 2 * _WORDS
        parent_ns = entries[parent]
        if parent_ns < at_ns or (parent_ns == at_ns and entries[parent + 1] < order):
            break
        entries[i] = parent_ns
        entries[i + 1] = entries[parent + 1]
        entries[i + 2] = entries[parent + 2]
        i = parent
    entries[i] = at_ns
    entries[i + 1] = order
    entries[i + 2] = subject


@inlined
def drop_first(calendar: HeapCalendar) -> None:
    """Take the first entry off the calendar."""
    entries = calendar.entries
    calendar.n -= 1
    end = _WORDS * calendar.n
    at_ns, order, subject = entries[end], entries[end + 1], entries[end + 2]
    i, child = 0, _WORDS
    while child < end:
        child_ns, child_order = entries[child], entries[child + 1]
        other = child + _WORDS
        if other < end and (
            entries[other] < child_ns
            or (entries[other] == child_ns and entries[other + 1] < child_order)
        ):
            child, child_ns, child_order = other, entries[other], entries[other + 1]
        if at_ns < child_ns or (at_ns == child_ns and order < child_order):
            break
        entries[i] = child_ns
        entries[i + 1] = child_order
        entries[i + 2] = entries[child + 2]
        i, child = child, 2 * child + _WORDS
    entries[i] = at_ns
    entries[i + 1] = order
    entries[i + 2] = subject


@overload(schedule)
def _schedule(world, at_ns, kind, subject):
    def plan(world, at_ns, kind, subject):
        push(world.calendar, at_ns, kind, subject)

    return plan
