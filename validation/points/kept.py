"""Kept connections with requests at a rate: measured and simulated runs.

    profile ─► closed loops ─► capacities ─► points at 0.3 ... 0.95 of them ─► kept.jsonl
    kept.jsonl ─► runs ─► the same requests at the profile's costs ─► tables

    dispatchsim lab kept FOLDER --profile PROFILE

Requests are counted. The error of requests per second has a bound; CPU and response times are shown
with the noise of repeats. Nothing is fitted to these runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...calibration.measure.macro import Timing
from ...calibration.points.point import Point, point_at
from ...calibration.points.points import KEPT
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.generator_gate import OFFERED_LEAST, offered_share
from ...calibration.records.measured_runs import RunRecord
from ...calibration.running.preparation import job_of, run_job
from ...scenario.formats import rate_text, share_text, time_text
from ...sim.files.tables import DASH, Column, Table
from ...sim.state.units import SECOND_NS, round_ns
from .figures import Figures, figures_of_summary, median, ratio
from .measured_points import FOREIGN_SHARE_MAX, MISSED, REACHED, figures_of_run

REQUESTS_WITHIN = 0.05
"""Bound on the error, as a share of the measured requests per second."""
_SEED = 1
_ALWAYS_BUSY = 100_000
"""Requests of a connection: enough that no connection ends within a run."""
_ANY_RATE_PER_S = 1_000.0

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class KeptLoad:
    """One point: its valid and invalid runs, and the simulation of each.

    `load` is the rate over the simulated capacity. Without a valid run, the simulation repeats the
    last invalid one.
    """

    point: Point
    load: float
    measured: tuple[Figures, ...]
    simulated: tuple[Figures, ...]
    offered_shares: tuple[float, ...]
    rejected: tuple[RunRecord, ...]

    def of_runs(self, name: str) -> float:
        """Return the median of a metric over the measured runs; NaN without runs."""
        return median([getattr(figures, name) for figures in self.measured])

    def forecast(self, name: str) -> float:
        """Return the median of a metric over the simulated runs."""
        return median([getattr(figures, name) for figures in self.simulated])

    def noise(self, name: str) -> float:
        """Return half the range of the measured runs.

        It is NaN with less than two runs.
        """
        found = [value for f in self.measured if not math.isnan(value := getattr(f, name))]
        return (max(found) - min(found)) / 2 if len(found) > 1 else math.nan

    @property
    def verdict(self) -> str:
        """The verdict on the forecast of requests per second; "" without a run."""
        error = ratio(self.forecast("throughput_per_s"), self.of_runs("throughput_per_s")) - 1
        if math.isnan(error):
            return ""
        return REACHED if abs(error) <= REQUESTS_WITHIN else MISSED


def busy_point(point: Point) -> Point:
    """Return the closed loop in which each connection of *point* always has a request."""
    return point_at(
        point, loop="closed", users=point.load.connections, connections=0, rate_per_s=0.0,
        arrivals="poisson", requests=_ALWAYS_BUSY,
    )  # fmt: skip


def capacities(points: Iterable[Point], profile: Profile) -> dict[Point, float]:
    """Return the simulated requests per second of the servers of *points*, by `busy_point`."""
    timing = Timing()
    lengths = (round_ns(s * SECOND_NS) for s in (timing.warm_up_s, timing.window_s))
    warm_up_ns, window_ns = lengths
    found = {}
    for busy in dict.fromkeys(map(busy_point, points)):
        job = job_of(busy.lasting(warm_up_ns, window_ns), profile, _SEED)
        found[busy] = run_job(job).summary.throughput_per_s
    return found


def points_of(profile: Profile) -> list[Point]:
    """Return the points to measure: at shares of each server's capacity by *profile*."""
    servers = capacities(KEPT.points("open", capacity_per_s=_ANY_RATE_PER_S), profile)
    return [
        point
        for busy, capacity_per_s in servers.items()
        for point in KEPT.points("open", capacity_per_s=capacity_per_s)
        if busy_point(point) == busy
    ]


def compare(
    runs: Sequence[RunRecord], profile: Profile, progress: Progress | None = None
) -> list[KeptLoad]:
    """Return each point with its runs and their simulations, by server, connections and load.

    *progress* is called with (runs simulated, runs in all).
    """
    by_point: dict[Point, list[RunRecord]] = {}
    for run in runs:
        by_point.setdefault(run.point, []).append(run)
    capacity_of = capacities(by_point, profile)
    chosen = {
        point: [run for run in own if run.accepted] or own[-1:] for point, own in by_point.items()
    }
    total, done, found = sum(map(len, chosen.values())), itertools.count(1), []
    for point in sorted(by_point, key=_order):
        simulated = []
        for run in chosen[point]:
            simulated.append(simulated_figures(run, profile))
            if progress:
                progress(next(done), total)
        found.append(
            KeptLoad(
                point=point,
                load=point.rate_per_s / capacity_of[busy_point(point)],
                measured=tuple(figures_of_run(run) for run in by_point[point] if run.accepted),
                simulated=tuple(simulated),
                offered_shares=tuple(map(offered_share, chosen[point])),
                rejected=tuple(run for run in by_point[point] if not run.accepted),
            )
        )
    return found


