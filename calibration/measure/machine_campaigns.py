"""Campaigns that measure a machine: its costs, whole runs, and special kinds of runs.

    target ─► machine.json ─► capacity, if held-out points need it ─► rounds: micro, fit, held out
                              without held-out points known precisely enough
    namespaces ─► machine.json ─► rounds: points of overload, clients that give up, kept
                                  connections, or floods

A campaign measures and appends what the machine's folder does not hold yet (campaign.py).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ..points.flood_points import FloodPoint, flood_points
from ..points.overload_points import overload_points
from ..points.point import Point, point_at
from ..points.points import FIT_POINT, KEPT_FIT_POINT
from ..records.flood_records import FLOOD_FILE, FloodRecord
from ..records.generator_gate import GENERATOR_FILE, OFFERED_LEAST, GeneratorRecord
from ..records.measured_runs import (
    Measured,
    MeasuredRun,
    MicroResult,
    RunRecord,
    append,
    read_rows,
)
from ..records.noise import Series, in_calm, judged_by_file, never_calm_text
from ..records.overload_records import OVERLOAD_FILE, OverloadRecord
from ..records.precision import FIGURES, by_point, noise_text, widest
from ..testbed.c_build import build
from ..testbed.machine_facts import SAME_MACHINE, machine_facts, now_text
from ..testbed.testbed import open_testbed
from .calm import CalmCore
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
from .quietness import TestbedRecorder, check_quiet
from .target import Stage, Target

Kind = Literal["micro", "fit", "heldout", "profile", "all"]
"""What to measure: one stage, the stages that a profile needs, or all."""
ROUNDS = 3
"""Rounds of overload, clients that give up, kept connections, and floods."""
QUICK_FLOODS_EVERY = 6
"""A quick campaign measures every sixth flood."""
QUICK_ROUNDS = 2
"""Rounds of the quick benches; with fit runs they take two minutes."""
_PARTS: dict[Stage, str] = {
    "micro": "microbenchmarks",
    "fit": "fit runs",
    "heldout": "held-out runs",
}
"""The names of stages for messages."""
_STAGES: Mapping[Kind, Sequence[Stage]] = {
    "micro": ("micro",),
    "fit": ("fit",),
    "heldout": ("heldout",),
    "profile": ("micro", "fit"),
}
"""The stages of each kind except "all", which has every stage."""


def run_campaign(
    target: Target,
    *,
    kind: Kind,
    output: Path,
    repeats: int | None = None,
    quick: bool = False,
    within: float | None = None,
    budget_s: float = math.inf,
    anyway: bool = False,
    progress: ProgressCallback | None = None,
    seed: int = 1,
) -> CampaignSummary:
    """Measure what *output* does not hold yet, and return a summary.

    Parameters
    ----------
    target
        The machine under test.
    kind
        What to measure. Held-out points need the capacity of the fit point; a folder without fit
        runs gets a few of them first.
    output
        The machine's folder: machine.json, micro.jsonl, fit.jsonl, heldout.jsonl.
    repeats
        Rounds; None: the target's default. A point with an accepted run of a round is not measured
        again in that round.
    quick
        Take brief benches, and a small part of the held-out points.
    within
        Stop measuring a held-out point with enough accepted runs once the 95% interval of the mean
        is within this share to either side. None: all points have equally many rounds.
    budget_s
        Time after which no run begins; the next call measures the rest.
    anyway
        Measure a machine with too many gaps or too often shared cores. Also measure loads that the
        load generator cannot offer; their runs are rejected.
    seed
        Shuffles the tasks within a round. Arrivals depend only on the point and the round.

    Raises
    ------
    CampaignError, DataError
        With one sentence on what to do.
    """
    repeats = _rounds_of(repeats, target.rounds)
    if kind not in get_args(Kind):
        raise CampaignError(f'kind must be one of {", ".join(get_args(Kind))}, got "{kind}"')
    facts = target.facts()
    note_machine(output, target.identity, facts)
    machine = str(facts["id"])
    with alone():
        stages = _Stages(target, machine, output, progress, budget_s)
        with stages.campaign.working():
            if target.steering != "emulated":
                check_quiet(output, machine, target, stages.campaign, quick=quick, anyway=anyway)
            stages.run(kind, repeats, quick=quick, within=within, anyway=anyway, seed=seed)
        stages.note_shared()
    return stages.campaign.summary


class _Stages:
    """A campaign over microbenchmarks, fit points and held-out points of *target*.

    *machine* is the id of the target's machine.
    """

    def __init__(
        self,
        target: Target,
        machine: str,
        output: Path,
        progress: ProgressCallback | None,
        budget_s: float = math.inf,
    ) -> None:
        self.campaign = Campaign(
            self._measure,
            progress,
            n_at_once=target.n_at_once,
            stop=target.stop,
            budget_s=budget_s,
        )
        self._target = target
        self._machine = machine
        self._generator_file = output / GENERATOR_FILE
        self._files: dict[Stage, Path] = {stage: output / f"{stage}.jsonl" for stage in _PARTS}
        self.campaign.summary.notices += target.notices
        self.campaign.drop_torn_lines(*self._files.values(), self._generator_file)
        micro = read_rows(self._files["micro"], MicroResult).rows
        calm = [row for row, was_calm in zip(micro, in_calm(micro), strict=True) if was_calm]
        self.campaign.skip_accepted(self._files["micro"], calm)
        runs = [run for stage in ("fit", "heldout") for run in self._resume(stage)]
        target.recall(runs, micro)

    def _resume(self, stage: Literal["fit", "heldout"]) -> list[RunRecord]:
        """Return the runs of *stage* on disk; accepted runs are not measured again.

        Runs on loopback and in namespaces differ by a factor, so one folder never holds both.
        """
        runs = self._runs(stage)
        for run in runs:
            _check_steering(run.steering, self._target.steering)
        self.campaign.skip_accepted(self._files[stage], judged_by_file(runs))
        return runs

    def _runs(self, stage: Stage) -> list[RunRecord]:
        return read_rows(self._files[stage], RunRecord).rows

    def note_shared(self) -> None:
        """Add notices on accepted runs and benches whose core was shared, as later runs show."""
        micro = read_rows(self._files["micro"], MicroResult).rows
        _note_shared(self.campaign, self._runs("fit"), self._runs("heldout"))
        if text := never_calm_text(micro):
            self.campaign.summary.notices.append(text)

    def _measure(self, task: Task) -> Sequence[Measured]:
        if isinstance(task.what, Point):
            return [self._target.run_point(task.what, task.round)]
        return self._target.run_bench(task.label, task.round)

    def _tasks(self, stage: Stage, number: int, things: Sequence[str | Point]) -> list[Task]:
        return [Task(self._files[stage], number, what) for what in things]

    def run(
        self,
        kind: Kind,
        repeats: int,
        *,
        quick: bool,
        within: float | None,
        anyway: bool,
        seed: int,
    ) -> None:
        """Measure the capacity that some points need, then plan and run the rounds."""
        stages = _STAGES.get(kind) or tuple(_PARTS)
        if "micro" in stages:
            # Older folders have benches with sockets beside runs with packet clients: runs may
            # continue.
            for row in read_rows(self._files["micro"], MicroResult).rows:
                _check_steering(row.steering or self._target.steering, self._target.steering)
        capacity = self._capacity() if "heldout" in stages else None
        self.campaign.summary.capacity_per_s = capacity.new_per_s if capacity else 0.0
        if self.campaign.summary.out_of_time:
            return
        if capacity and not anyway:
            self._check_generator(self._held_out(0, capacity, quick=quick))

        def rounds() -> Iterator[list[Task]]:
            for index in range(repeats):
                planned: list[tuple[Stage, int, Sequence[str | Point]]] = []
                if "micro" in stages:
                    planned.append(("micro", index, self._target.benches(index, quick=quick)))
                if "fit" in stages:
                    numbers = self._target.fit_repeats(index, alone=kind == "fit")
                    planned += [("fit", number, self._target.fit_points) for number in numbers]
                if capacity:
                    points = self._held_out(index, capacity, quick=quick)
                    if within is not None and index:
                        points = self._unsure(points, index, within, _name_of(stages))
                    planned.append(("heldout", index, points))
                yield [task for one in planned for task in self._tasks(*one)]

        if within is None:
            known = list(rounds())
            found = {task.path for tasks in known for task in tasks}
            part = _name_of([stage for stage in stages if self._files[stage] in found])
            self.campaign.run(known, part, seed=str(seed))
        else:
            self.campaign.run(rounds(), _name_of(stages), seed=str(seed), n_rounds=repeats)
            if capacity:
                self._note_precision(within)

    def _held_out(self, index: int, capacity: _Capacity, *, quick: bool) -> Sequence[Point]:
        return self._target.held_out(
            index, capacity.new_per_s, kept_per_s=capacity.kept_per_s, quick=quick
        )

    def _check_generator(self, points: Sequence[Point]) -> None:
        """Refuse loads that the load generator cannot offer on this machine.

        The offered load is kept in the folder, so that the same loads are refused each time.
        """
        for name, point in hardest(points).items():
            share = self._offered_share(point)
            if share < OFFERED_LEAST:
                raise CampaignError(
                    f"the load generator of this machine begins {share:.0%} of the highest "
                    f"held-out load ({point.rate_per_s:.0f} {name}/s); it must begin at least "
                    f"{OFFERED_LEAST:.0%}: use --steering client_machine, whose clients cost less, "
                    "or --anyway, which rejects such runs; remove "
                    f"{GENERATOR_FILE} from the folder to measure the generator again"
                )

    def _offered_share(self, point: Point) -> float:
        known = read_rows(self._generator_file, GeneratorRecord).rows
        for row in reversed(known):
            if row.point == point:
                return row.offered_share
        share = self._target.offers(point)
        record = GeneratorRecord(
            date=now_text(), machine=self._machine, point=point, offered_share=share
        )
        append(self._generator_file, record)
        return share

    def _unsure(self, points: Sequence[Point], index: int, within: float, part: str) -> list[Point]:
        """Return the *points* not known to *within*, and report the noise of the machine."""
        of_point = by_point(judged_by_file(self._runs("heldout")))
        note = noise_text(of_point.values(), within, FIGURES)
        self.campaign.say(part, f"after round {index}", note)
        return [point for point in points if widest(of_point.get(point, []), FIGURES) > within]

    def _note_precision(self, within: float) -> None:
        of_point = by_point(judged_by_file(self._runs("heldout")))
        self.campaign.summary.notices.append(noise_text(of_point.values(), within, FIGURES))

    def _capacity(self) -> _Capacity | None:
        """Return the capacity, which sets the held-out rates; measure it if needed.

        None if the time budget ended first.

        The capacity is the reply rate of the first accepted runs of the fit points. Later runs do
        not change it, because open-loop rates are fractions of it and would become other points. A
        campaign interrupted here may have the capacity but lack runs of other fit points.
        """
        target, repeats = self._target, self._target.capacity_repeats
        self.campaign.run(
            [[t for n in range(repeats) for t in self._tasks("fit", n, target.fit_points)]],
            "fit runs for the capacity",
        )
        of_point = by_point(self._runs("fit"))  # as judged when they were made
        rates: dict[Point, float] = {}
        for point in target.fit_points:
            accepted = [
                r.result.reply_rate_per_s.mean for r in of_point.get(point, []) if r.accepted
            ]
            if len(accepted) >= repeats:
                rates[point] = statistics.median(accepted[:repeats])
        first = target.fit_points[0]
        if first not in rates and self.campaign.summary.out_of_time:
            return None
        if first not in rates:
            raise CampaignError(
                f"{first.label} has fewer than {repeats} accepted runs, but its capacity sets "
                "the held-out rates: measure again when the machine is quieter"
            )
        return _Capacity(rates[first], kept_per_s(rates))


def _name_of(stages: Sequence[Stage]) -> str:
    return ", ".join(_PARTS[stage] for stage in stages)


class _Capacity(NamedTuple):
    """Requests/s of the fit points' server: on new connections, and over kept ones."""

    new_per_s: float
    kept_per_s: float | None


