"""Compile the fast engines that runs need, before the first run waits for one.

Threads suffice, because the compiler is a separate process. The code is kept on disk for later
commands and other processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...models.catalogue import client_with
from ...models.simulate import Engine, engine_is_at_hand, program_of, simulate
from ...scenario.scenario import Scenario
from ...sim.engine.c.library import announced_elsewhere, warn_if_no_engine, why_no_engine
from ...sim.engine.c.run import CannotCompileError
from ...sim.files.parallel import cpu_count, run_all, threads
from ...sim.load.workload import Trace, closed_loop
from ...sim.state.costs import Costs
from ...sim.state.mechanism import Program
from ...sim.state.settings import RunSettings
from ..points.point import Point
from ..profiles.cost import CostSource
from .preparation import settings_at

_SHORT_NS = 1000
Telling = Callable[[Sequence[str]], AbstractContextManager[object]]
"""Shows the given mechanisms to the user while their engines are compiled."""


class Side(NamedTuple):
    """The facts besides the mechanism that determine the variant of its engine.

    Attributes
    ----------
    settings:
        Settings of a run, shortened and without idle connections.
    users:
        Users of a client; 0: a server.
    free_clients:
        Whether clients' work costs nothing.
    """

    settings: RunSettings = RunSettings(duration_ns=_SHORT_NS)
    users: int = 0
    free_clients: bool = False

    @classmethod
    def of_testbed(cls, loops: int = 1) -> Side:
        """Return the side of a server in the testbed, whose settings differ from the defaults."""
        server = {"mechanism": "epoll_level", "workers": loops}
        return cls.of(Point.of(server=server, load={"loop": "closed", "users": 1}))

    @classmethod
    def of(cls, scenario: Scenario) -> Side:
        """Return the side of *scenario*."""
        is_client = scenario.machine.role == "client"
        settings = settings_at(scenario, 0, 0)
        client = settings.client._replace(idle=0)
        short = settings._replace(client=client, warm_up_ns=0, duration_ns=_SHORT_NS)
        users = (scenario.load.users or 0) if is_client else 0
        return cls(short, users, scenario.machine.clients == "free")

    def costs_of(self, mechanism: str, profile: CostSource) -> Costs:
        """Return costs of *mechanism*; the number of open connections does not affect engines."""
        return profile.costs(mechanism, open_connections=0, free_clients=self.free_clients)

    def program_with(self, mechanism: str) -> Program:
        """Return the program that waits with *mechanism*."""
        return client_with(mechanism) if self.users else program_of(mechanism)

    @property
    def trace(self) -> Trace:
        """The shortest possible trace."""
        trace = closed_loop(users=max(1, self.users), connections=max(1, self.users))
        classed = len(self.settings.classes) > 0
        return replace(trace, user_class=np.zeros(trace.users * classed, np.int64))


_SERVER = Side()


def warm(mechanism: str, costs: Costs, side: Side = _SERVER) -> bool:
    """Compile or load the fast engine of *mechanism*; return whether there is one.

    The engine does not depend on the values of *costs*, and only on the settings in *side*.
    """
    with announced_elsewhere():
        try:
            program = side.program_with(mechanism)
            simulate(program, side.trace, costs, side.settings, engine="fast")
        except CannotCompileError:
            return False  # a run will report why
    return True


def uncompiled(mechanisms: Sequence[str], profile: CostSource, side: Side = _SERVER) -> list[str]:
    """Return the *mechanisms* whose engine is neither shipped nor kept by an earlier run."""

    def is_at_hand(name: str) -> bool:
        program, costs = side.program_with(name), side.costs_of(name, profile)
        return engine_is_at_hand(program, side.trace, costs, side.settings)

    if why_no_engine():
        return []  # nothing can be compiled here
    try:
        return [name for name in mechanisms if not is_at_hand(name)]
    except CannotCompileError:
        return []  # a run will report why


def compile_engines(
    mechanisms: Sequence[str],
    profile: CostSource,
    *,
    side: Side = _SERVER,
    engine: Engine = "auto",
    telling: Telling | None = None,
) -> None:
    """Compile the engines of *mechanisms* that are not on disk yet, in parallel.

    Without a compiler, or if it fails, runs use the reference engine, with a warning. If anything
    is compiled, the context `telling` is entered with the mechanisms meanwhile.

    Parameters
    ----------
    mechanisms, profile:
        Names of mechanisms, and a profile that has costs of them.
    side:
        Side of the runs.
    engine:
        Engine of the runs: "reference" needs no compiling, and "fast" accepts no other engine.
    """
    if engine == "reference":
        return
    missing = uncompiled(mechanisms, profile, side)
    if missing:
        _compile(missing, profile, side, telling)
    if engine == "auto":
        warn_if_no_engine()


def _compile(
    missing: Sequence[str], profile: CostSource, side: Side, telling: Telling | None
) -> None:
    tasks = [(name, side.costs_of(name, profile), side) for name in missing]
    told = contextlib.nullcontext() if telling is None else telling(missing)
    with told, threads(min(cpu_count(), len(tasks))) as executor:
        for _ in run_all(_warm, tasks, executor):
            pass


def _warm(task: tuple[str, Costs, Side]) -> bool:
    return warm(*task)
