"""Threads or processes: which of them simulate side by side on an engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor

from ..files.parallel import ProcessExecutor, ThreadExecutor, Worker, ending
from .c.library import share_failures, why_no_engine


def worker_for(engine: str) -> Worker:
    """Return what simulates side by side: "fast" and "auto" take compiled code if they can."""
    if engine == "reference" or why_no_engine():
        return "process"
    return "thread"


@contextlib.contextmanager
def workers_for(engine: str, workers: int) -> Iterator[Executor | None]:
    """Yield an executor with *workers* that suit *engine*; None for one worker: this thread.

    Ctrl-C reaches only the main thread: it cancels waiting runs and stops running ones.
    """
    if workers <= 1:
        yield None
        return
    with ending(new_executor(engine, workers)) as executor:
        yield executor


def new_executor(engine: str, workers: int) -> ThreadExecutor | ProcessExecutor:
    """Return an executor with *workers* that suit *engine*; the caller ends it."""
    if worker_for(engine) == "thread":
        return ThreadExecutor(workers)
    return ProcessExecutor(workers, share_failures())
