"""Every measured run simulated by itself: same arrivals, lengths and limits; clients cost no CPU.

    run ─┬─ point, seed ─► the trace that the target played ─┐
         └─ lengths ───────────────────────────────────────── ┴─► RunForecast
    profile ─ central costs, clients that cost nothing ──────┘

There are no random numbers and no averages: a difference comes from the model or from a cost. To
separate the two, every run is simulated again with all costs scaled so that the CPU is as busy as
measured. Near the knee an error of 1% in the costs is one of 20% in latency; the error that remains
after scaling comes from the structure of the model.

    RunFigures    the promised metrics: CPU, waits, events per wait, latency, throughput
    Counts        all counts per request, which show the structure that is wrong

A request is a reply that the server wrote within the window. Latency covers connections that were
due in the window and got their reply before its end, which is also the end of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...calibration.points.point import Point
from ...calibration.profiles.cost import CostSource
from ...calibration.records.measured_runs import RunRecord
from ...calibration.records.run_result import LEVELS
from ...calibration.running.preparation import Job, job_of, run_job
from ...sim.figures.summary import Summary, Verdict
from ...sim.files.parallel import run_all
from ...sim.state.costs import Costs, Curve
from ...sim.state.units import SECOND_NS, round_ns
from ..forecast.forecast import Lengths
from ..forecast.kept_runs import KeptRuns
from ..forecast.provenance import file_hash, simulation_hash
from ..points.figures import ratio

_SCALING_STEPS = 4
_SCALED_CLOSE = 0.0002
_SLOPE_MIN, _SLOPE_MAX = (
    0.3,
    2.0,
)  # slope of CPU time by costs; one batch more or less must not mislead
_NAN = float("nan")
_ON_THE_WIRE = 65_536
"""Packets that the device of the target may hold; no run has more at once."""
_RECEIVE_WINDOW = 502 << 7
"""Bytes that a client of the target offers (calibration/emulated/wire/segments.c)."""

COUNTED = {"interrupts": "interrupts", "packets": "packets_in", "switches": "switches"}
"""The field of a run's result for each simulated count."""
_NOT_SERVING = ("idle", "connect")
_SIMULATED = {"switches": "sleeps"}
"""Counters with another name in the simulator: the server is switched out to sleep."""


class RunFigures(NamedTuple):
    """The metrics of one run; NaN where there is none.

    Attributes
    ----------
    cpu_ns_per_request:
        Time in which the server's CPU was not idle, per request.
    waits_per_request, events_per_wait:
        Calls per request that wait for events, and events returned by each.
    mean_ns, p99_ns:
        Latency of a connection, from its due time to the last byte of its last reply.
    throughput_per_s:
        Requests per second of the window.
    """

    cpu_ns_per_request: float
    waits_per_request: float
    events_per_wait: float
    mean_ns: float
    p99_ns: float
    throughput_per_s: float


Counts = dict[str, float]
"""Numbers per request, by name of the counter."""


def measured_figures(record: RunRecord) -> RunFigures:
    """Return the metrics of a measured run."""
    result = record.result
    replies = result.calls.get("replies", 0)
    waits = result.calls.get("waits", 0)
    return RunFigures(
        cpu_ns_per_request=ratio(result.cpu.busy_ns, replies),
        waits_per_request=ratio(waits, replies),
        events_per_wait=ratio(result.calls.get("events", 0), waits),
        mean_ns=result.latency_ns.mean if result.latency_ns else _NAN,
        p99_ns=result.latency_ns.p99 if result.latency_ns else _NAN,
        throughput_per_s=replies * SECOND_NS / record.window_ns,
    )


def measured_counts(record: RunRecord) -> Counts:
    """Return all counts of a measured run, per request."""
    result = record.result
    own = {name: getattr(result, field) for name, field in COUNTED.items()}
    counted = {**result.calls, **{name: n for name, n in own.items() if n is not None}}
    if record.point.blocks:
        # The kernel counts the thread that started the others, which always sleeps.
        counted.pop("switches", None)
    return _per_request(counted)


def simulated_figures(summary: Summary) -> RunFigures:
    """Return the metrics of a simulated run."""
    replies, waits = summary.calls["replies"], summary.calls["waits"]
    return RunFigures(
        cpu_ns_per_request=ratio(summary.cpu.busy_ns, replies),
        waits_per_request=ratio(waits, replies),
        events_per_wait=ratio(summary.calls["events"], waits),
        mean_ns=summary.connections.lifetime_ns.mean,
        p99_ns=summary.connections.lifetime_ns.p99,
        throughput_per_s=replies * SECOND_NS / summary.window_ns,
    )


def simulated_counts(summary: Summary) -> Counts:
    """Return all counts of a simulated run, per request, by their measured names."""
    renamed = {name: summary.calls[ours] for name, ours in _SIMULATED.items()}
    return _per_request({**summary.calls, **renamed})


