"""From the record of a run to its metrics: rates, latencies, errors, CPU, queues.

All metrics cover the measured window, from the mark to the end of the run. Requests are the unit.
The latency of a request runs from its due time to the last byte of its reply, so it is free of
coordinated omission. The first request of a connection is due with the connection, a later one at
the end of the pause after the previous reply.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from ..state.kinds import LEVELS, Activity, Count
from ..state.units import SECOND_NS
from .fates import NOBODY, Missing
from .histogram import Distribution, Integers
from .outcome import Outcome
from .queue_lengths import SAMPLE_COLUMNS, SAMPLED_MEMORY, SAMPLED_QUEUES
from .tally import Progress, Tallies, Tally

DROPS = {
    "accept_queue": Count.SYN_DROPS_ACCEPT_QUEUE,
    "half_open": Count.SYN_DROPS_HALF_OPEN,
    "drop_above": Count.SYN_DROPS_ABOVE,
    "memory": Count.NO_MEMORY,
    "last_ack": Count.ACK_DROPS,
    "receive_queue": Count.PACKET_DROPS,
    "paths": Count.SEGMENTS_LOST,
}
"""Causes of dropped packets: each packet has one, so they add up."""
LINK_TIMES = ("link_up_ns", "link_down_ns")
"""Counters of the time of messages on the link, each way."""
BACKEND_TIMES = (
    "backend_work_ns",
    "backend_queue_ns",
    "backend_line_ns",
    "backend_full_ns",
    "backend_stay_ns",
)
"""Counters of the time of requests at the backend, or in queues for it."""
_RANKS = (0.5, 0.9, 0.95, 0.99, 0.999)
OVERLOADED_SHARE = 0.05
"""Share of offered requests, failed or left behind, above which a run is overloaded."""


class Verdict(StrEnum):
    """The state of the server.

    STABLE: the server replied to all requests. BACKLOGGED: it replied to nearly all, but the queue
    grew, some clients failed, or more requests wait than received replies. OVERLOADED: it falls
    behind permanently, or sends no reply; latencies then depend on the length of the run. STRANDED:
    some clients wait for an event of which the server is never notified.
    """

    STABLE = "stable"
    BACKLOGGED = "backlogged"
    OVERLOADED = "overloaded"
    STRANDED = "stranded"


@dataclass(frozen=True)
class Latency:
    """Quantiles in ns; NaN without replies."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True)
class Quantiles:
    """Quantiles in ns, including failures; infinite if too many failed."""

    p50: float
    p90: float
    p95: float
    p99: float
    p999: float


@dataclass(frozen=True)
class Rate:
    """Replies per second over intervals: the line that httperf prints."""

    min: float
    mean: float
    max: float
    sd: float


@dataclass(frozen=True)
class Cpu:
    """CPU time of the window in ns, in three accountings that are often confused.

    process_ns is the time in getrusage (with interrupts of the process, without interrupts of an
    idle CPU), busy_ns all time that was not idle (/proc/stat), idle_ns the idle counter.
    busy_of_each_ns is busy_ns by CPU.
    """

    process_ns: int
    busy_ns: int
    idle_ns: int
    by_activity_ns: dict[str, int]
    busy_of_each_ns: tuple[int, ...]


@dataclass(frozen=True)
class ConnectionFigures:
    """The metrics of whole connections; see `Summary`.

    lifetime_ns is the time from the due time of a connection to its last reply, pauses included,
    for connections with all replies; connect_ns the time to its SYN-ACK. of_workers is the number
    of connections of each worker in the whole run (`connections_of_workers`); empty where
    connections belong to no worker.
    """

    offered: int
    replied: int
    lifetime_ns: Latency
    connect_ns: Latency
    of_workers: tuple[int, ...] = ()


@dataclass(frozen=True)
class PathFigures:
    """The metrics of the requests of one path; see `Summary`."""

    offered: int
    replied: int
    errors: dict[str, int]
    latency_ns: Latency


