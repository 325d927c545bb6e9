"""Threads or processes: which of them simulate side by side on an engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Executor

from ..files.parallel import ProcessExecutor, ThreadExecutor, Worker, ending
from .c.library import share_failures, why_no_engine


def worker_for(engine: str, *, is_built_in: bool = True) -> Worker:
    """Return what simulates side by side: "fast" and "auto" take compiled code if they can.

    Programs of one's own are not *built in*: no wheel brings their engines.
    """
    if engine == "reference" or why_no_engine(is_built_in=is_built_in):
        return "process"
    return "thread"


@contextlib.contextmanager
def workers_for(
    engine: str, workers: int, *, is_built_in: bool = True
) -> Iterator[Executor | None]:
    """Yield an executor of so many workers that suit *engine*; None for one: this thread.

    *is_built_in* as for `worker_for`. Ctrl-C reaches the main thread alone: it gives up what is
    waiting and stops what is running.
    """
    if workers <= 1:
        yield None
        return
    with ending(new_executor(engine, workers, is_built_in=is_built_in)) as executor:
        yield executor


def new_executor(
    engine: str, workers: int, *, is_built_in: bool = True
) -> ThreadExecutor | ProcessExecutor:
    """Return an executor of so many workers that suit *engine*, for the caller to end."""
    if worker_for(engine, is_built_in=is_built_in) == "thread":
        return ThreadExecutor(workers)
    return ProcessExecutor(workers, share_failures())
