# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
"""The calendar as a heap in one array: three words an entry, (time_ns, rank and sequence, subject).

The order is that of sim/event_calendar.py, where SimPy keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..event_calendar import RANK_SHIFT, first_due_ns, schedule
from ..jitable import inlined
from ..processor import NEVER_NS
from .parts import body_of

if TYPE_CHECKING:
    from ..world import World

_WORDS = 3
MARGIN = 64
"""Free entries that the engine makes sure of before each step and each occurrence: more than follow
from any one of them."""


PATIENCE = 500_000
"""Occurrences between two looks at what the user wants: about a tenth of a second."""


@dataclass(slots=True, eq=False)
class HeapCalendar:
    """The calendar of a compiled run.

    An empty one keeps a first entry that is never due.
    """

    entries: list[int]
    full: int  # so many entries that more room is wanted: MARGIN below what there is room for
    n: int = 0
    sequence: int = 0
    patience: int = PATIENCE
    stop_ns: int = NEVER_NS  # the end of the run
    on_pause: int = 0  # address of what to call when something wants care

    def schedule_at(self, at_ns: int, kind: int, subject: int) -> None:
        """Let the occurrence *kind* befall *subject* at *at_ns* (the engine run as Python)."""
        push(self, at_ns, kind, subject)

    def first_due_ns(self) -> int:
        """Return when the first entry is due, or the run ends (the engine run as Python)."""
        return min(self.entries[0], self.stop_ns)


def heap_calendar(room: int) -> HeapCalendar:
    """Return an empty calendar for *room* entries."""
    entries = np.zeros(_WORDS * room, np.int64)
    entries[0] = NEVER_NS
    return HeapCalendar(entries, room - MARGIN)  # type: ignore[arg-type]


def enlarge(calendar: HeapCalendar) -> None:
    """Double the room of *calendar*."""
    larger = np.zeros(2 * len(calendar.entries), np.int64)
    larger[: len(calendar.entries)] = calendar.entries
    calendar.entries = larger  # type: ignore[assignment]
    calendar.full = len(larger) // _WORDS - MARGIN


Words = NDArray[np.int64]


def calendar_columns(calendar: HeapCalendar) -> tuple[Words, Words, Words]:
    """Return times, kinds and subjects of all entries, in no order; the last is a view."""
    entries = np.asarray(calendar.entries)[: _WORDS * calendar.n].reshape(-1, _WORDS)
    return entries[:, 0], entries[:, 1] >> RANK_SHIFT, entries[:, 2]


@inlined
def wants_care(world: World) -> bool:
    """Return whether the run must pause: something has to grow, or the user may want something."""
    calendar = world.calendar
    calendar.patience -= 1
    return (
        calendar.patience < 0 or calendar.n >= calendar.full or world.next_row >= world.refill_row
    )


@inlined
def push(calendar: HeapCalendar, at_ns: int, kind: int, subject: int) -> None:
    """Let the occurrence *kind* befall *subject* at *at_ns*."""
    entries = calendar.entries
    calendar.sequence += 1
    order = (kind << RANK_SHIFT) + calendar.sequence
    i = calendar.n
    calendar.n += 1
    while i > 0:
        parent = (i - 1) >> 1
        parent_ns = entries[_WORDS * parent]
        if parent_ns < at_ns or (parent_ns == at_ns and entries[_WORDS * parent + 1] < order):
            break
        entries[_WORDS * i] = parent_ns
        entries[_WORDS * i + 1] = entries[_WORDS * parent + 1]
        entries[_WORDS * i + 2] = entries[_WORDS * parent + 2]
        i = parent
    entries[_WORDS * i] = at_ns
    entries[_WORDS * i + 1] = order
    entries[_WORDS * i + 2] = subject


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
    # An empty calendar keeps the last entry's words: they must not look like one that is due.
    entries[i] = at_ns if calendar.n > 0 else NEVER_NS
    entries[i + 1] = order
    entries[i + 2] = subject


@body_of(schedule)
def _schedule(world, at_ns, kind, subject):
    def plan(world, at_ns, kind, subject):
        push(world.calendar, at_ns, kind, subject)

    return plan


@body_of(first_due_ns)
def _first_due_ns(world):
    def due_ns(world):
        return min(world.calendar.entries[0], world.calendar.stop_ns)

    return due_ns
