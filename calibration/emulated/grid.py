"""Which points the emulated target is measured at, and for how long.

    fit      one for each mechanism: idle 0, closed loop of 64 users, who think
    held out open loops at 0.2 to 1.3 of that point's capacity, as many arrival seeds as rounds;
             closed loops and accept limits once, with one draw of think times;
             threads that block once: pools of two sizes, threads and processes on demand;
             rings once: open loops, closed ones, several requests a connection

Lengths are chosen by requests and not by time: an emulated second costs as much as its
instructions, and what a run says is as exact as its number of requests.

Two choices keep single instructions from deciding what is measured, as no jitter dissolves it
here. Users who do not think lock into a pattern. A server that empties its accept queue
in each round alternates between waits for new and waits for old connections until a connection
happens to come between its last accept and its next wait, which takes some twenty rounds: scans
are given time before the window, and at and above capacity the queue is short, so that rounds are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from ...sim.state.units import SECOND_NS
from ..points.point import BLOCKING, Point, point_at
from ..points.points import (
    BACKLOG,
    EMULATED_THINK_NS,
    FIT_POINTS_OF,
    MECHANISMS,
    RINGS,
    USER_COUNTS,
    open_point,
)

IDLE_COUNTS = (0, 250, 1000, 4000)
LOAD_FRACTIONS = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.15, 1.3)
OVERLOAD_BACKLOG = 128
"""From capacity on: full before the window begins; 4096 would take seconds."""
ACCEPT_LIMITS = (1, 10)
ACCEPT_IDLE_COUNTS = (0, 4000)
ACCEPT_USERS = 256
POOLS = (64, 512)
BLOCKING_FRACTIONS = (0.3, 0.6, 0.9, 1.2)
THREADS_FRACTIONS = (0.3, 0.6)
"""Beginning a thread takes half as much as serving its request."""
PROCESSES_FRACTIONS = (0.05, 0.15)
"""Beginning a process takes more than three times as much."""
RING_FRACTIONS = (0.3, 0.6, 0.9, 1.0, 1.5)
RING_IDLE_COUNTS = (0, 4000)
KEPT_REQUESTS = 4
SEEDS = 5
DELAY_NS = 50_000
"""One way between client and server."""

WARM_UP_REQUESTS = 500
WINDOW_REQUESTS = 4_000
_USERS_WARM_UP = 4  # requests of each user before the window, where users are many
_WAITS_WARM_UP = 100  # that scan, before the window
_OVERLOAD_WARM_UP_S = 0.15  # some thirty rounds of a full queue
_GRAIN_NS = 10_000_000  # of lengths
_REQUEST_NS = 40_000  # of the server's CPU, about; these two only choose lengths
_LONG_REPLY_BYTES = 16_384  # to send this much is another request's work, about
_SCANNED_NS = 250  # for a descriptor that a wait looks at, about
_SCANNING = ("select", "poll")


class RunLengths(NamedTuple):
    """Of the parts of a run, in ns, whole multiples of 10 ms."""

    warm_up_ns: int
    window_ns: int


def closed_points() -> list[Point]:
    """Return the closed loops without the points that a fit may see."""
    grid = product(MECHANISMS, IDLE_COUNTS, USER_COUNTS)
    points = [
        point_at(
            mechanism=name,
            idle=idle,
            users=users,
            think_ns=EMULATED_THINK_NS,
        )
        for name, idle, users in grid
    ]
    return [point for point in points if point not in FIT_POINTS_OF["emulated"]]


def open_at(
    capacity_per_s: float, mechanism: str, fraction: float, idle: int = 0, workers: int = 0
) -> Point:
    """Return an open loop at a fraction of the capacity; overload has a queue that overflows."""
    backlog = OVERLOAD_BACKLOG if fraction >= 1 else BACKLOG
    return open_point(capacity_per_s, mechanism, fraction, idle, backlog=backlog, workers=workers)


def open_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops at fractions of the capacity of the fit point."""
    return [
        open_at(capacity_per_s, name, fraction, idle)
        for name, idle, fraction in product(MECHANISMS, IDLE_COUNTS, LOAD_FRACTIONS)
    ]


def accept_points() -> list[Point]:
    """Return the points with an accept limit; those without one are in the closed loops."""
    base = point_at(mechanism="select", users=ACCEPT_USERS, think_ns=EMULATED_THINK_NS)
    return [
        point_at(base, mechanism=name, idle=idle, accept_limit=limit)
        for name, idle, limit in product(MECHANISMS, ACCEPT_IDLE_COUNTS, ACCEPT_LIMITS)
    ]