def simulated_ledger(summary: Summary) -> dict[str, float]:
    """Return the nanoseconds per request of each activity but idling, by lower-case name."""
    replies = summary.calls["replies"]
    spent_ns = summary.cpu.by_activity_ns
    return {name: ratio(ns, replies) for name, ns in spent_ns.items() if name not in _NOT_SERVING}


def _per_request(counted: dict[str, int]) -> Counts:
    replies = counted.get("replies", 0)
    return {name: ratio(n, replies) for name, n in counted.items() if name not in LEVELS}


class RunJob(NamedTuple):
    """One run to simulate.

    `cpu_ns` is the measured server CPU per request; NaN: no scaling.
    """

    job: Job
    cpu_ns: float = float("nan")


@dataclass(frozen=True)
class RunForecast:
    """The forecast of one run.

    `at_equal_cpu` are the metrics with all costs scaled by the error of the CPU time. `counts` are
    per request; `ledger_ns` holds the CPU time per request of each activity.
    """

    figures: RunFigures
    at_equal_cpu: RunFigures
    counts: Counts
    ledger_ns: dict[str, float]
    verdict: Verdict


def noise_free_job(point: Point, seed: int, lengths: Lengths, profile: CostSource) -> RunJob:
    """Return the job of a run at *point*, with clients that cost no CPU and a wire without loss.

    The device of the target polls its own list of packets (calibration/emulated/wire), so no packet
    finds a queue full.
    """
    machine = {"clients": "free", "receive_queue": _ON_THE_WIRE}
    network = {"receive_window": f"{_RECEIVE_WINDOW} B"}
    asked = point.lasting(*lengths).with_values(machine=machine, network=network)
    return RunJob(job_of(asked, profile, seed))


def repeating(record: RunRecord, profile: CostSource) -> RunJob:
    """Return the job that repeats a measured run."""
    lengths = Lengths(record.warm_up_ns, record.window_ns)
    job = noise_free_job(record.point, record.seed, lengths, profile)
    return job._replace(cpu_ns=measured_figures(record).cpu_ns_per_request)


def run_forecasts(
    jobs: Sequence[RunJob],
    *,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    kept: KeptRuns | None = None,
) -> list[RunForecast]:
    """Return the forecast of each of *jobs*, in their order.

    Parameters
    ----------
    executor:
        Simulates the runs; None: in this process, one after the other.
    progress:
        Called with (runs done, runs in all) as runs end.
    kept:
        Forecasts of earlier runs, from `kept_forecasts`.
    """
    found: dict[int, RunForecast] = {}
    for index, forecast in (kept or run_all)(simulated, jobs, executor):
        found[index] = forecast
        if progress:
            progress(len(found), len(jobs))
    return [found[index] for index in range(len(jobs))]


def kept_forecasts(folder: Path) -> KeptRuns:
    """Return the forecasts of runs that are stored in a report's *folder*."""

    def to_json(found: RunForecast) -> list[Any]:
        figures = [list(found.figures), list(found.at_equal_cpu)]
        return [*figures, found.counts, found.ledger_ns, str(found.verdict)]

    def of_json(row: list[Any]) -> RunForecast:
        figures, at_equal_cpu, counts, ledger_ns, verdict = row
        return RunForecast(
            RunFigures(*figures),
            RunFigures(*at_equal_cpu),
            counts,
            ledger_ns,
            Verdict(verdict),
        )

    code = f"{simulation_hash()} {file_hash(Path(__file__))}"
    path = folder / "simulated_noise_free.jsonl"
    return KeptRuns(path, code, to_json=to_json, of_json=of_json)


def simulated(run: RunJob) -> RunForecast:
    """Simulate one run; it may run in a separate process."""
    summary = run_job(run.job).summary
    figures = simulated_figures(summary)
    return RunForecast(
        figures=figures,
        at_equal_cpu=_at_equal_cpu(run, figures),
        counts=simulated_counts(summary),
        ledger_ns=simulated_ledger(summary),
        verdict=summary.verdict,
    )


def _at_equal_cpu(run: RunJob, figures: RunFigures) -> RunFigures:
    """Return the metrics with all costs multiplied so that the CPU is as busy as measured.

    Higher costs make larger batches, which need less CPU time per request. The factor is therefore
    found by steps of the secant method on logarithms; the closest step counts.
    """
    error = _log_error(run, figures)
    if not math.isfinite(error):
        return figures
    best, log_factor, slope = figures, 0.0, 1.0
    for _ in range(_SCALING_STEPS):
        if not math.isfinite(error) or abs(error) < _SCALED_CLOSE:
            break  # at too high costs the server sends no replies
        step = -error / slope
        log_factor += step
        costs = scaled_costs(run.job.costs, math.exp(log_factor))
        figures = simulated_figures(run_job(run.job._replace(costs=costs)).summary)
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
        # Leaving the idle state takes time, but no CPU time.
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
