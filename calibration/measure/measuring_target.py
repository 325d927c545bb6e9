"""What a campaign asks of a machine under test, be it of silicon or counted instructions.

                     ┌─ hardware_target.py     two CPUs of this machine; a gate rejects noisy runs
    campaign ─► Target
                     └─ emulated/target.py     a guest; a run whose repeat differs is rejected

Both leave the same files, so that what comes after a campaign need not know which it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from ..points.points import Point, Steering
from ..records.measured_runs import MicroResult, RunRecord
from ..testbed.machine_facts import Fact

Stage = Literal["micro", "fit", "heldout"]


class Target(Protocol):
    """A machine under test, and what is to be measured on it.

    A campaign consists of rounds, counted from 0. The number of a round is the repeat of its
    points, which decides their arrivals.
    """

    @property
    def steering(self) -> Steering:
        """Who processes what the server receives; runs that differ in it are never mixed."""

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know of this target before anything is measured."""

    @property
    def n_at_once(self) -> int:
        """How many tasks may run at a time without changing each other's results."""

    @property
    def rounds(self) -> int:
        """How many rounds there are unless the user says otherwise."""

    @property
    def identity(self) -> Sequence[str]:
        """The facts in which a folder's machine must be this one; the first is the id."""

    def facts(self) -> dict[str, Fact]:
        """Return what a reader must know of the machine: machine.json."""

    @property
    def fit_points(self) -> Sequence[Point]:
        """The points that a fit may see; the first one's throughput is called the capacity."""

    @property
    def capacity_repeats(self) -> int:
        """How many accepted runs of that point define the capacity."""

    def fit_repeats(self, index: int, *, alone: bool) -> Sequence[int]:
        """Return the repeats of the fit points in round *index*, *alone* if nothing else is in it.

        The repeats that define the capacity have been measured before a round that is not alone.
        """

    def benches(self, index: int, *, quick: bool) -> Sequence[str]:
        """Return the command lines of the microbenchmarks of round *index*."""

    def held_out(self, index: int, capacity_per_s: float, *, quick: bool) -> Sequence[Point]:
        """Return the points of round *index* that a fit may not see."""

    def recall(self, runs: Iterable[RunRecord]) -> None:
        """Take notice of earlier runs of the folder, accepted or not."""

    def run_bench(self, command: str, round_number: int) -> list[MicroResult]:
        """Run one command line of a microbenchmark and return its results, at least one.

        Raises
        ------
        RunError
            If it fails, takes too long or prints something else.
        """

    def run_point(self, point: Point, repeat: int) -> RunRecord:
        """Measure one repeat of one point and judge whether it may be used.

        Raises
        ------
        RunError
            If a part of the run fails.
        """

    def stop(self) -> None:
        """End what runs in other threads, soon; their runs fail."""
