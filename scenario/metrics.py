"""The table of metrics: the name, unit, words and definition of each number of a run.

    Summary ──► METRICS[name].of ──► tables, objectives, pictures, JSON, the store, pages, lessons

A name ends with its unit (`_ns`, `_per_s`); a share or a count has none. A new metric is one entry.

Requests are the unit. A request is due when its client wants to send it. The first request of a
connection is due with the connection, a later one at the end of the pause before it. The response
time runs from then to the last byte of the reply.

p50 to p99.9 include every request due in the window. A failed request counts as infinite, an
unfinished one as long as it has waited (sim/figures/tally.py). A name with `answered` includes
only requests with a reply. Read it beside `failed_share`: a server that drops most requests looks
quick. Names with `connect` and `lifetime` are metrics of connections.

Every other percentile is a metric, too (`percentiles.py`): METRICS["p97_5_ns"] makes it on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..sim.figures.summary import (
    BACKEND_TIMES,
    LINK_TIMES,
    ClassFigures,
    PathFigures,
    Summary,
)
from ..sim.figures.tally import FAILURES
from ..sim.state.kinds import LEVELS, Activity, Count
from .errors import UserError, nearest
from .metric import Kind, Metric
from .percentiles import ANSWERED, DUE, Metrics, Percentile, percentile_metric

_NAN = float("nan")
_TIME, _SHARE = Kind.TIME, Kind.SHARE
_LIFETIME = "from the due time of a connection to its last reply, pauses included"

OF_PATHS: dict[str, Callable[[Summary | PathFigures], float]] = {
    "offered": lambda s: s.offered,
    "replied": lambda s: s.replied,
    "failed": lambda s: sum(s.errors.values()),
    "p50_answered_ns": lambda s: s.latency_ns.p50,
    "p99_answered_ns": lambda s: s.latency_ns.p99,
}
"""Metrics of a run that each path has, too, and how both are computed."""
OF_CLASSES: dict[str, Callable[[ClassFigures], float]] = {
    **OF_PATHS,
    "p50_ns": lambda s: s.latency_due_ns.p50,
    "p99_ns": lambda s: s.latency_due_ns.p99,
}
"""Metrics of each class of clients, counted as for all clients."""


def _time_at_backend_ns(calls: Mapping[str, int]) -> float:
    """Return the mean time at the backend of requests whose replies left it in the window.

    It is 0 without requests at the backend, and NaN if none of their replies left it.
    """
    if calls["backend_answers"]:
        return calls["backend_stay_ns"] / calls["backend_answers"]
    return _NAN if calls["backend_work_ns"] else 0.0


def _percentile(rank: str, of: Callable[[Summary], float], *, is_answered: bool = False) -> Metric:
    return percentile_metric(Percentile(rank, is_answered))._replace(of=of)


_MAIN = (
    Metric(
        "throughput_per_s", Kind.RATE, "replies per second", "replies / s",
        "replies that clients received per second", lambda s: s.throughput_per_s,
        short="throughput",
    ),
    Metric(
        "p50_ns", _TIME, "response time, median", "median latency",
        f"median {DUE}", lambda s: s.latency_due_ns.p50, short="p50",
    ),
    _percentile("90", of=lambda s: s.latency_due_ns.p90),
    _percentile("95", of=lambda s: s.latency_due_ns.p95),
    Metric(
        "p99_ns", _TIME, "response time, 99%", "p99",
        f"99th percentile {DUE}: infinite if more than 1% failed",
        lambda s: s.latency_due_ns.p99, short="p99",
    ),
    _percentile("99.9", of=lambda s: s.latency_due_ns.p999),
    Metric(
        "mean_answered_ns", _TIME, "excluding failures, mean", "mean of replies",
        f"mean response time {ANSWERED}", lambda s: s.latency_ns.mean, short="mean_answered",
    ),
    Metric(
        "p50_answered_ns", _TIME, "excluding failures, median", "median of replies",
        f"median response time {ANSWERED}", OF_PATHS["p50_answered_ns"], short="p50_answered",
    ),
    _percentile("90", is_answered=True, of=lambda s: s.latency_ns.p90),
    _percentile("95", is_answered=True, of=lambda s: s.latency_ns.p95),
    _percentile("99", is_answered=True, of=OF_PATHS["p99_answered_ns"]),
    _percentile("99.9", is_answered=True, of=lambda s: s.latency_ns.p999),
    Metric(
        "max_answered_ns", _TIME, "excluding failures, worst", "worst of replies",
        f"longest response time {ANSWERED}", lambda s: s.latency_ns.max,
    ),
    Metric(
        "connections_per_s", Kind.RATE, "connections completed per second", "connections / s",
        "connections that received their last reply, per second",
        lambda s: s.connections.replied * 1e9 / s.window_ns, short="connections",
    ),
    Metric(
        "connect_p50_ns", _TIME, "connect time, median", "median connect time",
        "median time from the due time of a connection to its SYN-ACK",
        lambda s: s.connections.connect_ns.p50, short="connect_p50",
    ),
    Metric(
        "connect_p99_ns", _TIME, "connect time, 99%", "p99 of connect times",
        "99th percentile of the time from the due time of a connection to its SYN-ACK",
        lambda s: s.connections.connect_ns.p99, short="connect_p99",
    ),
    Metric(
        "lifetime_p50_ns", _TIME, "connection lifetime, median", "median lifetime",
        f"median time {_LIFETIME}", lambda s: s.connections.lifetime_ns.p50,
    ),
    Metric(
        "lifetime_p99_ns", _TIME, "connection lifetime, 99%", "p99 of lifetimes",
        f"99th percentile of the time {_LIFETIME}", lambda s: s.connections.lifetime_ns.p99,
    ),
    Metric(
        "cpu_busy", _SHARE, "server's CPU busy", "CPU busy",
        "share of all CPU time in which the server's CPUs were not idle",
        lambda s: s.cpu_busy, short="cpu",
    ),
    Metric(
        "cpu_busiest", _SHARE, "busiest CPU busy", "busiest CPU",
        "share of the time in which the busiest of the server's CPUs was not idle",
        lambda s: s.cpu_busiest, short="cpu_busiest",
    ),
    Metric(
        "link_busy", _SHARE, "link busy", "link busy",
        "share of the window in which the link transmits (network.up, network.down), in the busier "
        "direction; 0 without a bandwidth",
        lambda s: s.link_busy, short="link",
    ),
    Metric(
        "events_per_wait", Kind.NUMBER, "events per wait", "events per wait",
        "mean number of events that a call returned", lambda s: s.events_per_wait, unit="events",
    ),
    Metric(
        "failed_share", _SHARE, "failed", "failed", "share of due requests that failed",
        lambda s: sum(s.errors.values()) / s.offered if s.offered else _NAN, short="errors",
    ),
    Metric(
        "memory_peak_bytes", Kind.SIZE, "memory, peak", "memory, peak",
        "largest kernel memory of the server in the window: sockets, buffers, watched "
        "descriptors, queued signals, threads, TIME_WAIT; sampled every 10 ms",
        lambda s: s.memory_bytes.peak, short="memory",
    ),
    Metric(
        "memory_mean_bytes", Kind.SIZE, "memory, mean", "memory, mean",
        "mean kernel memory of the server in the window, sampled every 10 ms",
        lambda s: s.memory_bytes.mean,
    ),
    Metric(
        "packets_dropped", Kind.NUMBER, "packets dropped", "packets dropped",
        "packets dropped in the window, for all causes: SYNs, last packets of handshakes, "
        "packets at a full receive queue, segments lost on paths",
        lambda s: sum(s.dropped.values()), unit="packets",
    ),
    Metric(
        "signals_lost", Kind.NUMBER, "signals lost", "signals lost",
        "events in the window that found the signal queue full",
        lambda s: s.calls["signals_lost"], unit="signals",
    ),
    Metric(
        "signals_merged", Kind.NUMBER, "signals merged", "signals merged",
        "events in the window of descriptors that already had a queued signal (signal-per-fd)",
        lambda s: s.calls["signals_merged"], unit="signals",
    ),
    Metric(
        "signal_queue_max", Kind.NUMBER, "longest signal queue", "longest signal queue",
        "largest number of queued signals of all workers in the window",
        lambda s: s.calls["signal_queue_max"], unit="signals",
    ),
    Metric(
        "backend_full", _SHARE, "backend at its limit", "backend at its limit",
        "share of the window in which the backend served backend.limit requests",
        lambda s: s.calls["backend_full_ns"] / s.window_ns, short="backend",
    ),
    Metric(
        "backend_working", Kind.NUMBER, "in service at the backend", "in service at backend",
        "mean number of requests in service at the backend",
        lambda s: s.calls["backend_work_ns"] / s.window_ns, unit="requests",
    ),
    Metric(
        "backend_waiting", Kind.NUMBER, "queued at the backend", "queued at backend",
        "mean number of requests queued at the backend",
        lambda s: s.calls["backend_queue_ns"] / s.window_ns, unit="requests",
    ),
    Metric(
        "backend_in_line", Kind.NUMBER, "queued for a backend connection", "queued for connection",
        "mean number of requests at the server that wait for a connection to the backend",
        lambda s: s.calls["backend_line_ns"] / s.window_ns, unit="requests",
    ),
    Metric(
        "backend_mean_ns", _TIME, "time at the backend, mean", "time at the backend",
        "mean time from a query's arrival at the backend to its reply's arrival at the server, "
        "for replies in the window",
        lambda s: _time_at_backend_ns(s.calls),
    ),
)  # fmt: skip
_COUNTS = {
    "offered": "requests due in the window",
    "replied": "replies received in the window",
    "failed": "requests due in the window that failed",
}
_ERRORS = {
    "timeout": "requests whose client timed out",
    "refused": "requests whose connection was refused by a full backlog",
    "reset": "requests whose connection the server reset",
    "descriptors": "requests whose client had no free descriptor",
    "dropped": "requests whose connection received no SYN-ACK",
    "ports": "requests whose client had no free port",
}
_CPU = {
    "user": "user code of the server",
    "wait": "the call that waits for events",
    "accept": "accept",
    "read": "read",
    "write": "write",
    "close": "close",
    "watch": "calls that add a descriptor to the interest set",
    "rewatch": "calls that change the interest in a descriptor",
    "unwatch": "calls that remove a descriptor from the interest set",
    "sleep": "from the decision to block until the CPU is idle",
    "wake": "waking up",
    "interrupt": "interrupts while the server ran (the kernel bills them to it)",
    "interrupt_idle": "interrupts while the CPU was idle",
    "idle": "idle",
    "spawn": "start and end of threads or processes",
    "connect": "connect(), on a machine that is the client",
    "ksoftirqd": "the kernel thread that handles packets",
    "other": "other processes, and stalls of the CPU",
    "interrupt_other": "interrupts while other processes ran",
    "host": "gaps of the host while the server ran",
    "host_other": "gaps of the host while the server did not run",
}
_PER_REPLY = {
    "waits": "calls that waited for events",
    "events": "events that waits returned",
    "accepts": "accepts that returned a connection",
    "accept_again": "accepts that found no connection (EAGAIN)",
    "accept_no_fd": "accepts that failed at the descriptor limit (EMFILE)",
    "reads": "reads of a request, or of a reply of the backend",
    "read_again": "reads that found no data (EAGAIN)",
    "writes": "writes",
    "write_short": "writes that filled the send buffer",
    "watches": "descriptors added to the interest set",
    "rewatches": "changes of the interest in a descriptor",
    "unwatches": "descriptors removed from the interest set",
    "closes": "closes",
    "interrupts": "interrupts",
    "packets": "packets that interrupts handled at once",
    "syn_drops": "SYNs dropped",
    "ack_drops": "last packets of a handshake dropped",
    "sleeps": "times that the server went to sleep",
    "scanned": "descriptors checked in scans",
    "registered": "wait queues joined in scans",
    "rechecked": "ready-list entries that were no longer ready when checked",
    "asks": "calls that collect notices",
    "notices": "notices returned: signals, or events of epoll",
    "notices_unwanted": "notices of closed descriptors, or without interest",
    "overflows": "times that SIGIO reported lost signals",
    "updates": "calls that passed changed interests to the kernel",
    "shed": "connections that overload control reset",
    "spawns": "threads or processes started for a connection",
    "spawn_again": "threads or processes that could not start (EAGAIN)",
    "watch_no_space": "connections closed because the epoll sets were full (ENOSPC)",
    "connects": "connections that the machine opened as a client",
    "retries": "connections that clients opened after a failure",
    "datagrams": "datagrams of a flood that were handled",
    "packet_drops": "packets dropped at a full receive queue",
    "deferred": "packets left to ksoftirqd",
    "preemptions": "threads preempted by a thread that woke",
    "accept_no_file": "accepts that failed at the system's file limit (ENFILE)",
    "no_memory": "SYNs dropped for lack of memory",
    "time_waits": "connections that entered TIME_WAIT at the server",
    "late": "connections closed at server.request_timeout",
    "write_failed": "writes to a connection that its client had reset",
    "half_open_expired": "half-open connections that expired at the server",
    "signals_lost": "events that found the signal queue full",
    "signals_merged": "events of descriptors that already had a queued signal",
    "syn_drops_accept_queue": "SYNs dropped at a full accept queue",
    "syn_drops_half_open": "SYNs dropped because too many connections were half open",
    "syn_drops_above": "SYNs dropped above server.drop_above",
    "segments_lost": "segments lost on the paths of clients",
    "backend_queries": "requests sent to the backend",
    "backend_replies": "replies of the backend that the server read",
    "backend_answers": "replies that left the backend",
    "backend_discarded": "replies of the backend whose client was gone",
    "backend_left": "requests whose client left while they waited for a backend connection",
}
_NOT_CALLS = {
    "replies",
    *LINK_TIMES,
    *BACKEND_TIMES,
    *(Count(level).name.lower() for level in LEVELS),
}
"""Counts without a value per reply: replies themselves, levels and times."""


def _count(name: str, about: str, of: Callable[[Summary], float]) -> Metric:
    words = name.replace("_", " ")
    return Metric(name, Kind.NUMBER, words, words, about, of, unit="requests")


def _error(kind: str) -> Metric:
    return _count(f"error_{kind}", _ERRORS[kind], lambda s: s.errors[kind])


def _cpu(activity: str) -> Metric:
    def share(summary: Summary) -> float:
        cpu = summary.cpu
        return cpu.by_activity_ns[activity] / (cpu.busy_ns + cpu.idle_ns)

    words = f"CPU: {activity.replace('_', ' ')}"
    about = f"share of all CPU time: {_CPU[activity]}"
    return Metric(f"cpu_{activity}", Kind.SHARE, words, words, about, share)


def _per_reply(call: str) -> Metric:
    def each(summary: Summary) -> float:
        replies = summary.calls["replies"]
        return summary.calls[call] / replies if replies else _NAN

    words = f"{call.replace('_', ' ')} per reply"
    about = f"{_PER_REPLY[call]}, per reply to a request"
    return Metric(f"{call}_per_reply", Kind.NUMBER, words, words, about, each, unit="per reply")


METRICS = Metrics(
    (metric.name, metric)
    for metric in (
        *_MAIN,
        *(_count(name, about, OF_PATHS[name]) for name, about in _COUNTS.items()),
        *(_error(status.name.lower()) for status in FAILURES),
        *(_cpu(activity.name.lower()) for activity in Activity),
        *(_per_reply(c.name.lower()) for c in Count if c.name.lower() not in _NOT_CALLS),
    )
)
"""All metrics of a run by name; those in tables of results come first."""
MAIN = tuple(metric.name for metric in _MAIN)
"""The metrics for which a result has intervals."""
ASKED_AS = Metrics((metric.short, metric) for metric in METRICS.values() if metric.short)
"""Metrics by their names in an objective: "p99 < 50 ms and errors < 0.1%"."""
LEVEL_METRIC = "p99_ns"
"""The default metric of a study."""

RENAMED = {
    "p99_due_ns": "p99_ns",
    "latency_mean_ns": "mean_answered_ns",
    "latency_p50_ns": "p50_answered_ns",
    "latency_p90_ns": "p90_answered_ns",
    "latency_p99_ns": "p99_answered_ns",
    "latency_p999_ns": "p99_9_answered_ns",
    "p999_ns": "p99_9_ns",
    "p999_answered_ns": "p99_9_answered_ns",
    "latency_max_ns": "max_answered_ns",
    "request_latency_p50_ns": "p50_answered_ns",
    "request_latency_p99_ns": "p99_answered_ns",
    "request_p50_answered_ns": "p50_answered_ns",
    "request_p99_answered_ns": "p99_answered_ns",
}
"""Names of metrics in the stores of earlier versions -> their names now."""


def metrics_of(summary: Summary, also: Iterable[str] = ()) -> dict[str, float]:
    """Return all metrics of one run by name; every run has the same names, and those in *also*.

    A time is infinite if too many requests failed, and NaN without requests.
    """
    return {name: float(METRICS[name].of(summary)) for name in dict.fromkeys((*METRICS, *also))}


_USUAL = ("p99_ns", "p50_ns", "throughput_per_s", "cpu_busy", "failed_share")


def check_metric(name: str, key: str = "figure") -> None:
    """Refuse a name that is no metric of a run; *key* is the option or key in the message.

    Raises
    ------
    UserError
        With the nearest name, or for a percentile whose rank is not above 0 and below 100.
    """
    if name in RENAMED:
        raise UserError(f"{key}: {name} is now called {RENAMED[name]}")
    try:
        is_known = METRICS.has(name) and name == METRICS[name].name
    except UserError as error:
        raise UserError(f"{key}: {error}") from None
    if not is_known:
        hint = nearest(name, METRICS) or (
            f' such as {", ".join(_USUAL)} (the page "Metrics by name and unit" has all)'
        )
        raise UserError(f"{key}: must be a metric{hint}, got {name}")


def metric_text(name: str, value: float) -> str:
    """Return a value of the metric *name* with its unit, rounded.

    >>> metric_text("p99_ns", float("inf")), metric_text("cpu_accept", 0.5)
    ('infinite', '50.0%')
    """
    return METRICS[name].text(value)
