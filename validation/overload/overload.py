"""Overload, measured and simulated: connections by successful SYN, goodput, latency.

    overload.jsonl ─► accepted runs ─► the same arrivals, backlog, timeouts, retries ─┐
    profile ─► costs, as they are ────────────────────────────────────────────────────┴─► Compared

    dispatchsim lab overload FOLDER [--profile PROFILE]

Loads and goodput are in units of the capacity: the median of closed loops before and after each run
of the same server. Nothing is fitted to the overloaded runs, and no cost is scaled: the machine
must have a steady speed during the measurement.

Calls cost more with more open connections, whose number is an outcome. A first simulation at the
costs of no open connections finds it; a second one at the costs of that number is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...calibration.points.overload_points import OverloadPoint
from ...calibration.points.point import AnyPoint
from ...calibration.profiles.cost_profile import Profile
from ...calibration.records.overload_records import BIN_NS, OverloadRecord
from ...calibration.running.preparation import Job, job_of, record_job, with_engine
from ...models.simulate import Engine
from ...scenario.quantities import DURATION
from ...sim.figures.outcome import Outcome
from ...sim.figures.queue_lengths import SAMPLE_COLUMNS
from ...sim.figures.summary import summarise
from ...sim.files.parallel import run_all
from ...sim.state.kinds import Status
from ...sim.state.units import SECOND_NS
from ..points.figures import median, ratio
from ..points.measured_points import FOREIGN_SHARE_MAX

GOODPUT_WITHIN = 0.10
SHARE_WITHIN = 0.15
SHARE_LEAST = 0.01
"""Smaller shares are shown without a verdict: a 4 ms stall of a generator causes as many."""
CPU_WITHIN = 0.05
LATENCY_WITHIN = 0.15


Server = tuple[str, int, int]
"""Mechanism, accept limit, workers."""
Shares = tuple[float, float, float, float, float]
"""Shares of connections by each of four SYNs, and of those never connected."""


class OverloadFigures(NamedTuple):
    """The compared metrics of a run; NaN where there is none.

    Attributes
    ----------
    goodput:
        Connections with all replies per second of the window, over the capacity.
    at_once, second, third, fourth:
        Shares of the connections with a descriptor: connected by their first SYN, and by the next
        ones (after 1 s and 3 s; with linear time-outs after 1, 2 and 3 s).
    never:
        The share that was not connected when its client timed out.
    p50_ns, p99_ns:
        Latency of served connections, from the intended start.
    cpu_busy:
        Share of the window in which the server's CPU was not idle.
    """

    goodput: float
    at_once: float
    second: float
    third: float
    fourth: float
    never: float
    p50_ns: float
    p99_ns: float
    cpu_busy: float


@dataclass(frozen=True)
class Compared:
    """One point: medians over its accepted runs, measured and simulated, and their scatter.

    `scatter` is half the range of the measurements over their median; NaN with one run.
    `measured_goodput` and `simulated_goodput` are served connections per second over the capacity,
    in each tenth of a second of the run.
    """

    point: OverloadPoint
    load: float
    capacity_per_s: float
    measured: OverloadFigures
    simulated: OverloadFigures
    scatter: OverloadFigures
    n_runs: int
    n_rejected: int
    measured_goodput: tuple[float, ...]
    simulated_goodput: tuple[float, ...]


def syn_seconds(point: OverloadPoint) -> tuple[int, ...]:
    """Return when a client of *point* sends its SYNs, in seconds, until it times out.

    >>> from dispatchsim.calibration.points.overload_points import overload_point_at
    >>> syn_seconds(overload_point_at(mechanism="epoll_level", backlog=16, load=1.2))
    (0, 1, 3)
    """
    sent, wait, seconds = 0, 1, []
    linear = point.linear_syn_timeouts
    while sent * SECOND_NS < point.load.timeout:
        seconds.append(sent)
        sent += wait
        wait, linear = (wait, linear - 1) if linear > 0 else (2 * wait, 0)
    return tuple(seconds)


def shares(point: OverloadPoint, connect_bins: Sequence[int], n: int) -> Shares:
    """Return the shares of *n* connected by each of four SYNs, and the share never connected.

    A SYN may arrive shortly before its full second, as the sending kernel's clock has ticks.
    """
    edges = [0, *(10 * second - 1 for second in syn_seconds(point)[1:]), len(connect_bins)]
    counts = [sum(connect_bins[a:b]) for a, b in itertools.pairwise(edges)]
    first, second, third, fourth = [*counts, 0, 0, 0, 0][:4]
    never = n - sum(connect_bins)
    return (ratio(first, n), ratio(second, n), ratio(third, n), ratio(fourth, n), ratio(never, n))


def capacities(records: Sequence[OverloadRecord]) -> dict[Server, float]:
    """Return the capacity of each server in connections per second: the median of its closed loops.

    A single shipped closed loop, of two seconds, has 0.7 to 1.2 of it.
    """
    found: dict[Server, list[float]] = {}
    for record in records:
        loops = (record.capacity_before_per_s, record.capacity_after_per_s)
        found.setdefault(server_of(record.point), []).extend(loops)
    return {server: median(values) for server, values in found.items()}


def server_of(point: OverloadPoint) -> Server:
    """Return the settings that distinguish the server of *point*."""
    return point.server.mechanism, point.server.accept_limit, point.server.workers


def figures_of_record(record: OverloadRecord, capacity_per_s: float) -> OverloadFigures:
    """Return the metrics of a measured run of a server of that capacity."""
    result, delays = record.result, record.delays
    # The server also counts replies to clients that are gone, so the client counts connections.
    bins = slice(round(record.warm_up_ns / BIN_NS), _end_bin(record))
    goodput = ratio(sum(record.replied[bins]), (bins.stop - bins.start) * BIN_NS / SECOND_NS)
    latency = result.latency_ns
    quiet = record.noise.foreign_share < FOREIGN_SHARE_MAX
    # Each attempt has its own record, whose latency is not that of the user.
    tells_latency = record.point.load.retries == 0
    return OverloadFigures(
        goodput / capacity_per_s,
        *shares(record.point, delays.connect_bins, delays.n - delays.n_without_descriptor),
        latency.p50 if tells_latency and latency else float("nan"),
        latency.p99 if tells_latency and latency else float("nan"),
        result.cpu.busy_ns / record.window_ns if quiet else float("nan"),
    )


def _end_bin(record: OverloadRecord) -> int:
    return round((record.warm_up_ns + record.window_ns) / BIN_NS)


class Task(NamedTuple):
    """A measured run to simulate, and the profile of costs."""

    record: OverloadRecord
    profile: Profile


class SimulatedRun(NamedTuple):
    """A simulated run.

    `figures` are in units of a capacity of 1/s; `replied` counts connections in each bin of the
    run.
    """

    figures: OverloadFigures
    replied: tuple[int, ...]


Simulate = Callable[
    [Callable[[Task], SimulatedRun], Sequence[Task], Executor | None],
    Iterator[tuple[int, SimulatedRun]],
]
"""Like `run_all`: yields the index of each task with its result."""


def simulated_run(task: Task) -> SimulatedRun:
    """Simulate one run; it may run in a separate thread."""
    outcome = simulated(task.record, task.profile)
    replied = np.bincount(outcome.done_ns[outcome.status == Status.REPLIED] // BIN_NS)
    return SimulatedRun(_figures_of(task.record, outcome), tuple(map(int, replied)))


def _figures_of(record: OverloadRecord, outcome: Outcome) -> OverloadFigures:
    """Return the metrics of the simulation of *record*, counted as in measured runs."""
    point, delays = record.point, record.delays
    within = (outcome.intended_ns >= delays.begin_ns) & (outcome.intended_ns < delays.end_ns)
    started = within & (outcome.status != Status.DESCRIPTORS)
    connected = started & (outcome.connected_ns >= 0)
    bins = np.bincount(
        (outcome.connected_ns - outcome.started_ns)[connected] // BIN_NS,
        minlength=-(-record.run_ns // BIN_NS),
    )
    summary = summarise(outcome)
    return OverloadFigures(
        summary.connections.replied / (summary.window_ns / SECOND_NS),
        *shares(point, [int(n) for n in bins], int(started.sum())),
        summary.connections.lifetime_ns.p50,
        summary.connections.lifetime_ns.p99,
        summary.cpu_busy,
    )


def job_of_record(record: OverloadRecord, profile: Profile) -> Job:
    """Return the job that simulates *record*, at the costs of no open connections."""
    point = record.point.model_copy(update={"shares_cpu": record.steering != "far_end"})
    asked = point.at_rate(record.rate_per_s).lasting(record.warm_up_ns, record.window_ns)
    return job_of(with_tick_of(asked, profile), profile, record.seed)


def with_tick_of(point: AnyPoint, profile: Profile) -> AnyPoint:
    """Return *point* with the timer tick of the machine; Debian's if it is not recorded."""
    tick_ns = SECOND_NS // int(profile.machine.get("timer_hz", 250))
    return point.with_values(network={"timer_tick": DURATION.format(tick_ns)})