def kept_per_s(rates: Mapping[Point, float]) -> float | None:
    """Return the requests/s over kept connections that *rates* of the fit points imply.

    A reply takes request + connection at the first fit point, and request + connection / n with n
    requests a connection. None if a point has no replies, or the two contradict each other.

    >>> round(kept_per_s({FIT_POINT: 20_000.0, KEPT_FIT_POINT: 32_000.0}))
    40000
    """
    if not rates.get(FIT_POINT) or not rates.get(KEPT_FIT_POINT):
        return None
    n = KEPT_FIT_POINT.load.requests
    request_s = (n / rates[KEPT_FIT_POINT] - 1 / rates[FIT_POINT]) / (n - 1)
    return 1 / request_s if request_s > 0 else None


def hardest(points: Sequence[Point]) -> dict[str, Point]:
    """Return the points with the highest rates of connections and of requests among *points*.

    Beginning a connection costs the load generator the same with every server.

    >>> list(hardest([point_at(mechanism="poll", users=4)]))
    []
    """
    timed = [point for point in points if point.rate_per_s]
    new_per_s = max((point.rate_per_s for point in timed if not point.keeps), default=0.0)
    kept = max((point for point in timed if point.keeps), key=lambda p: p.rate_per_s, default=None)
    found = {}
    if new_per_s:
        found["connections"] = point_at(mechanism="epoll_level", loop="open", rate_per_s=new_per_s)
    if kept is not None:
        found["requests over kept connections"] = kept
    return found


