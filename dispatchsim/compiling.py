"""Compile the fast engines that runs will need, before the first run waits for one.

Threads suffice: the compiler is a process of its own. The code is kept on disk, where later
commands and other processes find it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from .calibration.cost_source import CostSource
from .models.catalogue import MECHANISMS, client_with
from .models.client_settings import client_threads_of
from .models.simulate import kept_as, program_of, simulate
from .scenario import Scenario
from .sim.costs import Costs
from .sim.fast import CannotCompileError, code_is_kept, said_elsewhere
from .sim.parallel import cpu_count, run_all, threads
from .sim.settings import RunSettings, ServerSettings
from .sim.workload import closed_loop

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


def warm(mechanism: str, costs: Costs, side: Side = _SERVER) -> bool:
    """Have the fast engine of *mechanism* compiled or loaded; return whether there is one.

    The engine is the same for all *costs* of the mechanism and for all settings but those of
    *side*.
    """
    workers = side.workers_with(mechanism)
    program = client_with(mechanism) if side.users else mechanism
    trace = closed_loop(users=max(1, side.users), connections=max(1, side.users))
    settings = RunSettings(server=ServerSettings(workers=workers), duration_ns=1000)
    with said_elsewhere():
        try:
            simulate(program, trace, costs, settings, engine="fast")
        except CannotCompileError:
            return False  # a run will say why
    return True


def uncompiled(mechanisms: Sequence[str], side: Side = _SERVER) -> list[str]:
    """Return those of *mechanisms* whose engine no earlier run of this version has left on disk."""

    def is_kept(name: str) -> bool:
        kept = kept_as(client_with(name) if side.users else program_of(name))
        return kept is not None and code_is_kept(kept, side.workers_with(name))

    return [name for name in mechanisms if not is_kept(name)]


def compile_engines(
    mechanisms: Sequence[str],
    profile: CostSource,
    *,
    side: Side = _SERVER,
    telling: Telling | None = None,
) -> None:
    """Compile the engines of *mechanisms* that are not on disk yet, side by side.

    Parameters
    ----------
    mechanisms, profile:
        Names of mechanisms, and a profile that has costs of them.
    side:
        Of which a run will be.
    telling:
        Entered with the mechanisms while something is being compiled.
    """
    missing = uncompiled(mechanisms, side)
    if not missing:
        return
    tasks = [(name, profile.costs(name, open_connections=0), side) for name in missing]
    told = contextlib.nullcontext() if telling is None else telling(missing)
    with told, threads(min(cpu_count(), len(tasks))) as executor:
        for _ in run_all(_warm, tasks, executor):
            pass


def _warm(task: tuple[str, Costs, Side]) -> bool:
    return warm(*task)