def simulated(record: OverloadRecord, profile: Profile, *, engine: Engine = "auto") -> Outcome:
    """Return the simulation of *record*: the same connections at the same times."""
    return at_its_prices(job_of_record(record, profile), profile, engine=engine)


def at_its_prices(job: Job, profile: Profile, *, engine: Engine = "auto") -> Outcome:
    """Return the outcome of *job* at the costs of the number of connections that it has open."""
    job = job._replace(scenario=with_engine(job.scenario, engine))
    n_open = mean_open(record_job(job)[1])
    costs = profile.costs(job.scenario.server.mechanism, open_connections=n_open)
    return record_job(job._replace(costs=costs))[1]


def mean_open(outcome: Outcome) -> int:
    """Return the mean number of open descriptors of the server over the samples in the window."""
    names = ("at_ns", "connections_open")
    at_ns, n_open = (outcome.samples[:, SAMPLE_COLUMNS.index(name)] for name in names)
    chosen = n_open[at_ns >= outcome.mark_ns]
    return round(float(chosen.mean())) if chosen.size else 0


def compare(
    records: Sequence[OverloadRecord],
    profile: Profile,
    *,
    simulate: Simulate = run_all,
    executor: Executor | None = None,
) -> list[Compared]:
    """Return each point with accepted runs, measured and simulated, in the order of points.

    *simulate* and *executor* simulate the runs; if absent, in this process, one after the other.
    """
    by_point: dict[OverloadPoint, list[OverloadRecord]] = {}
    for record in records:
        by_point.setdefault(record.point, []).append(record)
    units = capacities([record for record in records if record.accepted])
    accepted = {
        point: [run for run in by_point[point] if run.accepted]
        for point in sorted(by_point, key=_order)
    }
    tasks = [Task(run, profile) for runs in accepted.values() for run in runs]
    found = dict(simulate(simulated_run, tasks, executor))
    ended = iter([found[index] for index in range(len(tasks))])
    return [
        _compared(
            point,
            runs,
            list(itertools.islice(ended, len(runs))),
            len(by_point[point]) - len(runs),
            units[server_of(point)],
        )
        for point, runs in accepted.items()
        if runs
    ]


