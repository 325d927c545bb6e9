"""Every measured run simulated by itself: the same arrivals, lengths and limits, free clients.

    run ─┬─ point, seed ─► the trace that the target played ─┐
         └─ lengths ───────────────────────────────────────── ┴─► RunForecast
    profile ─ central costs, clients that cost nothing ──────┘

There is nothing to draw and nothing to average: what differs is the model's fault, or a cost's. To
tell the two apart, every run is simulated again with all costs scaled so that the CPU is as busy
as it was measured: near the knee an error of 1% in the costs is one of 20% in latency, and what
remains of that is the structure's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...calibration.points.points import Point
from ...calibration.profiles.cost_tables import CostSource
from ...calibration.records.measured_runs import RunRecord
from ...sim.figures.metrics import Verdict, summarise
from ...sim.files.parallel import run_all
from ...sim.state.costs import Costs, Curve
from ...sim.state.units import round_ns
from ..forecast.forecast import Job, Lengths, outcome_of
from ..points.measured_points import ratio
from .run_figures import (
    Counts,
    RunFigures,
    measured_figures,
    simulated_counts,
    simulated_figures,
    simulated_ledger,
)

_SCALING_STEPS = 4
_SCALED_CLOSE = 0.0002
_SLOPE_MIN, _SLOPE_MAX = 0.3, 2.0  # of CPU time by costs; a batch more or less must not mislead


class RunJob(NamedTuple):
    """One run to simulate.

    `cpu_ns` is the measured server CPU per request, NaN if there is none to scale to.
    """

    job: Job
    cpu_ns: float = float("nan")


@dataclass(frozen=True)
class RunForecast:
    """What the simulator says of one run.

    `at_equal_cpu` are the figures with all costs scaled by the error of the CPU time; `counts` are
    per request; `ledger_ns` holds the CPU time per request of each activity.
    """

    figures: RunFigures
    at_equal_cpu: RunFigures
    counts: Counts
    ledger_ns: dict[str, float]
    verdict: Verdict


def run_job(point: Point, seed: int, lengths: Lengths, profile: CostSource) -> RunJob:
    """Return the job of a run at *point*."""
    return RunJob(Job.of(point, profile, seed, lengths, free_clients=True))


def job_of(record: RunRecord, profile: CostSource) -> RunJob:
    """Return the job that repeats a measured run."""
    lengths = Lengths(record.warm_up_ns, record.window_ns)
    job = run_job(record.point, record.seed, lengths, profile)
    return job._replace(cpu_ns=measured_figures(record).cpu_ns_per_request)


def run_forecasts(
    jobs: Sequence[RunJob],
    *,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[RunForecast]:
    """Return the forecast of each of *jobs*, in their order.

    Parameters
    ----------
    executor:
        Where runs are simulated; None: here, one after the other.
    progress:
        Called with (runs done, runs in all) as runs end.
    """
    found: dict[int, RunForecast] = {}
    for index, forecast in run_all(simulated, jobs, executor):
        found[index] = forecast
        if progress:
            progress(len(found), len(jobs))
    return [found[index] for index in range(len(jobs))]


def simulated(run: RunJob) -> RunForecast:
    """Simulate one run; a process of its own may be where."""
    summary = summarise(outcome_of(run.job))
    figures = simulated_figures(summary)
    return RunForecast(
        figures=figures,
        at_equal_cpu=_at_equal_cpu(run, figures),
        counts=simulated_counts(summary),
        ledger_ns=simulated_ledger(summary),
        verdict=summary.verdict,
    )


def _at_equal_cpu(run: RunJob, figures: RunFigures) -> RunFigures:
    """Return the figures with all costs multiplied by what makes the CPU as busy as measured.

    Higher costs make larger batches, which need less CPU time for each request: the factor is
    found by steps of the secant method on logarithms, and the closest of them counts.
    """
    error = _log_error(run, figures)
    if not math.isfinite(error):
        return figures
    best, log_factor, slope = figures, 0.0, 1.0
    for _ in range(_SCALING_STEPS):
        if not math.isfinite(error) or abs(error) < _SCALED_CLOSE:
            break  # a server that costs are too high for answers nobody
        step = -error / slope
        log_factor += step
        costs = scaled_costs(run.job.costs, math.exp(log_factor))
        figures = simulated_figures(summarise(outcome_of(run.job._replace(costs=costs))))
        last, error = error, _log_error(run, figures)
        slope = min(max((error - last) / step, _SLOPE_MIN), _SLOPE_MAX)
        if abs(error) < abs(_log_error(run, best)):
            best = figures
    return best


def _log_error(run: RunJob, figures: RunFigures) -> float:
    ratio_of_cpu = ratio(figures.cpu_ns_per_request, run.cpu_ns)
    return math.log(ratio_of_cpu) if ratio_of_cpu > 0 else math.nan


def scaled_costs(costs: Costs, factor: float) -> Costs:
    """Return *costs* with all CPU time of the server multiplied by *factor*."""
    interrupt = _scaled(costs.interrupt, factor)
    return costs._replace(
        # Leaving idleness takes time, but no CPU time.
        interrupt=interrupt._replace(idle_exit_ns=costs.interrupt.idle_exit_ns),
        call=_scaled(costs.call, factor),
        application=_scaled(costs.application, factor),
        mechanism=_scaled(costs.mechanism, factor),
    )


def _scaled(table: Any, factor: float) -> Any:
    """Return a cost, or a tuple of named costs, multiplied by *factor*."""
    if isinstance(table, int):
        return round_ns(table * factor)
    if isinstance(table, Curve):
        return Curve(table.at, tuple(round_ns(ns * factor) for ns in table.ns))
    return type(table)(*(_scaled(cost, factor) for cost in table))
