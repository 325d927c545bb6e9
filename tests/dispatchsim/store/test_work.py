"""Whatever simulates, in whatever order, however often it is stopped: the same rows."""

from __future__ import annotations

import itertools
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.children import start
from tests.dispatchsim.store.made_up import PROFILE, exported, runs, scenario, sweep

from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.running.compiling import Side
from dispatchsim.calibration.running.preparation import job_of, run_job
from dispatchsim.scenario.errors import ScenarioError
from dispatchsim.scenario.metrics import metrics_of
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.files.parallel import processes, threads
from dispatchsim.store import Progress, Record, Run, Store, address_of, simulate_all, work
from dispatchsim.store.chunks import (
    CHUNK_S,
    FIRST_CHUNK_S,
    Simulated,
    Workload,
    guess_s,
    simulate_run,
)

PATIENCE_S = 120.0

SWEEP = """
import sys
import time
from pathlib import Path
from tests.dispatchsim.store.made_up import sweep
from dispatchsim.sim.files.parallel import threads
from dispatchsim.store import Store, simulate_all

def stay_when_some_are_kept(progress):
    if progress.done:
        time.sleep({patience_s})

with threads(2) as executor:
    store = Store(Path({folder!r}))
    simulate_all(sweep(), store=store, executor=executor, progress=stay_when_some_are_kept)
"""


@pytest.fixture(scope="module")
def undisturbed() -> list[Record]:
    return simulate_all(sweep())


def test_records_are_in_the_order_of_runs_and_the_figures_are_those_of_the_run() -> None:
    wanted = runs(2)
    records = simulate_all([*wanted, *reversed(wanted)])
    assert records == [*records[:6], *reversed(records[:6])]
    for run, record in zip(wanted, records, strict=False):
        summary = run_job(job_of(run.scenario, run.profile, run.seed)).summary
        assert record.address == address_of(run)
        assert (record.seed, record.draw, record.mechanism) == (run.seed, None, "epoll_level")
        assert record.figures == metrics_of(summary)
        assert record.figures["throughput_per_s"] == summary.throughput_per_s
    figures = dict(records[0].figures)
    assert figures.pop("cpu_busy") == figures.pop("cpu_busiest")  # there is one CPU
    spent = [value for name, value in figures.items() if name.startswith("cpu_")]
    assert sum(spent) == pytest.approx(1)


def test_a_percentile_that_a_row_lacks_is_added_by_simulating_it_again(tmp_path: Path) -> None:
    wanted, store, told = runs(1, rates_per_s=(2000,)), Store(tmp_path), list[Progress]()

    def figures(*names: str) -> dict[str, float]:
        (record,) = simulate_all(wanted, figures=names, store=store, progress=told.append)
        return record.figures

    plain, one = figures(), figures("p97_5_ns")
    assert one.keys() - plain.keys() == {"p97_5_ns"}
    assert plain["p95_ns"] < one["p97_5_ns"] < plain["p99_ns"]
    both = figures("p20_ns")
    assert both.keys() - one.keys() == {"p20_ns"}
    assert both["p97_5_ns"] == one["p97_5_ns"]
    assert [now.known for now in told if now.done == now.total] == [0, 0, 0]
    assert figures("p20_ns", "p97_5_ns", "p99_ns") == both
    assert told[-1].known == 1
    # Of the three rows of one run a reader finds the fullest.
    assert [row.figures for row in Store(tmp_path).records()] == [both]


def test_what_the_store_has_is_not_simulated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = []

    def counted(run: Run) -> Simulated:
        simulated.append(run.seed)
        return simulate_run(run)

    monkeypatch.setattr(work, "simulate_run", counted)
    told: list[Progress] = []
    few, more = (runs(n, rates_per_s=(2000,)) for n in (3, 5))
    first = simulate_all(few + few, store=Store(tmp_path), progress=told.append)
    assert simulated == [0, 1, 2]
    assert told[0][:3] == (0, 3, 0)
    assert math.isnan(told[0].seconds_left)
    assert told[-1] == (3, 3, 0, 0.0)
    assert simulate_all(more, store=Store(tmp_path), progress=told.append)[:3] == first[:3]
    assert simulated == [0, 1, 2, 3, 4]
    assert told[-1] == (5, 5, 3, 0.0)
    assert simulate_all(few, store=Store(tmp_path), progress=told.append) == first[:3]
    assert told[-1] == (3, 3, 3, 0.0)


