"""Many runs at once, through the one interface of `concurrent.futures.Executor`.

Runs are handed out as they are, so a result does not depend on how many workers there are, and a
cluster's executor (Dask's `client.get_executor()`) serves as well as local processes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def cpu_count() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def processes(workers: int) -> Iterator[Executor | None]:
    """Yield an executor of *workers* processes; None for one, which needs no process of its own.

    Ctrl-C reaches this process alone: it gives up what is waiting and stops what is running.
    """
    if workers <= 1:
        yield None
        return
    # Spawned, not forked: a fork copies whatever threads hold at that moment (a progress bar's).
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)
    before = set(multiprocessing.active_children())
    try:
        yield executor
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def run_all(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    executor: Executor | None = None,
) -> Iterator[tuple[int, Result]]:
    """Yield (index, result) of each of *tasks* as it ends; without an executor, in order, here."""
    if executor is None:
        for index, task in enumerate(tasks):
            yield index, function(task)
        return
    futures: dict[Future[Result], int] = {
        executor.submit(function, task): index for index, task in enumerate(tasks)
    }
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
