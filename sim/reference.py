"""The reference engine: SimPy. It is what one reads, steps through, teaches from and extends.

The server is a SimPy process over the generator of its program; what comes over the network and
from clients are SimPy events on the same calendar. Any other SimPy process may join: hand `extend`
a function, or let a program yield a SimPy event, and the server blocks until it has happened.

A step needs no event of its own: the server lets all that is due before its end happen
(`env.step`), then goes on at that time, ahead of `env.now` but never past the next entry of the
calendar, so that no process can tell. It is the loop of a compiled engine, word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import simpy

from .event_calendar import RANK_SHIFT, Calendar, Happening
from .happenings import begin, happen
from .kinds import NONE, SLEEP, Activity, Count, Occurrence
from .mechanism import Program
from .world import World

_END_OF_STEP: Any = int(Occurrence.END_OF_STEP) << RANK_SHIFT
_IDLE = int(Activity.IDLE)
_SLEEPS = int(Count.SLEEPS)

Extension = Callable[[simpy.Environment, World], Any]


class ReferenceRun:
    """One run of *program* over *world* on SimPy.

    Parameters
    ----------
    program:
        The server program with its mechanism.
    world:
        As built by `build_world`; it is changed and holds the outcome.
    duration_ns:
        When the run ends.
    warm_up_ns:
        When the measured window begins.
    extend:
        Called with (env, world) before the run: a place to start SimPy processes of one's own.
    observe:
        Called with (begin_ns, end_ns, activity) after each step of the server.
    """

    def __init__(
        self,
        program: Program,
        world: World,
        *,
        duration_ns: int,
        warm_up_ns: int = 0,
        extend: Extension | None = None,
        observe: Callable[[int, int, int], None] | None = None,
    ) -> None:
        self.env = Calendar(self._on_happening)
        self.world = world
        self.duration_ns = duration_ns
        self._program = program
        self._notify = program.mechanism.notify
        self._observe = observe
        self._sleeper: simpy.Event | None = None
        self._stop_ns = 0
        self._driving = False
        world.calendar = self.env
        begin(world, program.mechanism, warm_up_ns, duration_ns)
        self.env.process(self._server())
        if extend is not None:
            extend(self.env, world)

    def run(self, progress: Callable[[int], None] | None = None) -> World:
        """Run to the end and return the world; *progress* is told the simulated time."""
        parts = 50 if progress else 1
        for part in range(1, parts + 1):
            until_ns = self.duration_ns * part // parts
            # One nanosecond on: what is due at the end still happens, as in other engines.
            self._stop_ns = until_ns
            self.env.run(until=until_ns + 1)
            if progress:
                progress(until_ns)
        self.world.now_ns = self.duration_ns
        return self.world

    def _on_happening(self, event: Happening) -> None:
        """Let an occurrence happen, tell the mechanism, and wake the server if it should."""
        world = self.world
        world.now_ns = event.at_ns
        happen(world, event.kind, event.subject)
        if world.posted != NONE:
            self._notify(world, world.posted)
            if world.woken and self._sleeper is not None:
                sleeper, self._sleeper = self._sleeper, None
                sleeper.succeed()

    def _at(self, at_ns: int) -> simpy.Event:
        """Return an event at *at_ns*, after all that happens at that nanosecond."""
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        self.env.schedule(event, _END_OF_STEP, at_ns - self.env.now)
        return event

    def _server(self) -> Generator[Any, Any, None]:
        """Spend the time of each step on the server's CPU; interrupts lengthen it."""
        world, ledger_ns, observe = self.world, self.world.ledger_ns, self._observe
        # While a run lasts SimPy's own end of it is on the calendar, so there is a first entry.
        entries, happen_next = self.env.entries, self.env.step
        for step_ns in self._program.serve(world):
            if type(step_ns) is not int:
                yield step_ns  # a SimPy event of a program that waits for something else
                world.now_ns = max(world.now_ns, int(self.env.now))
                continue
            if step_ns == SLEEP:
                yield from self._sleep()
                continue
            begin_ns = world.now_ns
            done_ns = begin_ns + step_ns
            if entries[0][0] <= done_ns:
                # What is due before the step ends happens first, and may steal time from it.
                world.step_begin_ns = begin_ns
                world.step_stolen_ns = stolen_ns = world.stolen_ns
                while entries[0][0] <= done_ns:
                    if done_ns > self._stop_ns or self._driving:
                        yield self._at(done_ns)
                    else:
                        self._driving = True
                        happen_next()
                        self._driving = False
                    done_ns = begin_ns + step_ns + world.stolen_ns - stolen_ns
            world.now_ns = done_ns
            ledger_ns[world.activity] += step_ns
            if observe is not None:
                observe(begin_ns, done_ns, world.activity)

    def _sleep(self) -> Generator[simpy.Event, Any, None]:
        """Block until a descriptor calls, and until the interrupt that it came in is over."""
        world = self.world
        world.counts[_SLEEPS] += 1
        world.idle = True
        world.idle_from_ns = world.now_ns
        self._sleeper = simpy.Event(self.env)
        yield self._sleeper
        resume_ns = NONE
        while resume_ns < world.irq_free_ns:
            resume_ns = max(int(self.env.now), world.irq_free_ns)
            yield self._at(resume_ns)
        world.now_ns = resume_ns
        world.ledger_ns[_IDLE] += world.now_ns - world.idle_from_ns
        world.idle = False