class Shuffled(Executor):
    """Makes all calls that wait when one more is waited for, the last one first."""

    workers = 3

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1)
        self._held: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._held.append((future, fn, args))
        self._executor.submit(self._make)
        return future

    def _make(self) -> None:
        time.sleep(0.02)
        future, fn, args = self._held.pop()
        if future.set_running_or_notify_cancel():
            future.set_result(fn(*args))


def test_workers_and_their_order_do_not_matter(tmp_path: Path) -> None:
    wanted = runs(8)
    here = simulate_all(wanted, store=Store(tmp_path / "here"))
    assert simulate_all(wanted, store=Store(tmp_path / "odd"), executor=Shuffled()) == here
    for name, workers in {"threads": threads, "processes": processes}.items():
        with workers(2) as executor:
            assert simulate_all(wanted, store=Store(tmp_path / name), executor=executor) == here
    folders = ("here", "odd", "threads", "processes")
    contents = [exported(Store(tmp_path / name).records(), tmp_path) for name in folders]
    assert contents[1:] == 3 * contents[:1]


def test_a_run_that_fails_leaves_what_is_finished(tmp_path: Path) -> None:
    wanted = runs(2, rates_per_s=(2000,))
    lost = tmp_path / "trace.csv"
    lost.write_text("no trace")
    broken = Scenario.of(server={"mechanism": "poll"}, load={"loop": "open", "trace": str(lost)})
    with pytest.raises(ValueError, match=r"trace\.csv"):
        simulate_all([*wanted, Run(broken, PROFILE, 1)], store=Store(tmp_path / "kept"))
    told: list[Progress] = []
    simulate_all(wanted, store=Store(tmp_path / "kept"), progress=told.append)
    assert told[0].known == 2
    lost.unlink()
    with pytest.raises(ScenarioError, match=r"load\.trace"):
        simulate_all([Run(broken, PROFILE, 1)])


def test_ctrl_c_in_this_process_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def interrupted(run: Run) -> Simulated:
        if next(calls) == 4:
            raise KeyboardInterrupt
        return simulate_run(run)

    monkeypatch.setattr(work, "simulate_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        simulate_all(runs(6), store=Store(tmp_path))
    assert len(Store(tmp_path).frame()) == 4


@pytest.mark.parametrize("workers", [threads, processes])
def test_ctrl_c_keeps_what_workers_have_finished(
    tmp_path: Path,
    undisturbed: list[Record],
    workers: Callable[[int], AbstractContextManager[Executor]],
) -> None:
    def stop(progress: Progress) -> None:
        if progress.done:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), workers(2) as executor:
        simulate_all(sweep(), store=Store(tmp_path), executor=executor, progress=stop)
    assert_resumed(tmp_path, undisturbed)


def test_a_sweep_that_is_killed_goes_on_where_it_was(
    tmp_path: Path, undisturbed: list[Record]
) -> None:
    with start(SWEEP.format(folder=str(tmp_path), patience_s=PATIENCE_S)) as child:
        until_s = time.monotonic() + PATIENCE_S
        while not list(tmp_path.glob("*.parquet")) and time.monotonic() < until_s:
            assert child.poll() is None, child.communicate()
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
    assert_resumed(tmp_path, undisturbed)


def assert_resumed(folder: Path, undisturbed: list[Record]) -> None:
    """Check that the sweep in *folder* is half done, and that it goes on to the same end."""
    told: list[Progress] = []
    with threads(2) as executor:
        records = simulate_all(
            sweep(), store=Store(folder), executor=executor, progress=told.append
        )
    assert 0 < told[0].known < len(undisturbed)
    assert told[-1].done == told[-1].total == len(undisturbed)
    assert records == undisturbed
    rows = Store(folder).records()
    assert len(rows) == len(undisturbed)
    assert exported(rows, folder.parent) == exported(undisturbed, folder.parent)


