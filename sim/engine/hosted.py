"""A run inside somebody's SimPy environment: a server there is a component among others.

    the environment   ... a process ── alarm ── a process ── alarm ...      its time, its unit
                                         │                     │
    the server's calendar       what is due at that nanosecond             occurrences, steps

The server keeps its occurrences on a calendar of its own, and one event on the environment's: an
alarm at the nanosecond of what is due next. So the environment's time is never behind the server's
nor ahead of it, also step by step, and an environment that keeps real time keeps it here.

The order at one nanosecond is part of the model. All events of the environment that are due come
first, also those that are triggered meanwhile; then the servers, in the order in which they were
made, one occurrence or step at a time; in each server the order of the other engines.

The clients of the run's trace come as in any run. Processes may be further clients: `LedClient`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
import simpy
from simpy.events import EventPriority

from ..cpu.processor import due_ns, first_due
from ..cpu.scheduling import end_step, wake
from ..figures.outcome import Outcome, outcome_of
from ..load.workload import Trace
from ..state.columns import Per
from ..state.event_calendar import Calendar, OnHappening, Work
from ..state.kinds import NONE
from ..state.mechanism import Program
from ..state.world import COLUMNS, World
from .happenings import OF_CLIENTS
from .other_threads import resumes
from .reference import ReferenceRun

_REQUESTS_AT_HAND = 1_024
"""Room for requests that are yet to come; a step or an occurrence needs a few."""
_AFTER_ALL_OTHERS = 2
"""Priority of the first server: behind SimPy's URGENT (0) and NORMAL (1)."""
Refill = Callable[[int], Trace]
"""(n) -> at least *n* connections of the trace, those that are known the first of them."""


class Clock(Protocol):
    """The time of an environment, in ns since the run began."""

    def now_ns(self) -> int:
        """Return the time now."""

    def next_ns(self) -> int:
        """Return when the next event of the environment is due, at the earliest."""

    def delay(self, at_ns: int) -> float:
        """Return how long it is until *at_ns*, in the unit of the environment."""


class Led(Protocol):
    """The client of one connection, which a process leads."""

    def befalls(self, kind: int) -> None:
        """Take that the occurrence *kind* befalls the client now."""


class _OwnCalendar(Calendar):
    """The calendar of one server; `next_outside_ns` is that of all others."""

    def __init__(
        self, on_happening: OnHappening, stop_ns: int, next_outside_ns: Callable[[], int]
    ) -> None:
        super().__init__(on_happening, stop_ns)
        self._next_outside_ns = next_outside_ns

    def first_due_ns(self) -> int:
        """Return when the next occurrence or event is due, wherever, or the run ends."""
        first_ns = min(self.stop_ns, self._next_outside_ns())
        return min(int(self.entries[0][0]), first_ns) if self.entries else first_ns


