"""What is measured of a machine: prices and whole runs, and runs of a campaign of their own.

    target ─► machine.json ─► capacity, if held-out points need it ─► rounds: micro, fit, held out
    namespaces ─► machine.json ─► rounds: points of overload, clients that give up, kept
                                  connections, or floods

What the folder of the machine does not hold yet is measured and appended (campaign.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..points.flood_points import FloodPoint, flood_points
from ..points.overload_points import overload_points
from ..points.point import Point
from ..records.flood_records import FLOOD_FILE, FloodRecord
from ..records.measured_runs import Measured, MeasuredRun, MicroResult, RunRecord, read_rows
from ..records.noise import Series
from ..records.overload_records import OVERLOAD_FILE, OverloadRecord
from ..testbed.c_build import build
from ..testbed.machine_facts import machine_facts
from ..testbed.testbed import open_testbed
from .campaign import (
    Campaign,
    CampaignError,
    CampaignSummary,
    ProgressCallback,
    Task,
    alone,
    interruptible,
    note_machine,
)
from .flood_run import run_flood
from .impatient_run import IMPATIENT_FILE, run_impatient
from .kept_run import KEPT_FILE, run_kept
from .overload_run import run_overload
from .target import Stage, Target

Kind = Literal["micro", "fit", "heldout", "all"]
ROUNDS = 3
"""Of overload, clients that give up, kept connections, and floods."""
QUICK_FLOODS_EVERY = 6
"""Of the floods, in a quick campaign."""
_PARTS: dict[Stage, str] = {
    "micro": "microbenchmarks",
    "fit": "fit runs",
    "heldout": "held-out runs",
}
"""What stages are called for people."""


def run_campaign(
    target: Target,
    *,
    kind: Kind,
    output: Path,
    repeats: int | None = None,
    quick: bool = False,
    progress: ProgressCallback | None = None,
    seed: int = 1,
) -> CampaignSummary:
    """Measure what *output* does not hold yet and return a summary.

    Parameters
    ----------
    target
        The machine under test.
    kind
        What to measure. Held-out points need the capacity of the fit point, so a few fit runs
        are made first where the folder has none.
    output
        The machine's folder: machine.json, micro.jsonl, fit.jsonl, heldout.jsonl.
    repeats
        Rounds (None: as the target says); an accepted (point, round) that is already there is
        not measured again.
    quick
        Take a small part of the benches and points.
    seed
        Orders the tasks within a round; arrivals depend on the point and the round only.

    Raises
    ------
    CampaignError, DataError
        With one sentence that says what to do.
    """
    repeats = _rounds_of(repeats, target.rounds)
    if kind not in ("micro", "fit", "heldout", "all"):
        raise CampaignError(f'kind must be micro, fit, heldout or all, got "{kind}"')
    note_machine(output, target.identity, target.facts())
    with alone():
        stages = _Stages(target, output, progress)
        with stages.campaign.working():
            stages.run(kind, repeats, quick=quick, seed=seed)
    return stages.campaign.summary


class _Stages:
    """A campaign over microbenchmarks, fit points and held-out points of *target*."""

    def __init__(self, target: Target, output: Path, progress: ProgressCallback | None) -> None:
        self.campaign = Campaign(
            self._measure, progress, n_at_once=target.n_at_once, stop=target.stop
        )
        self._target = target
        self._files: dict[Stage, Path] = {stage: output / f"{stage}.jsonl" for stage in _PARTS}
        self.campaign.summary.notices += target.notices
        self.campaign.drop_torn_lines(*self._files.values())
        micro = read_rows(self._files["micro"], MicroResult).rows
        self.campaign.skip_accepted(self._files["micro"], micro)
        runs = [run for stage in ("fit", "heldout") for run in self._resume(stage)]
        target.recall(runs)

    def _resume(self, stage: Literal["fit", "heldout"]) -> list[RunRecord]:
        """Return the runs of *stage* on disk, none of which is to be measured again.

        Runs on loopback and runs in namespaces differ by a factor, so they are never mixed.
        """
        runs = self._runs(stage)
        for run in runs:
            if run.steering != self._target.steering:
                raise CampaignError(
                    f"the folder holds runs with steering {run.steering}, this one would be "
                    f"{self._target.steering}: choose another folder"
                )
        self.campaign.skip_accepted(self._files[stage], runs)
        return runs

    def _runs(self, stage: Stage) -> list[RunRecord]:
        return read_rows(self._files[stage], RunRecord).rows

    def _measure(self, task: Task) -> Sequence[Measured]:
        if isinstance(task.what, Point):
            return [self._target.run_point(task.what, task.round)]
        return self._target.run_bench(task.label, task.round)

    def _tasks(self, stage: Stage, number: int, things: Sequence[str | Point]) -> list[Task]:
        return [Task(self._files[stage], number, what) for what in things]

    def run(self, kind: Kind, repeats: int, *, quick: bool, seed: int) -> None:
        """Plan the rounds, once the capacity that some points need is known, and run them."""
        target = self._target
        stages: Sequence[Stage] = tuple(_PARTS) if kind == "all" else (kind,)
        capacity_per_s = self._capacity_per_s() if "heldout" in stages else 0.0
        self.campaign.summary.capacity_per_s = capacity_per_s
        rounds, found = [], set[Stage]()
        for index in range(repeats):
            planned: list[tuple[Stage, int, Sequence[str | Point]]] = []
            if "micro" in stages:
                planned.append(("micro", index, target.benches(index, quick=quick)))
            if "fit" in stages:
                numbers = target.fit_repeats(index, alone=kind == "fit")
                planned += [("fit", number, target.fit_points) for number in numbers]
            if "heldout" in stages:
                points = target.held_out(index, capacity_per_s, quick=quick)
                planned.append(("heldout", index, points))
            rounds.append([task for part in planned for task in self._tasks(*part)])
            found |= {stage for stage, _, things in planned if things}
        part = ", ".join(name for stage, name in _PARTS.items() if stage in found)
        self.campaign.run(rounds, part, seed=str(seed))

    def _capacity_per_s(self) -> float:
        """Return the capacity, by which held-out rates are chosen, measuring it if need be.

        It is the reply rate of the first accepted runs of the first fit point. Later runs do not
        change it: open-loop rates are fractions of it, and would be other points. A campaign that
        was interrupted here may know it and lack runs of other fit points.
        """
        target, repeats = self._target, self._target.capacity_repeats
        first = target.fit_points[0]
        self.campaign.run(
            [[t for n in range(repeats) for t in self._tasks("fit", n, target.fit_points)]],
            "fit runs for the capacity",
        )
        rates = [
            run.result.reply_rate_per_s.mean
            for run in self._runs("fit")
            if run.accepted and run.point == first
        ]
        if len(rates) < repeats:
            raise CampaignError(
                f"{first.label} has fewer than {repeats} accepted runs, and held-out "
                "rates are fractions of its capacity: measure again when the machine is quieter"
            )
        return statistics.median(rates[:repeats])


def run_overload_campaign(
    output: Path,
    *,
    repeats: int | None = None,
    quick: bool = False,
    progress: ProgressCallback | None = None,
) -> CampaignSummary:
    """Measure the points of overload, or *quick* a small part, that *output* does not hold yet.

    Parameters and errors are those of `run_flood_campaign`.
    """
    return _measure_in_namespaces(
        output / OVERLOAD_FILE,
        OverloadRecord,
        run_overload,
        overload_points(quick=quick),
        repeats=repeats,
        things="runs of overload",
        progress=progress,
    )


class PointCampaign(NamedTuple):
    """A campaign over points whose rates are shares of a capacity that it does not measure.

    Attributes
    ----------
    file:
        Of its records, in the machine's folder.
    run:
        Measures a repeat of a point.
    things:
        What it measures, for people.
    """

    file: str
    run: Callable[..., RunRecord]
    things: str


IMPATIENT = PointCampaign(IMPATIENT_FILE, run_impatient, "runs of clients that give up")
KEPT = PointCampaign(KEPT_FILE, run_kept, "runs of kept connections")


def run_point_campaign(
    campaign: PointCampaign,
    output: Path,
    points: Sequence[Point],
    *,
    repeats: int | None = None,
    progress: ProgressCallback | None = None,
) -> CampaignSummary:
    """Measure the runs of *campaign* at *points* that *output* does not hold yet.

    Parameters and errors are those of `run_flood_campaign`.
    """
    return _measure_in_namespaces(
        output / campaign.file,
        RunRecord,
        campaign.run,
        points,
        repeats=repeats,
        things=campaign.things,
        progress=progress,
    )


def run_flood_campaign(
    output: Path,
    *,
    repeats: int | None = None,
    quick: bool = False,
    progress: ProgressCallback | None = None,
    points: Sequence[FloodPoint] | None = None,
) -> CampaignSummary:
    """Measure the floods that *output* does not hold yet and return a summary.

    Parameters
    ----------
    output
        The machine's folder: machine.json, and a file for each kind of run.
    repeats
        Rounds, 3 if None; an accepted (point, round) that is already there is not measured again.
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
    if points is None:
        points = flood_points()[:: QUICK_FLOODS_EVERY if quick else 1]
    return _measure_in_namespaces(
        output / FLOOD_FILE,
        FloodRecord,
        run_flood,
        points,
        repeats=repeats,
        things="floods",
        progress=progress,
    )


