"""Compile the fast engine once, before runs are handed to processes that would each compile it.

It is done in a process of its own: while the compiler works, this one could not be interrupted.
That process keeps the code on disk, where all others find it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager

from .calibration.cost_source import CostSource
from .models.simulate import simulate
from .sim.costs import Costs
from .sim.fast import CannotCompileError, code_is_kept
from .sim.parallel import cpu_count, run_all, worker_processes
from .sim.settings import RunSettings, ServerSettings
from .sim.workload import closed_loop

Telling = Callable[[Sequence[str]], AbstractContextManager[object]]
"""Given mechanisms, tells the user for as long as their engines are being compiled."""


def warm(mechanism: str, costs: Costs, workers: int = 1) -> bool:
    """Have the fast engine of *mechanism* compiled or loaded; return whether there is one.

    The engine is the same for all *costs* of the mechanism and for all settings but one: a
    single worker has an engine of its own.
    """
    trace = closed_loop(users=1, connections=1)
    settings = RunSettings(server=ServerSettings(workers=workers), duration_ns=1000)
    # Who asked tells the user in words of their own.
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            simulate(mechanism, trace, costs, settings, engine="fast")
        except CannotCompileError:
            return False  # a run will say why
    return True


def uncompiled(mechanisms: Sequence[str], workers: int = 1) -> list[str]:
    """Return those of *mechanisms* whose engine no earlier run of this version has left on disk."""
    return [name for name in mechanisms if not code_is_kept(name, workers)]


def compile_engines(
    mechanisms: Sequence[str],
    profile: CostSource,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    telling: Telling | None = None,
) -> None:
    """Compile the engines of *mechanisms* that are not on disk yet, side by side.

    Parameters
    ----------
    mechanisms, profile:
        Names of mechanisms, and a profile that has costs of them.
    workers:
        Of the simulated server.
    executor:
        Where; None: in processes that are started for it.
    telling:
        Entered with the mechanisms while something is being compiled.
    """
    missing = uncompiled(mechanisms, workers)
    if not missing:
        return
    tasks = [(name, profile.costs(name, open_connections=0), workers) for name in missing]
    with contextlib.ExitStack() as stack:
        if telling is not None:
            stack.enter_context(telling(missing))
        if executor is None:
            executor = stack.enter_context(worker_processes(min(cpu_count(), len(tasks))))
        for _ in run_all(_warm, tasks, executor):
            pass


def _warm(task: tuple[str, Costs, int]) -> bool:
    return warm(*task)
