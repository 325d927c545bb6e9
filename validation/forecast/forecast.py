"""The forecast of an operating point with an interval, made before its runs are read.

    point, profile ─┬─ central costs, every seed ──► median           ─┐
                    └─ drawn costs, seeds in turn ──► 95% interval     ─┴─► Forecast

A run is simulated as it was measured: the same trace, warm-up, window and options. Cost sample i is
the same at every point (common random numbers), so an error of a cost shifts a whole curve instead
of scattering along it. Runs are independent, and all random numbers are generated here, before runs
go to workers: a forecast does not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ...calibration.measure.macro import Timing
from ...calibration.points.point import Point, point_at
from ...calibration.profiles.cost_profile import Profile
from ...calibration.running.noise import AS_MEASURED, BothSides, gaps_of
from ...calibration.running.preparation import Job, job_of, open_connections
from ...scenario.percentiles import ends_in_order
from ...sim.figures.summary import Verdict
from ...sim.files.parallel import run_all
from ...sim.output_analysis.interval import prediction_interval
from ...sim.state.host_gaps import NO_GAPS, HostGaps
from ...sim.state.units import SECOND_NS, round_ns
from ..points.figures import Figures, Result, median, result_of
from .hour_prices import HourPrices, at_hour
from .kept_runs import KeptRuns

NEIGHBOURS = (0.9, 0.95, 1.05, 1.1)


SeedGaps = tuple[int, HostGaps]
"""The seed of a run, and the gaps of its client's CPU."""


class Lengths(NamedTuple):
    """The lengths of a run's warm-up and window."""

    warm_up_ns: int
    window_ns: int


class Request(NamedTuple):
    """One forecast to make; fields as the arguments of `forecast`.

    `own_gaps` holds the seed of each measured run that recorded the gaps of its client's CPU, and
    these gaps, from the start of the run; `other_gaps` has these seeds with gaps of another point's
    runs. `hour` are the costs measured around the runs.
    """

    point: Point
    seeds: tuple[int, ...]
    draws: int
    lengths: Lengths
    own_gaps: tuple[SeedGaps, ...] = ()
    other_gaps: tuple[SeedGaps, ...] = ()
    hour: HourPrices | None = None


@dataclass(frozen=True)
class Forecast:
    """The forecast of one point.

    `central` is the median over seeds at the central costs; `low` and `high` bound 95% of the runs
    over cost samples and seeds (NaN without cost samples, or if a metric does not exist), with
    percentiles in order of rank.
    `with_own_gaps` is the median over the seeds of measured runs, each simulated with the gaps that
    its run recorded on the client's CPU, and those of the profile, if it has any, on the server's.
    `with_other_gaps` is that with gaps that were recorded in runs of another point.
    `at_hour` is the median over seeds at the costs of the hour of the measured runs.
    """

    point: Point
    central: Figures
    low: Figures
    high: Figures
    verdict: Verdict
    seeds: tuple[int, ...]
    draws: int
    with_own_gaps: Figures | None = None
    with_other_gaps: Figures | None = None
    at_hour: Figures | None = None


def lengths_of(point: Point) -> Lengths:
    """Return the default lengths of the harness at *point*."""
    timing = Timing()
    return Lengths(
        round_ns(timing.warm_up_of(point) * SECOND_NS), round_ns(timing.window_s * SECOND_NS)
    )


def forecast(
    point: Point,
    profile: Profile,
    *,
    seeds: Sequence[int],
    draws: int,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    lengths: Lengths | None = None,
) -> Forecast:
    """Return the forecast of *point*.

    Parameters
    ----------
    point, profile:
        The operating point, and the costs.
    seeds:
        Seeds of the arrivals; the first alone if arrivals are not random.
    draws:
        Number of cost samples; 0 gives no interval.
    executor:
        Simulates the runs; None: in this process, one after the other.
    progress:
        Called with (runs done, runs in all) as runs end.
    lengths:
        Lengths of warm-up and window; None: those of the harness.

    Raises
    ------
    ValueError
        Without seeds, with a negative number of cost samples, or for a point without a simulation.
    """
    request = Request(point, tuple(seeds), draws, lengths or lengths_of(point))
    return next(forecasts([request], profile, executor=executor, progress=progress))[1]