def _measure_in_namespaces(
    path: Path,
    record: type[MeasuredRun[Any]],
    run: Callable[..., MeasuredRun[Any]],
    points: Sequence[Any],
    *,
    repeats: int | None,
    things: str,
    progress: ProgressCallback | None,
) -> CampaignSummary:
    """Measure what the records in *path* lack of some rounds over *points*; *run* measures one."""
    n_rounds = _rounds_of(repeats, ROUNDS)
    note_machine(path.parent, ("id",), machine_facts())
    # A signal must not end the program before the namespaces are taken down again.
    with alone(), interruptible():
        programs = build()
        with open_testbed("namespaces") as testbed:
            series = Series.of(read_rows(path, record).rows)
            return measure_points(
                path,
                record,
                lambda point, repeat: run(
                    point, repeat, testbed=testbed, programs=programs, series=series
                ),
                [points] * n_rounds,
                things=things,
                progress=progress,
            )


def measure_points(
    path: Path,
    record: type[MeasuredRun[Any]],
    measure: Callable[[Any, int], MeasuredRun[Any]],
    rounds: Sequence[Sequence[Any]],
    *,
    things: str = "runs",
    progress: ProgressCallback | None = None,
) -> CampaignSummary:
    """Measure what the records in *path* lack of the points of *rounds*, and return a summary.

    *measure* takes a point and the number of its round; *things* is what it measures, in the
    plural.
    """
    campaign = Campaign(lambda task: [measure(task.what, task.round)], progress, things=things)
    campaign.drop_torn_lines(path)
    campaign.skip_accepted(path, read_rows(path, record).rows)
    with campaign.working():
        campaign.run(
            [[Task(path, n, point) for point in points] for n, points in enumerate(rounds)],
            things,
            seed=things,
        )
    return campaign.summary


def _rounds_of(asked: int | None, usual: int) -> int:
    if asked is not None and asked < 1:
        raise CampaignError(f"repeats must be at least 1, got {asked}")
    return usual if asked is None else asked
