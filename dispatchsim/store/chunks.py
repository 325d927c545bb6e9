"""Chunks of runs: their size, 5 to 30 s of work or less near the end, and their simulation.

    runs ─► guess (requests offered) ─► measured so far / guessed ─► s

    seconds of a chunk
      15 ┤────────╮             a third of each worker's share of the rest,
         │         ╲            so that all end at about the same time;
     0.5 ┤ first    ╲___ last   a quarter of a second until a speed is measured

A guess may be wrong by a factor that differs between mechanisms. Measured times correct it, so only
the first chunks depend on it.

Source: Polychronopoulos and Kuck 1987, "Guided self-scheduling", IEEE Trans. Computers C-36 (12).

A worker, on any machine, takes a chunk and returns its results:

    Chunk: runs, version ──► worker ──► Simulated: the result of each run, and its duration
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from ..calibration.running.preparation import Replication, effort, job_of, run_job
from ..scenario.errors import UserError
from ..scenario.scenario import Scenario
from ..sim.state.units import SECOND_NS
from .records import Run, code_version

CHUNK_S = 15.0
FIRST_CHUNK_S = 0.25
"""In guessed seconds, which may be wrong by a factor of ten."""
LEAST_CHUNK_S = 0.5
"""Less work than this is not worth a message and a file."""
_SHARE = 3.0
"""Number of chunks into which a worker's share of the rest is divided."""
_CLOSED_LOOP = 0.05
"""First guess of the seconds for a simulated second of a closed loop."""
_REMEMBERED = 25
"""Finished runs of a kind in the median: the first one also compiles or loads its engine."""
_OVERHEAD_S = 0.002
"""Fixed time of every run."""


class _Sort(NamedTuple):
    """Runs of the same kind, so of similar speed, and of the same length."""

    kind: str
    guess_s: float


class Workload:
    """Runs that are not handed out yet, and estimates of their duration.

    Parameters
    ----------
    runs:
        All of them.
    workers:
        Number of runs at once.
    most_s:
        Most seconds of work in a chunk; 0: every run is a chunk of its own.
    """

    def __init__(self, runs: Sequence[Run], workers: int, most_s: float = CHUNK_S) -> None:
        self._workers = workers
        self._most_s = most_s
        self._sorts = [_Sort(_kind(run.scenario), guess_s(run.scenario)) for run in runs]
        # The longest first: the last runs are short, and shares even.
        order = sorted(range(len(runs)), key=lambda index: -self._sorts[index].guess_s)
        self._waiting = deque(order)
        self._n_waiting = Counter(self._sorts)
        self._n_unfinished = Counter(self._sorts)
        self._lately: dict[str, deque[float]] = {}  # by kind: taken / guessed
        self._taken_to_guess: dict[str, float] = {}  # their median

    @property
    def is_handed_out(self) -> bool:
        """Whether all runs are handed out."""
        return not self._waiting

    def chunk(self) -> list[int]:
        """Take the next runs to hand out together; at least one."""
        share_s = self._sum_s(self._n_waiting) / self._workers
        most_s = min(self._most_s, max(share_s / _SHARE, min(LEAST_CHUNK_S, share_s)))
        first_s = min(self._most_s, FIRST_CHUNK_S, share_s / _SHARE)
        taken: list[int] = []
        sum_s = 0.0
        while self._waiting:
            sort = self._sorts[self._waiting[0]]
            sum_s += self._seconds(sort)
            if taken and sum_s > (most_s if sort.kind in self._lately else first_s):
                break
            self._n_waiting[sort] -= 1
            taken.append(self._waiting.popleft())
        return taken

    def finish(self, index: int, seconds: float) -> None:
        """Record that a run took a worker this number of *seconds*."""
        sort = self._sorts[index]
        self._n_unfinished[sort] -= 1
        lately = self._lately.setdefault(sort.kind, deque(maxlen=_REMEMBERED))
        lately.append(seconds / sort.guess_s)
        self._taken_to_guess[sort.kind] = median(lately)

    def seconds_left(self) -> float:
        """Return the estimated time of all unfinished runs; NaN before the first ends."""
        if not self._lately:
            return float("nan")
        # One worker makes the last run, however many there are.
        longest_s = max((self._seconds(s) for s, n in self._n_unfinished.items() if n), default=0.0)
        return max(self._sum_s(self._n_unfinished) / self._workers, longest_s)

    def _sum_s(self, counts: Counter[_Sort]) -> float:
        return sum(n * self._seconds(sort) for sort, n in counts.items())

    def _seconds(self, sort: _Sort) -> float:
        """Return the estimated duration of a run, from those of its kind."""
        known = self._taken_to_guess
        if sort.kind in known:
            return sort.guess_s * known[sort.kind]
        # Other kinds are a better guess than none.
        return sort.guess_s * (median(known.values()) if known else 1.0)


def guess_s(scenario: Scenario) -> float:
    """Return a guess of the duration of a run, within a factor of ten."""
    known = effort(scenario)
    if known is not None:
        return _OVERHEAD_S + known[1]
    return _OVERHEAD_S + _CLOSED_LOOP * scenario.run.duration / SECOND_NS


def _kind(scenario: Scenario) -> str:
    """Return a name shared by runs of similar speed."""
    return f"{scenario.server.mechanism} {scenario.load.loop} {scenario.run.engine}"


class Chunk(NamedTuple):
    """Runs to simulate one after the other with the code of `version`, a `code_version`.

    `version` is None for workers of this process, which have the same code.
    """

    runs: tuple[Run, ...]
    version: str | None


class Simulated(NamedTuple):
    """The result of one run; seconds are wall time of its worker."""

    replication: Replication
    seconds: float


def simulate_chunk(chunk: Chunk) -> list[Simulated]:
    """Return the results of the runs of *chunk*.

    Raises
    ------
    UserError
        If this process has other code than the caller, or a run cannot be simulated.
    """
    if chunk.version not in (None, code_version()):
        raise UserError(
            "a worker has another version of dispatchsim (or of NumPy) than this process: install "
            "the same version on all machines of a cluster"
        )
    return [simulate_run(run) for run in chunk.runs]


def simulate_run(run: Run) -> Simulated:
    """Return the result of *run*.

    Raises
    ------
    StoppedJob
        On Ctrl-C in the fast engine of this process.
    """
    begin_s = time.perf_counter()
    replication = run_job(job_of(run.scenario, run.profile, run.seed, draw=run.draw))
    return Simulated(replication, time.perf_counter() - begin_s)
