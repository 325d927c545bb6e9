"""Which points the kernel with the mechanisms that were never merged is measured at.

    loads          all mechanisms, two idle populations, 0.5 to 1.5 of the capacity
    onset          RT signals, at loads between which their queue begins to overflow
    queue bounds   those told by signals, where the load alone fills the queue
    accept limit   the same, where a wait accepts a few connections only
    bursts         the same, where many connections come at an instant: one request or several
    idle counts    those that scan, and epoll beside them
    variants       epoll disarmed by each event, or left to close: one request or several
    long replies   those with calls to save where a reply has to wait for room
    one user       all mechanisms, where each call that a server makes follows from the one before

Rates are fractions of one capacity, that of the fit point (epoll_level, 64 users) on this kernel.
"""

from __future__ import annotations

import math
from itertools import product

from ...points.point import Point, point_at
from ...points.points import (
    EMULATED_THINK_NS,
    SIGNALS,
    SIGNALS_FD_LIMIT,
    SIGNALS_QUEUE,
    bounded,
    open_point,
)

SCANNING = ("select", "poll", "dev_poll")
EPOLL = ("epoll_level", "epoll_ctlv", "epoll_edge", "epoll_once")
BOUNDED = SIGNALS[:3]
"""With several bounds of the queue; signalfd has that of rt_signals."""

COMPARED = ("select", "poll", "epoll_level")
UNMERGED = ("signal_per_fd", "sigtimedwait4", "dev_poll", "epoll_ctlv")
MERGED = ("signalfd", "epoll_edge", "epoll_once")
"""Mechanisms of every Linux that no other folder holds measurements of: a few points."""

VARIANTS = ("epoll_level", "epoll_oneshot", "epoll_close")
VARIANT_FRACTIONS = (0.3, 0.6, 0.9)
VARIANT_REQUESTS = (1, 4)

FRACTIONS = (0.5, 0.9, 1.1, 1.5)
IDLE_FRACTIONS = (0.5, 1.1)  # with an idle population, and of the merged ones
ONSET_FRACTIONS = (0.8, 0.84, 0.86, 0.88, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0)
IDLE = 1_000
SCANNED_IDLE_COUNTS = (250, 4_000)  # besides none and the above
SCANNED_FRACTION = 0.5

FD_LIMIT = SIGNALS_FD_LIMIT
QUEUE = SIGNALS_QUEUE
QUEUES = (128, QUEUE, FD_LIMIT)
OVERLOADS = (1.1, 1.5)  # where there is something to overflow
ACCEPT_LIMIT = 10

BURST_LOADS = ((500, 1, 0.5), (2_000, 1, 0.5), (500, 4, 0.25))
"""Connections at an instant, requests of each, and connections as a fraction of the capacity."""
_BURST_GRAIN_S = 0.01

LONG_REPLY_BYTES = 65_536  # more than a send buffer takes at once
LONG_FRACTION = 0.1


def points_at(capacity_per_s: float) -> list[Point]:
    """Return all points, none twice, for a capacity in connections per second."""
    parts = (
        load_points, onset_points, queue_points, accept_points, burst_points, idle_points,
        long_reply_points, variant_points,
    )  # fmt: skip
    at_rates = [point for part in parts for point in part(capacity_per_s)]
    return list(dict.fromkeys([*at_rates, *one_user_points()]))


def load_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops of Poisson arrivals; queues have the bound of the literature."""
    many = ("rt_signals", *UNMERGED, *COMPARED)
    grid = [
        *product(many, FRACTIONS, (0,)),
        *product(MERGED, IDLE_FRACTIONS, (0,)),
        *product((*many, *MERGED), IDLE_FRACTIONS, (IDLE,)),
    ]
    return [open_bounded(capacity_per_s, *which) for which in grid]


def onset_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops that show from which load on RT signals overflow their queue."""
    return [open_bounded(capacity_per_s, SIGNALS[0], fraction) for fraction in ONSET_FRACTIONS]


def queue_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops above the capacity with several bounds of the queue."""
    return [
        point_at(open_bounded(capacity_per_s, name, fraction), signal_queue=queue)
        for name, queue, fraction in product(BOUNDED, QUEUES, OVERLOADS)
    ]


def accept_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops above the capacity with an accept limit."""
    return [
        point_at(open_bounded(capacity_per_s, name, fraction), accept_limit=ACCEPT_LIMIT)
        for name, fraction in product((*SIGNALS, "epoll_level"), OVERLOADS)
    ]


def burst_points(capacity_per_s: float) -> list[Point]:
    """Return the loads that come in bursts, with several bounds of the queue."""
    points = []
    for load in BURST_LOADS:
        for name in (*BOUNDED, "epoll_level", "epoll_ctlv", "dev_poll"):
            point = burst_point(capacity_per_s, name, *load)
            if name in SIGNALS:
                points += [point_at(point, signal_queue=queue) for queue in QUEUES]
            else:
                points.append(point)
    return points


def idle_points(capacity_per_s: float) -> list[Point]:
    """Return the idle populations that show what a scan costs."""
    return [
        open_bounded(capacity_per_s, name, SCANNED_FRACTION, idle)
        for name, idle in product((*SCANNING, "epoll_level"), SCANNED_IDLE_COUNTS)
    ]


def long_reply_points(capacity_per_s: float) -> list[Point]:
    """Return replies that do not fit a send buffer, so that interest changes to writing."""
    return [
        point_at(
            open_bounded(capacity_per_s, name, LONG_FRACTION), reply_bytes=LONG_REPLY_BYTES
        )
        for name in (*EPOLL, "dev_poll")
    ]  # fmt: skip


def variant_points(capacity_per_s: float) -> list[Point]:
    """Return the loads at which a call more for each request, or one less, can be seen."""
    return [
        point_at(open_bounded(capacity_per_s, name, fraction / requests), requests=requests)
        for name, fraction, requests in product(VARIANTS, VARIANT_FRACTIONS, VARIANT_REQUESTS)
    ]


def one_user_points() -> list[Point]:
    """Return the closed loops of one user, who has one request a connection or several."""
    names = dict.fromkeys((*SIGNALS, *COMPARED, *UNMERGED, *MERGED, *VARIANTS))
    return [
        bounded(point_at(mechanism=name, users=1, think_ns=EMULATED_THINK_NS, requests=requests))
        for name, requests in product(names, VARIANT_REQUESTS)
    ]


def open_bounded(capacity_per_s: float, mechanism: str, fraction: float, idle: int = 0) -> Point:
    """Return an open loop; who is told by signals has the queue of the literature."""
    return bounded(open_point(capacity_per_s, mechanism, fraction, idle))


def burst_point(
    capacity_per_s: float, mechanism: str, burst: int, requests: int, fraction: float
) -> Point:
    """Return a load in bursts, at distances of whole grains: a window holds as many as whole."""
    grains = math.ceil(burst / (capacity_per_s * fraction) / _BURST_GRAIN_S)
    return point_at(
        open_bounded(capacity_per_s, mechanism, fraction),
        rate_per_s=math.ceil(burst / (grains * _BURST_GRAIN_S)),
        burst=burst,
        requests=requests,
    )