def handed_out(load: Workload, seconds_each: float) -> Iterator[float]:
    """Yield the seconds of each chunk, in turn, where every run takes *seconds_each*."""
    while not load.is_handed_out:
        chunk = load.chunk()
        yield seconds_each * len(chunk)
        for index in chunk:
            load.finish(index, seconds_each)


def test_chunks_take_seconds_and_are_small_at_both_ends() -> None:
    seconds = list(handed_out(Workload(runs(6000, rates_per_s=(2000,)), workers=2), 0.2))
    assert sum(seconds) == pytest.approx(1200)
    assert seconds[0] == pytest.approx(0.2 * int(FIRST_CHUNK_S / guess_s(scenario())))
    # Once it is known how long a run takes, chunks are of 5 to 15 s while there is enough work.
    middle = [
        s
        for s, before in zip(seconds, itertools.accumulate(seconds), strict=True)
        if 150 < before < 1100
    ]
    assert all(5 <= s <= CHUNK_S + 0.2 for s in middle)
    assert seconds[-1] <= 1


@pytest.mark.parametrize("workers", [1, 2, 16])
def test_few_runs_are_handed_out_one_by_one(workers: int) -> None:
    load = Workload(runs(workers, rates_per_s=(2000,)), workers)
    assert len(list(handed_out(load, 10.0))) == workers


def test_the_longest_runs_are_begun_first_and_decide_what_is_left() -> None:
    wanted = [Run(scenario(1000 * n, duration="100 ms"), PROFILE, 1) for n in (1, 50, 3)]
    load = Workload(wanted, workers=2)
    assert math.isnan(load.seconds_left())
    assert [load.chunk(), load.chunk(), load.chunk()] == [[1], [2], [0]]
    load.finish(0, 1.0)
    assert load.seconds_left() > 1
    load.finish(1, 7.0)
    load.finish(2, 2.0)
    assert load.seconds_left() == 0


def test_an_executor_without_a_number_of_workers_has_one_a_cpu() -> None:
    with ThreadPoolExecutor(3) as executor, processes(2) as ours:
        assert (work.workers_of(executor), work.workers_of(ours)) == (3, 2)
    assert work.workers_of(Executor()) == len(os.sched_getaffinity(0))


@given(
    st.lists(st.sampled_from([100, 1000, 50_000]), min_size=1, max_size=40),
    st.integers(1, 5),
    st.lists(st.floats(0, 100), min_size=40, max_size=40),
)
def test_every_run_is_handed_out_once_and_no_worker_waits_for_another(
    rates_per_s: list[float], workers: int, seconds: list[float]
) -> None:
    scenarios = {rate: scenario(rate, duration="200 ms") for rate in set(rates_per_s)}
    load = Workload([Run(scenarios[rate], PROFILE, 1) for rate in rates_per_s], workers)
    chunks = []
    while not load.is_handed_out:
        chunks.append(load.chunk())
        for index in chunks[-1][:-1]:  # the last one of each takes longer
            load.finish(index, seconds[index])
    assert sorted(index for chunk in chunks for index in chunk) == list(range(len(rates_per_s)))
    assert len(chunks) >= min(workers, len(rates_per_s))
    for chunk in chunks:
        load.finish(chunk[-1], seconds[chunk[-1]])
    assert load.seconds_left() == 0


def test_engines_are_compiled_before_workers_would_wait_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[tuple[list[str], int, str]] = []

    def noted(mechanisms: list[str], profile: Profile, *, side: Side, engine: str) -> None:
        compiled.append((mechanisms, side.settings.program.workers, engine))

    monkeypatch.setattr(work, "compile_engines", noted)
    wanted = [
        *runs(2),
        Run(scenario(mechanism="poll"), PROFILE, 1),
        Run(scenario(workers=2), PROFILE, 1),
        Run(scenario().with_values(run={"engine": "reference", "warm_up": "0 s"}), PROFILE, 1),
    ]
    with ThreadPoolExecutor(1) as executor:
        simulate_all(wanted, executor=executor)
    assert compiled == [
        (["epoll_level"], 1, "auto"),
        (["poll"], 1, "auto"),
        (["epoll_level"], 2, "auto"),
        (["epoll_level"], 1, "reference"),
    ]
    compiled.clear()
    simulate_all(wanted[:1])
    assert compiled == []