def _order(point: Point) -> tuple[str, int, float]:
    return point.server.mechanism, point.load.connections or 0, point.rate_per_s


def simulated_figures(run: RunRecord, profile: Profile) -> Figures:
    """Return the metrics of the simulation of *run*: the same requests at the same times."""
    asked = run.point.lasting(run.warm_up_ns, run.window_ns)
    return figures_of_summary(run_job(job_of(asked, profile, run.seed)).summary, keeps=True)


_NOTE = (
    "Loads are shares of the simulated capacity: the requests per second that the server replies "
    "to if every connection always has one. Medians over the valid runs, ± half the range. "
)
RATES_NOTE = (
    f"{_NOTE}Target: within {REQUESTS_WITHIN:.0%} of the measurement. Offered: share of the "
    f"rate that the load generator sent; a run with less than {OFFERED_LEAST:.0%}, or with a lost "
    f"connection, is invalid. {DASH}: no valid run. A server that keeps up replies at "
    "the offered rate, so a rate is evidence only where requests wait; CPU and response times are "
    "evidence earlier."
)
TIMES_NOTE = (
    f"{_NOTE}Time from the due time of a request until the last byte of its reply, over requests "
    "with a reply. Nothing is promised."
)
CPU_NOTE = (
    f"{_NOTE}CPU: busy share of the server's CPU, its error in points; {DASH} if other programs "
    f"used {FOREIGN_SHARE_MAX:.0%} of it or more. Per request: CPU time of the server's process by "
    "its own clock. Nothing is promised."
)


def kept_tables(loads: Sequence[KeptLoad]) -> list[Table]:
    """Return the tables of *loads*: rates, response times, CPU, and the invalid runs."""
    first: list[Column[KeptLoad]] = [
        Column("server", lambda e: e.point.server.mechanism, words=True),
        Column("connections", lambda e: f"{e.point.load.connections:,}"),
        Column("load", lambda e: f"{e.load:.2f}"),
    ]
    rates = [
        Column[KeptLoad]("rate", lambda e: rate_text(e.point.rate_per_s)),
        Column[KeptLoad]("offered", lambda e: share_text(min(e.offered_shares))),
        Column[KeptLoad]("runs", lambda e: f"{len(e.measured)}"),
        *_beside("throughput_per_s", rate_text),
        Column[KeptLoad]("verdict", lambda e: e.verdict or DASH),
    ]
    times = [*_beside("p50_ns", time_text, "p50"), *_beside("p99_ns", time_text, "p99")]
    cpu = [
        *_beside("cpu_busy", share_text, "CPU", in_points=True),
        *_beside("process_ns_per_request", time_text, "per request"),
    ]
    tables = [
        Table.of("Kept connections: requests per second", loads, [*first, *rates], RATES_NOTE),
        Table.of("Kept connections: response times", loads, [*first, *times], TIMES_NOTE),
        Table.of("Kept connections: CPU", loads, [*first, *cpu], CPU_NOTE),
    ]
    rejected = [
        (run.point.label, str(run.repeat), run.reason) for entry in loads for run in entry.rejected
    ]
    if rejected:
        headings = ("point", "round", "reason")
        tables.append(Table.of_cells("Invalid runs", headings, rejected, n_words=3))
    return tables


def _beside(
    name: str, text: Callable[[float], str], heading: str = "measured", *, in_points: bool = False
) -> list[Column[KeptLoad]]:
    """Return the columns of a metric: measured with its noise, simulated, and the error."""

    def measured(entry: KeptLoad) -> str:
        value, noise = entry.of_runs(name), entry.noise(name)
        if math.isnan(value):
            return DASH
        return text(value) if math.isnan(noise) else f"{text(value)} ± {text(noise)}"

    def error(entry: KeptLoad) -> str:
        found, wanted = entry.forecast(name), entry.of_runs(name)
        value = found - wanted if in_points else ratio(found, wanted) - 1
        return DASH if math.isnan(value) else f"{100 * value:+.1f}{'' if in_points else '%'}"

    return [
        Column(heading, measured),
        Column("simulated", lambda entry: text(entry.forecast(name))),
        Column("error", error),
    ]