class HostedRun(ReferenceRun):
    """One run of *program* over *world*, driven by *host*.

    Parameters
    ----------
    program, world, duration_ns, warm_up_ns:
        As for `ReferenceRun`; the run begins now.
    host, clock:
        The environment, and its time.
    number:
        Of the server among all in the environment: it decides between them at one nanosecond.
    refill:
        Where a closed loop has more connections from; None: it has none.
    work:
        (worker, fd) -> the event that ends what a request waits for; None: it waits for nothing.
    on_end:
        Called when the run ends.
    """

    def __init__(
        self,
        program: Program,
        world: World,
        host: simpy.Environment,
        clock: Clock,
        *,
        duration_ns: int,
        warm_up_ns: int = 0,
        number: int = 0,
        refill: Refill | None = None,
        work: Work | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        self.host = host
        self.clock = clock
        self.led: dict[int, Led] = {}
        self.led_rows: set[int] = set()
        self.has_ended = False
        self._priority = EventPriority(_AFTER_ALL_OTHERS + number)
        self._alarm: simpy.Event | None = None
        self._is_ringing = False
        self._alarm_ns = 0
        self._refill = refill
        self._n_drawn = (world.end_row - world.n_idle) // world.rows_each
        self._on_end = on_end
        self._work = work
        super().__init__(program, world, duration_ns=duration_ns, warm_up_ns=warm_up_ns)

    def _new_calendar(self, on_happening: OnHappening, duration_ns: int) -> Calendar:
        calendar = _OwnCalendar(on_happening, duration_ns, self.clock.next_ns)
        calendar.led, calendar.work = self.led, self._work
        return calendar

    def _start(self) -> None:
        for cpu in self.world.cpus:
            if cpu.running != NONE and resumes(self.world, cpu):
                self._resume(cpu)
        self.set_alarm()

    def enter(self) -> World:
        """Return the world as it is now, for a process that acts on it; then `set_alarm`."""
        self.world.now_ns = max(self.world.now_ns, self.clock.now_ns())
        self._have_room()
        return self.world

    def set_alarm(self) -> None:
        """Have the environment come back when something is due, or the run ends."""
        if self.has_ended or self._is_ringing:
            return
        at_ns = min(self._next_ns(), self.duration_ns + 1)
        if self._alarm is None or at_ns < self._alarm_ns:
            self._alarm = alarm = simpy.Event(self.host)
            self._alarm_ns = at_ns
            alarm._ok, alarm._value = True, None
            alarm.callbacks.append(self._rings)
            # The end comes behind all that is due at the last nanosecond, as in other engines.
            delay = self.clock.delay(min(at_ns, self.duration_ns))
            self.host.schedule(alarm, self._priority, delay)

    def _rings(self, alarm: simpy.Event) -> None:
        if alarm is not self._alarm:
            return  # another one was set for an earlier time
        at_ns = self._alarm_ns
        self._alarm = None
        host_now = self.host.now
        self._is_ringing = True
        while self._next_ns() <= min(at_ns, self.duration_ns):
            self._let_happen()
            if self.host.peek() <= host_now:
                break  # a process that this has woken in the environment comes first
        else:
            if at_ns > self.duration_ns:
                self._end()
        self._is_ringing = False
        self.set_alarm()

    def _next_ns(self) -> int:
        at_ns = due_ns(first_due(self.world))
        return min(at_ns, int(self.env.entries[0][0])) if self.env.entries else at_ns

    def _let_happen(self) -> None:
        """Let the first occurrence happen, or a CPU end its step: the loop of the other engines."""
        world, entries = self.world, self.env.entries
        self._have_room()
        cpu = first_due(world)
        at_ns = due_ns(cpu)
        if entries and entries[0][0] <= at_ns:
            self.env.step()
            return
        world.now_ns = at_ns
        end_step(world, cpu)
        if resumes(world, cpu):
            self._resume(cpu)

    def _on_happening(self, at_ns: int, kind: int, subject: int) -> None:
        if kind in OF_CLIENTS and subject in self.led:
            self.world.now_ns = at_ns
            self.world.n_posted = 0
            self.led[subject].befalls(kind)
        else:
            super()._on_happening(at_ns, kind, subject)
        if self.world.next_row == self.world.end_row:
            self._draw_more()

    def _wait_for(self, event: simpy.Event | None, number: int) -> None:
        worker = self.world.workers[number]

        def happened(_: simpy.Event) -> None:
            self.enter().waker = worker.cpu.number
            wake(self.world, worker)
            self.set_alarm()

        if event is not None:
            if event.callbacks is None:
                event = self.host.timeout(0)
            event.callbacks.append(happened)

    def _end(self) -> None:
        self.has_ended = True
        self.world.now_ns = self.duration_ns
        if self._on_end is not None:
            self._on_end()

    def new_row(self) -> int:
        """Return a new connection, whose client waits for a process: row and counts are set."""
        world = self.world
        c = _add_rows(world, world.rows_each, {})
        world.requests[c] = world.left[c] = 1  # or more: its process sets it
        self.led_rows.add(c)
        return c

    def _have_room(self) -> None:
        """Have room for the requests that may become due before this is called again."""
        world = self.world
        if len(world.due_ns) - world.n_requests < _REQUESTS_AT_HAND:
            for column in (world.due_ns, world.reply_ns, world.asked_on, world.waits_before):
                column.extend([0] * (len(column) + _REQUESTS_AT_HAND))

    def _draw_more(self) -> None:
        """Have more connections of the trace at hand, behind all rows, for the users of a loop."""
        world, each = self.world, self.world.rows_each
        if self._refill is None or world.n_users == 0:
            return
        known = self._n_drawn
        trace = self._refill(2 * known)
        self._n_drawn = len(trace)
        given = {
            name: np.repeat(getattr(trace, column.of)[known:], each).tolist()
            for name, column in COLUMNS.items()
            if column.per == Per.CONNECTION and column.of
        }
        first = _add_rows(world, len(given["requests"]), given)
        world.next_row, world.end_row = first, len(world.row)

    def outcome(self) -> Outcome:
        """Return the record until now, or until the end of the run.

        Connections of processes are among the trace's in the order in which they were made known;
        each of their requests counts.
        """
        if not self.has_ended and self.clock.now_ns() >= self.duration_ns:
            while self._next_ns() <= self.duration_ns:  # what is due at the last nanosecond
                self._let_happen()
        until_ns = min(self.duration_ns, self.clock.now_ns())
        mechanism = self._program.mechanism
        if not self.led_rows:
            return outcome_of(self.world, until_ns, mechanism)
        with_led = replace(self.world, end_row=len(self.world.row))
        return _renumbered(outcome_of(with_led, until_ns, mechanism), self.world, until_ns)


def _add_rows(world: World, n: int, given: dict[str, list[int]]) -> int:
    """Add *n* rows behind all others, with the columns that are *given*; return the first."""
    first = len(world.row)
    for name, column in COLUMNS.items():
        if column.per == Per.CONNECTION:
            values = given.get(name) or [0 if column.of else column.first] * n
            getattr(world, name).extend(values)
    world.row[first:] = range(first - world.n_idle, first - world.n_idle + n)
    return first


def _renumbered(outcome: Outcome, world: World, until_ns: int) -> Outcome:
    """Return *outcome* with stranded connections numbered as those that were due."""
    intended_ns = np.asarray(world.intended_ns[world.n_idle :: world.rows_each])
    due = (intended_ns != NONE) & (intended_ns <= until_ns)
    stranded = outcome.stranded.copy()
    of_trace = stranded[:, 0] >= 0
    stranded[of_trace, 0] = (np.cumsum(due) - 1)[stranded[of_trace, 0]]
    return replace(outcome, stranded=stranded)
