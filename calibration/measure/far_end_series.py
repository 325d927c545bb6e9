"""Compare the two load generators against the C server: highest load, and CPU of the server.

    for each rate:     far_end, load                       in turn: offered load, start delay
    for low rates:     (far_end, load) (load, far_end) ... in turn: CPU of the server a connection

Both run in the same namespaces, one after the other. The client's kernel receives on the server's
CPU (rps_cpus of the client's end is 0), so the server's CPU does its work. With far_end, the
server's CPU only copies headers into the ring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...sim.files.tables import DASH, Column, Table
from ...sim.state.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from ..points.point import Point, point_at, trace_to_replay
from ..records.measured_runs import Gaps
from ..records.noise import Series
from ..records.run_result import Records
from ..testbed.c_build import Programs
from ..testbed.testbed import Testbed
from .macro import UNTIMED_NS, Replayed, Timing, run_trace

RATES_PER_S = (5_000, 10_000, 20_000, 40_000, 60_000, 100_000, 200_000)
PAIRED_RATES_PER_S = (2_000, 5_000)
"""Rates below half the capacity of the slowest machine: both generators reach them anywhere."""
CLIENTS = ("far_end", "load")
TIMING = Timing(warm_up_s=0.4, window_s=1.5, calibration_ms=20)
QUIET_SHARE_LEAST = 0.9
"""Least share of connections outside gaps: fewer do not represent the rest of the run."""
_FAR_CONNECTIONS = 1_000_000
"""Connections at once by far_end: sixteen addresses of 64,512 ports. load needs descriptors."""

_MEANS_LATE = (
    "start delay of connections, except in the first "
    f"{UNTIMED_NS / MILLISECOND_NS:g} ms of the window, where the harness disturbs the generator"
)

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One run of one generator; times in ns, rates per second, CPU in ns per replied connection.

    Fields with `quiet` count connections that no recorded gap of the generator's CPU delayed.
    `process_ns` is the CPU time of the server's process. `busy_ns` is the busy time of its CPU
    without the user time of other processes.
    """

    client: str
    rate_per_s: float
    started_per_s: float
    lag_p50_ns: float
    lag_p99_ns: float
    lag_p999_ns: float
    lag_max_ns: float
    lag_p99_quiet_ns: float
    lag_p999_quiet_ns: float
    quiet_share: float
    replied_per_s: float
    p50_ns: float
    p99_ns: float
    process_ns: float
    busy_ns: float


@dataclass(frozen=True)
class Paired:
    """The server's CPU time per connection with each client at one rate, by round, in ns."""

    rate_per_s: float
    far_end: Sequence[Run]
    load: Sequence[Run]

    def values(self, client: str, clock: str) -> NDArray[np.float64]:
        """Return the times of *clock*, `process_ns` or `busy_ns`, by round."""
        return np.array([getattr(run, clock) for run in getattr(self, client)])

    def differences(self, clock: str) -> NDArray[np.float64]:
        """Return the cost of the client's kernel, by round."""
        return self.values("load", clock) - self.values("far_end", clock)


def measure_series(
    testbed: Testbed,
    programs: Programs,
    *,
    rates_per_s: Iterable[float] = RATES_PER_S,
    timing: Timing = TIMING,
    progress: Progress,
) -> list[Run]:
    """Return a run of each generator at each rate.

    Raises
    ------
    RunError
        If a process of a run ends early or does not answer in time.
    """
    run = partial(run_of, testbed=testbed, programs=programs, timing=timing)
    measured = []
    for rate_per_s in rates_per_s:
        for client in CLIENTS:
            progress(f"{rate_per_s:,.0f} connections/s by {client}")
            measured.append(run(client, rate_per_s, 0))
    return measured