def blocking_points(capacity_per_s: float) -> list[Point]:
    """Return the points of threads that block, at fractions of the capacity of the fit point."""

    def at(fraction: float) -> Point:
        return open_at(capacity_per_s, BLOCKING, fraction, workers=POOLS[0])

    user = point_at(at(1), loop="closed", rate_per_s=0, users=1, backlog=BACKLOG)
    kept = point_at(at(min(THREADS_FRACTIONS) / 2), requests=KEPT_REQUESTS)
    return [
        *(point_at(at(x), workers=n) for x, n in product(BLOCKING_FRACTIONS, POOLS)),
        *(
            point_at(user, users=users, workers=workers, think_ns=EMULATED_THINK_NS)
            for users, workers in ((4, POOLS[0]), (64, POOLS[1]), (256, POOLS[1]))
        ),
        *(point_at(at(x), threads="on demand", workers=POOLS[1]) for x in THREADS_FRACTIONS),
        *(point_at(at(x), threads="processes", workers=POOLS[1]) for x in PROCESSES_FRACTIONS),
        point_at(kept, think_ns=EMULATED_THINK_NS),
    ]


def ring_points(capacity_per_s: float) -> list[Point]:
    """Return the points of mechanisms that tell by a ring, at fractions of that capacity."""
    first, *_, last = RING_IDLE_COUNTS
    loops = ((4, first), (256, first), (64, last))
    kept = min(RING_FRACTIONS) / 2
    return [
        *(
            open_at(capacity_per_s, name, fraction, idle)
            for name, idle, fraction in product(RINGS, RING_IDLE_COUNTS, RING_FRACTIONS)
        ),
        *(
            point_at(mechanism=name, idle=idle, users=users, think_ns=EMULATED_THINK_NS)
            for name, (users, idle) in product(RINGS, loops)
        ),
        *(
            point_at(
                open_at(capacity_per_s, name, kept, first),
                requests=KEPT_REQUESTS,
                think_ns=EMULATED_THINK_NS,
            )
            for name in RINGS
        ),
    ]


def held_out(index: int, capacity_per_s: float, *, quick: bool) -> Sequence[Point]:
    """Return the points of round *index*; *quick* keeps one in about ten.

    Only the first round has closed loops: another draw of think times says little.
    """
    once = (
        [
            *closed_points(),
            *accept_points(),
            *blocking_points(capacity_per_s),
            *ring_points(capacity_per_s),
        ]
        if index == 0
        else []
    )
    points = [*once, *open_points(capacity_per_s)]
    return points[::10] if quick else points


def lengths_of(point: Point) -> RunLengths:
    """Return how long a run at *point* lasts so that its window holds about 4,000 requests.

    Of long replies there are fewer: each is as much work as several requests.

    >>> lengths_of(point_at(mechanism="poll", loop="open", rate_per_s=8_000))
    RunLengths(warm_up_ns=70000000, window_ns=500000000)
    """
    rate_per_s = expected_rate_per_s(point)
    n_before = max(WARM_UP_REQUESTS, _USERS_WARM_UP * point.users)
    warm_up_s = max(
        n_before / rate_per_s,
        _WAITS_WARM_UP * _scan_ns(point) / SECOND_NS,
        _OVERLOAD_WARM_UP_S if point.server.backlog == OVERLOAD_BACKLOG else 0,
    )
    n_window = WINDOW_REQUESTS / max(1, point.load.reply_size / _LONG_REPLY_BYTES)
    return RunLengths(_whole(warm_up_s), _whole(n_window / rate_per_s))


def expected_rate_per_s(point: Point) -> float:
    """Return about how many requests a second there are at *point*: within a factor of two.

    All users of a closed loop go through two waits and four delays a connection, together; with
    an accept limit no more connections than that begin for a wait.
    """
    if point.load.loop == "open":
        return point.rate_per_s
    wait_ns = _scan_ns(point)
    busy_ns = point.users * _REQUEST_NS + 2 * wait_ns
    cycle_ns = max(busy_ns, point.load.think_time + 4 * DELAY_NS + _REQUEST_NS) + 4 * DELAY_NS
    rate_per_s = point.users * SECOND_NS / cycle_ns
    if point.server.accept_limit:
        rate_per_s = min(
            rate_per_s, SECOND_NS / (_REQUEST_NS + wait_ns / point.server.accept_limit)
        )
    return rate_per_s


def _scan_ns(point: Point) -> int:
    """Return about how long a wait at *point* looks at the idle descriptors."""
    return point.idle.connections * _SCANNED_NS if point.server.mechanism in _SCANNING else 0


def _whole(seconds: float) -> int:
    """Return *seconds* in ns, rounded up to whole grains."""
    return -round(-seconds * SECOND_NS // _GRAIN_NS) * _GRAIN_NS
