"""The contestants: each simulates a scenario and has its run timed.

The memory of compiled contestants is touched before the run, so the run does not wait for pages.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from ...models.simulate import prepare_world, program_of
from ...sim.engine.reference import ReferenceRun
from ...sim.figures.outcome import Outcome, outcome_of
from ...sim.state.columns import as_arrays
from ...sim.state.kinds import Status
from ...sim.state.world import World
from .by_hand import CompileError, compiled, run_by_hand
from .results import Timer, cpu_seconds
from .scenarios import EPOLL, Case, Scenario

BY_HAND = "C by hand"
FOLDED, GENERAL = "C engine, folded", "C engine, general"
REFERENCE = "reference"
COMPILED = (BY_HAND, FOLDED, GENERAL)
CONTESTANTS = (*COMPILED, REFERENCE)
_PER_REFERENCE = 25  # connections of a compiled run for each of the reference
_SLOW_IDLE_MAX = 10_000  # above it SimPy alone takes minutes
_PAGE_BYTES = 4_096


class DisagreementError(RuntimeError):
    """Two contestants differ; the message names contestant and case."""


class Ran(NamedTuple):
    """One run: connections with replies, result of the timer, and record."""

    n: int
    took: float
    outcome: Outcome


Engine = Callable[[Scenario], tuple[World, Callable[[], World]]]
"""Builds the world of a scenario; returns it with the function that runs it."""


def missing(name: str) -> str:
    """Return why a contestant cannot run here; empty if it can."""
    try:
        if name == BY_HAND:
            compiled()
        elif name in (FOLDED, GENERAL):
            c_module()
    except (CompileError, ImportError) as error:
        return f"{name}: {error}"
    return ""


def takes_part(name: str, case: Case) -> bool:
    """Return whether *name* simulates *case* in reasonable time."""
    if name == BY_HAND and (case.workers > 1 or case.mechanism != EPOLL):
        return False
    return name in COMPILED or case.idle <= _SLOW_IDLE_MAX


def connections(name: str, n: int) -> int:
    """Return the number of connections in a run of *name* if a compiled run has *n*."""
    return max(1, n // (_PER_REFERENCE if name == REFERENCE else 1))


def run(
    name: str,
    scenario: Scenario,
    timer: Timer = cpu_seconds,
    *,
    touched: bool = True,
) -> Ran:
    """Simulate *scenario* with a contestant; its memory is *touched* before the timer starts.

    Raises
    ------
    DisagreementError
        If a connection of the trace has no reply.
    ValueError
        If the contestant lacks a feature of the scenario.
    """
    if name == BY_HAND:
        found = run_by_hand(compiled(), *scenario[1:], timer)
        ran = Ran(_replied(found.outcome), found.took, found.outcome)
    else:
        world, start = ENGINES[name](scenario)
        if touched:
            touch(world)
        took = timer(start)
        ran = record(world, scenario, took)
        del start
    if ran.n != len(scenario.trace):
        raise DisagreementError(
            f"{name}: {len(scenario.trace)} connections were offered, {ran.n} got their replies"
        )
    return ran


def record(world: World, scenario: Scenario, took: float) -> Ran:
    """Return the record of an ended run in *world*."""
    mechanism = program_of(scenario.mechanism).mechanism
    outcome = outcome_of(world, scenario.settings.duration_ns, mechanism)
    return Ran(_replied(outcome), took, outcome)


def _replied(outcome: Outcome) -> int:
    return int(np.count_nonzero(outcome.status == Status.REPLIED))


def _c_engine(scenario: Scenario, *, folded: bool) -> tuple[World, Callable[[], World]]:
    program = program_of(scenario.mechanism)
    world = prepare_world(program, *scenario[1:], as_arrays)
    duration_ns = scenario.settings.duration_ns
    return world, c_module().CRun(program, world, duration_ns=duration_ns, folded=folded).run


def c_module() -> Any:
    """Return the module of the C engine."""
    return importlib.import_module("dispatchsim.sim.engine.c.run")


def _reference(scenario: Scenario) -> tuple[World, Callable[[], World]]:
    program = program_of(scenario.mechanism)
    world = prepare_world(program, *scenario[1:])
    return world, ReferenceRun(program, world, duration_ns=scenario.settings.duration_ns).run


ENGINES: dict[str, Engine] = {
    FOLDED: functools.partial(_c_engine, folded=True),
    GENERAL: functools.partial(_c_engine, folded=False),
    REFERENCE: _reference,
}
"""The contestants that run a world."""


def touch(world: World) -> None:
    """Write to every page of every array in *world*."""
    for array in _arrays(world, set()):
        if array.size and array.flags.c_contiguous and array.flags.writeable:
            pages = array.reshape(-1).view(np.uint8)[::_PAGE_BYTES]
            pages += np.uint8(0)


def _arrays(value: Any, seen: set[int]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays of a record, and those of the records it refers to."""
    if isinstance(value, np.ndarray):
        yield value
    elif id(value) not in seen:
        seen.add(id(value))
        if is_dataclass(value):
            for field in fields(value):
                yield from _arrays(getattr(value, field.name), seen)
        elif isinstance(value, list | tuple) and value and not isinstance(value[0], int):
            for item in value:
                yield from _arrays(item, seen)


def fingerprint(outcome: Outcome) -> str:
    """Return a hash of every entry of *outcome*."""
    digest = hashlib.blake2b(digest_size=8)
    for field in fields(outcome):
        entries = np.asarray(getattr(outcome, field.name)).astype(np.int64)
        digest.update(f"{field.name} {entries.shape} ".encode() + entries.tobytes())
    return digest.hexdigest()
