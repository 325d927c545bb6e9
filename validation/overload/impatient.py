"""Clients that give up, measured and simulated: below the knee all are served, past it none.

    profile ─► closed loop ─► capacity ─► points at 0.8 ... 1.5 of it ─► impatient.jsonl
    impatient.jsonl ─► runs ─► the same arrivals at the profile's costs ─► loads, knees ─► tables

    dispatchsim lab impatient FOLDER --profile PROFILE

The server computes for each request, and a client without a reply in time resets its connection. A
late server then works for clients that are gone. Nothing is fitted to these runs.
Sources: Mogul and Ramakrishnan 1997, "Eliminating receive livelock in an interrupt-driven kernel"
(goodput that falls with load); Floyd and Fall 1999, "Promoting the use of end-to-end congestion
control in the Internet", section 3 (congestion collapse from undelivered packets).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...calibration.measure.macro import Timing
from ...calibration.points.point import Point
from ...calibration.points.points import IMPATIENT
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.generator_gate import OFFERED_LEAST, offered_share
from ...calibration.records.measured_runs import RunRecord
from ...calibration.running.preparation import job_of, run_job
from ...scenario.formats import rate_text, share_text
from ...scenario.quantities import DURATION
from ...sim.figures.summary import summarise
from ...sim.files.tables import DASH, Column, Table
from ...sim.state.units import SECOND_NS, round_ns
from ..points.figures import figures_of_summary, median, ratio
from ..points.measured_points import MISSED, REACHED, figures_of_run
from .overload import at_its_prices, with_tick_of

BELOW_WITHIN = 0.05
"""Bound on the error below the knee, as a share of the measured replies."""
PAST_WITHIN_PER_S = 500.0
KNEE_WITHIN = 0.05
"""Bound on the error of the knee, as a share of the load. Loads this close to the measured knee
have no verdict of their own: chance decides on which side of it a run settles."""
KNEE_REPLIED = 0.9
"""The knee is the load above which a smaller share of the connections gets a reply."""
_SEED = 1

Progress = Callable[[int, int], None]
_NAN = math.nan


class Result(NamedTuple):
    """The compared metrics of a run."""

    replied_per_s: float
    cpu_busy: float


@dataclass(frozen=True)
class MeasuredLoad:
    """One point: its valid and invalid runs, and the simulation of each.

    `load` is the rate over the simulated capacity. Without a valid run, the simulations repeat the
    invalid ones.
    """

    point: Point
    load: float
    measured: tuple[Result, ...]
    simulated: tuple[Result, ...]
    offered_shares: tuple[float, ...]
    rejected: tuple[RunRecord, ...]

    @property
    def replied_per_s(self) -> float:
        """The median of the measured replies; NaN without a valid run."""
        return median([result.replied_per_s for result in self.measured])

    @property
    def forecast_per_s(self) -> float:
        """The median of the simulated replies."""
        return median([result.replied_per_s for result in self.simulated])

    @property
    def noise_per_s(self) -> float:
        """Half the range of the measured replies; NaN with one run."""
        found = [result.replied_per_s for result in self.measured]
        return (max(found) - min(found)) / 2 if len(found) > 1 else _NAN


@dataclass(frozen=True)
class Knee:
    """The load at which replies fall behind at one timeout, by `knee_of`."""

    timeout_ns: int
    capacity_per_s: float
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """The relative error of the simulated knee; NaN if nothing was measured."""
        return ratio(self.simulated, self.measured) - 1


def capacity_per_s(profile: Profile) -> float:
    """Return the simulated throughput of the server in a closed loop, in connections per second."""
    (point,) = IMPATIENT.points("capacity")
    timing = Timing()
    warm_up_ns, window_ns = (
        round_ns(seconds * SECOND_NS) for seconds in (timing.warm_up_s, timing.window_s)
    )
    asked = with_tick_of(point.lasting(warm_up_ns, window_ns), profile)
    return figures_of_summary(run_job(job_of(asked, profile, _SEED)).summary).throughput_per_s


def points_of(profile: Profile) -> list[Point]:
    """Return the points to measure: loads around the capacity by *profile*."""
    return IMPATIENT.points("open", capacity_per_s=capacity_per_s(profile))


def compare(
    runs: Sequence[RunRecord], profile: Profile, progress: Progress | None = None
) -> list[MeasuredLoad]:
    """Return each point with its runs and their simulations, by timeout and load.

    *progress* is called with (runs simulated, runs in all).
    """
    capacity = capacity_per_s(profile)
    by_point: dict[Point, list[RunRecord]] = {}
    for run in runs:
        by_point.setdefault(run.point, []).append(run)
    chosen = {
        point: [run for run in own if run.accepted] or own[-1:] for point, own in by_point.items()
    }
    total, done, found = sum(map(len, chosen.values())), itertools.count(1), []
    for point in sorted(by_point, key=lambda point: (point.load.timeout, point.rate_per_s)):
        simulated = []
        for run in chosen[point]:
            simulated.append(_simulated(run, profile))
            if progress:
                progress(next(done), total)
        accepted = [run for run in by_point[point] if run.accepted]
        found.append(
            MeasuredLoad(
                point=point,
                load=point.rate_per_s / capacity,
                measured=tuple(map(_measured, accepted)),
                simulated=tuple(simulated),
                offered_shares=tuple(map(offered_share, chosen[point])),
                rejected=tuple(run for run in by_point[point] if not run.accepted),
            )
        )
    return found


def _measured(run: RunRecord) -> Result:
    figures = figures_of_run(run)
    return Result(figures.throughput_per_s, figures.cpu_busy)


def _simulated(run: RunRecord, profile: Profile) -> Result:
    """Return the simulation of *run*: the same connections at the same times."""
    asked = with_tick_of(run.point.lasting(run.warm_up_ns, run.window_ns), profile)
    outcome = at_its_prices(job_of(asked, profile, run.seed), profile)
    figures = figures_of_summary(summarise(outcome))
    return Result(figures.throughput_per_s, figures.cpu_busy)


def knees(loads: Sequence[MeasuredLoad]) -> list[Knee]:
    """Return the knee of each timeout, measured and simulated over the same loads."""
    found = []
    for timeout_ns in dict.fromkeys(entry.point.load.timeout for entry in loads):
        own = [e for e in loads if e.point.load.timeout == timeout_ns and e.measured]
        measured, simulated = (
            knee_of([(e.load, ratio(per_s, e.point.rate_per_s)) for e, per_s in pairs])
            for pairs in (
                [(e, e.replied_per_s) for e in own],
                [(e, e.forecast_per_s) for e in own],
            )
        )
        unit = own[0].point.rate_per_s / own[0].load if own else _NAN
        found.append(Knee(timeout_ns, unit, measured, simulated))
    return found


def knee_of(replied: Sequence[tuple[float, float]]) -> float:
    """Return the load at which the share of replies falls below KNEE_REPLIED.

    It is NaN if the share never falls below, and 0 if it does so at the lightest load. *replied*
    are pairs of load and share, by load; between two pairs the share is linear.

    >>> knee_of([(0.9, 1.0), (1.0, 1.0), (1.1, 0.0)])
    1.01
    """
    if replied and replied[0][1] < KNEE_REPLIED:
        return 0.0
    for (load, share), (next_load, next_share) in itertools.pairwise(replied):
        if share >= KNEE_REPLIED > next_share:
            part = (share - KNEE_REPLIED) / (share - next_share)
            return round(load + part * (next_load - load), 9)
    return _NAN


def verdict_of(entry: MeasuredLoad, knee: float) -> str:
    """Return the verdict on the forecast of *entry*; "" if nothing is promised.

    *knee* is the measured one, by `knee_of`.
    """
    if not entry.measured:
        return ""
    error_per_s = abs(entry.forecast_per_s - entry.replied_per_s)
    if abs(ratio(entry.load, knee) - 1) <= KNEE_WITHIN:
        return ""
    is_past = entry.load > knee
    within = PAST_WITHIN_PER_S if is_past else BELOW_WITHIN * entry.replied_per_s
    return REACHED if error_per_s <= within else MISSED


NOTE = (
    f"Loads are shares of the simulated capacity. Medians over the valid runs, ± half the range. "
    f"Target: within {BELOW_WITHIN:.0%} of the measurement below the knee, within "
    f"{PAST_WITHIN_PER_S:.0f}/s past it, none closer to it than {KNEE_WITHIN:.0%}. Offered: share "
    f"of the rate that the load generator sent; a run with less than {OFFERED_LEAST:.0%} is "
    f"invalid. {DASH}: nothing is promised, or no valid run."
)
_KNEE_NOTE = (
    f"The load at which less than {KNEE_REPLIED:.0%} of the connections get a reply, interpolated "
    f"between two loads. Target: within {KNEE_WITHIN:.0%}."
)


def impatient_tables(loads: Sequence[MeasuredLoad]) -> list[Table]:
    """Return the tables of *loads*: every load, the knees, and the invalid runs."""
    found = knees(loads)
    measured_knee = {knee.timeout_ns: knee.measured for knee in found}
    columns: list[Column[MeasuredLoad]] = [
        Column("timeout", lambda e: DURATION.format(e.point.load.timeout), words=True),
        Column("load", lambda e: f"{e.load:.2f}"),
        Column("rate", lambda e: rate_text(e.point.rate_per_s)),
        Column("offered", lambda e: share_text(min(e.offered_shares))),
        Column("runs", lambda e: f"{len(e.measured)}"),
        Column("measured", _measured_text),
        Column("simulated", lambda e: rate_text(e.forecast_per_s)),
        Column("error", _error_text),
        Column("CPU", lambda e: _cpu_text(e.measured)),
        Column("simulated CPU", lambda e: _cpu_text(e.simulated)),
        Column("verdict", lambda e: verdict_of(e, measured_knee[e.point.load.timeout]) or DASH),
    ]
    knee_columns: list[Column[Knee]] = [
        Column("timeout", lambda k: DURATION.format(k.timeout_ns), words=True),
        Column("capacity", lambda k: rate_text(k.capacity_per_s)),
        Column("measured", lambda k: _load_text(k.measured)),
        Column("simulated", lambda k: _load_text(k.simulated)),
        Column("error", lambda k: DASH if math.isnan(k.error) else f"{k.error:+.1%}"),
        Column("verdict", _knee_verdict),
    ]
    tables = [
        Table.of("Clients that give up: replies per second", loads, columns, NOTE),
        Table.of("Knees", found, knee_columns, _KNEE_NOTE),
    ]
    rejected = [
        (run.point.label, str(run.repeat), run.reason) for entry in loads for run in entry.rejected
    ]
    if rejected:
        headings = ("point", "round", "reason")
        tables.append(Table.of_cells("Invalid runs", headings, rejected, n_words=3))
    return tables


def _measured_text(entry: MeasuredLoad) -> str:
    if not entry.measured:
        return DASH
    around = "" if math.isnan(entry.noise_per_s) else f" ± {entry.noise_per_s:,.0f}"
    return f"{rate_text(entry.replied_per_s)}{around}"


def _error_text(entry: MeasuredLoad) -> str:
    error_per_s = entry.forecast_per_s - entry.replied_per_s
    return DASH if math.isnan(error_per_s) else f"{error_per_s:+,.0f}/s"


def _cpu_text(results: Sequence[Result]) -> str:
    busy = median([result.cpu_busy for result in results])
    return DASH if math.isnan(busy) else share_text(busy)


def _load_text(load: float) -> str:
    if not load:
        return "below all loads"
    return DASH if math.isnan(load) else f"{load:.3f}"


def _knee_verdict(knee: Knee) -> str:
    if not knee.measured or math.isnan(knee.measured):
        return DASH
    # A simulation without a knee is missed, too: NaN compares as false.
    return REACHED if abs(knee.error) <= KNEE_WITHIN else MISSED