def run_overload_campaign(
    output: Path,
    *,
    repeats: int | None = None,
    quick: bool = False,
    steering: Literal["namespaces", "far_end"] = "namespaces",
    anyway: bool = False,
    progress: ProgressCallback | None = None,
) -> CampaignSummary:
    """Measure the points of overload, or *quick* a small part, that *output* does not hold yet.

    Clients have sockets, or with *steering* are packets of `far_end`. Other parameters and errors
    are those of `run_flood_campaign`. Runs of another steering in *output* are an error, too.
    """
    return _measure_in_namespaces(
        output / OVERLOAD_FILE,
        OverloadRecord,
        run_overload,
        overload_points(quick=quick),
        repeats=repeats,
        things="runs of overload",
        steering=steering,
        quick=quick,
        anyway=anyway,
        progress=progress,
    )


class PointCampaign(NamedTuple):
    """A campaign over points whose rates are shares of a known capacity.

    Attributes
    ----------
    file:
        File of its records, in the machine's folder.
    run:
        Measures a repeat of a point.
    things:
        Name of its runs, for messages.
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
    anyway: bool = False,
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
        anyway=anyway,
        progress=progress,
    )


def run_flood_campaign(
    output: Path,
    *,
    repeats: int | None = None,
    quick: bool = False,
    anyway: bool = False,
    progress: ProgressCallback | None = None,
    points: Sequence[FloodPoint] | None = None,
) -> CampaignSummary:
    """Measure the floods that *output* does not hold yet, and return a summary.

    Parameters
    ----------
    output
        The machine's folder: machine.json, and a file for each kind of run.
    repeats
        Rounds; None: 3. A point with an accepted run of a round is not measured again in it.
    quick
        Measure every sixth flood only.
    anyway
        Also measure a machine that is too noisy (quietness.py).
    points
        The floods to measure; None: all.

    Raises
    ------
    CampaignError, DataError, BuildError, TestbedError
        With one sentence on what to do. Only namespaces, which need root, let another CPU than the
        sender's receive.
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
        quick=quick,
        anyway=anyway,
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
    steering: Literal["namespaces", "far_end"] = "namespaces",
    quick: bool = False,
    anyway: bool,
    progress: ProgressCallback | None,
) -> CampaignSummary:
    """Measure the runs of *points* that *path* lacks; *run* measures one of them."""
    n_rounds = _rounds_of(repeats, ROUNDS)
    rows = read_rows(path, record).rows
    for row in rows:
        if isinstance(row, RunRecord | OverloadRecord):
            _check_steering(row.steering, steering)
    facts = machine_facts()
    note_machine(path.parent, SAME_MACHINE, facts)
    # A signal must not end the program before the namespaces are removed.
    with alone(), interruptible():
        programs = build()
        with open_testbed(steering) as testbed:
            series, core = Series.of(rows), CalmCore(testbed, programs)
            core.recall(rows)

            def check(campaign: Campaign) -> None:
                recorder = TestbedRecorder(testbed, programs)
                check_quiet(
                    path.parent, str(facts["id"]), recorder, campaign, quick=quick, anyway=anyway
                )

            return measure_points(
                path,
                record,
                lambda point, repeat: core.judged(
                    lambda: run(point, repeat, testbed=testbed, programs=programs, series=series)
                ),
                [points] * n_rounds,
                things=things,
                check=check,
                progress=progress,
            )


