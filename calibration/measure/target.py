"""The interface between a campaign and a machine under test, and this machine as one.

                     ┌─ HardwareTarget        two CPUs of this machine; a gate rejects noisy runs
    campaign ─► Target
                     └─ emulated/target.py     a guest; a run whose repeat differs is rejected

Both write the same files, so later steps do not depend on the kind of target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

from ..points.point import Point, Steering
from ..points.points import FIT_POINTS, IO_URING, STOCK_MECHANISMS, held_out_points
from ..records.gap_records import GapsRecord
from ..records.generator_gate import OFFERED_LEAST, offered_share
from ..records.measured_runs import QUICK, MicroResult, RunRecord
from ..records.neighbour_records import NeighbourRecord
from ..records.noise import Series
from ..testbed.c_build import Programs, build
from ..testbed.machine_facts import SAME_MACHINE, Fact, machine_facts
from ..testbed.processes import RunError
from ..testbed.testbed import Steering as HardwareSteering
from ..testbed.testbed import Testbed, open_testbed
from .calm import CalmCore
from .kept_run import run_kept
from .macro import Timing, run_point
from .microbenchmarks import bench_commands, run_bench
from .quietness import TestbedRecorder
from .surroundings import TIMING as BRIEF
from .surroundings import Surroundings

FIT_REPEATS_PER_ROUND = 3
_OFFERS_TRIES = 3
_BRIEF_RING, _REFUSED = "ring_block --milliseconds 1", "micro: io_uring:"

Stage = Literal["micro", "fit", "heldout"]


class Target(Protocol):
    """A machine under test, and what to measure on it.

    A campaign consists of rounds, counted from 0. The number of a round is the repeat of its points
    and determines their arrivals.
    """

    @property
    def steering(self) -> Steering:
        """The CPU that receives the server's packets, and the kind of clients; never mixed."""

    @property
    def notices(self) -> Sequence[str]:
        """Notices for the user before anything is measured."""

    @property
    def n_at_once(self) -> int:
        """The number of tasks that may run at once without changing each other's results."""

    @property
    def rounds(self) -> int:
        """The default number of rounds."""

    @property
    def identity(self) -> Sequence[str]:
        """The facts that must be equal in a folder's machine.json; the first is the id."""

    def facts(self) -> dict[str, Fact]:
        """Return the facts of the machine for machine.json."""

    @property
    def fit_points(self) -> Sequence[Point]:
        """The points that a fit may use; the throughput of the first is the capacity."""

    @property
    def capacity_repeats(self) -> int:
        """The number of accepted runs of that point that define the capacity."""

    def fit_repeats(self, index: int, *, alone: bool) -> Sequence[int]:
        """Return the repeats of the fit points in round *index*; *alone*: nothing else is in it.

        Before a round that is not alone, the repeats that define the capacity were measured.
        """

    def benches(self, index: int, *, quick: bool) -> Sequence[str]:
        """Return the command lines of the microbenchmarks of round *index*."""

    def held_out(
        self, index: int, capacity_per_s: float, *, kept_per_s: float | None = None, quick: bool
    ) -> Sequence[Point]:
        """Return the points of round *index* that a fit must not use.

        *kept_per_s* is the capacity over kept connections; None: equal to *capacity_per_s*.
        """

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        """Return recordings of the host's gaps; none if the target has no gaps.

        Raises
        ------
        RunError
            If the bench fails.
        """

    def neighbours(self, *, quick: bool) -> list[NeighbourRecord]:
        """Return the share of time in which others use its cores; nothing if that is impossible.

        Raises
        ------
        RunError
            If the bench fails.
        """

    def offers(self, point: Point) -> float:
        """Return the share of the load of *point* that the load generator begins.

        Raises
        ------
        RunError
            If a part of the run fails.
        """

    def recall(self, runs: Iterable[RunRecord], micro: Iterable[MicroResult]) -> None:
        """Use earlier runs of the folder, accepted or not, and its benches for the gates."""

    def run_bench(self, command: str, round_number: int) -> list[MicroResult]:
        """Run one command line of a microbenchmark and return its results, at least one.

        Raises
        ------
        RunError
            If the bench fails, takes too long or prints something else.
        """

    def run_point(self, point: Point, repeat: int) -> RunRecord:
        """Measure one repeat of one point and judge whether it may be used.

        Raises
        ------
        RunError
            If a part of the run fails.
        """

    def stop(self) -> None:
        """End runs in other threads soon; they fail."""


