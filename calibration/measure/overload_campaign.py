"""The campaign of overload: each point in each round once, what was rejected at most twice more."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..points.overload_points import OverloadPoint, overload_points
from ..records.measured_runs import append, drop_torn_line
from ..records.noise import Series
from ..records.overload_records import OVERLOAD_FILE, OverloadRecord, read_overload
from ..testbed.c_build import build
from ..testbed.machine_facts import machine_facts
from ..testbed.processes import RunError
from ..testbed.testbed import open_testbed
from .campaign import (
    RETRIES_MAX,
    CampaignProgress,
    CampaignSummary,
    Failures,
    ProgressCallback,
)
from .measure import alone, interruptible, note_machine
from .overload_run import run_overload

ROUNDS = 3
Measure = Callable[[OverloadPoint, int], OverloadRecord]


def run_overload_campaign(
    output: Path,
    *,
    rounds: int | None = None,
    quick: bool = False,
    progress: ProgressCallback | None = None,
    seed: int = 1,
) -> CampaignSummary:
    """Measure the points of overload that *output* does not hold yet and return a summary.

    Parameters
    ----------
    output
        The machine's folder: machine.json, overload.jsonl.
    rounds
        Over all points (None: 3); an accepted point of a round that is there is not measured again.
    quick
        Take a small part of the points.
    seed
        Orders the points within a round; arrivals depend on the point and the round only.

    Raises
    ------
    CampaignError, DataError, BuildError, TestbedError
        With one sentence that says what to do.
    """
    output.mkdir(parents=True, exist_ok=True)
    note_machine(output, ("id",), machine_facts())
    with alone(), _measuring(read_overload(output).rows) as measure, interruptible():
        return measure_rounds(
            output,
            measure,
            [overload_points(quick=quick)] * (ROUNDS if rounds is None else rounds),
            progress=progress,
            seed=seed,
        )


@contextlib.contextmanager
def _measuring(earlier: Sequence[OverloadRecord]) -> Iterator[Measure]:
    """Yield what measures a point, on a testbed that is removed afterwards."""
    programs = build()
    series = Series()
    for record in earlier:
        series.include(record.noise.spin_ns, record.noise.memory_ns)
    with open_testbed("namespaces") as testbed:
        yield lambda point, repeat: run_overload(
            point, repeat, testbed=testbed, programs=programs, series=series
        )


def measure_rounds(
    output: Path,
    measure: Measure,
    rounds: Sequence[Sequence[OverloadPoint]],
    *,
    progress: ProgressCallback | None = None,
    seed: int = 1,
) -> CampaignSummary:
    """Measure by *measure* what *output* lacks of *rounds*; an interruption ends it early."""
    torn = drop_torn_line(output / OVERLOAD_FILE)
    done = {(run.point, run.repeat) for run in read_overload(output).rows if run.accepted}
    missing = [
        [(point, number) for point in points if (point, number) not in done]
        for number, points in enumerate(rounds)
    ]
    campaign = _Rounds(output / OVERLOAD_FILE, measure, sum(map(len, missing)), progress)
    summary = campaign.summary
    summary.notices += [torn] if torn else []
    summary.skipped = sum(map(len, rounds)) - campaign.total
    try:
        for number, tasks in enumerate(missing):
            random.Random(f"{seed} {number}").shuffle(tasks)
            campaign.run(tasks)
    except KeyboardInterrupt:
        summary.interrupted = True
    summary.seconds = time.monotonic() - campaign.began_s
    return summary


class _Rounds:
    """What is measured round by round, and where that stands."""

    def __init__(
        self, path: Path, measure: Measure, total: int, progress: ProgressCallback | None
    ) -> None:
        self.total = total
        self.summary = CampaignSummary()
        self.began_s = time.monotonic()
        self._path = path
        self._measure = measure
        self._progress = progress
        self._failures = Failures()

    def run(self, tasks: Sequence[tuple[OverloadPoint, int]]) -> None:
        """Measure the points of a round, then what was rejected again."""
        for n_retries_left in reversed(range(RETRIES_MAX + 1)):
            rejected = []
            for task in tasks:
                note = self._attempt(*task)
                if note and n_retries_left:
                    rejected.append(task)
                else:
                    self.summary.measured += not note
                    self.summary.given_up += bool(note)
                self._report(*task, note)
            tasks = rejected

    def _attempt(self, point: OverloadPoint, repeat: int) -> str:
        """Measure *point* and keep the record; return why it does not count, or nothing."""
        try:
            record = self._measure(point, repeat)
        except RunError as error:
            self.summary.failed += 1
            return self._failures.failure(point.label, error)
        self._failures.success()
        append(self._path, record)
        self.summary.rejected += not record.accepted
        return record.reason

    def _report(self, point: OverloadPoint, repeat: int, note: str) -> None:
        if self._progress is None:
            return
        summary = self.summary
        n_over = summary.measured + summary.given_up
        seconds = time.monotonic() - self.began_s
        self._progress(
            CampaignProgress(
                part="overload",
                label=f"round {repeat} {point.label}",
                done=n_over,
                total=self.total,
                rejected=summary.rejected,
                seconds_left=(self.total - n_over) * seconds / max(1, n_over),
                note=note,
            )
        )