@dataclass(frozen=True)
class ClassFigures(PathFigures):
    """The metrics of the requests of one class of clients; see `Summary`."""

    latency_due_ns: Quantiles


@dataclass(frozen=True)
class Memory:
    """Bytes that the kernel keeps for the server, sampled over the window; NaN without samples.

    at_peak has the parts of the largest sample, as in `SAMPLED_MEMORY`; they add up to peak.
    """

    peak: float
    mean: float
    at_peak: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """The metrics of one run.

    offered, replied, errors and fates count requests: offered and errors those due in the window,
    replied those with a reply in the window. latency_ns covers requests due in the window with a
    reply. latency_due_ns covers all requests due in the window: a failed request counts as
    infinite, an open one as long as it has waited. connections has the metrics of whole
    connections. stranded are the clients that wait for an event that the server will never get, by
    `Missing` event. fates counts the requests due in the window by `Fate`; they add up to
    `offered`. paths has the metrics of each path, in the order of the settings; classes those of
    each class of clients. dropped counts packets of the window by cause, as in `DROPS`.
    memory_bytes is the kernel memory of the server. requests gives percentiles of any rank.
    """

    window_ns: int
    offered: int
    accepted: int
    replied: int
    errors: dict[str, int]
    fates: dict[str, int]
    latency_ns: Latency
    latency_due_ns: Quantiles
    connections: ConnectionFigures
    reply_rate_per_s: Rate
    calls: dict[str, int]
    events_per_wait: float
    cpu: Cpu
    queue_max: dict[str, int]
    stranded: dict[str, int]
    verdict: Verdict
    paths: tuple[PathFigures, ...] = ()
    classes: tuple[ClassFigures, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)
    memory_bytes: Memory = Memory(math.nan, math.nan, {})
    requests: Tally | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, for JSON."""
        found = asdict(replace(self, requests=None))  # every request would fill a disk
        del found["requests"]
        return found

    @property
    def throughput_per_s(self) -> float:
        """Replies received per second of the window."""
        return self.replied * SECOND_NS / self.window_ns

    @property
    def cpu_busy(self) -> float:
        """Share of the window in which the server's CPU was not idle; the mean of several CPUs."""
        return self.cpu.busy_ns / (self.cpu.busy_ns + self.cpu.idle_ns)

    @property
    def cpu_busiest(self) -> float:
        """Share of the window in which the busiest CPU was not idle."""
        return max(self.cpu.busy_of_each_ns) / self.window_ns

    @property
    def link_busy(self) -> float:
        """Share of the window in which the link transmits, in the busier direction.

        Messages sent in the window count, also while they wait for the link: 1 at most.
        """
        return min(1.0, max(self.calls[name] for name in LINK_TIMES) / self.window_ns)


def summarise(outcome: Outcome) -> Summary:
    """Return the metrics of *outcome*'s window."""
    tallies = Tallies(
        outcome.mark_ns,
        outcome.duration_ns,
        exact=True,
        n_paths=outcome.n_paths,
        n_classes=outcome.n_classes,
    )
    fates = outcome.fates()
    tallies.add_connections(outcome.intended_ns, outcome.connected_ns, outcome.done_ns, fates)
    path = outcome.path[outcome.asked_on] if outcome.n_paths > 0 else outcome.path
    tallies.requests.add(outcome.due_ns, *outcome.request_ends(), path, outcome.class_of_requests)
    return summary_of(
        tallies,
        ledger_ns=outcome.cpu_ledger_ns,
        ledger_mark_ns=outcome.cpu_ledger_mark_ns,
        counts=outcome.counts,
        counts_mark=outcome.counts_mark,
        samples=outcome.samples,
        of_workers=outcome.worker_connections,
        stranded=outcome.stranded,
    )


