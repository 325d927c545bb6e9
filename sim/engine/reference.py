"""The reference engine: SimPy. It is what one reads, steps through, teaches from and extends.

The server's machine is a SimPy process over the generators of its workers; what comes over the
network and from clients are SimPy events on the same calendar. Any other SimPy process may join:
hand `extend` a function, or let a program yield a SimPy event, and that worker blocks until it has
happened. In an environment of somebody's own a server is a `HostedRun` (sim/engine/hosted.py).

A step needs no event of its own: the machine lets all that is due before the step's end happen
(`env.step`), then goes on at that time, ahead of `env.now` but never past the next entry of the
calendar, so no process can notice. It is the loop of the compiled engine, word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol

import simpy

from ..cpu.processor import due_ns, first_due
from ..cpu.scheduling import begin_step, block, end_step, wake
from ..state.event_calendar import RANK_SHIFT, Calendar, OnHappening
from ..state.kinds import NONE, SLEEP, occurrence
from ..state.mechanism import Program, step_error
from ..state.world import Cpu, World
from .beginning import beginning
from .happenings import happen, telling
from .other_threads import resumes

_END_OF_STEP: Any = occurrence.END_OF_STEP << RANK_SHIFT

Extension = Callable[[simpy.Environment, World], Any]


class Observer(Protocol):
    """An observer of a run that changes nothing, such as `Recorder`.

    All events between two calls happen at the time of the second, `world.now_ns`.
    """

    def step_ends(self, world: World, cpu: Cpu) -> None:
        """Take that *cpu* ends its step, or its idleness; nothing of it has been charged yet."""

    def went_on(self, world: World) -> None:
        """Take that the step before has had its effect, and the next has begun."""

    def happened(self, world: World, kind: int, subject: int) -> None:
        """Take note of the occurrence *kind* of *subject*, after the mechanism was notified."""


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
        Called at each occurrence, and at each step of each CPU.
    """

    def __init__(
        self,
        program: Program,
        world: World,
        *,
        duration_ns: int,
        warm_up_ns: int = 0,
        extend: Extension | None = None,
        observe: Observer | None = None,
    ) -> None:
        on_happening = self._on_happening if observe is None else self._on_observed
        self.env = self._new_calendar(on_happening, duration_ns)
        self.world = world
        self.duration_ns = duration_ns
        self._program = program
        self._tell = telling(program)
        self._observe = observe
        self._stop_ns = 0
        world.calendar = self.env
        beginning(program)(world, warm_up_ns)
        self._programs = [program.serve(world, worker) for worker in world.workers]
        self._start()
        if extend is not None:
            extend(self.env, world)

    def _new_calendar(self, on_happening: OnHappening, duration_ns: int) -> Calendar:
        return Calendar(on_happening, duration_ns)

    def _start(self) -> None:
        self.env.process(self._machine())

    def run(self, progress: Callable[[int], None] | None = None) -> World:
        """Run to the end and return the world; *progress* receives the simulated time."""
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

    def _on_happening(self, at_ns: int, kind: int, subject: int) -> None:
        """Let an occurrence happen, and notify the mechanism; that may wake workers."""
        world = self.world
        world.now_ns = at_ns
        happen(world, kind, subject)
        self.tell()

    def tell(self) -> int:
        """Notify the mechanism of posted events; return the number of workers woken."""
        return self._tell(self.world)

    def _on_observed(self, at_ns: int, kind: int, subject: int) -> None:
        self._on_happening(at_ns, kind, subject)
        assert self._observe is not None
        self._observe.happened(self.world, kind, subject)

    def _machine(self) -> Generator[simpy.Event, Any, None]:
        """Let the CPUs end their steps in order of time; interrupts lengthen them."""
        world, observe = self.world, self._observe
        # While a run lasts SimPy's own end of it is on the calendar, so there is a first entry.
        entries, happen_next = self.env.entries, self.env.step
        several = len(world.cpus) > 1
        # An observer is notified of each step, including steps without other events.
        goes_through = len(world.workers) == 1 and observe is None
        resume = self._resume_alone if goes_through else self._resume
        for cpu in world.cpus:
            if cpu.running != NONE and resumes(world, cpu):
                resume(cpu)
        if observe is not None:
            observe.went_on(world)
        cpu, stop_ns = world.cpus[0], self._stop_ns
        while True:
            if several:
                cpu = first_due(world)
            at_ns = due_ns(cpu)
            if entries[0][0] <= at_ns and entries[0][0] <= stop_ns:
                # What is due before happens first; it may steal time, or wake another CPU.
                happen_next()
                continue
            if at_ns > stop_ns:
                # Behind the end of this part of the run, which is on the calendar there.
                yield self._after_stop()
                stop_ns = self._stop_ns
                continue
            world.now_ns = at_ns
            if observe is not None:
                observe.step_ends(world, cpu)
            end_step(world, cpu)
            if resumes(world, cpu):
                resume(cpu)
            if observe is not None:
                observe.went_on(world)

    def _after_stop(self) -> simpy.Event:
        event = simpy.Event(self.env)
        event._ok, event._value = True, None
        self.env.schedule(event, _END_OF_STEP, self._stop_ns + 1 - self.env.now)
        return event

    def _resume(self, cpu: Cpu) -> None:
        """Have *cpu* begin the next step of its worker, or of the next that may run."""
        world = self.world
        goes_on = True
        while goes_on:
            goes_on = self._begin(cpu, next(self._programs[cpu.running], None))
            goes_on = goes_on and resumes(world, cpu)

    def _resume_alone(self, cpu: Cpu) -> None:
        """Have the only worker go on, through all steps during which nothing is due."""
        world, worker, entries = self.world, self.world.workers[0], self.env.entries
        ledger_ns, stop_ns = cpu.ledger_ns, self._stop_ns
        for step_ns in self._programs[0]:
            if type(step_ns) is int and step_ns >= 0 and world.n_others == 0:
                done_ns = world.now_ns + step_ns
                if done_ns < entries[0][0] and done_ns <= stop_ns:
                    world.now_ns = done_ns
                    ledger_ns[worker.activity] += step_ns
                    continue
            if not (self._begin(cpu, step_ns) and resumes(world, cpu)):
                return
        if self._begin(cpu, None):
            resumes(world, cpu)

    def _begin(self, cpu: Cpu, step_ns: Any) -> bool:
        """Begin what a program yielded (None: it ended); return whether another worker goes on."""
        if type(step_ns) is int and step_ns >= SLEEP:
            return begin_step(self.world, cpu, step_ns)
        if step_ns is not None and not isinstance(step_ns, simpy.Event):
            raise step_error(self._programs[cpu.running], step_ns)
        self._wait_for(step_ns, cpu.running)
        return block(self.world, cpu)

    def _wait_for(self, event: simpy.Event | None, number: int) -> None:
        """Wake the worker of that *number* when a SimPy event has happened; None: never."""
        worker = self.world.workers[number]

        def happened(_: simpy.Event) -> None:
            self.world.now_ns = max(self.world.now_ns, int(self.env.now))
            self.world.waker = worker.cpu.number
            wake(self.world, worker)

        if event is None:
            return
        if event.callbacks is None:
            event = self.env.timeout(0)
        event.callbacks.append(happened)
