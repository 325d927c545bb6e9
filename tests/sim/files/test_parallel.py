"""Workers: results and errors come back, nothing is waited for that cannot come."""

from __future__ import annotations

import operator
import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.toy import toy_costs

import dispatchsim as ds
from dispatchsim.sim.engine import workers
from dispatchsim.sim.engine.c import library
from dispatchsim.sim.engine.workers import worker_for, workers_for
from dispatchsim.sim.files import parallel
from dispatchsim.sim.files.parallel import (
    ProcessExecutor,
    StoppedError,
    ThreadExecutor,
    WorkerDiedError,
    _interrupts_put_off,
    check_stopped,
    processes,
    run_all,
    stoppable,
    threads,
)
from dispatchsim.sim.native import library as native_library

PATIENCE_S = 60  # for what should take a fraction of a second


def gone(pid: int) -> bool:
    """Return whether there is no such process any more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def something_is_there() -> str:
    return ""


def no_compiler() -> str:
    return "no compiler"


def test_what_compiles_runs_in_threads_and_what_is_python_in_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "why_no_engine", something_is_there)
    found = {engine: worker_for(engine) for engine in ("auto", "fast", "reference")}
    assert found == {"auto": "thread", "fast": "thread", "reference": "process"}
    monkeypatch.setattr(workers, "why_no_engine", no_compiler)
    assert worker_for("auto") == "process"


@pytest.mark.parametrize(
    ("sources", "checked", "kind"),
    [
        (library.SOURCES_HASH, "0", "thread"),
        (library.SOURCES_HASH, "1", "process"),  # no checked engine is shipped
        ("0123456789abcdef0123", "0", "process"),  # the sources were edited since
    ],
)
def test_without_a_compiler_threads_need_the_engine_of_the_very_sources(
    *,
    sources: str,
    checked: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv(library.CHECKED_VARIABLE, checked)
    monkeypatch.setattr(native_library, "SHIPPED_FOLDER", tmp_path)
    shipped = tmp_path / platform.machine() / f"poll-0123456789ab-{sources}.so"
    shipped.parent.mkdir()
    shipped.touch()
    assert worker_for("auto") == kind


def test_one_worker_is_this_thread_and_several_are_as_many_as_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "why_no_engine", something_is_there)
    with workers_for("auto", 1) as executor:
        assert executor is None
    with workers_for("auto", 3) as executor:
        assert isinstance(executor, ThreadExecutor)
        assert executor.workers == 3


@pytest.mark.parametrize("workers", [threads, processes])
def test_results_come_with_their_index(
    workers: Callable[[int], AbstractContextManager[Executor]],
) -> None:
    with workers(2) as executor:
        found = dict(run_all(abs, [-3, 2, -1, 0], executor))
    assert found == {0: 3, 1: 2, 2: 1, 3: 0}


def test_an_error_comes_back_as_what_it_was_and_says_where() -> None:
    with processes(1) as executor:
        future = executor.submit(operator.truediv, 1, 0)
        with pytest.raises(ZeroDivisionError) as caught:
            future.result(PATIENCE_S)
        assert "in a worker process" in caught.value.__notes__[0]
        # The process has not suffered.
        assert executor.submit(abs, -1).result(PATIENCE_S) == 1


def test_what_cannot_be_sent_fails_alone() -> None:
    with processes(1) as executor:
        there = executor.submit(len, threading.Lock())  # type: ignore[arg-type]
        back = executor.submit(threading.Lock)
        for future in (there, back):
            with pytest.raises(TypeError, match="pickle"):
                future.result(PATIENCE_S)
        assert executor.submit(abs, -1).result(PATIENCE_S) == 1


def test_a_process_that_dies_fails_all_that_waits() -> None:
    with processes(1) as executor:
        dying = executor.submit(os._exit, 3)
        waiting = [executor.submit(abs, -1) for _ in range(3)]
        with pytest.raises(WorkerDiedError, match="ended before its run did"):
            dying.result(PATIENCE_S)
        for future in waiting:
            with pytest.raises(WorkerDiedError):
                future.result(PATIENCE_S)
        with pytest.raises(WorkerDiedError):
            executor.submit(abs, -1)


def test_a_killed_process_is_named_by_its_signal() -> None:
    with processes(1) as executor:
        pid = executor.submit(os.getpid).result(PATIENCE_S)
        future = executor.submit(time.sleep, 600)
        while not future.running():
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match="was killed by signal 9"):
            future.result(PATIENCE_S)


def test_processes_never_see_an_interrupt() -> None:
    with processes(1) as executor:
        pid = executor.submit(os.getpid).result(PATIENCE_S)
        os.kill(pid, signal.SIGINT)
        handler = executor.submit(signal.getsignal, signal.SIGINT).result(PATIENCE_S)
        held = executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, []).result(PATIENCE_S)
    assert handler == signal.SIG_IGN
    assert held == set()


def test_an_interrupt_before_a_process_is_ready_does_not_reach_it() -> None:
    for _ in range(5):
        executor = ProcessExecutor(2)
        for process in executor._processes:  # still importing, as it was started just now
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
        assert executor.submit(abs, -1).result(PATIENCE_S) == 1
        executor.shutdown()


def test_killing_ends_what_runs_and_gives_up_what_waits() -> None:
    executor = ProcessExecutor(1)
    pid = executor.submit(os.getpid).result(PATIENCE_S)
    running = executor.submit(time.sleep, 600)
    waiting = executor.submit(time.sleep, 600)
    while not running.running():
        time.sleep(0.01)
    executor.kill()
    assert gone(pid)
    with pytest.raises(WorkerDiedError):
        running.result(PATIENCE_S)
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_S)


def test_killing_waits_for_no_lock_that_an_interrupt_left_held() -> None:
    executor = ProcessExecutor(1)
    pid = executor.submit(os.getpid).result(PATIENCE_S)
    future: Future[Any] = executor.submit(time.sleep, 0.1)
    with future._condition:  # as Ctrl-C leaves it, if it strikes right behind the lock
        time.sleep(0.5)
        executor.kill()
    assert gone(pid)


def test_an_error_in_a_thread_is_the_one_that_was_raised() -> None:
    with threads(1) as executor:
        with pytest.raises(ZeroDivisionError):
            executor.submit(operator.truediv, 1, 0).result(PATIENCE_S)
        # The thread has not suffered.
        assert executor.submit(abs, -1).result(PATIENCE_S) == 1


def test_an_executor_that_was_shut_down_takes_nothing() -> None:
    executor = ThreadExecutor(1)
    executor.shutdown()
    with pytest.raises(WorkerDiedError, match="has been shut down"):
        executor.submit(abs, -1)


def until_stopped(begun: threading.Event) -> None:
    """Look up again and again, as an engine does."""
    begun.set()
    while True:
        check_stopped()
        time.sleep(0.001)


def test_stopping_ends_what_runs_in_threads_and_gives_up_what_waits() -> None:
    executor, begun = ThreadExecutor(1), threading.Event()
    running = executor.submit(until_stopped, begun)
    waiting = executor.submit(abs, -1)
    assert begun.wait(PATIENCE_S)
    executor.kill()
    with pytest.raises(StoppedError):
        running.result(PATIENCE_S)
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE_S)
    assert not any(thread.is_alive() for thread in executor._threads)


def test_stopping_one_executor_leaves_the_runs_of_others() -> None:
    stopped, other = ThreadExecutor(1), ThreadExecutor(1)
    begun = threading.Event()
    running = other.submit(until_stopped, begun)
    assert begun.wait(PATIENCE_S)
    stopped.kill()
    assert not running.done()
    check_stopped()  # nor is this thread to stop
    other.kill()
    with pytest.raises(StoppedError):
        running.result(PATIENCE_S)


@pytest.mark.parametrize("waits", ["for a lock that an interrupt left held", "and never looks up"])
def test_a_thread_that_cannot_be_stopped_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    monkeypatch.setattr(parallel, "_STOP_S", 0.01)
    executor, begun, going_on = ThreadExecutor(1), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        going_on.wait(PATIENCE_S)

    future = executor.submit(wait)
    assert begun.wait(PATIENCE_S)
    if waits == "and never looks up":
        executor.kill()
    else:
        with future._condition:  # as Ctrl-C leaves it, if it strikes right behind the lock
            going_on.set()
            executor.kill()
    going_on.set()
    for thread in executor._threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_progress_is_told_as_it_is_where_nothing_has_to_be_stopped() -> None:
    told: list[int] = []
    tell = told.append
    assert stoppable(tell) is tell
    assert stoppable(None) is None
    with threads(1) as executor:
        in_thread = executor.submit(stoppable, tell).result(PATIENCE_S)
        assert in_thread is not None
        in_thread(7)
    assert told == [7]


def test_a_simulation_ends_at_its_next_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_STOP_S", 0.01)
    executor, begun, stopped = ThreadExecutor(1), threading.Event(), threading.Event()
    told: list[int] = []

    def progress(now_ns: int) -> None:
        told.append(now_ns)
        begun.set()
        assert stopped.wait(PATIENCE_S)

    def run() -> ds.Outcome:
        trace = ds.closed_loop(users=8, connections=1_000)
        settings = ds.RunSettings(duration_ns=2_000_000_000)
        costs = toy_costs("poll")
        return ds.simulate("poll", trace, costs, settings, engine="reference", progress=progress)

    running = executor.submit(run)
    assert begun.wait(PATIENCE_S)
    executor.kill()
    stopped.set()
    with pytest.raises(StoppedError):
        running.result(PATIENCE_S)
    assert told == [40_000_000]  # a fiftieth of the run


def test_an_interrupt_waits_for_the_end_of_what_must_be_whole() -> None:
    done = []

    def critical() -> None:
        with _interrupts_put_off():
            signal.raise_signal(signal.SIGINT)
            done.append("whole")
        done.append("not reached")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        critical()
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
