"""Runs of programs of one's own on the C engine: faults, Ctrl-C, threads, no compiler."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests import children
from tests.scenes import comes_at
from tests.served import on_server
from tests.toy import toy_costs

from dispatchsim.models.epoll.epoll_level import EPOLL_LEVEL
from dispatchsim.models.simulate import (
    ReferenceEngineWarning,
    prepare_world,
    program_of,
    simulate,
)
from dispatchsim.sim.engine.c import library
from dispatchsim.sim.engine.c.heap_calendar import MARGIN, heap_calendar
from dispatchsim.sim.engine.c.layout import record_type
from dispatchsim.sim.engine.c.run import CannotCompileError
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.kernel.interest_set import take_ready
from dispatchsim.sim.state.columns import as_arrays
from dispatchsim.sim.state.event_calendar import first_due_ns, schedule
from dispatchsim.sim.state.kinds import Count, activity, occurrence
from dispatchsim.sim.state.mechanism import Mechanism, spend
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import Worker, World


def spin(world: World, worker: Worker) -> Iterator[int]:
    """Check again and again instead of sleeping."""
    worker.n_events = 0
    while worker.n_events == 0:
        yield world.costs.mechanism.call_ns
        take_ready(world, worker, world.program.max_events)


COST_NS = 60


def cost_ns() -> int:
    return 80


class Costs:
    call_ns = 90


def costs_of_globals(world: World, worker: Worker) -> Iterator[int]:
    """Check again and again at costs that are written into the C."""
    worker.n_events = 0
    while worker.n_events == 0:
        yield COST_NS + cost_ns() + Costs.call_ns
        take_ready(world, worker, world.program.max_events)


def beyond_the_column(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    worker.event_fd[len(worker.event_fd) + worker.number] = 1


def beyond_the_cpus(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    yield world.cpus[1].number  # a constant in the folded engine, as there is one CPU


def due_before_and_after(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    yield first_due_ns(world) - planned(world) + first_due_ns(world)


def planned(world: World) -> int:
    schedule(world, world.now_ns, occurrence.SAMPLE, 0)
    return world.now_ns


def failed_assertion(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    assert worker.number > 0


def division_by_zero(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    yield 7 // worker.number


def too_wide(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    worker.event_fd[0] = world.now_ns + 2**40


def before_the_last(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    yield worker.number - 5


def half_a_nanosecond(world: World, worker: Worker) -> Iterator[float]:
    yield 1
    yield from spend(worker, activity.WAIT, (worker.number + 5) / 2)  # type: ignore[arg-type]


def spends_less_than_nothing(world: World, worker: Worker) -> Iterator[int]:
    yield 1
    yield from spend(worker, activity.WAIT, worker.number - 5)


def with_objects(world: World, worker: Worker) -> Iterator[int]:
    notes = [object()]
    yield len(notes)


def own(wait: Any) -> Mechanism:
    """Return level-triggered epoll with another wait."""
    return EPOLL_LEVEL._replace(name=wait.__name__, wait=wait)


def run(wait: Any, engine: Any = "fast", workers: int = 1, **more: Any) -> Outcome:
    settings = RunSettings(**on_server(workers=workers), duration_ns=100_000)
    costs = toy_costs("epoll_level")
    return simulate(own(wait), comes_at(1_000, 5_000), costs, settings, engine=engine, **more)


@pytest.mark.parametrize(
    ("wait", "error", "why"),
    [
        (beyond_the_column, IndexError, "there is no entry"),
        (beyond_the_cpus, IndexError, "there is no entry"),
        (failed_assertion, AssertionError, "does not hold"),
        (division_by_zero, ZeroDivisionError, "by zero"),
        (too_wide, OverflowError, "does not fit the 32 bits"),
        (before_the_last, ValueError, r"a step must be .* at least 0, got -5: take max\(0, "),
    ],
)
def test_a_fault_has_file_and_line_and_the_next_run_works(
    wait: Any, error: type[Exception], why: str
) -> None:
    line = wait.__code__.co_firstlineno + 2
    with pytest.raises(error, match=rf"test_runs\.py, line {line}: .*{why}"):
        run(wait)
    assert run(spin).same_as(run(spin, "reference"))


def another_cost_ns() -> int:
    return 7_000


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (sys.modules[__name__], "COST_NS", 7_000),
        (sys.modules[__name__], "cost_ns", another_cost_ns),
        (cost_ns, "__code__", another_cost_ns.__code__),  # as tools do that load a module again
        (Costs, "call_ns", 7_000),
    ],
)
def test_what_a_program_reads_from_its_module_may_change_between_runs(
    owner: Any, name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(costs_of_globals)
    assert before.same_as(run(costs_of_globals, "reference"))
    monkeypatch.setattr(owner, name, value)
    after = run(costs_of_globals)
    assert after.same_as(run(costs_of_globals, "reference"))
    assert not after.same_as(before)
    monkeypatch.undo()
    assert run(costs_of_globals).same_as(before)


def test_a_program_of_which_nothing_changes_is_translated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = run(costs_of_globals)
    monkeypatch.setattr(library, "_translated", None)
    assert run(costs_of_globals).same_as(before)


def test_functions_of_the_engine_take_their_turn_from_the_left() -> None:
    # The second operand plans what the first and the last look for. C would fix no order.
    program = program_of(own(due_before_and_after))
    world = prepare_world(program, comes_at(0), toy_costs("epoll_level"), RunSettings(), as_arrays)
    world.calendar = heap_calendar(MARGIN)
    text = library.engine_text(program, record_type(world))
    kept = r"int64_t (x\d+) = first_due_ns\(v_world\); int64_t (x\d+) = f_planned\(v_world\);"
    assert re.search(kept, text)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("wait", "why"),
    [
        (half_a_nanosecond, r"got 2\.5: divide with //"),
        (before_the_last, r"got -5: take max\(0, \.\.\.\) of it"),
        (spends_less_than_nothing, r"got -5: take max\(0, \.\.\.\) of it"),
    ],
)
def test_the_reference_engine_refuses_a_step_that_is_no_number_of_nanoseconds(
    wait: Any, why: str, workers: int
) -> None:
    line = wait.__code__.co_firstlineno + 2
    rule = r"a step must be a whole number \(int\) of nanoseconds, at least 0, "
    where = rf"{wait.__name__} \(.*test_runs\.py, line {line}\): "
    with pytest.raises(ValueError, match=where + rule + why):
        run(wait, "reference", workers)


def test_the_fast_engine_refuses_a_cost_below_0() -> None:
    with pytest.raises(AssertionError, match=r"spend: a cost must be .* names the line"):
        run(spends_less_than_nothing)


def test_what_cannot_be_translated_runs_on_the_reference_engine() -> None:
    with pytest.raises(CannotCompileError, match=r"test_runs\.py:\d+: in with_objects: .*column"):
        run(with_objects)
    with pytest.warns(
        ReferenceEngineWarning, match="running on the reference engine: .*with_objects"
    ):
        run(with_objects, "auto")


def test_what_progress_raises_ends_the_run_and_the_next_one_works() -> None:
    def refuse(now_ns: int) -> None:
        raise LookupError(now_ns)

    with pytest.raises(LookupError):
        run(spin, progress=refuse)
    assert run(spin).same_as(run(spin, "reference"))


def test_runs_in_threads_are_independent() -> None:
    expected = {workers: run(spin, "reference", workers) for workers in (1, 3)}
    found: list[bool] = []

    def some(workers: int) -> None:
        found.extend(run(spin, "fast", workers).same_as(expected[workers]) for _ in range(20))

    threads = [threading.Thread(target=some, args=[workers]) for workers in (1, 3, 1, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


def free(costs: Any) -> Any:
    """Return *costs* with 0 everywhere."""
    if isinstance(costs, int):
        return 0
    parts = [free(part) for part in costs]
    return type(costs)(*parts) if hasattr(costs, "_fields") else tuple(parts)


@pytest.mark.parametrize("mechanism", ["epoll_level", "io_uring"])
def test_the_calendar_grows_within_a_step_that_plans_thousands_of_events(mechanism: str) -> None:
    # Nothing costs anything: all connections are accepted and answered within one step, and each
    # answer plans a request a second later.
    trace = comes_at(*[0] * 3_000, requests=2, think_ns=1_000_000_000)
    server = on_server(backlog=4096, fd_limit=5_000, softirq_budget=0)  # no packet is lost
    run = RunSettings(**server, duration_ns=3_000_000_000, sample_every_ns=0)
    costs = free(toy_costs(mechanism))
    reference = simulate(mechanism, trace, costs, run, engine="reference")
    assert reference.counts[Count.REPLIES] == 6_000
    assert reference.same_as(simulate(mechanism, trace, costs, run, engine="fast"))


# -- Ctrl-C

ENDLESS = """
import signal
from tests.scenes import comes_at
from tests.sim.engine.c.endless import {wait}
from tests.sim.engine.c.test_runs import own
from tests.toy import toy_costs
from dispatchsim.models.simulate import InterruptedRun, simulate
from dispatchsim.sim.state.settings import RunSettings

