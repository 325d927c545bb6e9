"""The campaign of floods: what a machine's folder does not hold yet is measured and appended.

    testbed ─► machine.json ─► round r: every flood once, shuffled ─► the rejected ones again

Source: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel".
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

from ..points.flood_points import FloodPoint, flood_points
from ..records.flood_records import FLOOD_FILE, FloodRecord, read_floods
from ..records.measured_runs import append, drop_torn_line
from ..records.noise import Series
from ..testbed.c_build import build
from ..testbed.machine_facts import machine_facts
from ..testbed.processes import RunError
from ..testbed.testbed import open_testbed
from .campaign import (
    RETRIES_MAX,
    CampaignError,
    CampaignProgress,
    CampaignSummary,
    Failures,
    ProgressCallback,
)
from .flood_run import FloodTiming, run_flood
from .measure import alone, interruptible, note_machine

ROUNDS = 3
QUICK_EVERY = 6
"""Of the floods, in a quick campaign."""


class FloodCampaign:
    """What is on disk of a campaign, and its summary."""

    def __init__(self, output: Path, progress: ProgressCallback | None) -> None:
        self.path = output / FLOOD_FILE
        torn = drop_torn_line(self.path)
        self.summary = CampaignSummary(notices=[torn] if torn else [])
        rows = read_floods(self.path).rows
        self.series = Series()
        for row in rows:
            self.series.include(row.noise.spin_ns, 0)
        self.done = {(row.point, row.repeat) for row in rows if row.accepted}
        self._progress = progress
        self._failures = Failures("floods")

    def keep(self, record: FloodRecord | RunError, label: str) -> str:
        """Append what was measured; return why it does not count, or an empty string."""
        if isinstance(record, RunError):
            self.summary.failed += 1
            return self._failures.failure(label, record)
        self._failures.success()
        append(self.path, record)
        if record.accepted:
            self.done.add((record.point, record.repeat))
            self.summary.measured += 1
        else:
            self.summary.rejected += 1
        return record.reason

    def report(self, label: str, done: int, total: int, seconds_left: float, note: str) -> None:
        """Tell whoever wants to know where the campaign stands."""
        if self._progress is not None:
            self._progress(
                CampaignProgress(
                    part="floods",
                    label=label,
                    done=done,
                    total=total,
                    rejected=self.summary.rejected,
                    seconds_left=seconds_left,
                    note=note,
                )
            )


def run_flood_campaign(
    output: Path,
    *,
    repeats: int | None = None,
    quick: bool = False,
    progress: ProgressCallback | None = None,
    timing: FloodTiming | None = None,
    points: Sequence[FloodPoint] | None = None,
) -> CampaignSummary:
    """Measure the floods that *output* does not hold yet and return a summary.

    Parameters
    ----------
    output
        The machine's folder: machine.json, flood.jsonl.
    repeats
        Rounds, 3 if None; an accepted (flood, round) that is already there is not measured again.
    quick
        Take every sixth flood only.
    points
        Which floods; all if None.

    Raises
    ------
    CampaignError, DataError, BuildError, TestbedError
        With one sentence that says what to do. Only namespaces, which need root, can have another
        CPU than the sender's receive.
    """
    repeats = ROUNDS if repeats is None else repeats
    if repeats < 1:
        raise CampaignError(f"repeats must be at least 1, got {repeats}")
    if points is None:
        points = flood_points()[:: QUICK_EVERY if quick else 1]
    output.mkdir(parents=True, exist_ok=True)
    note_machine(output, ("id",), machine_facts())
    campaign = FloodCampaign(output, progress)
    tasks = [
        (point, repeat)
        for repeat in range(repeats)
        for point in random.Random(f"floods {repeat}").sample(points, len(points))
    ]
    missing = [task for task in tasks if task not in campaign.done]
    campaign.summary.skipped = len(tasks) - len(missing)
    began_s = time.monotonic()
    programs = build()
    with alone(), interruptible(), open_testbed("namespaces") as testbed:
        try:
            for n_over, (point, repeat) in enumerate(missing, start=1):
                note = ""
                for _ in range(RETRIES_MAX + 1):
                    outcome: FloodRecord | RunError
                    try:
                        outcome = run_flood(
                            point,
                            repeat,
                            testbed=testbed,
                            programs=programs,
                            series=campaign.series,
                            timing=timing,
                        )
                    except RunError as error:
                        outcome = error
                    note = campaign.keep(outcome, point.label)
                    if not note:
                        break
                campaign.summary.given_up += bool(note)
                seconds_each = (time.monotonic() - began_s) / n_over
                label = f"round {repeat} {point.label}"
                left_s = (len(missing) - n_over) * seconds_each
                campaign.report(label, n_over, len(missing), left_s, note)
        except KeyboardInterrupt:
            campaign.summary.interrupted = True
    campaign.summary.seconds = time.monotonic() - began_s
    return campaign.summary