def measure_points(
    path: Path,
    record: type[MeasuredRun[Any]],
    measure: Callable[[Any, int], MeasuredRun[Any]],
    rounds: Sequence[Sequence[Any]],
    *,
    things: str = "runs",
    check: Callable[[Campaign], None] = lambda campaign: None,
    progress: ProgressCallback | None = None,
) -> CampaignSummary:
    """Measure the runs of *rounds* that *path* lacks, and return a summary.

    *measure* takes a point and the number of its round. *things* names the runs, in the plural.
    *check* may refuse to begin.
    """
    campaign = Campaign(lambda task: [measure(task.what, task.round)], progress, things=things)
    campaign.drop_torn_lines(path)
    campaign.skip_accepted(path, judged_by_file(read_rows(path, record).rows))
    with campaign.working():
        check(campaign)
        campaign.run(
            [[Task(path, n, point) for point in points] for n, points in enumerate(rounds)],
            things,
            seed=things,
        )
    _note_shared(campaign, read_rows(path, record).rows)
    return campaign.summary


def _note_shared(campaign: Campaign, *files: Sequence[MeasuredRun[Any]]) -> None:
    """Add a notice on accepted runs of *files* that the whole file rejects."""
    accepted = sum(run.accepted for runs in files for run in runs)
    judged = sum(run.accepted for runs in files for run in judged_by_file(runs))
    if judged < accepted:
        campaign.summary.notices.append(
            f"{accepted - judged} of {accepted} accepted runs shared their core with another "
            "guest, as later runs show: repeat the command to measure them again"
        )


def _check_steering(known: str, asked: str) -> None:
    """Refuse to mix runs of two steerings.

    Raises
    ------
    CampaignError
        If they differ.
    """
    if known != asked:
        raise CampaignError(
            f"the folder holds runs with steering {known}, but this run would have "
            f"{asked}: choose another folder"
        )


def _rounds_of(asked: int | None, usual: int) -> int:
    if asked is not None and asked < 1:
        raise CampaignError(f"repeats must be at least 1, got {asked}")
    return usual if asked is None else asked
