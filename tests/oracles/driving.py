"""The simulator's mechanisms, driven through the same stories as the oracles, act by act.

A program of its own plays the acts on the reference engine; arrivals are events of SimPy that set
the state of a descriptor and notify the mechanism, in no time but for what that itself costs.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator
from typing import Any, get_type_hints

import simpy
from tests.oracles.machine import Done, Story
from tests.toy import arrivals

from dispatchsim.models.catalogue import CATALOGUE, MECHANISMS
from dispatchsim.models.remembering.overload import control
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.kernel.descriptors import close_fd, open_fd
from dispatchsim.sim.state.costs import (
    NO_CLIENT,
    NO_INTERRUPT,
    ApplicationCosts,
    CallCosts,
    Costs,
    Curve,
    per_item,
)
from dispatchsim.sim.state.event_calendar import post
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.mechanism import Mechanism, Program
from dispatchsim.sim.state.settings import RunSettings, having
from dispatchsim.sim.state.world import Worker, World

NO_CALLS = CallCosts(0, 0, 0, 0, 0, 0, 0)


@functools.cache
def cost_names(mechanism: str) -> tuple[tuple[str, bool], ...]:
    """Return the costs of *mechanism*, each with whether it is a curve."""
    kinds = get_type_hints(CATALOGUE[mechanism].costs)
    return tuple((name, kind is Curve) for name, kind in kinds.items())


class Driven:
    """One story on one mechanism: what its acts came to, and what the run counted."""

    def __init__(self, mechanism: str, story: Story) -> None:
        self.story = story
        self.mechanism: Mechanism = MECHANISMS[mechanism]
        self.done: list[Done] = []
        self.fds: list[int] = []
        n = len(story.states)
        given = {
            name: per_item(story.costs.get(name, 0)) if is_curve else story.costs.get(name, 0)
            for name, is_curve in cost_names(mechanism)
        }
        costs = Costs(
            NO_INTERRUPT._replace(sleep_ns=story.sleep_ns, wake_ns=story.wake_ns),
            NO_CALLS,
            ApplicationCosts(0),
            NO_CLIENT,
            CATALOGUE[mechanism].costs(**given),
        )
        settings = having(
            RunSettings(duration_ns=story.end_ns, sample_every_ns=0),
            max_events=story.max_events,
            **story.options,
        )
        program = Program(self._play, self.mechanism, control)
        nobody = arrivals(*[10**15] * n)
        self.world = prepare_world(program, nobody, costs, settings)
        self._run = ReferenceRun(
            program, self.world, duration_ns=story.end_ns, extend=self._bring_arrivals
        )

    def run(self) -> list[Done]:
        """Play the story, and return what its acts came to."""
        self._run.run()
        return self.done

    def _counts(self) -> dict[str, int]:
        return {kind.name.lower(): int(self.world.counts[kind]) for kind in Count}

    def _play(self, world: World, worker: Worker) -> Iterator[int]:
        self._open(world, worker)
        for act in self.story.acts:
            fd = self.fds[act.fd]
            events: tuple[tuple[int, int], ...] = ()
            if act.what == "wait":
                yield from self.mechanism.wait(world, worker)
                events = tuple(self._event(world, worker, i) for i in range(worker.n_events))
            elif act.what == "compute":
                yield act.ns
            elif act.what in ("drain", "take"):
                world.state[fd] &= ~act.bits
                if act.what == "drain":
                    self.mechanism.blocked(world, worker.interests, fd, act.bits)
            elif act.what == "add":
                yield from self.mechanism.watch(world, worker, fd, act.bits)
            elif act.what == "change":
                yield from self.mechanism.rewatch(world, worker, fd, act.bits)
            else:
                more_ns = self.mechanism.close_ns(world, fd)
                yield from self.mechanism.unwatch(world, worker, fd)
                if more_ns > 0:
                    yield more_ns
                close_fd(world, fd)
                assert open_fd(world) == fd  # the lowest number that is free
                world.state[fd], world.connection_of[fd] = act.bits, act.fd - 1
            self.done.append(Done(act.what, world.now_ns, events, self._counts()))

    def _open(self, world: World, worker: Worker) -> None:
        self.fds = [worker.listener_fd]
        for c, state in enumerate(self.story.states[1:]):
            fd = open_fd(world)
            world.state[fd], world.connection_of[fd] = state, c
            self.fds.append(fd)

    def _event(self, world: World, worker: Worker, i: int) -> tuple[int, int]:
        fd, own = worker.event_fd[i], worker.interests.own
        known = own.readiness.known if hasattr(own, "readiness") else world.state
        return self.fds.index(fd), known[fd] & world.interest[fd]

    def _bring_arrivals(self, env: simpy.Environment, world: World) -> None:
        def bring() -> Generator[simpy.Event, Any, None]:
            for at_ns, number, bits in sorted(self.story.arrivals, key=lambda each: each.at_ns):
                if at_ns > env.now:
                    yield env.timeout(at_ns - int(env.now))
                world.now_ns = at_ns
                world.waker, world.n_posted = 0, 0
                post(world, self.fds[number], bits)
                self._run.tell()

        env.process(bring())
