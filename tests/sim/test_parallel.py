"""Worker processes: results and errors come back, nothing is waited for that cannot come."""

from __future__ import annotations

import operator
import os
import signal
import threading
import time
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from dispatchsim.sim.parallel import (
    ProcessExecutor,
    WorkerDiedError,
    _interrupts_put_off,
    run_all,
    worker_processes,
)

PATIENCE_S = 60  # for what should take a fraction of a second


def gone(pid: int) -> bool:
    """Return whether there is no such process any more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_results_come_with_their_index() -> None:
    with worker_processes(2) as executor:
        found = dict(run_all(abs, [-3, 2, -1, 0], executor))
    assert found == {0: 3, 1: 2, 2: 1, 3: 0}


def test_an_error_comes_back_as_what_it_was_and_says_where() -> None:
    with worker_processes(1) as executor:
        future = executor.submit(operator.truediv, 1, 0)
        with pytest.raises(ZeroDivisionError) as caught:
            future.result(PATIENCE_S)
        assert "in a worker process" in caught.value.__notes__[0]
        # The process has not suffered.
        assert executor.submit(abs, -1).result(PATIENCE_S) == 1


def test_what_cannot_be_sent_fails_alone() -> None:
    with worker_processes(1) as executor:
        there = executor.submit(len, threading.Lock())  # type: ignore[arg-type]
        back = executor.submit(threading.Lock)
        for future in (there, back):
            with pytest.raises(TypeError, match="pickle"):
                future.result(PATIENCE_S)
        assert executor.submit(abs, -1).result(PATIENCE_S) == 1


def test_a_process_that_dies_fails_all_that_waits() -> None:
    with worker_processes(1) as executor:
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
    with worker_processes(1) as executor:
        pid = executor.submit(os.getpid).result(PATIENCE_S)
        future = executor.submit(time.sleep, 600)
        while not future.running():
            time.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match="was killed by signal 9"):
            future.result(PATIENCE_S)


def test_processes_never_see_an_interrupt() -> None:
    with worker_processes(1) as executor:
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
