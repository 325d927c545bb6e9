"""Whether a machine is quiet enough to measure: recorded once in its folder, judged each time.

    gaps.jsonl, neighbour.jsonl ─► of this machine? ─► quiet enough? ─► the campaign begins
        └─ missing, or too noisy: recorded anew            └─► refused; with --anyway a notice

In gaps the host runs nothing of ours (gap_records.py). While a core is shared all runs, but more
slowly (neighbour_records.py). A recording that is refused is not kept.
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
    """What records how quiet a machine is, briefly if *quick*; nothing where it is always quiet.

    Both raise `RunError` if their bench fails.
    """

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        """Return recordings of when the host keeps the CPUs from it."""

    def neighbours(self, *, quick: bool) -> list[NeighbourRecord]:
        """Return how often somebody else uses the cores of its CPUs."""


class TestbedRecorder:
    """Records both CPUs of a testbed: eight measurements of 10 s, if quick of 2 s at most."""

    __test__ = False  # for pytest, which would collect a class of this name

    def __init__(self, testbed: Testbed, programs: Programs) -> None:
        self._testbed = testbed
        self._programs = programs

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        """Return the gaps of both CPUs, each alone, both at once, and the client's with packets."""
        seconds = _QUICK_GAPS_S if quick else SECONDS
        return measure_gaps(self._testbed, self._programs, seconds=seconds)

    def neighbours(self, *, quick: bool) -> list[NeighbourRecord]:
        """Return how often somebody else uses the core of each CPU."""
        seconds = _QUICK_NEIGHBOURS_S if quick else RECORDED_S
        return measure_neighbours(self._testbed, self._programs, seconds=seconds)


class _Source(NamedTuple, Generic[Recorded]):
    """A file of recordings of one *kind*: what makes them, what is wrong with them, their words.

    `part` and `doing` are for people: the part of the campaign, and what is done.
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
    """Report how quiet *machine* is by the recordings in *folder*, and refuse it if too noisy.

    What is missing is recorded. Too noisy recordings are made again, as it may be quieter now. With
    *anyway* a noisy machine is a notice.

    Raises
    ------
    CampaignError
        If it is too noisy, with the numbers and what to do.
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
        raise CampaignError(f"{problem}; --anyway measures it all the same")
    if problem:
        campaign.summary.notices.append(problem)
    if found and not is_kept:
        append(path, *found)
    if found:
        campaign.say(source.part, "recorded", source.text(found))
