"""A chunk of runs, simulated wherever: what a worker is given, and what it gives back.

Chunk: runs, version ──► worker ──► Done: (verdict, figures, seconds) of each
"""

from __future__ import annotations

import time
from typing import NamedTuple

from ..running.preparation import job_of, run_job
from ..scenario.errors import UserError
from ..scenario.metrics import metrics_of
from .code_version import CODE_DIGITS, code_version
from .records import Record, Run, scenario_json


class Chunk(NamedTuple):
    """Runs to be simulated one after the other, by the code of that `code_version`."""

    runs: tuple[Run, ...]
    version: str


class Simulated(NamedTuple):
    """What one run came to; seconds are of wall time where it was simulated."""

    verdict: str
    figures: dict[str, float]
    seconds: float


def simulate_chunk(chunk: Chunk) -> list[Simulated]:
    """Return what the runs of *chunk* came to.

    Raises
    ------
    UserError
        If this process has other code than the one that asks, or a run cannot be simulated.
    """
    if chunk.version != code_version():
        raise UserError(
            "a worker has another version of dispatchsim (or of NumPy) than this process: install "
            "the same one on all machines of a cluster"
        )
    return [simulate_run(run) for run in chunk.runs]


def simulate_run(run: Run) -> Simulated:
    """Return what *run* came to.

    Raises
    ------
    StoppedJob
        On Ctrl-C in the fast engine of this process.
    """
    begin_s = time.perf_counter()
    job = job_of(run.scenario, run.profile, run.seed, draw=run.draw)
    summary = run_job(job).summary
    return Simulated(str(summary.verdict), metrics_of(summary), time.perf_counter() - begin_s)


def record_of(run: Run, address: str, simulated: Simulated) -> Record:
    """Return the row of *run*, which came to *simulated*."""
    return Record(
        address=address,
        seed=run.seed,
        draw=run.draw,
        mechanism=run.scenario.server.mechanism,
        profile=run.profile.name,
        scenario=scenario_json(run.scenario),
        verdict=simulated.verdict,
        figures=simulated.figures,
        code=code_version()[:CODE_DIGITS],
    )
