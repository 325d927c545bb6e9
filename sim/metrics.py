"""From the record of a run to the figures people quote: rates, latencies, errors, CPU, queues.

All figures are of the measured window, from the mark to the end of the run. Latency runs from the
*intended* send time of a connection's first request to the last byte of its last reply, for
connections that were due in the window (coordinated omission cannot hide in it).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from .happenings import SAMPLE_COLUMNS
from .kinds import Activity, Count, Status
from .outcome import Integers, Outcome
from .units import MILLISECOND_NS, SECOND_NS

REPLY_INTERVAL_NS = 100 * MILLISECOND_NS
"""Intervals of the reply rate, as in the measured runs (httperf uses 5 s)."""


class Verdict(StrEnum):
    """How the server coped.

    STABLE: it answered what came. BACKLOGGED: it answered nearly all, but the queue was longer at
    the end than at the beginning, or some clients failed. OVERLOADED: it fell behind for good, and
    latencies say how long the run was rather than how fast the server is.
    """

    STABLE = "stable"
    BACKLOGGED = "backlogged"
    OVERLOADED = "overloaded"


@dataclass(frozen=True)
class Latency:
    """Quantiles in ns; NaN where nobody was answered."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Rate:
    """Replies per second over intervals: the line that httperf prints."""

    min: float
    mean: float
    max: float
    sd: float


@dataclass(frozen=True)
class Cpu:
    """CPU time of the window in ns, accounted in three ways that people take for one.

    process_ns is what getrusage says (interrupts that hit the process included, those that hit
    idleness not), busy_ns all that was not idle (/proc/stat), idle_ns the idle counter.
    """

    process_ns: int
    busy_ns: int
    idle_ns: int
    by_activity_ns: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """The figures of one run."""

    window_ns: int
    offered: int
    accepted: int
    replied: int
    errors: dict[str, int]
    latency_ns: Latency
    reply_rate_per_s: Rate
    calls: dict[str, int]
    events_per_wait: float
    cpu: Cpu
    queue_max: dict[str, int]
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, for JSON."""
        return asdict(self)

    @property
    def throughput_per_s(self) -> float:
        """Connections answered in full, per second of the window."""
        return self.replied * SECOND_NS / self.window_ns

    @property
    def cpu_busy(self) -> float:
        """Share of the window in which the server's CPU was not idle."""
        return self.cpu.busy_ns / self.window_ns


def summarise(outcome: Outcome) -> Summary:
    """Return the figures of *outcome*'s window."""
    begin_ns, end_ns = outcome.mark_ns, outcome.duration_ns
    window_ns = end_ns - begin_ns
    due = (outcome.intended_ns >= begin_ns) & (outcome.intended_ns < end_ns)
    done = (outcome.status == int(Status.REPLIED)) & (outcome.done_ns >= begin_ns)
    counts = outcome.counts - outcome.counts_mark
    calls = {count.name.lower(): int(counts[count]) for count in Count}
    calls["connections_open"] = int(outcome.counts[Count.CONNECTIONS_OPEN])
    answered = due & (outcome.status == int(Status.REPLIED))
    ended = {
        status.name.lower(): int(np.sum(due & (outcome.status == int(status))))
        for status in (Status.TIMEOUT, Status.REFUSED, Status.RESET, Status.DESCRIPTORS)
    }
    return Summary(
        window_ns=window_ns,
        offered=int(np.sum(due)),
        accepted=calls["accepts"],
        replied=int(np.sum(done)),
        errors=ended,
        latency_ns=latency((outcome.done_ns - outcome.intended_ns)[answered]),
        reply_rate_per_s=reply_rate(outcome.done_ns[done], begin_ns, end_ns),
        calls=calls,
        events_per_wait=calls["events"] / max(1, calls["waits"]),
        cpu=cpu(outcome),
        queue_max=_queue_max(outcome),
        verdict=verdict(
            outcome.intended_ns,
            np.where(outcome.status == int(Status.OPEN), -1, outcome.done_ns),
            begin_ns=begin_ns,
            end_ns=end_ns,
            n_offered=int(np.sum(due)),
            n_errors=sum(ended.values()),
        ),
    )


def latency(values_ns: Integers) -> Latency:
    """Return the quantiles of *values_ns*; NaN for none."""
    if values_ns.size == 0:
        return Latency(*[float("nan")] * 5)
    p50, p90, p99 = np.quantile(values_ns, [0.5, 0.9, 0.99])
    return Latency(
        float(np.mean(values_ns)), float(p50), float(p90), float(p99), float(np.max(values_ns))
    )


def reply_rate(done_ns: Integers, begin_ns: int, end_ns: int) -> Rate:
    """Return replies per second over whole intervals of the window."""
    n = max(1, (end_ns - begin_ns) // REPLY_INTERVAL_NS)
    width_ns = min(REPLY_INTERVAL_NS, end_ns - begin_ns)
    edges_ns = begin_ns + width_ns * np.arange(n + 1)
    rates = np.histogram(done_ns, edges_ns)[0] * (SECOND_NS / width_ns)
    return Rate(float(rates.min()), float(rates.mean()), float(rates.max()), float(rates.std()))


def cpu(outcome: Outcome) -> Cpu:
    """Return the three accountings of the window."""
    ledger_ns = outcome.ledger_ns - outcome.ledger_mark_ns
    idle_ns = int(ledger_ns[Activity.IDLE])
    busy_ns = int(ledger_ns.sum()) - idle_ns
    process_ns = busy_ns - int(ledger_ns[Activity.INTERRUPT_IDLE])
    by_activity_ns = {a.name.lower(): int(ledger_ns[a]) for a in Activity}
    return Cpu(process_ns, busy_ns, idle_ns, by_activity_ns)


def verdict(
    intended_ns: Integers,
    done_ns: Integers,
    *,
    begin_ns: int,
    end_ns: int,
    n_offered: int,
    n_errors: int,
) -> Verdict:
    """Return how the server coped, from when connections were due and ended (-1: still open)."""
    open_begin = np.sum((intended_ns < begin_ns) & ((done_ns == -1) | (done_ns >= begin_ns)))
    open_end = np.sum((intended_ns < end_ns) & (done_ns == -1))
    growth = float(open_end) - float(open_begin)
    return verdict_of(growth, float(open_begin), n_offered, n_errors)


def verdict_of(growth: float, n_open_begin: float, n_offered: int, n_errors: int) -> Verdict:
    """Return how a server coped whose open connections grew by *growth* over the window.

    Above 5% of what was offered is overload (it never catches up), above 1%, or any error, a
    backlog; growth within four standard deviations of a Poisson count of *n_open_begin* is no
    sign. A connection that failed is not open: it is an error.
    """
    if n_offered == 0:
        return Verdict.STABLE
    noise = 4 * max(n_open_begin, 1.0) ** 0.5
    if growth > noise + 0.05 * n_offered or n_errors > 0.05 * n_offered:
        return Verdict.OVERLOADED
    if growth > noise + 0.01 * n_offered or n_errors > 0:
        return Verdict.BACKLOGGED
    return Verdict.STABLE


def _queue_max(outcome: Outcome) -> dict[str, int]:
    names = SAMPLE_COLUMNS[1:]
    rows = outcome.samples[outcome.samples[:, 0] >= outcome.mark_ns]
    if rows.size == 0:
        return dict.fromkeys(names, 0)
    return {name: int(rows[:, i].max()) for i, name in enumerate(names, start=1)}
