"""The fast engine as a machine: without the compiler, with checks, interrupted, over and over."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from numba.extending import register_jitable
from tests import children
from tests.scenes import comes_at
from tests.toy import MECHANISMS, toy_costs

from dispatchsim.models.epoll_level import EPOLL_LEVEL, unwatch, watch
from dispatchsim.models.simulate import simulate
from dispatchsim.sim.fast import CannotCompileError
from dispatchsim.sim.interest_set import take_ready
from dispatchsim.sim.kinds import READABLE, Activity, Count
from dispatchsim.sim.mechanism import Program
from dispatchsim.sim.processor import Worker
from dispatchsim.sim.settings import RunSettings, ServerSettings
from dispatchsim.sim.sockets import END_OF_FILE, accept, close, read, writable_bytes, write
from dispatchsim.sim.world import World

COMPARE = """
from tests.laws import check_all
from tests.models.corpus import CORPUS
from dispatchsim.models.catalogue import MECHANISMS as MECHANISMS_BY_NAME
from tests.scenes import on_fast, on_reference
from tests.toy import MECHANISMS

for scene in [scene for scene, _ in CORPUS.values() if scene.mechanism in {mechanisms}]:
    for name in {mechanisms}:
        server = scene.run.server
        if name == "io_uring" and (server.accept_limit or server.listener_last):
            continue  # it is no event loop
        # What only epoll has is refused for the others.
        if name != "epoll_level" and (server.wake_one or server.sharing == 2):
            continue
        if server.fd_limit < 4 + (1 + MECHANISMS_BY_NAME[name].fds) * server.workers:
            continue
        of_name = scene._replace(mechanism=name)
        reference, world = on_reference(of_name)
        check_all(of_name, reference, world)
        assert reference.same_as(on_fast(of_name)), of_name
        print(name)
"""


def test_without_the_compiler_it_does_the_same_in_plain_python() -> None:
    # One that waits in vain all the time would do so for five minutes of simulated time.
    names = tuple(name for name in MECHANISMS if name != "epoll_once")
    printed, messages = children.run(COMPARE.format(mechanisms=names), NUMBA_DISABLE_JIT="1")
    assert {name: printed.split().count(name) >= 5 for name in names} == dict.fromkeys(names, True)
    assert "compiling" not in messages


def test_with_bounds_checked_it_does_the_same() -> None:
    script = COMPARE.format(mechanisms=("epoll_level",))
    printed, _ = children.run(script, NUMBA_BOUNDSCHECK="1")
    assert printed.split().count("epoll_level") >= 10


BEYOND = """
from dataclasses import dataclass
import numpy as np
from numba import njit
from dispatchsim.sim.compiled.layout import Memory
from dispatchsim.sim.compiled.records import record_at

@dataclass
class Row:
    number: int

@dataclass
class Table:
    column: np.ndarray
    rows: list[Row]

memory = Memory(Table(np.arange(4, dtype=np.int8), [Row(1), Row(2)]))
table_at = record_at(memory.record)

@njit()
def entry(address, i):
    return table_at(address).column[i]

@njit()
def change(address, i):
    table_at(address).column[i] = 7

@njit()
def number(address, i):
    return table_at(address).rows[i].number

for function, last in (entry, 3), (change, 3), (number, 1):
    function(memory.address, last)
    for i in (-1, last + 1):
        try:
            function(memory.address, i)
        except IndexError:
            print("caught")