def _order(point: OverloadPoint) -> tuple[object, ...]:
    return (
        point.kind, -ord(point.server.mechanism[0]), point.server.backlog,
        point.linear_syn_timeouts, point.share, point.load.retries, point.load.retry_pause,
    )  # fmt: skip


def _compared(
    point: OverloadPoint,
    runs: Sequence[OverloadRecord],
    simulations: Sequence[SimulatedRun],
    n_rejected: int,
    capacity_per_s: float,
) -> Compared:
    measured = [figures_of_record(run, capacity_per_s) for run in runs]
    found = [
        each.figures._replace(goodput=each.figures.goodput / capacity_per_s) for each in simulations
    ]
    middle = OverloadFigures(*map(median, zip(*measured, strict=True)))
    return Compared(
        point=point,
        load=median([run.rate_per_s for run in runs]) / capacity_per_s,
        capacity_per_s=capacity_per_s,
        measured=middle,
        simulated=OverloadFigures(*map(median, zip(*found, strict=True))),
        scatter=OverloadFigures(
            *(
                ratio((max(column) - min(column)) / 2, value) if len(runs) > 1 else float("nan")
                for column, value in zip(zip(*measured, strict=True), middle, strict=True)
            )
        ),
        n_runs=len(runs),
        n_rejected=n_rejected,
        measured_goodput=_over_time([run.replied for run in runs], runs, capacity_per_s),
        simulated_goodput=_over_time([each.replied for each in simulations], runs, capacity_per_s),
    )


def _over_time(
    counts: Sequence[Sequence[int]], runs: Sequence[OverloadRecord], capacity_per_s: float
) -> tuple[float, ...]:
    """Return the mean over runs of replies per second over the capacity, in each bin."""
    n_bins = min(map(_end_bin, runs))
    rows = [
        (np.bincount(np.arange(len(c)), weights=c, minlength=n_bins)[:n_bins])
        * (SECOND_NS / BIN_NS / capacity_per_s)
        for c in counts
    ]
    return tuple(float(value) for value in np.mean(rows, axis=0))