def forecasts(
    requests: Sequence[Request],
    profile: Profile,
    *,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    kept: KeptRuns | None = None,
) -> Iterator[tuple[Request, Forecast]]:
    """Yield each of *requests* with its forecast as soon as its last run has ended.

    Parameters and errors as of `forecast`; *kept* holds results of earlier runs. Runs that have not
    begun are cancelled when the caller stops iterating.
    """
    jobs = [jobs_of(request, profile) for request in requests]
    flat = [(r, i) for r, own in enumerate(jobs) for i in range(len(own))]
    results: list[dict[int, Result]] = [{} for _ in requests]
    ended = (kept or run_all)(result_of, [jobs[r][i] for r, i in flat], executor)
    for n_done, (index, result) in enumerate(ended, start=1):
        r, i = flat[index]
        results[r][i] = result
        if progress:
            progress(n_done, len(flat))
        if len(results[r]) == len(jobs[r]):
            ordered = [results[r][i] for i in range(len(jobs[r]))]
            yield requests[r], combine(requests[r], ordered)


def jobs_of(request: Request, profile: Profile) -> list[Job]:
    """Return the runs of a forecast, in the order of their kinds.

    By seed, by cost sample, with own gaps, with gaps of another point's runs, and by seed at the
    costs of the hour. The latter three kinds are absent if the request lacks their data.
    """
    if not request.seeds:
        raise ValueError("a forecast needs at least one seed, got none")
    if request.draws < 0:
        raise ValueError(f"cost samples must be at least 0, got {request.draws}")
    asked = request.point.lasting(*request.lengths)
    seeds = request.seeds if asked.is_random else request.seeds[:1]

    central = [job_of(asked, profile, seed) for seed in seeds]
    drawn = [job_of(asked, profile, seeds[i % len(seeds)], draw=i) for i in range(request.draws)]
    server = gaps_of(AS_MEASURED, profile).server if profile.noise_file else NO_GAPS
    gaps = [
        job_of(asked, profile, seed)._replace(gaps=BothSides(server, client))
        for seed, client in (*request.own_gaps, *request.other_gaps)
    ]
    hourly = []
    if request.hour is not None:
        then = at_hour(profile, request.hour)
        hourly = [job_of(asked, then, seed) for seed in seeds]
    return central + drawn + gaps + hourly


def unknown(profile: Profile, point: Point) -> str | None:
    """Return why *profile* lacks the costs of *point*; None if it has them."""
    try:
        profile.costs(point.server.mechanism, open_connections=open_connections(point))
    except ValueError as error:
        return str(error)
    return None


def neighbours_of(request: Request) -> list[Request]:
    """Return the forecasts needed to read the curve of *request* between rates.

    In an open loop they have up to 10% less and more load, at central costs.
    """
    point = request.point
    if point.load.loop == "closed":
        return []
    rates = [round(point.rate_per_s * factor) for factor in NEIGHBOURS]
    alone = request._replace(draws=0, own_gaps=(), other_gaps=(), hour=None)
    return [alone._replace(point=point_at(point, rate_per_s=rate)) for rate in rates if rate > 0]


def combine(request: Request, results: Sequence[Result]) -> Forecast:
    """Return the forecast from the results of `jobs_of`, in that order."""
    n_gaps = len(request.own_gaps) + len(request.other_gaps)
    n_by_seed = len(results) - request.draws - n_gaps
    n_central = n_by_seed // 2 if request.hour else n_by_seed
    rest = iter([figures for figures, _ in results])
    central = list(islice(rest, n_central))
    drawn = list(islice(rest, request.draws))
    own = list(islice(rest, len(request.own_gaps)))
    other = list(islice(rest, len(request.other_gaps)))
    hourly = list(rest)
    severities = sorted((v for _, v in results[:n_central]), key=list(Verdict).index)
    bounds = [prediction_interval(column) for column in zip(*drawn, strict=True)]
    if not bounds:
        bounds = [(float("nan"), float("nan"))] * len(Figures._fields)
    ends = ends_in_order(dict(zip(Figures._fields, bounds, strict=True)))
    low, high = (Figures(*column) for column in zip(*ends.values(), strict=True))
    return Forecast(
        point=request.point,
        central=_medians(central),
        low=low,
        high=high,
        verdict=severities[len(severities) // 2],
        seeds=request.seeds,
        draws=request.draws,
        with_own_gaps=_medians(own) if own else None,
        with_other_gaps=_medians(other) if other else None,
        at_hour=_medians(hourly) if hourly else None,
    )


def _medians(found: Sequence[Figures]) -> Figures:
    return Figures(*(median(column) for column in zip(*found, strict=True)))
