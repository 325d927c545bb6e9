"""Simulate what the store does not have yet, here, in local processes or on a cluster.

    runs ─► once each ─► not in the store ─► chunks ─► executor ─► records ─► store, at once
                              │                                       │
                              └──────────── known ───────────► in the order of runs

What is handed out is decided as work goes on, by how fast it goes; what comes back is not: neither
a record nor the store's rows depend on chunks, on workers or on their order.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, NamedTuple

from ..calibration.running.compiling import Side, compile_engines
from ..models.simulate import Engine
from ..scenario.errors import UserError
from ..sim.files.parallel import cpu_count, next_done
from .chunks import Chunk, Simulated, Workload, record_of, simulate_chunk, simulate_run
from .cluster import ClusterExecutor
from .records import Record, Run, address_of, code_version

if TYPE_CHECKING:
    from .store import Store

_KEEP_S = 5.0
"""Runs of this process are kept together for so long: a file for each would be many."""


class Progress(NamedTuple):
    """How far the work is.

    Attributes
    ----------
    done, total:
        Runs, those that are wanted twice counted once.
    known:
        How many of them came from the store.
    seconds_left:
        At the speed of what has been finished, with all workers; NaN until something is.
    """

    done: int
    total: int
    known: int
    seconds_left: float


def simulate_all(
    runs: Sequence[Run],
    *,
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Record]:
    """Return the records of *runs*, in their order; what is there twice is simulated once.

    Parameters
    ----------
    runs:
        What is wanted.
    store:
        What it has is not simulated; all else is added to it as it is finished.
    executor:
        Where runs are simulated; None: here, one after the other.
    progress:
        Called as runs are finished.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, when all that is finished is kept.
    UserError
        If a run cannot be simulated or the store cannot be written; all that is finished is kept,
        as far as it can be.
    """
    addresses = [address_of(run) for run in runs]
    wanted = dict(zip(addresses, runs, strict=True))
    found = store.get(wanted) if store is not None else {}
    new = {address: run for address, run in wanted.items() if address not in found}
    workers = 1 if executor is None else workers_of(executor)
    work = _Work(list(new.items()), Workload(list(new.values()), workers), store)

    def tell() -> None:
        if progress is not None:
            done = len(found) + len(work.records)
            left_s = work.load.seconds_left() if new else 0.0
            progress(Progress(done, len(wanted), len(found), left_s))

    tell()
    if new and executor is None:
        _here(work, tell)
    elif new and executor is not None:
        _compile(list(new.values()), executor)
        _elsewhere(work, executor, workers, tell)
    found |= work.records
    return [found[address] for address in addresses]


def workers_of(executor: Executor) -> int:
    """Return how many calls *executor* makes at once, as far as it says."""
    for name in ("workers", "_max_workers"):  # ours; those of the standard library
        n = getattr(executor, name, None)
        if isinstance(n, int) and n > 0:
            return n
    return cpu_count()


class _Work:
    """What is to be simulated, by address, and the records of what has been."""

    def __init__(self, tasks: list[tuple[str, Run]], load: Workload, store: Store | None) -> None:
        self.tasks = tasks
        self.load = load
        self.records: dict[str, Record] = {}
        self._store = store

    def finish(self, indices: Sequence[int], simulated: Sequence[Simulated]) -> None:
        """Keep what the runs with these *indices* came to."""
        records = []
        for index, result in zip(indices, simulated, strict=True):
            address, run = self.tasks[index]
            records.append(record_of(run, address, result))
        if self._store is not None:
            self._store.add(records)
        for index, record, result in zip(indices, records, simulated, strict=True):
            self.records[record.address] = record
            self.load.finish(index, result.seconds)

    def is_finished(self, index: int) -> bool:
        """Return whether the run with this *index* has been kept."""
        return self.tasks[index][0] in self.records


def _here(work: _Work, tell: Callable[[], None]) -> None:
    """Simulate all in this process; what is finished is kept every few seconds, and at the end."""
    indices: list[int] = []
    simulated: list[Simulated] = []
    kept_s = time.monotonic()
    try:
        for index, (_, run) in enumerate(work.tasks):
            simulated.append(simulate_run(run))
            indices.append(index)
            if time.monotonic() - kept_s > _KEEP_S:
                work.finish(indices, simulated)
                indices, simulated = [], []
                kept_s = time.monotonic()
                tell()
    finally:
        # Ctrl-C may strike between the two lists.
        work.finish(indices, simulated[: len(indices)])
    tell()


def _elsewhere(work: _Work, executor: Executor, workers: int, tell: Callable[[], None]) -> None:
    """Hand chunks to *executor*, two a worker so that none waits for the next; keep what ends."""
    done: queue.SimpleQueue[Future[list[Simulated]]] = queue.SimpleQueue()
    given: dict[Future[list[Simulated]], list[int]] = {}
    version = code_version()
    try:
        while given or not work.load.is_handed_out:
            while len(given) < 2 * workers and not work.load.is_handed_out:
                indices = work.load.chunk()
                chunk = Chunk(tuple(work.tasks[index][1] for index in indices), version)
                future = executor.submit(simulate_chunk, chunk)
                given[future] = indices
                future.add_done_callback(done.put)
            future = next_done(done)
            work.finish(given[future], future.result())
            del given[future]
            tell()
    except BaseException:
        _keep_ended(work, given)
        raise


def _keep_ended(work: _Work, given: dict[Future[list[Simulated]], list[int]]) -> None:
    """Give up what has been *given* away, but for what has ended and was not yet looked at."""
    for future in given:
        future.cancel()
    for future, indices in given.items():
        ended = future.done() and not future.cancelled() and future.exception() is None
        if ended and not work.is_finished(indices[0]):
            with contextlib.suppress(UserError):  # the first error is the one to tell of
                work.finish(indices, future.result())


def _compile(runs: Sequence[Run], executor: Executor) -> None:
    """Have the engines that *runs* need on disk before the first worker waits for one."""
    if isinstance(executor, ClusterExecutor):
        return  # its workers may have other processors and disks: each compiles what it needs
    needs: dict[tuple[Side, str, Engine], Run] = {}
    for run in runs:
        asked = run.scenario
        needs.setdefault((Side.of(asked), asked.server.mechanism, asked.run.engine), run)
    for (side, mechanism, engine), run in needs.items():
        compile_engines([mechanism], run.profile, side=side, engine=engine)
