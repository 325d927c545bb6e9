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
from .sim.compiled.code_cache import cache_root, source_hash
from .sim.costs import Costs
from .sim.fast import CannotCompileError
from .sim.parallel import cpu_count, run_all, worker_processes
from .sim.settings import RunSettings
from .sim.workload import closed_loop

Telling = Callable[[Sequence[str]], AbstractContextManager[object]]
"""Given mechanisms, tells the user for as long as their engines are being compiled."""


def warm(mechanism: str, costs: Costs) -> bool:
    """Have the fast engine of *mechanism* compiled or loaded; return whether there is one.

    The engine is the same for all *costs* of the mechanism and for all settings.
    """
    trace = closed_loop(users=1, connections=1)
    # Who asked tells the user in words of their own.
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            simulate(mechanism, trace, costs, RunSettings(duration_ns=1000), engine="fast")
        except CannotCompileError:
            return False  # a run will say why
    return True


def uncompiled(mechanisms: Sequence[str]) -> list[str]:
    """Return those of *mechanisms* whose engine no earlier run of this version has left on disk."""
    folder = cache_root() / f"code-{source_hash()}"
    return [name for name in mechanisms if not any(folder.glob(f"{name}-*"))]


def compile_engines(
    mechanisms: Sequence[str],
    profile: CostSource,
    *,
    executor: Executor | None = None,
    telling: Telling | None = None,
) -> None:
    """Compile the engines of *mechanisms* that are not on disk yet, side by side.

    Parameters
    ----------
    mechanisms, profile:
        Names of mechanisms, and a profile that has costs of them.
    executor:
        Where; None: in processes that are started for it.
    telling:
        Entered with the mechanisms while something is being compiled.
    """
    missing = uncompiled(mechanisms)
    if not missing:
        return
    tasks = [(name, profile.costs(name, open_connections=0)) for name in missing]
    with contextlib.ExitStack() as stack:
        if telling is not None:
            stack.enter_context(telling(missing))
        if executor is None:
            executor = stack.enter_context(worker_processes(min(cpu_count(), len(tasks))))
        for _ in run_all(_warm, tasks, executor):
            pass


def _warm(task: tuple[str, Costs]) -> bool:
    return warm(*task)