"""


def test_an_index_out_of_range_is_caught_where_bounds_are_checked() -> None:
    printed, _ = children.run(BEYOND, NUMBA_BOUNDSCHECK="1")
    assert printed.split() == ["caught"] * 6


# -- programs of one's own


@register_jitable
def spin(world: World, worker: Worker) -> Iterator[int]:
    """Look again and again instead of sleeping."""
    worker.n_events = 0
    while worker.n_events == 0:
        worker.activity = WAIT
        yield world.costs.mechanism.call_ns
        take_ready(world, worker, world.server.max_events)


WAIT, READ, WRITE = int(Activity.WAIT), int(Activity.READ), int(Activity.WRITE)
SPINNING = EPOLL_LEVEL._replace(name="spinning", wait=spin)


@register_jitable
def serve_by_hand(world: World, worker: Worker) -> Iterator[int]:
    """Accept one, or read and answer at once."""
    while True:
        for cost_ns in spin(world, worker):
            yield cost_ns
        for i in range(worker.n_events):
            fd = worker.event_fd[i]
            if fd == worker.listener_fd:
                yield world.costs.call.accept_ns
                new_fd = accept(world, worker)
                if new_fd >= 0:
                    watch(world, worker.interests, new_fd, READABLE)
                continue
            worker.activity = READ
            yield world.costs.call.read_ns
            found = read(world, fd)
            if found == END_OF_FILE:
                unwatch(world, worker.interests, fd)
                close(world, worker, fd)
            elif found > 0:
                worker.activity = WRITE
                yield world.costs.call.write_ns
                write(world, fd, writable_bytes(world, fd))


def test_a_mechanism_and_a_program_of_ones_own_run_on_both_engines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = Program(serve_by_hand, SPINNING)
    trace = comes_at(*range(1_000, 60_000, 2_000), requests=2)
    settings = RunSettings(server=ServerSettings(workers=2, cpus=2), duration_ns=200_000)
    costs = toy_costs("epoll_level")
    reference = simulate(program, trace, costs, settings, engine="reference")
    assert reference.counts[Count.REPLIES] == 60
    assert reference.counts[Count.SLEEPS] == 0
    for said in (1, 0):  # compiled once
        assert reference.same_as(simulate(program, trace, costs, settings, engine="fast"))
        assert capsys.readouterr().err.count("compiling the fast engine for spinning") == said


@register_jitable
def serve_with_a_notebook(world: World, worker: Worker) -> Iterator[int]:
    """Keep objects, which compiled code has no type for."""
    notes = [object()]
    while notes:
        for cost_ns in spin(world, worker):
            yield cost_ns


@register_jitable
def serve_by_delegation(world: World, worker: Worker) -> Iterator[int]:
    """Delegate to a generator, which Numba does not even read."""
    while True:
        yield from spin(world, worker)


def test_a_program_that_cannot_be_compiled_is_told_why_in_a_sentence() -> None:
    program = Program(serve_with_a_notebook, EPOLL_LEVEL)
    run = comes_at(1_000), toy_costs("epoll_level"), RunSettings(duration_ns=10_000)
    with pytest.raises(CannotCompileError) as told:
        simulate(program, *run, engine="fast")
    sentence = str(told.value)
    assert "\n" not in sentence
    assert "the fast engine cannot run serve_with_a_notebook: " in sentence
    with pytest.warns(UserWarning, match="running on the reference engine: .*notebook"):
        outcome = simulate(program, *run, engine="auto")
    assert outcome.same_as(simulate(program, *run, engine="reference"))


def test_the_sentence_names_the_obstacle_and_the_place() -> None:
    program = Program(serve_with_a_notebook, EPOLL_LEVEL)
    run = comes_at(1_000), toy_costs("epoll_level"), RunSettings(duration_ns=10_000)
    with pytest.raises(CannotCompileError, match=r"test_fast_engine\.py, line \d+") as told:
        simulate(program, *run, engine="fast")
    assert "No implementation of function" not in str(told.value)


def test_what_numba_cannot_even_read_is_told_as_well() -> None:
    program = Program(serve_by_delegation, EPOLL_LEVEL)
    run = comes_at(1_000), toy_costs("epoll_level"), RunSettings(duration_ns=10_000)
    with pytest.raises(CannotCompileError):
        simulate(program, *run, engine="fast")


# -- Ctrl-C, and memory

ENDLESS = """
from tests.scenes import comes_at
from tests.toy import toy_costs
from dispatchsim.models.simulate import InterruptedRun, simulate
from dispatchsim.sim.settings import ClientSettings, RunSettings, ServerSettings

settings = RunSettings(
    server=ServerSettings(workers=2, cpus=3, interrupt_cpu=2),
    client=ClientSettings(idle=2_000, idle_life_ns=100_000),
    duration_ns=10**15,
    warm_up_ns=1_000,
    sample_every_ns=0,
)
try:
    simulate(
        "epoll_level", comes_at(1_000), toy_costs("epoll_level"), settings, engine="fast",
        progress=lambda now_ns: print("goes on", flush=True),
    )
except InterruptedRun as stopped:
    outcome = stopped.outcome
    assert 0 < outcome.duration_ns < 10**15
    assert (outcome.cpu_ledger_ns.sum(axis=1) == outcome.duration_ns).all()
    assert (outcome.cpu_ledger_mark_ns.sum(axis=1) == 1_000).all()
    assert (outcome.cpu_ledger_ns >= 0).all()
    assert outcome.status.tolist() == [0]
    print("stopped")
"""


def test_ctrl_c_ends_a_run_with_the_outcome_so_far() -> None:
    child = children.start(ENDLESS)
    assert child.stdout is not None
    assert child.stdout.readline() == "goes on\n"
    child.send_signal(signal.SIGINT)
    printed, _ = children.finished(child)
    assert printed.split()[-1] == "stopped"


MANY = """
import gc
from pathlib import Path
from tests.models.corpus import CORPUS
from tests.scenes import on_fast

def resident_bytes():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

scene, _ = CORPUS["one woken of many"]
for n in range(400):
    if n == 100:
        before = resident_bytes()
    on_fast(scene)
print(resident_bytes() - before)
"""


def test_run_after_run_takes_no_more_memory() -> None:
    printed, _ = children.run(MANY)
    assert int(printed) < 6_000_000
