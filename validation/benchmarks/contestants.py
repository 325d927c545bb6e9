"""Those who simulate the same scenario: both engines, the program by hand, the first model."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...models.simulate import kept_as, prepare_world, program_of
from ...sim.columns import as_arrays
from ...sim.costs import Costs
from ...sim.fast import FastRun
from ...sim.kinds import Status
from ...sim.outcome import Outcome, outcome_of
from ...sim.reference import ReferenceRun
from ...sim.world import World
from .by_hand import load_by_hand, run_by_hand
from .first_simpy_model import run_first_model
from .scenarios import Case, Scenario, scenario_of
from .timing import Measured, resident_growth

FAST, REFERENCE = "fast", "reference"
BY_HAND, FIRST_MODEL = "C by hand", "first SimPy model"
ENGINES = (FAST, REFERENCE, BY_HAND, FIRST_MODEL)
EPOLL_ONLY = (BY_HAND, FIRST_MODEL)
_WARM_UP_CONNECTIONS = 100


class DisagreementError(RuntimeError):
    """Two that simulate the same do not find the same; the message says who and where."""


class Ran(NamedTuple):
    """One run: what was measured, and what the engine left (the first model leaves none)."""

    measured: Measured
    outcome: Outcome | None


class Row(NamedTuple):
    """One row of the table: who simulates what."""

    engine: str
    case: Case

    def __str__(self) -> str:
        """Return the row as it is said in a message."""
        idle = f", {self.case.idle:,} idle" if self.case.idle else ""
        return f"{self.engine}, {self.case.mechanism} at {self.case.load}{idle}"


def run_engine(engine: str, scenario: Scenario, by_hand: Path | None = None) -> Ran:
    """Simulate *scenario* with one of `ENGINES`; *by_hand* is the folder of the C program.

    Raises
    ------
    DisagreementError
        If not every connection of the trace was answered.
    """
    if engine == FIRST_MODEL:
        first = run_first_model(*scenario[1:])
        ran = Ran(Measured(first.replied, first.run_s, first.set_up_s), None)
    elif engine == BY_HAND:
        assert by_hand is not None
        run = run_by_hand(_loaded(by_hand), *scenario[1:])
        ran = Ran(Measured(_replied(run.outcome), run.run_s, run.set_up_s), run.outcome)
    else:
        ran = _simulate(_fast_run if engine == FAST else _reference_run, scenario)
    if ran.measured.n != len(scenario.trace):
        raise DisagreementError(
            f"{engine}, {scenario.mechanism} with {scenario.settings.client.idle} idle: "
            f"{len(scenario.trace)} connections were offered, {ran.measured.n} answered"
        )
    return ran


def bytes_per_connection(row: Row, costs: Costs, n: int, by_hand: Path | None) -> float:
    """Return by how much a fresh process grows for a whole run, over all its connections.

    Trace, state and outcome count; what the engine needs for any run does not.
    """
    run = functools.partial(_run_case, row, costs, by_hand=by_hand)
    warm_up = functools.partial(run, _WARM_UP_CONNECTIONS)
    return resident_growth(functools.partial(run, n), warm_up) / (n + row.case.idle)


def _run_case(row: Row, costs: Costs, n: int, by_hand: Path | None) -> Ran:
    case = row.case._replace(idle=0) if n == _WARM_UP_CONNECTIONS else row.case
    return run_engine(row.engine, scenario_of(case, costs, n), by_hand)


Runner = Callable[[], World]


def _simulate(prepare: Callable[[Scenario], Runner], scenario: Scenario) -> Ran:
    began_s = time.perf_counter()
    run = prepare(scenario)
    ready_s = time.perf_counter()
    world = run()
    ended_s = time.perf_counter()
    mechanism = program_of(scenario.mechanism).mechanism
    outcome = outcome_of(world, scenario.settings.duration_ns, mechanism)
    return Ran(Measured(_replied(outcome), ended_s - ready_s, ready_s - began_s), outcome)


def _fast_run(scenario: Scenario) -> Runner:
    program = program_of(scenario.mechanism)
    world = prepare_world(program, *scenario[1:], as_arrays)
    duration_ns = scenario.settings.duration_ns
    return FastRun(program, world, duration_ns=duration_ns, kept_as=kept_as(program)).run


def _reference_run(scenario: Scenario) -> Runner:
    program = program_of(scenario.mechanism)
    world = prepare_world(program, *scenario[1:])
    return ReferenceRun(program, world, duration_ns=scenario.settings.duration_ns).run


def _replied(outcome: Outcome) -> int:
    return int(np.count_nonzero(outcome.status == Status.REPLIED))


_loaded = functools.cache(load_by_hand)