def summary_of(
    tallies: Tallies,
    *,
    ledger_ns: Integers,
    ledger_mark_ns: Integers,
    counts: Integers,
    counts_mark: Integers,
    samples: Integers,
    of_workers: Integers,
    stranded: Integers = NOBODY,
) -> Summary:
    """Return the metrics of a run whose connections and requests are in *tallies*.

    Parameters
    ----------
    tallies:
        Of the measured window.
    ledger_ns, ledger_mark_ns:
        CPU time over the run, and up to the mark, shape (CPUs, activities).
    counts, counts_mark, samples, stranded:
        As in `Outcome`.
    of_workers:
        As `Outcome.worker_connections`.
    """
    tally, connections = tallies.requests, tallies.connections
    in_window = counts - counts_mark
    sampled = samples[samples[:, 0] >= tally.begin_ns]
    calls = {count.name.lower(): int(in_window[count]) for count in Count}
    for level in LEVELS:
        calls[Count(level).name.lower()] = int(counts[level])
    return Summary(
        window_ns=tally.end_ns - tally.begin_ns,
        offered=tally.n_offered,
        accepted=calls["accepts"],
        replied=tally.n_replied,
        errors=_errors(tally),
        fates={fate.name.lower(): n for fate, n in tally.fates().items()},
        latency_ns=latency(tally.latency),
        latency_due_ns=Quantiles(*tally.quantiles_due_ns(_RANKS)),
        connections=ConnectionFigures(
            offered=connections.n_offered,
            replied=connections.n_replied,
            lifetime_ns=latency(connections.latency),
            connect_ns=latency(tallies.connects),
            of_workers=tuple(of_workers.tolist()),
        ),
        reply_rate_per_s=reply_rate(tally.n_by_interval, tally.interval_ns),
        calls=calls,
        events_per_wait=calls["events"] / max(1, calls["waits"]),
        cpu=cpu(ledger_ns - ledger_mark_ns),
        queue_max=_queue_max(sampled),
        stranded={m.name.lower(): int((stranded[:, 1] == m).sum()) for m in Missing},
        verdict=Verdict.STRANDED if len(stranded) > 0 else verdict(tally),
        paths=tuple(PathFigures(*_figures_of(part)) for part in tally.of_paths),
        classes=tuple(
            ClassFigures(*_figures_of(part), Quantiles(*part.quantiles_due_ns(_RANKS)))
            for part in tally.of_classes
        ),
        dropped={cause: int(in_window[each]) for cause, each in DROPS.items()},
        memory_bytes=_memory(sampled),
        requests=tally,
    )


def _figures_of(part: Tally) -> tuple[int, int, dict[str, int], Latency]:
    return part.n_offered, part.n_replied, _errors(part), latency(part.latency)


def _errors(tally: Tally) -> dict[str, int]:
    return {status.name.lower(): n for status, n in tally.n_failed.items()}


def latency(durations: Distribution) -> Latency:
    """Return mean, quantiles and maximum of *durations*; NaN for none."""
    p50, p90, p95, p99, p999 = durations.quantiles(_RANKS)
    return Latency(durations.mean(), p50, p90, p95, p99, p999, durations.max())


def reply_rate(n_by_interval: Integers, interval_ns: int) -> Rate:
    """Return replies per second from their numbers in intervals of *interval_ns*."""
    rates = n_by_interval * (SECOND_NS / interval_ns)
    return Rate(float(rates.min()), float(rates.mean()), float(rates.max()), float(rates.std()))


_OF_OTHERS = [
    int(activity)
    for activity in (
        Activity.INTERRUPT_IDLE,
        Activity.KSOFTIRQD,
        Activity.OTHER,
        Activity.INTERRUPT_OTHER,
        Activity.HOST_OTHER,
    )
]


def cpu(ledger_ns: Integers) -> Cpu:
    """Return the accountings of the time in *ledger_ns*, shape (CPUs, activities)."""
    busy_of_each_ns = ledger_ns.sum(axis=1) - ledger_ns[:, Activity.IDLE]
    all_ns = ledger_ns.sum(axis=0)
    idle_ns = int(all_ns[Activity.IDLE])
    busy_ns = int(all_ns.sum()) - idle_ns
    process_ns = busy_ns - int(all_ns[_OF_OTHERS].sum())
    by_activity_ns = {a.name.lower(): int(all_ns[a]) for a in Activity}
    return Cpu(process_ns, busy_ns, idle_ns, by_activity_ns, tuple(busy_of_each_ns.tolist()))


