"""Recordings of gaps: times at which a spinning program did not run, in a machine's gaps.jsonl.

    spins ████████   ███████████████████  ████████
                  gap                   gap

A recording keeps the long gaps with their times, so trains of gaps remain visible. The guest's
timer tick is a gap like any other.

See also: cyclictest, hwlatdetect, Linux Documentation/trace/osnoise-tracer.rst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...sim.files.tables import Column, Table
from ...sim.state.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from ..profiles.gap_recordings import recording_name
from .measured_runs import DataError, Gaps, Unjudged, read_rows

GAPS_FILE = "gaps.jsonl"
Side = Literal["server", "client"]
Beside = Literal["nothing", "spinning", "packets"]
LOST_MOST = 0.05
"""The largest share of a CPU's time in gaps at which other measurements are meaningful."""

_TICKS_NS = tuple(SECOND_NS // hz for hz in (1000, 300, 250, 100))  # CONFIG_HZ
_NEAR_NS = 50 * MICROSECOND_NS  # tolerance of a tick's time
_COUNTED_ABOVE_NS = tuple(us * MICROSECOND_NS for us in (20, 50, 100, 300, 1000))
_PART_NS = 100 * MILLISECOND_NS  # parts in which gaps are counted


class CpuRecord(Unjudged):
    """One CPU on which a program spun for `elapsed_ns`.

    `machine` is the id in machine.json, `cpu` the side of the testbed to which the CPU belongs.
    `beside` is the work meanwhile: nothing, a spinning program on the other CPU, or packets to the
    server's CPU.
    """

    format: str
    date: str
    code: str
    machine: str
    cpu: Side
    beside: Beside
    elapsed_ns: int

    @property
    def name(self) -> str:
        """The recording's name in a scenario, such as "client beside packets"."""
        return recording_name(self.cpu, self.beside)

    @property
    def of_task(self) -> tuple[int, str]:
        """A key that is unique for each recording."""
        return 0, self.name


Recorded = TypeVar("Recorded", bound=CpuRecord)


def latest_of(path: Path, kind: type[Recorded], machine: str) -> list[Recorded]:
    """Return the last row of each name in *path*; all must be of *machine*, if that is not empty.

    Raises
    ------
    DataError
        If a row is of another machine.
    """
    latest: dict[str, Recorded] = {}
    for row in read_rows(path, kind).rows:
        if machine and row.machine != machine:
            raise DataError(
                f'{path.name}: field machine must be that of machine.json, "{machine}", '
                f'got "{row.machine}": remove the recording from {path.parent}'
            )
        latest[row.name] = row
    return list(latest.values())


class GapsRecord(CpuRecord):
    """The gaps of one CPU. The quantiles are over all gaps above 1 us."""

    format: Literal["dispatchsim-gaps/1"] = "dispatchsim-gaps/1"
    median_ns: float
    p90_ns: float
    worst_ns: int
    gaps: Gaps

    @property
    def lost_share(self) -> float:
        """The share of the CPU's time in gaps."""
        return self.gaps.lost_ns / self.elapsed_ns

    @property
    def p99_ns(self) -> float:
        """The 99% quantile of the lengths of all gaps, or NaN if such gaps were not kept."""
        n_longer = self.gaps.n // 100
        longest = sorted(self.gaps.length_ns, reverse=True)
        return float(longest[n_longer]) if n_longer < len(longest) else float("nan")

    def per_second_above(self, length_ns: int) -> float:
        """Return the number of gaps per second longer than *length_ns*."""
        n = sum(length > length_ns for length in self.gaps.length_ns)
        return n * SECOND_NS / self.elapsed_ns


def periodic(gaps: Gaps) -> tuple[int, NDArray[np.bool_]]:
    """Return the period of the timer tick in ns, and which recorded gaps are ticks.

    A tick has another gap one period before or after it, within 50 us. The period is that of the
    usual CONFIG_HZ with the most ticks, or a shorter one with at least 90% of these. It is 0 if
    fewer than half of all gaps have a neighbour. About 5% of 280 gaps a second have one by chance.
    """
    at_ns = np.array(gaps.at_ns, np.int64)
    found = {period_ns: _has_neighbour(at_ns, period_ns) for period_ns in _TICKS_NS}
    most = max((int(which.sum()) for which in found.values()), default=0)
    if 2 * most < at_ns.size or most == 0:
        return 0, np.zeros(at_ns.size, np.bool_)
    return next((p, which) for p, which in found.items() if which.sum() >= 0.9 * most)


def _has_neighbour(at_ns: NDArray[np.int64], period_ns: int) -> NDArray[np.bool_]:
    found = np.zeros(at_ns.size, np.bool_)
    for shift_ns in (-period_ns, period_ns):
        first = np.searchsorted(at_ns, at_ns + shift_ns - _NEAR_NS)
        found |= np.searchsorted(at_ns, at_ns + shift_ns + _NEAR_NS, side="right") > first
    return found


def clustering(at_ns: Iterable[int], elapsed_ns: int) -> float:
    """Return the variance over the mean of gap counts in 100 ms: 1 if gaps are independent.

    It is above 1 if gaps come in trains, below 1 if they are regular; NaN without two parts or
    without a gap.
    """
    n_parts = elapsed_ns // _PART_NS
    parts = np.fromiter(at_ns, np.int64) // _PART_NS
    numbers = np.bincount(parts[parts < n_parts], minlength=n_parts)
    if n_parts < 2 or not numbers.any():
        return float("nan")
    return float(numbers.var(ddof=1) / numbers.mean())


def gaps_table(records: Iterable[GapsRecord]) -> Table:
    """Return a row for each recording: number of gaps, lengths, share of timer ticks."""
    columns = [
        Column("CPU", lambda r: r.name, words=True, whole=True),
        Column("gaps / s", lambda r: r.gaps.n * SECOND_NS / r.elapsed_ns, "{:.0f}".format),
        Column("lost", lambda r: r.lost_share, "{:.2%}".format),
        Column("median", lambda r: r.median_ns, _us),
        Column("p90", lambda r: r.p90_ns, _us),
        Column("p99", lambda r: r.p99_ns, _us),
        Column("worst", lambda r: r.worst_ns, _us),
        *(
            Column(f"> {_us(above_ns)}/s", _above(above_ns), "{:.2f}".format)
            for above_ns in _COUNTED_ABOVE_NS
        ),
        Column(
            "tick",
            lambda r: periodic(r.gaps)[1].mean() if r.gaps.at_ns else float("nan"),
            "{:.0%}".format,
            means="share of recorded gaps (above 5 us) that are timer ticks",
        ),
        Column(
            "trains",
            _trains,
            "{:.1f}".format,
            means="variance over mean of the counts of other gaps in 100 ms; 1: independent",
        ),
    ]
    return Table.of("Gaps of each CPU", list(records), columns)


def _us(ns: float) -> str:
    return f"{ns / MICROSECOND_NS:.0f} us"


def _above(length_ns: int) -> Callable[[GapsRecord], float]:
    return lambda record: record.per_second_above(length_ns)


def _trains(record: GapsRecord) -> float:
    of_tick = periodic(record.gaps)[1]
    at_ns = np.array(record.gaps.at_ns, np.int64)[~of_tick]
    return clustering(at_ns, record.elapsed_ns)


def noise_problem(records: Iterable[GapsRecord]) -> str:
    """Return a sentence if the machine is too noisy to measure, else an empty string."""
    worst = max(records, key=lambda record: record.lost_share, default=None)
    if worst is None or worst.lost_share <= LOST_MOST:
        return ""
    return (
        f"the machine is too noisy to measure: the {worst.cpu}'s CPU loses {worst.lost_share:.1%} "
        f"of its time in {worst.gaps.n} gaps above 1 us "
        f"(worst {worst.worst_ns / MILLISECOND_NS:.1f} ms), the limit is {LOST_MOST:.0%}: end "
        "other programs, on the host too, or measure at another time"
    )


def lost_text(records: Iterable[GapsRecord]) -> str:
    """Return a sentence on the lost time of each CPU while nothing else ran on the machine."""
    return "; ".join(
        f"the {record.cpu}'s CPU loses {record.lost_share:.1%} of its time in gaps, timer ticks "
        f"included (median {record.median_ns / MICROSECOND_NS:.0f} us, "
        f"worst {record.worst_ns / MILLISECOND_NS:.1f} ms)"
        for record in records
        if record.beside == "nothing"
    )
