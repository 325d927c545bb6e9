"""Engines compiled in processes that end: the compiler keeps some 400 MB of each mechanism's.

    a run ─► no code on disk ─► child: one worker, several ─► this process loads what it needs

The engine for several workers takes a third of the time where that for one has been compiled.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from numba.core import config

from dispatchsim.compiling import Side, warm
from dispatchsim.models.catalogue import client_with
from dispatchsim.models.simulate import kept_as as name_of
from dispatchsim.sim import fast
from dispatchsim.sim.compiled.code_cache import CodeCache
from dispatchsim.sim.costs import Costs
from dispatchsim.sim.mechanism import Program
from dispatchsim.sim.parallel import processes


def compile_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """Have each run find the engine of its built-in program on disk, compiled by a child."""
    find = fast.FastRun._find_engine

    def found(run: fast.FastRun, program: Program, kept_as: str | None) -> Any:
        workers = len(run.world.workers)
        loaded = any(of is program and alone == (workers == 1) for of, _, alone in fast._engines)
        if kept_as and not loaded and not config.DISABLE_JIT:  # type: ignore[attr-defined]
            _leave_on_disk(kept_as, workers, program.mechanism.name, run.world.costs)
        return find(run, program, kept_as)

    patch.setattr(fast.FastRun, "_find_engine", found)


def _leave_on_disk(kept_as: str, workers: int, mechanism: str, costs: Costs) -> None:
    if fast.code_is_kept(kept_as, workers):
        return
    is_client = kept_as != mechanism and kept_as == name_of(client_with(mechanism))
    # Another worker of this session that wants either engine waits for both.
    with CodeCache(f"both-{kept_as}").in_turn():
        if fast.code_is_kept(kept_as, workers):
            return
        with processes(1) as executor:
            for n in (1, 2):
                side = Side(users=n) if is_client else Side(workers=n)
                # What fails there fails again here, where it is wanted.
                with contextlib.suppress(Exception):
                    executor.submit(warm, mechanism, costs, side).result()
