"""The table of metrics: the name, unit, words and definition of each number of a run.

    Summary ──► METRICS[name].of ──► tables, objectives, pictures, JSON, the store, pages, lessons

A name ends with its unit (`_ns`, `_per_s`); a share or a count has none. A new metric is one entry.

Requests are the unit. A request is due when its client wants to send it: the first of a connection
when the connection is, a later one when the pause before it is over. Its response time runs from
then to the last byte of its reply.

p50 to p99.9 count every request that was due in the window: one that failed waited for ever, one
that is still open has waited since (sim/figures/tally.py). A name with `answered` counts only
requests that were answered, and needs `failed_share` beside it: a server that answers few looks
quick. Names with `connect` and `lifetime` are of connections.

Each other percentile is a metric, too (`percentiles.py`): METRICS["p97_5_ns"] makes it when asked.
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
from .errors import UserError, unknown_key
from .metric import Kind, Metric
from .percentiles import ANSWERED, DUE, Metrics, Percentile, percentile_metric

_NAN = float("nan")
_TIME, _SHARE = Kind.TIME, Kind.SHARE
_LIFETIME = "from when a connection was due until its last reply, pauses included"

OF_PATHS: dict[str, Callable[[Summary | PathFigures], float]] = {
    "offered": lambda s: s.offered,
    "replied": lambda s: s.replied,
    "failed": lambda s: sum(s.errors.values()),
    "p50_answered_ns": lambda s: s.latency_ns.p50,
    "p99_answered_ns": lambda s: s.latency_ns.p99,
}
"""The metrics that the clients of one path have, too, and how both are computed."""
OF_CLASSES: dict[str, Callable[[ClassFigures], float]] = {
    **OF_PATHS,
    "p50_ns": lambda s: s.latency_due_ns.p50,
    "p99_ns": lambda s: s.latency_due_ns.p99,
}
"""Those that the clients of one class have, counted as for all."""


def _time_at_backend_ns(calls: Mapping[str, int]) -> float:
    """Return the mean time at the backend of requests whose replies left it in the window.

    It is 0 where nothing was at it, and NaN where something was, but no reply left it.
    """
    if calls["backend_answers"]:
        return calls["backend_stay_ns"] / calls["backend_answers"]
    return _NAN if calls["backend_work_ns"] else 0.0


def _percentile(rank: str, of: Callable[[Summary], float], *, is_answered: bool = False) -> Metric:
    return percentile_metric(Percentile(rank, is_answered))._replace(of=of)


_MAIN = (
    Metric(
        "throughput_per_s", Kind.RATE, "requests answered per second", "answered / s",
        "requests answered per second", lambda s: s.throughput_per_s,
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
        "mean_answered_ns", _TIME, "of those answered, mean", "mean of the answered",
        f"mean response time {ANSWERED}", lambda s: s.latency_ns.mean, short="mean_answered",
    ),
    Metric(
        "p50_answered_ns", _TIME, "of those answered, median", "median of the answered",
        f"median response time {ANSWERED}", OF_PATHS["p50_answered_ns"], short="p50_answered",
    ),
    _percentile("90", is_answered=True, of=lambda s: s.latency_ns.p90),
    _percentile("95", is_answered=True, of=lambda s: s.latency_ns.p95),
    _percentile("99", is_answered=True, of=OF_PATHS["p99_answered_ns"]),
    _percentile("99.9", is_answered=True, of=lambda s: s.latency_ns.p999),
    Metric(
        "max_answered_ns", _TIME, "of those answered, worst", "worst of the answered",
        f"the longest response time {ANSWERED}", lambda s: s.latency_ns.max,
    ),
    Metric(
        "connections_per_s", Kind.RATE, "connections ended per second", "connections / s",
        "connections whose last request was answered, per second",
        lambda s: s.connections.replied * 1e9 / s.window_ns, short="connections",
    ),
    Metric(
        "connect_p50_ns", _TIME, "connect time, median", "median connect time",
        "median time from when a connection was due until its SYN-ACK came",
        lambda s: s.connections.connect_ns.p50, short="connect_p50",
    ),
    Metric(
        "connect_p99_ns", _TIME, "connect time, 99%", "p99 of connect times",
        "99th percentile of the time from when a connection was due until its SYN-ACK came",
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
        "cpu_busiest", _SHARE, "its busiest CPU busy", "busiest CPU",
        "share of its time in which the busiest of the server's CPUs was not idle",
        lambda s: s.cpu_busiest, short="cpu_busiest",
    ),
    Metric(
        "link_busy", _SHARE, "link busy", "link busy",
        "share of the window that what is sent takes on the link (network.up, network.down), in "
        "the direction that has more; 0 without a bandwidth",
        lambda s: s.link_busy, short="link",
    ),
    Metric(
        "events_per_wait", Kind.NUMBER, "events per wait", "events per wait",
        "events that a call returned, in the mean", lambda s: s.events_per_wait, unit="events",
    ),
    Metric(
        "failed_share", _SHARE, "failed", "failed", "share of the requests due that failed",
        lambda s: sum(s.errors.values()) / s.offered if s.offered else _NAN, short="errors",
    ),
    Metric(
        "memory_peak_bytes", Kind.SIZE, "memory, peak", "memory, peak",
        "the most that the kernel kept for the server in the window: sockets, buffers, watched "
        "descriptors, queued signals, threads, TIME_WAIT; sampled every 10 ms",
        lambda s: s.memory_bytes.peak, short="memory",
    ),
    Metric(
        "memory_mean_bytes", Kind.SIZE, "memory, mean", "memory, mean",
        "what the kernel kept for the server in the window, in the mean of samples every 10 ms",
        lambda s: s.memory_bytes.mean,
    ),
    Metric(
        "packets_dropped", Kind.NUMBER, "packets dropped", "packets dropped",
        "packets dropped in the window, for whatever cause: SYNs, last packets of handshakes, "
        "packets at a full receive queue, segments lost on paths",
        lambda s: sum(s.dropped.values()), unit="packets",
    ),
    Metric(
        "signals_lost", Kind.NUMBER, "signals lost", "signals lost",
        "events in the window for whose signal the queue had no room",
        lambda s: s.calls["signals_lost"], unit="signals",
    ),
    Metric(
        "signals_merged", Kind.NUMBER, "signals merged", "signals merged",
        "events in the window whose descriptor had a signal queued already (signal-per-fd)",
        lambda s: s.calls["signals_merged"], unit="signals",
    ),
    Metric(
        "signal_queue_max", Kind.NUMBER, "longest signal queue", "longest signal queue",
        "the most signals that all workers had queued at once in the window",
        lambda s: s.calls["signal_queue_max"], unit="signals",
    ),
    Metric(
        "backend_full", _SHARE, "backend at its limit", "backend at its limit",
        "share of the window in which the backend worked on as many requests as it can "
        "(backend.limit)", lambda s: s.calls["backend_full_ns"] / s.window_ns, short="backend",
    ),
    Metric(
        "backend_working", Kind.NUMBER, "backend works on", "backend works on",
        "requests that the backend worked on, in the mean over the window",
        lambda s: s.calls["backend_work_ns"] / s.window_ns, unit="requests",
    ),
    Metric(
        "backend_waiting", Kind.NUMBER, "wait at the backend", "wait at the backend",
        "requests that waited at the backend, in the mean over the window",
        lambda s: s.calls["backend_queue_ns"] / s.window_ns, unit="requests",
    ),
    Metric(
        "backend_in_line", Kind.NUMBER, "wait for a connection to it", "wait for a connection",
        "requests that waited at the server for a connection to the backend, in the mean over the "
        "window", lambda s: s.calls["backend_line_ns"] / s.window_ns, unit="requests",
    ),
    Metric(
        "backend_mean_ns", _TIME, "time at the backend, mean", "time at the backend",
        "mean time from when a query reached the backend until its reply reached the server, of "
        "those whose reply did in the window",
        lambda s: _time_at_backend_ns(s.calls),
    ),
)  # fmt: skip
_COUNTS = {
    "offered": "requests due in the window",
    "replied": "requests answered in the window",
    "failed": "requests due in the window that failed",
}
_ERRORS = {
    "timeout": "requests whose clients gave up",
    "refused": "requests whose connection was refused, as the backlog was full",
    "reset": "requests whose connection the server reset",
    "descriptors": "requests for which a client had no descriptor",
    "dropped": "requests whose connection had no answer to any SYN",
    "ports": "requests for which a client had no port",
}
_CPU = {
    "user": "user code of the server",
    "wait": "the call that waits for events",
    "accept": "accept",
    "read": "read",
    "write": "write",
    "close": "close",
    "watch": "calls that add a descriptor to what is watched",
    "rewatch": "calls that change what is wanted of one",
    "unwatch": "calls that take one out",
    "sleep": "from the decision to block until the CPU is idle",
    "wake": "waking up",
    "interrupt": "interrupts stolen from the running server, and billed to it",
    "interrupt_idle": "interrupts while nobody ran, billed to nobody",
    "idle": "idle",
    "spawn": "threads or processes begun or ended",
    "connect": "connect() of a machine that is the client",
    "ksoftirqd": "a thread of the kernel that handles packets",
    "other": "another process, or nobody: the CPU is away",
    "interrupt_other": "interrupts stolen from these",
    "host": "gaps of the host, taken from the running server",
    "host_other": "gaps of the host while it did not run",
}
_PER_REPLY = {
    "waits": "calls that waited for events",
    "events": "events that these returned",
    "accepts": "accepts that returned a connection",
    "accept_again": "accepts that found none",
    "accept_no_fd": "accepts that failed for want of a descriptor (EMFILE)",
    "reads": "reads of a request, or of a reply of the backend",
    "read_again": "reads that found nothing",
    "writes": "writes",
    "write_short": "writes for which the send buffer had no room",
    "watches": "descriptors added to what is watched",
    "rewatches": "changes of what is wanted",
    "unwatches": "descriptors taken out",
    "closes": "closes",
    "interrupts": "interrupts",
    "packets": "packets that interrupts handled at once",
    "syn_drops": "connection requests lost",
    "ack_drops": "handshakes whose last packet was lost",
    "sleeps": "times that the server fell asleep",
    "scanned": "descriptors looked at in scans",
    "registered": "wait queues entered in scans",
    "rechecked": "entries of a ready list that were checked and not ready",
    "asks": "calls that asked for notices",
    "notices": "notices that these brought: signals, or events of epoll",
    "notices_unwanted": "notices of a closed descriptor, or of no interest",
    "overflows": "times that SIGIO reported lost signals",
    "updates": "calls that passed changed interests to the kernel",
    "shed": "connections that overload control reset",
    "spawns": "threads or processes begun for a connection",
    "spawn_again": "those that could not be begun (EAGAIN)",
    "watch_no_space": "connections closed because they could not be watched (ENOSPC)",
    "connects": "connections that the machine opened itself, as a client",
    "retries": "connections that clients opened after one that failed",
    "datagrams": "datagrams of a flood that were handled",
    "packet_drops": "packets lost because too many waited",
    "deferred": "packets left to a thread of the kernel",
    "preemptions": "threads that had to leave their CPU to one that woke up",
    "accept_no_file": "accepts that failed for the bound on all files (ENFILE)",
    "no_memory": "connection requests lost for want of memory",
    "time_waits": "connections that the server kept in TIME_WAIT",
    "late": "connections that the server closed because a request had not come in time",
    "write_failed": "writes to a connection that its client had reset",
    "half_open_expired": "half-open connections that the server gave up",
    "signals_lost": "events for whose signal the queue had no room",
    "signals_merged": "events whose descriptor had a signal queued already",
    "syn_drops_accept_queue": "connection requests lost at a full accept queue",
    "syn_drops_half_open": "connection requests lost as too many were half open",
    "syn_drops_above": "connection requests lost above server.drop_above",
    "segments_lost": "segments lost on the paths of clients",
    "backend_queries": "requests sent to the backend",
    "backend_replies": "replies of the backend that the server read",
    "backend_answers": "replies that left the backend",
    "backend_discarded": "replies of the backend for clients that were gone",
    "backend_left": "requests that waited for a connection to the backend until their client left",
}
_NOT_CALLS = {
    "replies",
    *LINK_TIMES,
    *BACKEND_TIMES,
    *(Count(level).name.lower() for level in LEVELS),
}
"""A reply is what the others are counted by; a level is counted by nothing; times are none."""


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
    about = f"{_PER_REPLY[call]}, for each reply of a request"
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
"""All metrics of a run by name, those of tables of results first."""
MAIN = tuple(metric.name for metric in _MAIN)
"""The metrics of which a result has intervals."""
ASKED_AS = Metrics((metric.short, metric) for metric in METRICS.values() if metric.short)
"""Metrics by their names in an objective: "p99 < 50 ms and errors < 0.1%"."""
LEVEL_METRIC = "p99_ns"
"""The metric of a study that is asked for no other."""

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
"""Old names of metrics, as stores of earlier versions have them, and their names now."""


def metrics_of(summary: Summary, also: Iterable[str] = ()) -> dict[str, float]:
    """Return all metrics of one run by name, the same names for every run; *also* percentiles.

    A time is infinite where too many failed, and NaN where there was none.
    """
    return {name: float(METRICS[name].of(summary)) for name in dict.fromkeys((*METRICS, *also))}


def check_metric(name: str, key: str = "figure") -> None:
    """Refuse a name that is no metric of a run; *key* is what the user gave it as.

    Raises
    ------
    UserError
        With what was perhaps meant, or for a percentile whose rank is not above 0 and below 100.
    """
    if name in RENAMED:
        raise UserError(f"{key}: {name} is called {RENAMED[name]} now")
    try:
        is_known = METRICS.has(name) and name == METRICS[name].name
    except UserError as error:
        raise UserError(f"{key}: {error}") from None
    if not is_known:
        raise UserError(f"{key}: {unknown_key(name, METRICS)}, got {name}")


def metric_text(name: str, value: float) -> str:
    """Return a value of the metric *name* for people.

    >>> metric_text("p99_ns", float("inf")), metric_text("cpu_accept", 0.5)
    ('for ever', '50.0%')
    """
    return METRICS[name].text(value)