def verdict(tally: Tally) -> Verdict:
    """Return the state of the server: see `verdict_of`."""
    return verdict_of(
        growth=tally.n_open_end - tally.n_open_begin,
        n_open_begin=tally.n_open_begin,
        n_offered=tally.n_offered,
        n_errors=sum(tally.n_failed.values()),
        n_gave_up=tally.n_gave_up,
        progress=tally.progress,
    )


def middle_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the middle one of the *verdicts* of several runs, the worse of two.

    >>> middle_verdict([Verdict.OVERLOADED, Verdict.STABLE, Verdict.STABLE])
    <Verdict.STABLE: 'stable'>
    """
    ordered = sorted(verdicts, key=list(Verdict).index)
    return ordered[len(ordered) // 2]


def verdict_of(
    growth: float,
    n_open_begin: float,
    n_offered: int,
    n_errors: int,
    *,
    progress: Progress,
    n_gave_up: int = 0,
) -> Verdict:
    """Return the state of a server, from offered requests, the rest at the end, and progress.

    There are two kinds of evidence; the worse one decides.

    - Growth and failures. *growth* is that of open connections over the window. Above 5% of the
      offered requests it is an overload (the server never catches up). Above 1%, or with any error,
      it is a backlog. Growth within four standard deviations of a Poisson count of *n_open_begin*
      does not count. A failed connection is not open: it is an error.
    - Progress. Users of a closed loop wait for the server, so their number cannot grow. By Little's
      law they wait longer than the window if more requests wait than receive replies in it: a
      backlog. It is an overload if they wait for 20 times the second half of the window at its
      rate. It is also an overload if no reply arrives while a request waits through the window or a
      client times out in it. As above, four standard deviations of the waiting number do not count.
      A window, or a second half, with a waiting request and no reply is never stable.

    Parameters
    ----------
    growth, n_open_begin, n_offered, n_errors:
        Numbers of requests; errors are those of requests due in the window.
    progress:
        Replies received, and requests waiting.
    n_gave_up:
        Requests that were due before the window and failed in it.
    """
    noise = 4 * max(n_open_begin, 1.0) ** 0.5
    most = OVERLOADED_SHARE * n_offered
    n_waiting = progress.waiting - 4 * progress.waiting**0.5
    is_silent = progress.answered == 0
    if (
        growth > noise + most
        or n_errors > most
        or n_errors + n_gave_up > OVERLOADED_SHARE * (n_open_begin + n_offered)
        or OVERLOADED_SHARE * n_waiting > progress.answered_late
        or (is_silent and progress.waiting_through + n_gave_up > 0)
    ):
        return Verdict.OVERLOADED
    if (
        growth > noise + 0.01 * n_offered
        or n_errors > 0
        or n_waiting > progress.answered
        or (is_silent and progress.waiting > 0)
        or (progress.answered_late == 0 and progress.waiting_long > 0)
    ):
        return Verdict.BACKLOGGED
    return Verdict.STABLE


def _queue_max(samples: Integers) -> dict[str, int]:
    if samples.size == 0:
        return dict.fromkeys(SAMPLED_QUEUES, 0)
    return {name: int(samples[:, SAMPLE_COLUMNS.index(name)].max()) for name in SAMPLED_QUEUES}


def _memory(samples: Integers) -> Memory:
    if samples.size == 0:
        return Memory(math.nan, math.nan, {})
    parts = samples[:, [SAMPLE_COLUMNS.index(name) for name in SAMPLED_MEMORY]]
    bytes_all = parts.sum(axis=1)
    at_peak = parts[int(bytes_all.argmax())]
    return Memory(
        float(bytes_all.max()),
        float(bytes_all.mean()),
        {name: int(each) for name, each in zip(SAMPLED_MEMORY, at_peak, strict=True)},
    )