class HardwareTarget(TestbedRecorder):
    """Two CPUs of this machine, and the calibrations that show whether it was quiet."""

    identity: Sequence[str] = SAME_MACHINE
    n_at_once = 1
    rounds = 10
    fit_points: Sequence[Point] = FIT_POINTS
    # The first runs define the capacity, so later runs do not move the rates of old points.
    capacity_repeats = 3

    def __init__(
        self,
        testbed: Testbed,
        programs: Programs,
        timing: Timing,
        mechanisms: Sequence[str] = STOCK_MECHANISMS,
        notice: str = "",
    ) -> None:
        self.steering: Steering = testbed.steering
        self.notices: Sequence[str] = [text for text in (testbed.notice, notice) if text]
        super().__init__(testbed, programs)
        self._timing = timing
        self._mechanisms = mechanisms
        self._series = Series()
        self._core = CalmCore(testbed, programs)
        self._surroundings = Surroundings(testbed, programs, self._core)

    def facts(self) -> dict[str, Fact]:
        """Return the facts of this machine."""
        return machine_facts()

    def fit_repeats(self, index: int, *, alone: bool) -> Sequence[int]:
        """Return one repeat if alone, several beside other points.

        Every forecast depends on the fit point, and the machine drifts by several per cent within
        an hour. So its repeats are spread over the rounds of the points they are compared with.
        """
        if alone:
            return [index]
        first = self.capacity_repeats + index * FIT_REPEATS_PER_ROUND
        return range(first, first + FIT_REPEATS_PER_ROUND)

    def benches(self, _index: int, *, quick: bool) -> Sequence[str]:
        """Return the same benches for each round: the machine drifts."""
        return bench_commands(quick=quick, mechanisms=self._mechanisms)

    def held_out(
        self, _index: int, capacity_per_s: float, *, kept_per_s: float | None = None, quick: bool
    ) -> Sequence[Point]:
        """Return the same points for each round."""
        return held_out_points(
            capacity_per_s, kept_per_s=kept_per_s, quick=quick, mechanisms=self._mechanisms
        )

    def offers(self, point: Point) -> float:
        """Return the best of some brief runs, as a pause of the host is no generator limit."""
        shares = []
        for repeat in range(_OFFERS_TRIES):
            run = run_point(
                point,
                repeat,
                testbed=self._testbed,
                programs=self._programs,
                series=Series(),
                timing=BRIEF,
            )
            shares.append(offered_share(run))
            if shares[-1] >= OFFERED_LEAST:
                break
        return max(shares)

    def recall(self, runs: Iterable[RunRecord], micro: Iterable[MicroResult]) -> None:
        """Continue the series of calibrations of earlier runs."""
        runs = list(runs)
        self._series = Series.of(runs)
        self._core.recall([*runs, *micro])

    def run_bench(self, command: str, round_number: int) -> list[MicroResult]:
        """Run one microbenchmark with its two threads on the two CPUs."""
        in_calm = self._core.brief if command.endswith(QUICK) else self._core.bench
        return in_calm(
            lambda: run_bench(command, round_number, testbed=self._testbed, programs=self._programs)
        )

    def run_point(self, point: Point, repeat: int) -> RunRecord:
        """Run one point, and accept or reject it.

        Records of held-out points include the machine's costs before and after them. Fit points are
        many, and are compared with each other and with benches.
        """

        def measured() -> RunRecord:
            return (run_kept if point.keeps else run_point)(
                point,
                repeat,
                testbed=self._testbed,
                programs=self._programs,
                series=self._series,
                timing=self._timing,
            )

        if point in FIT_POINTS:
            return self._core.judged(measured)
        run, around = self._surroundings.around(measured)
        return run.model_copy(update={"around": around})

    def stop(self) -> None:
        """Do nothing, as no run is in another thread."""


@contextlib.contextmanager
def hardware_target(
    *,
    steering: HardwareSteering | None = None,
    timing: Timing | None = None,
    mechanisms: Sequence[str] = STOCK_MECHANISMS,
) -> Iterator[HardwareTarget]:
    """Yield this machine with a testbed, which is removed afterwards.

    Parameters
    ----------
    steering
        CPU that receives the server's packets, and kind of clients; see `open_testbed`.
    timing
        Timing of the runs.
    mechanisms
        The mechanisms among STOCK_MECHANISMS to measure, besides what every profile needs. If the
        kernel refuses io_uring, it is omitted with a notice.

    Raises
    ------
    BuildError, TestbedError
        With one sentence on what to do.
    """
    programs = build()
    with open_testbed(steering) as testbed:
        refusal = _refusal_of_io_uring(testbed, programs) if IO_URING in mechanisms else ""
        if refusal:
            mechanisms = [name for name in mechanisms if name != IO_URING]
        yield HardwareTarget(testbed, programs, timing or Timing(), mechanisms, notice=refusal)


def _refusal_of_io_uring(testbed: Testbed, programs: Programs) -> str:
    """Return why io_uring cannot be measured here; empty if it can.

    Administrators may disable it (/proc/sys/kernel/io_uring_disabled), containers may filter it,
    and kernels before 6.1 lack operations that the server needs.
    """
    try:
        run_bench(_BRIEF_RING, 0, testbed=testbed, programs=programs)
    except RunError as error:
        if _REFUSED in str(error):
            return f"io_uring is not measured: {error}"
        # Other failures may be temporary: the campaign counts and repeats such benches.
    return ""
