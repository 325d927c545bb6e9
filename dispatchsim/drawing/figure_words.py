"""What each figure of a run is, in words and with its unit: for references.

latency_p99_ns    its unit is at the end of its name
cpu_accept        a share of all CPU time
waits_per_reply   a count, for each reply of a request

How each is found is in `run_figures`.
"""

from __future__ import annotations

from typing import NamedTuple

_OF_LATENCY = "from when a connection was due until it was answered in full"
_NAMED = {
    "throughput_per_s": "connections answered in full per second",
    "latency_mean_ns": f"mean latency, {_OF_LATENCY}",
    "latency_p50_ns": "median of these latencies",
    "latency_p90_ns": "90th percentile of these latencies",
    "latency_p99_ns": "99th percentile of these latencies",
    "latency_p999_ns": "99.9th percentile of these latencies",
    "latency_max_ns": "the longest of these latencies",
    "request_latency_p50_ns": "median latency of single requests",
    "request_latency_p99_ns": "99th percentile of the latency of single requests",
    "cpu_busy": "share of all CPU time in which the server's CPUs were not idle",
    "events_per_wait": "events that a call returned, in the mean",
    "failed_share": "share of the connections due that failed",
    "p99_due_ns": "99th percentile of all that were due, where who failed counts as late: infinite "
    "if more than 1% failed",
    "offered": "connections due in the window",
    "replied": "connections answered in full in the window",
    "failed": "connections due in the window that failed",
    "error_timeout": "clients that gave up",
    "error_refused": "connections refused, as the backlog was full",
    "error_reset": "connections that the server reset",
    "error_descriptors": "connections for which a client had no descriptor",
    "error_dropped": "connections none of whose SYNs was ever answered",
    "error_ports": "connections for which a client had no port",
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
}
_PER_REPLY = {
    "waits": "calls that waited for events",
    "events": "events that these returned",
    "accepts": "accepts that returned a connection",
    "accept_again": "accepts that found none",
    "accept_no_fd": "accepts that failed for want of a descriptor (EMFILE)",
    "reads": "reads of a request",
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
    "rechecked": "entries of a ready list looked at in vain",
    "asks": "calls that asked for notices",
    "notices": "notices that these brought: signals, or events of epoll",
    "notices_unwanted": "notices of a closed descriptor, or of no interest",
    "overflows": "times that notices were lost and all was polled",
    "updates": "calls that told of changed interests",
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
}


class FigureWords(NamedTuple):
    """The unit of a figure, and what it is."""

    unit: str
    about: str


def figure_words(name: str) -> FigureWords:
    """Return unit and meaning of a figure of a run.

    Raises
    ------
    KeyError
        If there is no such figure.

    >>> figure_words("latency_p99_ns")
    FigureWords(unit='ns', about='99th percentile of these latencies')
    """
    if name in _NAMED:
        return FigureWords(_unit(name), _NAMED[name])
    if name.startswith("cpu_"):
        return FigureWords("share", f"share of all CPU time: {_CPU[name.removeprefix('cpu_')]}")
    about = _PER_REPLY[name.removesuffix("_per_reply")]
    return FigureWords("per reply", f"{about}, for each reply of a request")


def _unit(name: str) -> str:
    if name.endswith("_ns"):
        return "ns"
    if name.endswith("_per_s"):
        return "1/s"
    if name in ("cpu_busy", "failed_share"):
        return "share"
    return "events" if name == "events_per_wait" else "connections"
