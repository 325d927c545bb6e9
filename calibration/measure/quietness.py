"""Check whether a machine is quiet enough: record once in its folder, judge each time.

    gaps.jsonl, neighbour.jsonl ─► of this machine? ─► quiet enough? ─► the campaign begins
        └─ missing, or too noisy: recorded anew            └─► refused; with --anyway a notice

In a gap the host runs nothing on our CPU (gap_records.py). On a shared core everything runs, but
more slowly (neighbour_records.py). A recording that is refused is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol

from ..records.gap_records import (
    GAPS_FILE,
    GapsRecord,
    Recorded,
    latest_of,
    lost_text,
    noise_problem,
)
from ..records.measured_runs import append
from ..records.neighbour_records import (
    NEIGHBOUR_FILE,
    NeighbourRecord,
    busy_problem,
    neighbour_text,
)
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .calm import RECORDED_S, measure_neighbours
from .campaign import Campaign, CampaignError
from .gaps import SECONDS, measure_gaps

_QUICK_GAPS_S = 1.5
_QUICK_NEIGHBOURS_S = 2.0


class Recorder(Protocol):
    """Records the noise of a machine, briefly if *quick*; nothing if it is always quiet.

    Both raise `RunError` if their bench fails.
    """

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        """Return recordings of the host's gaps."""

    def neighbours(self, *, quick: bool) -> list[NeighbourRecord]:
        """Return the share of time in which other guests use the cores of its CPUs."""


class TestbedRecorder:
    """Records both CPUs of a testbed: eight measurements of 10 s, or of 2 s at most if quick."""

    __test__ = False  # otherwise pytest collects a class of this name

    def __init__(self, testbed: Testbed, programs: Programs) -> None:
        self._testbed = testbed
        self._programs = programs

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        """Return the gaps of both CPUs, each alone, both at once, and the client's with packets."""
        seconds = _QUICK_GAPS_S if quick else SECONDS
        return measure_gaps(self._testbed, self._programs, seconds=seconds)

    def neighbours(self, *, quick: bool) -> list[NeighbourRecord]:
        """Return the share of time in which other guests use the core of each CPU."""
        seconds = _QUICK_NEIGHBOURS_S if quick else RECORDED_S
        return measure_neighbours(self._testbed, self._programs, seconds=seconds)


class _Source(NamedTuple, Generic[Recorded]):
    """A file of recordings of one *kind*: functions that record, judge and describe them.

    `part` and `doing` name the part of the campaign and the activity in messages.
    """

    file: str
    kind: type[Recorded]
    record: Callable[[], list[Recorded]]
    problem: Callable[[Iterable[Recorded]], str]
    text: Callable[[Iterable[Recorded]], str]
    part: str
    doing: str


def check_quiet(
    folder: Path,
    machine: str,
    recorder: Recorder,
    campaign: Campaign,
    *,
    quick: bool,
    anyway: bool,
) -> None:
    """Report the noise of *machine* by the recordings in *folder*; refuse it if too noisy.

    Missing recordings are made. Recordings that are too noisy are made again, because the machine
    may be quieter now. With *anyway* a noisy machine causes only a notice.

    Raises
    ------
    CampaignError
        If the machine is too noisy; with numbers and what to do.
    DataError
        If a recording in the folder is of another machine.
    RunError
        If a bench fails.
    """
    gaps: _Source[GapsRecord] = _Source(
        GAPS_FILE,
        GapsRecord,
        lambda: recorder.gaps(quick=quick),
        noise_problem,
        lost_text,
        "gaps of the host",
        "spinning on each CPU",
    )
    neighbours: _Source[NeighbourRecord] = _Source(
        NEIGHBOUR_FILE,
        NeighbourRecord,
        lambda: recorder.neighbours(quick=quick),
        busy_problem,
        neighbour_text,
        "other guests",
        "watching each CPU",
    )
    _check(gaps, folder, machine, campaign, anyway=anyway)
    _check(neighbours, folder, machine, campaign, anyway=anyway)


def _check(
    source: _Source[Recorded], folder: Path, machine: str, campaign: Campaign, *, anyway: bool
) -> None:
    path = folder / source.file
    campaign.drop_torn_lines(path)
    found = latest_of(path, source.kind, machine)
    is_kept = bool(found) and (anyway or not source.problem(found))
    if not is_kept:
        campaign.say(source.part, source.doing, "")
        found = source.record()
    problem = source.problem(found)
    if problem and not anyway:
        raise CampaignError(f"{problem}; use --anyway to measure it anyway")
    if problem:
        campaign.summary.notices.append(problem)
    if found and not is_kept:
        append(path, *found)
    if found:
        campaign.say(source.part, "recorded", source.text(found))
