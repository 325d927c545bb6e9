"""Which points the kernel with the mechanisms that were never merged is measured at.

    loads          all mechanisms, two idle populations, 0.5 to 1.5 of the capacity
    queue bounds   those told by signals, where the load alone fills the queue
    bursts         the same, where many connections come at an instant: one request or several
    idle counts    those that scan, and epoll beside them

Rates are fractions of one capacity, that of the fit point (epoll_level, 64 users) on this kernel.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from ...points import Point

SCANNING = ("select", "poll", "dev_poll")
EPOLL = ("epoll_level", "epoll_ctlv", "epoll_edge", "epoll_once")
SIGNALS = ("rt_signals", "signal_per_fd", "sigtimedwait4", "signalfd")

COMPARED = ("select", "poll", "epoll_level")
UNMERGED = ("signal_per_fd", "sigtimedwait4", "dev_poll", "epoll_ctlv")
MERGED = ("signalfd", "epoll_edge", "epoll_once")
"""Mechanisms of every Linux that no other folder holds measurements of: a few points."""

LOAD_FRACTIONS = (0.5, 0.9, 1.1, 1.5)
MERGED_FRACTIONS = (0.5, 1.1)
IDLE_COUNTS = (0, 1_000)
SCANNED_IDLE_COUNTS = (250, 4_000)  # besides those above
SCANNED_FRACTION = 0.5

FD_LIMIT = 4_096
"""Of the servers that are told by signals, so that a queue can hold one for each descriptor."""

QUEUE = 1_024
"""What a queue of signals holds in the literature: Provos and Lever 2000, section 5."""

QUEUES = (128, QUEUE, FD_LIMIT)
QUEUE_FRACTIONS = (1.1, 1.5)  # where there is something to overflow

BURSTS = (500, 2_000)
BURST_LOADS = ((1, 0.5), (4, 0.25))
"""Requests of a connection, and connections as a fraction of the capacity."""

LONG_REPLY_BYTES = 131_072  # more than a send buffer takes at once
LONG_FRACTION = 0.05


def points_at(capacity_per_s: float) -> list[Point]:
    """Return all points, none twice, for a capacity in connections per second."""
    points = [
        *load_points(capacity_per_s),
        *queue_points(capacity_per_s),
        *burst_points(capacity_per_s),
        *idle_points(capacity_per_s),
        *long_reply_points(capacity_per_s),
    ]
    return list(dict.fromkeys(points))


def load_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops of Poisson arrivals; queues have the bound of the literature."""
    many = ("rt_signals", *UNMERGED, *COMPARED)
    grid = [
        *product(many, IDLE_COUNTS, LOAD_FRACTIONS),
        *product(MERGED, IDLE_COUNTS, MERGED_FRACTIONS),
    ]
    return [open_point(capacity_per_s, name, fraction, idle) for name, idle, fraction in grid]


def queue_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops at and above the capacity with several bounds of the queue."""
    return [
        replace(open_point(capacity_per_s, name, fraction), signal_queue=queue)
        for name, queue, fraction in product(SIGNALS[:3], QUEUES, QUEUE_FRACTIONS)
    ]


def burst_points(capacity_per_s: float) -> list[Point]:
    """Return the loads that come in bursts, with several bounds of the queue."""
    return [
        replace(point, burst=burst)
        for burst, (requests, fraction) in product(BURSTS, BURST_LOADS)
        for point in _at_all_bounds(capacity_per_s, fraction, requests)
    ]


def _at_all_bounds(capacity_per_s: float, fraction: float, requests: int) -> list[Point]:
    bounded = [
        replace(open_point(capacity_per_s, name, fraction), signal_queue=queue)
        for name, queue in product(SIGNALS[:3], QUEUES)
    ]
    others = [
        open_point(capacity_per_s, name, fraction)
        for name in ("epoll_level", "epoll_ctlv", "dev_poll")
    ]
    return [replace(point, requests=requests) for point in (*bounded, *others)]


def idle_points(capacity_per_s: float) -> list[Point]:
    """Return the idle populations that show what a scan costs."""
    return [
        open_point(capacity_per_s, name, SCANNED_FRACTION, idle)
        for name, idle in product((*SCANNING, "epoll_level"), SCANNED_IDLE_COUNTS)
    ]


def long_reply_points(capacity_per_s: float) -> list[Point]:
    """Return replies that do not fit a send buffer, so that interest changes to writing."""
    return [
        replace(open_point(capacity_per_s, name, LONG_FRACTION), reply_bytes=LONG_REPLY_BYTES)
        for name in (*EPOLL, "dev_poll")
    ]


def open_point(capacity_per_s: float, mechanism: str, fraction: float, idle: int = 0) -> Point:
    """Return an open loop; who is told by signals has the queue of the literature."""
    point = Point(
        mechanism=mechanism, idle=idle, loop="open", rate_per_s=round(capacity_per_s * fraction)
    )
    if mechanism in SIGNALS:
        return replace(point, fd_limit=FD_LIMIT, signal_queue=QUEUE)
    return point
