"""Compile the fast engine once, before runs are handed to processes that would each compile it.

It is done in a process of its own: while the compiler works, this one could not be interrupted.
That process keeps the code on disk, where all others find it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import NamedTuple

from .calibration.cost_source import CostSource
from .models.catalogue import MECHANISMS, client_with
from .models.client_settings import client_threads_of
from .models.simulate import engine_is_at_hand, simulate
from .scenario import Scenario
from .sim.c_engine.library import announced_elsewhere
from .sim.c_engine.run import CannotCompileError
from .sim.costs import Costs
from .sim.mechanism import Program
from .sim.parallel import cpu_count, run_all, worker_processes
from .sim.settings import RunSettings, ServerSettings
from .sim.workload import Trace, closed_loop

Telling = Callable[[Sequence[str]], AbstractContextManager[object]]
"""Given mechanisms, tells the user for as long as their engines are being compiled."""


class Side(NamedTuple):
    """What decides which engine a mechanism needs, besides itself.

    Attributes
    ----------
    workers:
        Of a server: a single worker has an engine of its own.
    users:
        Of a client; 0: it is a server.
    """

    workers: int = 1
    users: int = 0

    @classmethod
    def of(cls, scenario: Scenario) -> Side:
        """Return that of *scenario*."""
        is_client = scenario.machine.role == "client"
        return cls(scenario.server.workers, (scenario.load.users or 0) if is_client else 0)

    def workers_with(self, mechanism: str) -> int:
        """Return how many threads there are with *mechanism*."""
        if self.users == 0:
            return self.workers
        return client_threads_of(MECHANISMS[mechanism], self.users)


_SERVER = Side()


class _Task(NamedTuple):
    """A mechanism, with what a run of it needs besides: costs, and its side."""

    mechanism: str
    costs: Costs
    side: Side = _SERVER

    @property
    def run(self) -> tuple[str | Program, Trace, Costs, RunSettings]:
        """The arguments of a short run: the engine is the same for all costs of a mechanism."""
        users = max(1, self.side.users)
        program = client_with(self.mechanism) if self.side.users else self.mechanism
        workers = self.side.workers_with(self.mechanism)
        settings = RunSettings(server=ServerSettings(workers=workers), duration_ns=1000)
        return program, closed_loop(users=users, connections=users), self.costs, settings


def warm(mechanism: str, costs: Costs, side: Side = _SERVER) -> bool:
    """Have the fast engine of *mechanism* compiled or loaded; return whether there is one."""
    return _warm(_Task(mechanism, costs, side))


def _warm(task: _Task) -> bool:
    with announced_elsewhere():
        try:
            simulate(*task.run, engine="fast")
        except CannotCompileError:
            return False  # a run will say why
    return True


def uncompiled(mechanisms: Sequence[str], profile: CostSource, side: Side = _SERVER) -> list[str]:
    """Return those of *mechanisms* whose engine is neither shipped nor kept by an earlier run."""
    return [task.mechanism for task in _uncompiled(mechanisms, profile, side)]


def _uncompiled(mechanisms: Sequence[str], profile: CostSource, side: Side) -> list[_Task]:
    tasks = [_Task(name, profile.costs(name, open_connections=0), side) for name in mechanisms]
    try:
        return [task for task in tasks if not engine_is_at_hand(*task.run)]
    except CannotCompileError:
        return []  # nothing can be compiled here: a run will say why


def compile_engines(
    mechanisms: Sequence[str],
    profile: CostSource,
    *,
    side: Side = _SERVER,
    executor: Executor | None = None,
    telling: Telling | None = None,
) -> None:
    """Compile the engines of *mechanisms* that are not on disk yet, side by side.

    Parameters
    ----------
    mechanisms, profile:
        Names of mechanisms, and a profile that has costs of them.
    side:
        Of which a run will be.
    executor:
        Where; None: in processes that are started for it.
    telling:
        Entered with the mechanisms while something is being compiled.
    """
    tasks = _uncompiled(mechanisms, profile, side)
    if not tasks:
        return
    with contextlib.ExitStack() as stack:
        if telling is not None:
            stack.enter_context(telling([task.mechanism for task in tasks]))
        if executor is None:
            executor = stack.enter_context(worker_processes(min(cpu_count(), len(tasks))))
        for _ in run_all(_warm, tasks, executor):
            pass