run = own({wait}), comes_at(1_000), toy_costs("epoll_level")
try:
    simulate(*run, RunSettings(duration_ns=1), engine="fast")  # compiled now
    # By the time it has computed for a second it is in the loop that never ends.
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1)
    simulate(*run, RunSettings(duration_ns=10**6), engine="fast")
except InterruptedRun as stopped:
    assert stopped.outcome.duration_ns == {at_ns}, stopped.outcome.duration_ns
    print("stopped")
"""


@pytest.mark.parametrize(
    ("wait", "at_ns"), [("never_yields", 60), ("yields_nothing", 60), ("long_range", 60)]
)
def test_ctrl_c_ends_a_mechanism_that_never_ends(wait: str, at_ns: int) -> None:
    printed, _ = children.run(ENDLESS.format(wait=wait, at_ns=at_ns))
    assert printed == "stopped\n"


NO_COMPILER = """
import warnings
from tests.sim.engine.c.test_runs import run, spin

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    run(spin, "auto")
    run(spin, "auto")
print([str(each.message) for each in caught if "reference engine" in str(each.message)])
"""


def test_without_a_compiler_a_warning_names_what_to_install() -> None:
    printed, _ = children.run(NO_COMPILER, CC="no-such-compiler")
    assert "there is no fast engine here" in printed
    assert "apt-get install gcc" in printed