def measure_pairs(
    testbed: Testbed,
    programs: Programs,
    *,
    rounds: int,
    rates_per_s: Iterable[float] = PAIRED_RATES_PER_S,
    timing: Timing = TIMING,
    progress: Progress,
) -> list[Paired]:
    """Return *rounds* pairs of runs at each rate; the order alternates by round.

    Raises
    ------
    RunError
        If a process of a run ends early or does not answer in time.
    """
    run = partial(run_of, testbed=testbed, programs=programs, timing=timing)
    rates = list(rates_per_s)
    runs: dict[tuple[float, str], list[Run]] = {(r, c): [] for r in rates for c in CLIENTS}
    for number in range(rounds):
        for rate_per_s in rates:
            for client in CLIENTS if number % 2 == 0 else reversed(CLIENTS):
                progress(f"round {number + 1}: {rate_per_s:,.0f} connections/s by {client}")
                runs[rate_per_s, client].append(run(client, rate_per_s, number))
    return [Paired(r, runs[r, "far_end"], runs[r, "load"]) for r in rates]


def run_of(
    client: str,
    rate_per_s: float,
    repeat: int,
    *,
    testbed: Testbed,
    programs: Programs,
    timing: Timing,
) -> Run:
    """Measure one run of *client* in *testbed*, which has a packet client."""
    point = point_at(mechanism="epoll_level", loop="open", rate_per_s=rate_per_s)
    trace = trace_to_replay(point, point.seed(repeat), timing.run_seconds(point))
    options: tuple[str, ...] = ("--fd-limit", str(_FAR_CONNECTIONS))
    if client == "load":
        testbed, options = replace(testbed, steering="namespaces", far_end=()), ()
    replayed = run_trace(
        point, trace, testbed=testbed, programs=programs, series=Series(), timing=timing,
        load_options=options,
    )  # fmt: skip
    return _summed_up(client, point, replayed)


def _summed_up(client: str, point: Point, replayed: Replayed) -> Run:
    window, result = replayed.window, replayed.result
    seconds = window.length_ns / SECOND_NS
    records = replayed.records
    is_due = window.times(records.intended_ns) & (records.started_ns >= 0)
    lag_ns = (records.started_ns - records.intended_ns)[is_due]
    is_quiet = is_due & ~held_up(records, replayed.gaps)
    quiet_ns = (records.started_ns - records.intended_ns)[is_quiet]
    n_started = int(window.contains(records.started_ns).sum())
    latency = result.latency_ns
    n_replied = result.replied or float("nan")
    foreign_ns = replayed.noise.foreign_share * window.length_ns
    lags = _quantiles(lag_ns, (0.5, 0.99, 0.999, 1))
    quiet = _quantiles(quiet_ns, (0.99, 0.999))
    return Run(
        client=client,
        rate_per_s=point.rate_per_s,
        started_per_s=n_started / seconds,
        lag_p50_ns=lags[0],
        lag_p99_ns=lags[1],
        lag_p999_ns=lags[2],
        lag_max_ns=lags[3],
        lag_p99_quiet_ns=quiet[0],
        lag_p999_quiet_ns=quiet[1],
        quiet_share=float(quiet_ns.size / lag_ns.size) if lag_ns.size else 0.0,
        replied_per_s=result.replied / seconds,
        p50_ns=latency.p50 if latency else float("nan"),
        p99_ns=latency.p99 if latency else float("nan"),
        process_ns=result.cpu.process_ns / n_replied,
        busy_ns=max(result.cpu.busy_ns - foreign_ns, 0) / n_replied,
    )


def _quantiles(values_ns: NDArray[np.int64], levels: Sequence[float]) -> list[float]:
    """Return the quantiles of *values_ns*, nan if there are no values."""
    if not values_ns.size:
        return [float("nan")] * len(levels)
    return [float(value) for value in np.quantile(values_ns, levels)]


