"""From the record of a run to the figures people quote: rates, latencies, errors, CPU, queues.

All figures are of the measured window, from the mark to the end of the run. Requests are the unit.
A request's latency runs from when it was due to the last byte of its reply (coordinated omission
cannot hide in it). The first of a connection is due when the connection is; a later one when the
pause after the reply before it is over.
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
"""Causes for which packets are dropped: each packet has one, so they add up."""
LINK_TIMES = ("link_up_ns", "link_down_ns")
"""Counts of how long messages take on the link, each way."""
BACKEND_TIMES = (
    "backend_work_ns",
    "backend_queue_ns",
    "backend_line_ns",
    "backend_full_ns",
    "backend_stay_ns",
)
"""Counts of how long requests are at the backend, or wait for it."""
_RANKS = (0.5, 0.9, 0.95, 0.99, 0.999)
OVERLOADED_SHARE = 0.05
"""More of what was offered, failed or left behind, is an overload."""


class Verdict(StrEnum):
    """How the server coped.

    STABLE: it answered what came. BACKLOGGED: it answered nearly all, but the queue was longer at
    the end than at the beginning, some clients failed, or more wait than were answered. OVERLOADED:
    it fell behind for good, or sends no reply, and latencies measure how long the run was rather
    than how fast the server is. STRANDED: some clients wait for an event of which the server is
    never notified.
    """

    STABLE = "stable"
    BACKLOGGED = "backlogged"
    OVERLOADED = "overloaded"
    STRANDED = "stranded"


@dataclass(frozen=True)
class Latency:
    """Quantiles in ns; NaN where nobody was answered."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p999: float
    max: float


@dataclass(frozen=True)
class Quantiles:
    """Quantiles in ns over all connections that were due; infinite where too many failed."""

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
    """CPU time of the window in ns, accounted in three ways that people take for one.

    process_ns is what getrusage says (interrupts that hit the process included, those that hit
    idleness not), busy_ns all that was not idle (/proc/stat), idle_ns the idle counter.
    busy_of_each_ns is busy_ns by CPU.
    """

    process_ns: int
    busy_ns: int
    idle_ns: int
    by_activity_ns: dict[str, int]
    busy_of_each_ns: tuple[int, ...]


@dataclass(frozen=True)
class ConnectionFigures:
    """The figures of whole connections; see `Summary`.

    lifetime_ns is from when a connection was due to its last reply, pauses included, of those that
    were answered in full; connect_ns until its SYN-ACK came. of_workers is how many each worker has
    had in the whole run (`connections_of_workers`); empty where none belongs to one.
    """

    offered: int
    replied: int
    lifetime_ns: Latency
    connect_ns: Latency
    of_workers: tuple[int, ...] = ()


@dataclass(frozen=True)
class PathFigures:
    """The figures of the requests of one path; see `Summary`."""

    offered: int
    replied: int
    errors: dict[str, int]
    latency_ns: Latency


@dataclass(frozen=True)
class ClassFigures(PathFigures):
    """The figures of the requests of one class of clients; see `Summary`."""

    latency_due_ns: Quantiles


@dataclass(frozen=True)
class Memory:
    """Bytes that the kernel keeps for the server, sampled over the window; NaN without samples.

    at_peak has the parts of the greatest sample, as in `SAMPLED_MEMORY`; they add up to peak.
    """

    peak: float
    mean: float
    at_peak: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """The figures of one run.

    offered, replied, errors and fates count requests: offered and errors those that were due in the
    window, replied those that were answered in it. latency_ns is of those that were due in the
    window and answered. latency_due_ns counts every request that was due: one that failed waited
    for ever, one that is still open has waited since. connections has what is of whole ones.
    stranded are the clients that wait for an event of which the server will not hear, by what is
    `Missing`. fates say what became of each request that was due in the window, as in `Fate`; they
    add up to `offered`. paths has the figures of each class of clients by their way to the link, in
    the order of the settings; classes those of each class of clients by what they ask for. dropped
    are packets of the window by cause, as in `DROPS`. memory_bytes is what the server's kernel
    keeps for it. requests is what percentiles of any rank are asked of.
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
        """Requests answered, per second of the window."""
        return self.replied * SECOND_NS / self.window_ns

    @property
    def cpu_busy(self) -> float:
        """Share of the window in which the server's CPU was not idle; of several, the mean."""
        return self.cpu.busy_ns / (self.cpu.busy_ns + self.cpu.idle_ns)

    @property
    def cpu_busiest(self) -> float:
        """Share of the window in which the CPU that was busiest was not idle."""
        return max(self.cpu.busy_of_each_ns) / self.window_ns

    @property
    def link_busy(self) -> float:
        """Share of the window that messages take on the link, in the direction that has more.

        Those that were sent in the window count, also where they wait for the link: 1 at most.
        """
        return min(1.0, max(self.calls[name] for name in LINK_TIMES) / self.window_ns)


def summarise(outcome: Outcome) -> Summary:
    """Return the figures of *outcome*'s window."""
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
    """Return the figures of a run whose connections and requests are in *tallies*.

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
    """Return how the server coped: see `verdict_of`."""
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
    """Return how a server coped, from what came, what is left, and what it got through.

    Two kinds of evidence count, and the worse of them decides.

    - Growth and failures. *growth* is that of open connections over the window. Above 5% of what
      was offered is overload (the server never catches up), above 1%, or any error, a backlog.
      Growth within four standard deviations of a Poisson count of *n_open_begin* is no sign. A
      connection that failed is not open: it is an error.
    - Progress. Users of a closed loop wait for the server, so their number cannot grow, however
      slow it is. By Little's law they wait for longer than the window if more of them wait than
      are answered in it: a backlog. It is overload if they wait for 20 times as long as the second
      half of the window at its rate, or if no reply comes while a request waits through the window
      or a client gives up in it. As above, four standard deviations of those that wait are no sign.
      A window, or a second half, in which a request waits and no reply comes is never stable.

    Parameters
    ----------
    growth, n_open_begin, n_offered, n_errors:
        Requests; errors are those of requests that were due in the window.
    progress:
        Requests answered and waiting.
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
