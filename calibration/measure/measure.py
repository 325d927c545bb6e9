"""The measuring campaign: what a machine's folder does not hold yet is measured and appended.

    open target ─► machine.json ─► capacity, if held-out points need it ─► rounds (campaign.py)

Everything finished is on disk, so a campaign can be interrupted and started again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Literal

from ...sim.files.whole_files import write_whole
from ..records.measured_runs import DataError
from ..testbed.c_build import cache_folder
from ..testbed.machine_facts import Fact
from .campaign import Campaign, CampaignError, CampaignSummary, ProgressCallback, Task
from .measuring_target import Stage, Target

Kind = Literal["micro", "fit", "heldout", "all"]

_CAPACITY = "fit runs for the capacity"
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
    repeats = target.rounds if repeats is None else repeats
    if repeats < 1:
        raise CampaignError(f"repeats must be at least 1, got {repeats}")
    if kind not in ("micro", "fit", "heldout", "all"):
        raise CampaignError(f'kind must be micro, fit, heldout or all, got "{kind}"')
    output.mkdir(parents=True, exist_ok=True)
    note_machine(output, target.identity, target.facts())
    began_s = time.monotonic()
    with alone():
        campaign = Campaign(output, target, progress)
        with interruptible():
            try:
                _run_stages(campaign, kind, repeats, quick, seed)
            except KeyboardInterrupt:
                campaign.summary.interrupted = True
    campaign.summary.seconds = time.monotonic() - began_s
    return campaign.summary


def _run_stages(campaign: Campaign, kind: Kind, repeats: int, quick: bool, seed: int) -> None:
    """Plan the rounds, once the capacity that some points need is known, and run them."""
    target = campaign.target
    stages: Sequence[Stage] = ("micro", "fit", "heldout") if kind == "all" else (kind,)
    capacity_per_s = _capacity_per_s(campaign) if "heldout" in stages else 0.0
    campaign.summary.capacity_per_s = capacity_per_s
    rounds = []
    for index in range(repeats):
        tasks = []
        if "micro" in stages:
            tasks += [Task("micro", index, line) for line in target.benches(index, quick=quick)]
        if "fit" in stages:
            numbers = target.fit_repeats(index, alone=kind == "fit")
            tasks += [Task("fit", n, point) for n in numbers for point in target.fit_points]
        if "heldout" in stages:
            points = target.held_out(index, capacity_per_s, quick=quick)
            tasks += [Task("heldout", index, point) for point in points]
        random.Random(f"{seed} {index}").shuffle(tasks)
        rounds.append(tasks)
    found = {task.stage for tasks in rounds for task in tasks}
    campaign.run_rounds(rounds, ", ".join(name for stage, name in _PARTS.items() if stage in found))


def _capacity_per_s(campaign: Campaign) -> float:
    """Return the capacity, by which held-out rates are chosen, measuring it if need be.

    A campaign that was interrupted here may know it and lack runs of other fit points.
    """
    target, repeats = campaign.target, campaign.target.capacity_repeats
    tasks = [Task("fit", n, point) for n in range(repeats) for point in target.fit_points]
    campaign.run_rounds([tasks], _CAPACITY)
    capacity_per_s = campaign.capacity_per_s()
    if capacity_per_s is None:
        raise CampaignError(
            f"{target.fit_points[0].label} has fewer than {repeats} accepted runs, and held-out "
            "rates are fractions of its capacity: measure again when the machine is quieter"
        )
    return capacity_per_s


def check_machine(output: Path, identity: str) -> None:
    """Refuse the folder of a machine with another id than *identity*.

    For those who are about to open a target, which takes minutes where it must be built first;
    `run_campaign` compares all that makes a machine.

    Raises
    ------
    DataError
        If the folder has a machine.json that is of another machine or cannot be read.
    """
    path = output / "machine.json"
    if path.exists():
        _compare(path, "id", identity)


def note_machine(output: Path, identity: Sequence[str], facts: Mapping[str, Fact]) -> None:
    """Write *facts* to machine.json, or refuse a folder in which those of *identity* differ."""
    path = output / "machine.json"
    if not path.exists():
        write_whole(path, json.dumps(facts, indent=2) + "\n")
        return
    for name in identity:
        _compare(path, name, facts[name])


def _compare(path: Path, name: str, ours: Fact) -> None:
    """Refuse the facts in *path* if that of this *name* is not ours."""
    try:
        known = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path.name}: the file: must be JSON, got {error}") from error
    if not isinstance(known, dict) or name not in known:
        raise DataError(f"{path.name}: field {name} is missing")
    if known[name] != ours:
        raise DataError(
            f'{path.name}: field {name} is "{known[name]}", this machine is "{ours}": '
            "choose another folder"
        )


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold a lock, because two campaigns at once would measure each other."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "measuring.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CampaignError("another campaign is measuring on this machine") from error
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
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