def held_up(records: Records, gaps: Gaps) -> NDArray[np.bool_]:
    """Return which connections of an open loop began late because of one of *gaps*.

    A gap delays connections until the generator has caught up: until a connection begins later than
    intended by less than the shortest recorded gap. An overloaded generator never catches up; the
    remaining connections are then too few to represent the run (`QUIET_SHARE_LEAST`).

    >>> at_ns = np.array([0, 10, 20, 30])
    >>> records = Records(at_ns, at_ns + [1, 9, 5, 1], at_ns, at_ns, at_ns)
    >>> gap = Gaps(above_ns=4, n=1, lost_ns=6, at_ns=[12], length_ns=[6])
    >>> held_up(records, gap).tolist()
    [False, True, True, False]
    """
    held = np.zeros(records.intended_ns.size, np.bool_)
    order = np.flatnonzero(records.started_ns >= 0)
    intended_ns, started_ns = records.intended_ns[order], records.started_ns[order]
    has_caught_up = started_ns - intended_ns < gaps.above_ns
    caught_up = np.append(np.flatnonzero(has_caught_up), order.size)
    for begin_ns, length_ns in zip(gaps.at_ns, gaps.length_ns, strict=True):
        first = int(np.searchsorted(started_ns, begin_ns))
        after = int(np.searchsorted(intended_ns, begin_ns + length_ns))
        until = int(caught_up[np.searchsorted(caught_up, max(first, after))])
        held[order[first:until]] = True
    return held


def series_table(runs: Sequence[Run]) -> Table:
    """Return a row for each run: offered load, start delay, replies."""
    return Table.of(
        "Connections per second against the C server (epoll_level): packet client, kernel client",
        list(runs),
        [
            Column("requested / s", lambda r: r.rate_per_s, "{:,.0f}".format),
            Column("client", lambda r: r.client, words=True, whole=True),
            Column("started / s", lambda r: r.started_per_s, "{:,.0f}".format),
            Column("start delay p50", lambda r: r.lag_p50_ns, _us, means=_MEANS_LATE),
            Column("p99", lambda r: r.lag_p99_ns, _us),
            Column("p99.9", lambda r: r.lag_p999_ns, _us),
            Column("worst", lambda r: r.lag_max_ns, _us),
            Column("p99 outside gaps", _quiet("lag_p99_quiet_ns"), _us),
            Column(
                "p99.9 outside gaps",
                _quiet("lag_p999_quiet_ns"),
                _us,
                means="start delay of connections that no recorded gap of the generator's CPU "
                f"delayed, if these are {QUIET_SHARE_LEAST:.0%} or more",
            ),
            Column("outside gaps", lambda r: r.quiet_share, "{:.1%}".format, means="their share"),
            Column("replies / s", lambda r: r.replied_per_s, "{:,.0f}".format),
            Column("p50", lambda r: r.p50_ns, _ms),
            Column("p99 ", lambda r: r.p99_ns, _ms),
            Column(
                "CPU",
                lambda r: r.process_ns,
                _us,
                means="CPU time of the server's process per replied connection",
            ),
        ],
    )


def _quiet(name: str) -> Callable[[Run], float]:
    """Return the field *name* of a run; NaN if gaps or overload delayed too many connections."""
    return lambda run: getattr(run, name) if run.quiet_share >= QUIET_SHARE_LEAST else float("nan")


def pairs_table(pairs: Sequence[Paired]) -> Table:
    """Return a row for each rate and clock: the server's CPU by client, and the difference."""
    rows = [(pair, clock) for pair in pairs for clock in ("process_ns", "busy_ns")]
    return Table.of(
        "Server's CPU per connection, and the cost of the client's kernel (medians of rounds)",
        rows,
        [
            Column("connections / s", lambda r: r[0].rate_per_s, "{:,.0f}".format),
            Column("clock", lambda r: _CLOCKS[r[1]], words=True),
            Column("rounds", lambda r: len(r[0].load), "{:d}".format),
            Column("load", lambda r: float(np.median(r[0].values("load", r[1]))), _us),
            Column("far_end", lambda r: float(np.median(r[0].values("far_end", r[1]))), _us),
            Column("difference", lambda r: float(np.median(r[0].differences(r[1]))), _us),
            Column("least", lambda r: float(r[0].differences(r[1]).min()), _us),
            Column("most", lambda r: float(r[0].differences(r[1]).max()), _us),
        ],
    )


_CLOCKS = {"process_ns": "process", "busy_ns": "CPU busy"}


def _us(ns: float) -> str:
    return DASH if math.isnan(ns) else f"{ns / MICROSECOND_NS:,.1f} us"


def _ms(ns: float) -> str:
    return DASH if math.isnan(ns) else f"{ns / MILLISECOND_NS:,.2f} ms"
