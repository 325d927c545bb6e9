"""The gain in accuracy from measuring: the same held-out runs, forecast from three profiles.

    another machine's, scaled by this one's clock, memory and crossing (seconds) ─┐
    measure machine --quick (two minutes) ────────────────────────────────────────┼─► errors
    measure machine (90 minutes) ─────────────────────────────────────────────────┘

    dispatchsim lab what-measuring-buys FOLDER --quick FOLDER --borrow MACHINE

A borrowed profile uses three numbers of this machine, measured in seconds: speed of computation,
time of a memory access, and time of a kernel entry and exit.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...calibration.points.point import stored
from ...calibration.profiles.cost_profile import Profile
from ...calibration.profiles.hardware_change import HardwareChange, changed, clock_factor
from ...calibration.records.measured_runs import MicroResult, read_rows
from ...sim.engine.workers import workers_for
from ...sim.files.tables import Column, Table
from ..forecast.forecast import Lengths, Request, forecasts, unknown
from ..forecast.hour_prices import HourPrices, at_hour
from ..forecast.provenance import read_machine_runs
from ..points.measured_points import group
from ..scoring.error_files import miss_of
from ..scoring.knee import PUBLISHED_BOUND_NS, knee_errors, knees
from ..scoring.misses import Miss
from ..scoring.regimes import CPU, QUIET, regime_errors
from ..scoring.scoring import PointScore, score
from ..scoring.value_verdicts import middle_error, unsigned, worst

SPIN, MEMORY, CROSSING = "spin", "memory", "floor"
"""The benchmarks that scale a borrowed profile."""
SEEDS = 2
"""Arrival seeds simulated at a point; the profiles differ in costs only."""
Progress = Callable[[int, int], None]


class MissingBenchError(ValueError):
    """A machine's folder lacks a benchmark; the message names both."""


class Bought(NamedTuple):
    """The `middle_error` of the forecasts from one profile; None without scored points.

    `cpu`, `p50` and `p99` are for loads up to 80% of the capacity, where no queue forms. `knee` is
    the shift of the load at which p99 exceeds 20 ms.
    """

    way: str
    profile: str
    n_points: int
    capacity: float | None
    worst: float | None
    cpu: float | None
    p50: float | None
    p99: float | None
    knee: float | None


def borrowed(lender: Profile, lender_micro: Path, own_micro: Path) -> Profile:
    """Return *lender*'s profile, scaled to the machine whose benchmarks are in *own_micro*.

    Raises
    ------
    MissingBenchError
        If one of the two files lacks a benchmark.
    """
    theirs, ours = (_prices(path) for path in (lender_micro, own_micro))
    clock = theirs[SPIN] / ours[SPIN]
    # `HardwareChange` takes the crossing at the clock before the change.
    change = HardwareChange(clock=clock, crossing_ns=ours[CROSSING] / clock_factor(clock))
    # A scan waits for memory, whose speed does not depend on the clock.
    scan = ours[MEMORY] / theirs[MEMORY] / clock_factor(clock)
    return at_hour(changed(lender, change), HourPrices(calls=1.0, scan=scan, interrupt=1.0))


def _prices(path: Path) -> dict[str, float]:
    found: dict[str, list[float]] = {SPIN: [], MEMORY: [], CROSSING: []}
    for row in read_rows(path, MicroResult).rows:
        command = row.in_full or row.bench
        if command in found:
            found[command].append(row.median)
    for bench, values in found.items():
        if not values:
            raise MissingBenchError(f"{path}: must hold the benchmark {bench}, got none")
    return {bench: statistics.median(values) for bench, values in found.items()}


def forecast_from(
    folder: Path,
    profiles: Mapping[str, Profile],
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, list[PointScore]]:
    """Return the scores of the runs in *folder*, by the name of each of *profiles*.

    Raises
    ------
    ValueError
        If the folder has no runs.
    """
    measured = group(read_machine_runs(folder).all)
    # The errors of the profiles are compared, so they cover the same points.
    shared = [
        e
        for e in measured
        if e.measured and all(unknown(p, e.point) is None for p in profiles.values())
    ]
    found = {}
    with workers_for("auto", workers) as executor:
        for way, profile in profiles.items():
            requests = [
                Request(e.point, e.seeds[:SEEDS], 0, Lengths(e.warm_up_ns, e.window_ns))
                for e in shared
            ]
            made = forecasts(requests, profile, executor=executor, progress=progress)
            found[way] = score(shared, {request.point: own for request, own in made}, {})
    return found


def bought(way: str, profile: Profile, scores: Sequence[PointScore]) -> Bought:
    """Return the errors of *scores*, which were forecast from *profile*."""
    capacities = [
        s.errors.throughput
        for s in scores
        if s.role == "capacity" and s.errors.throughput is not None
    ]
    times = {row.figure: row.median for row in regime_errors(scores) if row.regime == QUIET}
    shifts = [
        row.median
        for row in knee_errors(knees(scores))
        if row.bound_ns == PUBLISHED_BOUND_NS and row.n
    ]
    return Bought(
        way,
        profile.name,
        sum(s.role != "fit" for s in scores),
        middle_error(capacities) if capacities else None,
        worst(capacities) if capacities else None,
        times.get(CPU),
        times.get("p50_ns"),
        times.get("p99_ns"),
        shifts[0] if shifts else None,
    )


def misses_of_scores(scores: Sequence[PointScore]) -> list[Miss]:
    """Return the forecast errors of *scores* at held-out points, as in a report."""
    return [
        miss_of(
            {
                "role": entry.role,
                "point": stored(entry.measured.point),
                "measured": {"median": entry.measured.median._asdict()},
                "forecast": {"central": entry.forecast.central._asdict()},
            }
        )
        for entry in scores
        if entry.role != "fit" and entry.measured.kept_up
    ]


def buying_table(rows: Sequence[Bought]) -> Table:
    """Return the table of the errors side by side."""
    columns: list[Column[Bought]] = [
        Column("costs from", lambda b: b.way, words=True),
        Column("points", lambda b: b.n_points),
        Column("capacity", lambda b: b.capacity, unsigned),
        Column("worst", lambda b: b.worst, unsigned),
        Column("CPU", lambda b: b.cpu, unsigned),
        Column("p50", lambda b: b.p50, unsigned),
        Column("p99", lambda b: b.p99, unsigned),
        Column("knee, 20 ms", lambda b: b.knee, unsigned),
    ]
    note = (
        "Median absolute errors over held-out points; factors beyond two. CPU, p50 and p99: loads "
        "up to 80% of the capacity. Knee: error of the load at which p99 exceeds 20 ms."
    )
    return Table.of("What measuring buys", rows, columns, note)
