"""The measuring campaign: rounds of microbenchmarks and runs, appended to a machine's folder.

    round r:  micro ─► fit points ─► held-out points       every task once, order shuffled
                                                   └─► what the gate rejected, at most twice more

Tasks are interleaved in rounds because the machine drifts: two points are compared within a
round. Everything finished is on disk, so a campaign can be interrupted and started again.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import random
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal

from ..sim.whole_files import write_whole
from .c_build import BuildError, Programs, build, cache_folder
from .machine_facts import machine_facts, machine_id
from .macro import Timing, run_point
from .measured_runs import DataError, RunRecord, append, drop_torn_line, read_micro, read_runs
from .microbenchmarks import bench_commands, run_bench
from .noise import Series
from .points import FIT_POINTS, Point, held_out_points
from .processes import RunError
from .testbed import Steering, Testbed, TestbedError, open_testbed

Kind = Literal["micro", "fit", "heldout", "all"]
Stage = Literal["micro", "fit", "heldout"]

# Open-loop rates are fractions of the fit point's capacity. The first runs of the file define
# it, so that later repeats cannot move the rates of points that are already measured.
CAPACITY_REPEATS = 3
FIT_REPEATS_PER_ROUND = 3
RETRIES_MAX = 2
_FAILURES_IN_SUCCESSION_MAX = 4


class CampaignError(RuntimeError):
    """The campaign cannot go on; what is on disk stays valid."""


@dataclass(frozen=True)
class CampaignProgress:
    """Where a campaign stands, for a progress bar."""

    label: str
    done: int
    total: int
    rejected: int
    seconds_left: float
    note: str = ""


@dataclass
class CampaignSummary:
    """What a campaign did: tasks measured and already there, runs rejected and given up."""

    measured: int = 0
    skipped: int = 0
    rejected: int = 0
    given_up: int = 0
    failed: int = 0
    interrupted: bool = False
    seconds: float = 0.0
    capacity_per_s: float = 0.0
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Task:
    """One bench (a command line) or one point, in one round."""

    stage: Stage
    round: int
    what: str | Point

    @property
    def label(self) -> str:
        return self.what if isinstance(self.what, str) else self.what.label


ProgressCallback = Callable[[CampaignProgress], None]


def run_campaign(
    *,
    kind: Kind,
    output: Path,
    repeats: int = 10,
    quick: bool = False,
    progress: ProgressCallback | None = None,
    seed: int = 1,
    timing: Timing | None = None,
    steering: Steering | None = None,
) -> CampaignSummary:
    """Measure what *output* does not hold yet and return a summary.

    Parameters
    ----------
    kind
        What to measure. Held-out points need the capacity of the fit point, so a few fit runs
        are made first where the folder has none.
    output
        The machine's folder: machine.json, micro.jsonl, fit.jsonl, heldout.jsonl.
    repeats
        Rounds; an accepted (point, round) that is already there is not measured again.
    quick
        Take a small part of the benches and points.
    seed
        Orders the tasks within a round; arrivals depend on the point and the round only.

    Raises
    ------
    CampaignError, DataError, BuildError, TestbedError
        With one sentence that says what to do.
    """
    if repeats < 1:
        raise CampaignError(f"repeats must be at least 1, got {repeats}")
    if kind not in ("micro", "fit", "heldout", "all"):
        raise CampaignError(f'kind must be micro, fit, heldout or all, got "{kind}"')
    programs = build()
    output.mkdir(parents=True, exist_ok=True)
    _note_machine(output)
    began_s = time.monotonic()
    with _alone(), open_testbed(steering) as testbed:
        campaign = _Campaign(output, testbed, programs, timing or Timing(), progress)
        campaign.summary.notices += [testbed.notice] if testbed.notice else []
        with _interruptible():
            try:
                _run_stages(campaign, kind, repeats, quick, seed)
            except KeyboardInterrupt:
                campaign.summary.interrupted = True
    campaign.summary.seconds = time.monotonic() - began_s
    return campaign.summary


def _run_stages(campaign: _Campaign, kind: Kind, repeats: int, quick: bool, seed: int) -> None:
    """Plan the rounds, once the capacity that some points need is known, and run them."""
    stages: Sequence[Stage] = ("micro", "fit", "heldout") if kind == "all" else (kind,)
    held_out: list[Point] = []
    if "heldout" in stages:
        first = [
            _Task("fit", index, point) for index in range(CAPACITY_REPEATS) for point in FIT_POINTS
        ]
        if campaign.capacity_per_s() is None:
            campaign.run_rounds([first])
        capacity_per_s = campaign.capacity_per_s()
        if capacity_per_s is None:
            raise CampaignError(
                f"the fit point has fewer than {CAPACITY_REPEATS} accepted runs, and held-out "
                "rates are fractions of its capacity: measure again when the machine is quieter"
            )
        campaign.summary.capacity_per_s = capacity_per_s
        held_out = held_out_points(capacity_per_s, quick=quick)
    work: dict[Stage, Sequence[str | Point]] = {
        "micro": bench_commands(quick=quick),
        "fit": FIT_POINTS,
        "heldout": held_out,
    }
    rounds = []
    for index in range(repeats):
        tasks = [
            _Task(stage, number, what)
            for stage in stages
            for number in _numbers(stage, index, alone=kind == "fit")
            for what in work[stage]
        ]
        random.Random(f"{seed} {index}").shuffle(tasks)
        rounds.append(tasks)
    campaign.run_rounds(rounds)


def _numbers(stage: Stage, index: int, *, alone: bool) -> range:
    """Return the repeats that round *index* holds: one of each, several of the fit point.

    Every forecast hangs on the fit point and the machine drifts by several per cent within an
    hour, so its repeats are spread over the rounds that they will be compared with.
    """
    if stage != "fit" or alone:
        return range(index, index + 1)
    first = CAPACITY_REPEATS + index * FIT_REPEATS_PER_ROUND
    return range(first, first + FIT_REPEATS_PER_ROUND)


class _Campaign:
    """The state of a campaign: what is on disk, the noise series, the summary, the clock."""

    def __init__(
        self,
        output: Path,
        testbed: Testbed,
        programs: Programs,
        timing: Timing,
        progress: ProgressCallback | None,
    ) -> None:
        self.testbed = testbed
        self.programs = programs
        self.timing = timing
        self.summary = CampaignSummary()
        self._progress = progress
        self._failures_in_succession = 0
        self._files: dict[Stage, Path] = {
            "micro": output / "micro.jsonl",
            "fit": output / "fit.jsonl",
            "heldout": output / "heldout.jsonl",
        }
        for path in self._files.values():
            torn = drop_torn_line(path)
            self.summary.notices += [torn] if torn else []
        self._fit_runs = read_runs(self._files["fit"]).rows
        held_out_runs = read_runs(self._files["heldout"]).rows
        self._check_steering([*self._fit_runs, *held_out_runs])
        self._series = Series.of([*self._fit_runs, *held_out_runs])
        self._done: set[_Task] = {
            *(
                _Task("micro", row.round, row.command)
                for row in read_micro(self._files["micro"]).rows
            ),
            *(_Task("fit", run.repeat, run.point) for run in self._fit_runs if run.accepted),
            *(_Task("heldout", run.repeat, run.point) for run in held_out_runs if run.accepted),
        }

    def _check_steering(self, runs: Sequence[RunRecord]) -> None:
        """Refuse to mix runs on loopback with runs in namespaces: they differ by a factor."""
        for run in runs:
            if run.steering != self.testbed.steering:
                raise CampaignError(
                    f"the folder holds runs with steering {run.steering}, this one would be "
                    f"{self.testbed.steering}: choose another folder"
                )

    def capacity_per_s(self) -> float | None:
        """Return the reply rate of the first accepted fit runs, or None if there are too few."""
        rates = [run.result.reply_rate_per_s.mean for run in self._fit_runs if run.accepted]
        if len(rates) < CAPACITY_REPEATS:
            return None
        return statistics.median(rates[:CAPACITY_REPEATS])

    def run_rounds(self, rounds: Sequence[Sequence[_Task]]) -> None:
        """Run the tasks of each round that are not done, then its rejected ones again."""
        missing = [[task for task in tasks if task not in self._done] for tasks in rounds]
        total = sum(len(tasks) for tasks in missing)
        self.summary.skipped += sum(len(tasks) for tasks in rounds) - total
        began_s, n_over, n_attempts = time.monotonic(), 0, 0
        for tasks in missing:
            queue = [(task, 0) for task in tasks]
            while queue:
                task, n_tried = queue.pop(0)
                note = self._attempt(task)
                n_attempts += 1
                if note and n_tried < RETRIES_MAX:
                    queue.append((task, n_tried + 1))
                else:
                    n_over += 1
                    self.summary.measured += not note
                    self.summary.given_up += bool(note)
                seconds_each = (time.monotonic() - began_s) / n_attempts
                n_left = max(total - n_over, len(queue))
                self._report(task, n_over, total, n_left * seconds_each, note)

    def _attempt(self, task: _Task) -> str:
        """Run one task and append its rows; return why it does not count, or an empty string."""
        try:
            note = self._run(task)
        except RunError as error:
            self.summary.failed += 1
            self._failures_in_succession += 1
            if self._failures_in_succession >= _FAILURES_IN_SUCCESSION_MAX:
                raise CampaignError(
                    f"{self._failures_in_succession} runs failed in succession, "
                    f"the last one ({task.label}): {error}"
                ) from error
            return f"failed: {error}"
        self._failures_in_succession = 0
        return note

    def _run(self, task: _Task) -> str:
        if isinstance(task.what, str):
            rows = run_bench(task.what, task.round, testbed=self.testbed, programs=self.programs)
            append(self._files["micro"], *rows)
            self._done.add(task)
            return ""
        run = run_point(
            task.what,
            task.round,
            testbed=self.testbed,
            programs=self.programs,
            series=self._series,
            timing=self.timing,
        )
        append(self._files[task.stage], run)
        if task.stage == "fit":
            self._fit_runs.append(run)
        if run.accepted:
            self._done.add(task)
        else:
            self.summary.rejected += 1
        return run.reason

    def _report(self, task: _Task, done: int, total: int, seconds_left: float, note: str) -> None:
        if self._progress is not None:
            self._progress(
                CampaignProgress(
                    label=f"round {task.round} {task.label}",
                    done=done,
                    total=total,
                    rejected=self.summary.rejected,
                    seconds_left=seconds_left,
                    note=note,
                )
            )


def _note_machine(output: Path) -> None:
    """Write machine.json, or refuse a folder that belongs to another machine."""
    path = output / "machine.json"
    if not path.exists():
        write_whole(path, json.dumps(machine_facts(), indent=2) + "\n")
        return
    try:
        known = json.loads(path.read_text())["id"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path.name}: field id is missing or the file is not JSON") from error
    if known != machine_id():
        raise DataError(
            f'{path.name}: field id is "{known}", this machine is "{machine_id()}": '
            "choose another folder"
        )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold a lock, because two campaigns at once would measure each other."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "measuring.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CampaignError("another campaign is measuring on this machine") from error
        yield


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end a campaign as Ctrl-C does: with everything of ours removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _main() -> None:
    """Start a campaign without the front door: `python -m dispatchsim.calibration.measure`."""
    from .campaign_progress import campaign_bar, summary_text

    parser = argparse.ArgumentParser(description=_main.__doc__)
    parser.add_argument("kind", choices=("micro", "fit", "heldout", "all"))
    parser.add_argument("output", type=Path, help="the machine's folder")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steering", choices=("namespaces", "loopback"))
    options = vars(parser.parse_args())
    try:
        with campaign_bar() as progress:
            summary = run_campaign(progress=progress, **options)
    except (CampaignError, DataError, BuildError, TestbedError) as error:
        sys.exit(f"measure: {error}")
    print(summary_text(summary))
    sys.exit(130 if summary.interrupted else 0)


if __name__ == "__main__":
    _main()
