"""Simulate runs here, in local workers or on a cluster; with a store, only runs that it lacks.

    runs ─► chunks ─► executor ─► replications ─► keep, at once               simulate_each
                                       │
    runs ─► distinct ──► not in the store ─► simulate_each ─► records ─► store
                              │                                  │            simulate_all
                              └─────────── known ─────────► in the order of runs

Chunks adapt to the measured speed. Results do not: neither a record nor the store's rows depend on
chunks, on workers or on their order.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ..calibration.running.compiling import Side, compile_engines
from ..calibration.running.preparation import Replication
from ..models.simulate import Engine
from ..scenario.errors import UserError
from ..scenario.metrics import METRICS, metrics_of
from ..sim.files.parallel import cpu_count, next_done
from .chunks import CHUNK_S, Chunk, Simulated, Workload, simulate_chunk, simulate_run
from .cluster import ClusterExecutor
from .records import CODE_DIGITS, Record, Run, address_of, code_version, scenario_json

if TYPE_CHECKING:
    from .store import Store

_KEEP_S = 5.0
"""Time for which runs of this process are collected: a file for each would be many."""


class Progress(NamedTuple):
    """The progress of the work.

    Attributes
    ----------
    done, total:
        Numbers of runs, duplicates counted once.
    known:
        Number of runs from the store.
    seconds_left:
        Estimate from the speed of finished runs with all workers; NaN before the first.
    """

    done: int
    total: int
    known: int
    seconds_left: float


Keep: TypeAlias = Callable[[Sequence[int], Sequence[Replication]], None]
"""Takes the indices of runs that were finished together, and their results."""


def simulate_all(
    runs: Sequence[Run],
    *,
    figures: Sequence[str] = (),
    store: Store | None = None,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Record]:
    """Return the records of *runs*, in their order; duplicates are simulated once.

    Parameters
    ----------
    runs:
        The requested runs.
    figures:
        Names of metrics that the records must have: percentiles besides those that all have. A row
        of the store that lacks one is simulated again, and keeps its other metrics.
    store:
        Runs that it holds are not simulated; others are added to it as they finish.
    executor:
        Makes the runs; None: here, one after the other.
    progress:
        Called as runs finish.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, after all finished runs are stored.
    UserError
        If a run cannot be simulated or the store cannot be written; finished runs are stored as
        far as possible.
    """
    addresses = [address_of(run) for run in runs]
    wanted = dict(zip(addresses, runs, strict=True))
    found = store.get(wanted) if store is not None else {}
    lacking = {a: row for a, row in found.items() if not row.figures.keys() >= set(figures)}
    found = {address: row for address, row in found.items() if address not in lacking}
    new = [(address, run) for address, run in wanted.items() if address not in found]

    def keep(indices: Sequence[int], replications: Sequence[Replication]) -> None:
        made = [
            record_of(run, address, replication, (*figures, *_figures_of(lacking.get(address))))
            for (address, run), replication in zip(
                (new[index] for index in indices), replications, strict=True
            )
        ]
        if store is not None:
            store.add(made)
        found.update((record.address, record) for record in made)

    simulate_each(
        [run for _, run in new], keep, executor=executor, progress=progress, known=len(found)
    )
    return [found[address] for address in addresses]


def simulate_each(
    runs: Sequence[Run],
    keep: Keep,
    *,
    executor: Executor | None = None,
    progress: Callable[[Progress], None] | None = None,
    known: int = 0,
    one_by_one: bool = False,
) -> None:
    """Simulate *runs* and pass finished ones to *keep*, in any order.

    Parameters
    ----------
    runs:
        The requested runs.
    keep:
        Called with runs finished together, also when Ctrl-C or an error ends the work.
    executor, progress:
        As for `simulate_all`.
    known:
        Number of further runs that need no simulation; they count in the progress.
    one_by_one:
        Whether each run is kept as soon as it finishes, not with others.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C.
    UserError
        If a run cannot be simulated, or *keep* raises it.
    """
    workers = 1 if executor is None else workers_of(executor)
    load = Workload(runs, workers, most_s=0.0 if one_by_one else CHUNK_S)
    work = _Work(runs, load, keep)

    def tell() -> None:
        if progress is not None:
            left_s = load.seconds_left() if runs else 0.0
            progress(Progress(known + len(work.finished), known + len(runs), known, left_s))

    tell()
    if runs and executor is None:
        _here(work, tell, kept_s=0.0 if one_by_one else _KEEP_S)
    elif runs and executor is not None:
        _compile(runs, executor)
        _elsewhere(work, executor, workers, tell)


def _figures_of(record: Record | None) -> list[str]:
    """Return the names in *record* that are still metrics."""
    return [name for name in record.figures if METRICS.has(name)] if record else []


def record_of(
    run: Run, address: str, replication: Replication, figures: Sequence[str] = ()
) -> Record:
    """Return the row of *run* with this *address* and result *replication*.

    It has all standard metrics, and *figures*.
    """
    return Record(
        address=address,
        seed=run.seed,
        draw=run.draw,
        mechanism=run.scenario.server.mechanism,
        profile=run.profile.name,
        scenario=scenario_json(run.scenario),
        verdict=str(replication.summary.verdict),
        figures=metrics_of(replication.summary, figures),
        code=code_version()[:CODE_DIGITS],
    )


def workers_of(executor: Executor) -> int:
    """Return the number of calls that *executor* makes at once, or else the number of CPUs."""
    for name in ("workers", "_max_workers"):  # ours; those of the standard library
        n = getattr(executor, name, None)
        if isinstance(n, int) and n > 0:
            return n
    return cpu_count()


class _Work:
    """Runs, and which of them are finished and kept."""

    def __init__(self, runs: Sequence[Run], load: Workload, keep: Keep) -> None:
        self.runs = runs
        self.load = load
        self.finished: set[int] = set()
        self._keep = keep

    def finish(self, indices: Sequence[int], simulated: Sequence[Simulated]) -> None:
        """Keep the results of the runs with these *indices*."""
        if not indices:
            return
        self._keep(indices, [each.replication for each in simulated])
        self.finished.update(indices)
        for index, each in zip(indices, simulated, strict=True):
            self.load.finish(index, each.seconds)


def _here(work: _Work, tell: Callable[[], None], kept_s: float) -> None:
    """Simulate all in this process; keep finished runs every *kept_s*, and at the end."""
    indices: list[int] = []
    simulated: list[Simulated] = []
    since_s = time.monotonic()
    try:
        for index, run in enumerate(work.runs):
            simulated.append(simulate_run(run))
            indices.append(index)
            if time.monotonic() - since_s > kept_s:
                work.finish(indices, simulated)
                indices, simulated = [], []
                since_s = time.monotonic()
                tell()
    finally:
        # Ctrl-C may strike between the two lists.
        work.finish(indices, simulated[: len(indices)])
    tell()


def _elsewhere(work: _Work, executor: Executor, workers: int, tell: Callable[[], None]) -> None:
    """Hand chunks to *executor*, two per worker so that none waits; keep finished ones."""
    done: queue.SimpleQueue[Future[list[Simulated]]] = queue.SimpleQueue()
    given: dict[Future[list[Simulated]], list[int]] = {}
    version = code_version() if isinstance(executor, ClusterExecutor) else None
    try:
        while given or not work.load.is_handed_out:
            while len(given) < 2 * workers and not work.load.is_handed_out:
                indices = work.load.chunk()
                chunk = Chunk(tuple(work.runs[index] for index in indices), version)
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
    """Cancel the chunks *given* away, but keep those that have finished."""
    for future in given:
        future.cancel()
    for future, indices in given.items():
        ended = future.done() and not future.cancelled() and future.exception() is None
        if ended and indices[0] not in work.finished:
            with contextlib.suppress(UserError):  # only the first error is reported
                work.finish(indices, future.result())


def _compile(runs: Sequence[Run], executor: Executor) -> None:
    """Compile the engines that *runs* need before the first worker waits for one."""
    if isinstance(executor, ClusterExecutor):
        return  # its workers may have other processors and disks: each compiles what it needs
    needs: dict[tuple[Side, str, Engine], Run] = {}
    for run in runs:
        asked = run.scenario
        needs.setdefault((Side.of(asked), asked.server.mechanism, asked.run.engine), run)
    for (side, mechanism, engine), run in needs.items():
        compile_engines([mechanism], run.profile, side=side, engine=engine)
