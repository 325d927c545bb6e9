"""What is handed to the engine: what will happen (`schedule`), and what is ready now (`post`).

Occurrences are ordered by (time_ns, rank, sequence), on SimPy's own event queue.

The rank is the kind of the occurrence and the sequence counts what was scheduled, so that the
order at one nanosecond is part of the model and the same on every engine; SimPy's insertion
order never decides. SimPy processes of a user run before the occurrences of that nanosecond.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from heapq import heappop, heappush
from typing import Any

import simpy

from .world import Worker, World

RANK_SHIFT = 44
"""Ranks stand above the sequence number: 2**44 occurrences of one kind before they would meet."""


OnHappening = Callable[[int, int, int], None]
"""(at_ns, kind, subject): an occurrence is due, and happens."""
Work = Callable[[Worker, int], simpy.Event]
"""(worker, fd): begin the process that a request on *fd* needs; its event ends the wait for it."""


class Calendar(simpy.Environment):
    """A SimPy environment whose occurrences are due at whole nanoseconds, in an explicit order.

    Attributes
    ----------
    entries:
        SimPy's own heap; its first entry is what is due next. SimPy's events are (time, priority,
        number, event), occurrences (time, rank, kind, subject): nobody waits for an occurrence, and
        every connection has several, so that they are spared the state of an event.
    stop_ns:
        The end of the run, which SimPy has on the calendar a nanosecond later.
    led:
        Connections whose clients are processes of SimPy: none but in a `HostedRun`.
    work:
        The process that is a part of each request: (worker, fd) -> its event; None: there is none.
    """

    led: Container[int] = ()
    work: Work | None = None

    def __init__(self, on_happening: OnHappening, stop_ns: int) -> None:
        super().__init__(initial_time=0)
        self.stop_ns = stop_ns
        self.entries: list[Any] = self._queue
        self._on_happening = on_happening
        self._sequence = 0

    def schedule_at(self, at_ns: int, kind: int, subject: int) -> None:
        """Let the occurrence *kind* befall *subject* at *at_ns*."""
        self._sequence += 1
        # SimPy compares priorities as they are; ranks beyond its own 0 and 1 are welcome, and
        # no two are equal, so that the third place of an entry is never looked at.
        heappush(self.entries, (at_ns, (kind << RANK_SHIFT) + self._sequence, kind, subject))

    def step(self) -> None:
        """Let happen what is due next: an occurrence, or an event of SimPy."""
        if not self.entries or type(self.entries[0][3]) is not int:
            super().step()
            return
        at_ns, _, kind, subject = heappop(self.entries)
        self._now = at_ns
        self._on_happening(at_ns, kind, subject)

    def first_due_ns(self) -> int:
        """Return when the first entry is due, or the run ends."""
        return min(int(self.entries[0][0]), self.stop_ns)


def first_due_ns(world: World) -> int:
    """Return until when nothing happens by itself; engine/calendar.h has this in C."""
    due_ns: int = world.calendar.first_due_ns()
    return due_ns


def is_led(world: World, c: int) -> bool:
    """Return whether a process of SimPy is the client of *c*; in C none is (bodies.py)."""
    return c in world.calendar.led


def call_python(world: World) -> None:
    """Have the engine return to Python before anything else happens; it is there (bodies.py)."""


def schedule(world: World, at_ns: int, kind: int, subject: int) -> None:
    """Let the occurrence *kind* befall *subject* at *at_ns*; engine/calendar.h has this in C."""
    world.calendar.schedule_at(at_ns, kind, subject)


def post(world: World, fd: int, what: int) -> None:
    """Set *what* in the state of *fd*, and notify the mechanism after the occurrence."""
    world.fresh[fd] = (world.state[fd] & world.interest[fd]) == 0
    world.state[fd] |= what
    world.news[fd] = what
    world.posted[world.n_posted] = fd
    world.n_posted += 1
