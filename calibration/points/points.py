"""Operating points: what a run sets, and which runs a fit may see.

fit points   on hardware epoll_level, idle 0, closed loop of 64
             users with 1 and 4 requests a connection; on
             the emulated target one for each
             mechanism it has, whose users think               ──► the only input of a fit
held out     closed grid, open loop at fractions of the
             fit point's capacity, accept limits; a small
             grid of each further mechanism                    ──► what a profile must predict

What is held out on the emulated target is in emulated/grid.py. On hardware fit points of one
mechanism are for all: what user code takes for a request is the same, and what they differ in has
prices.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from .point import BLOCKING, Point, Steering, point_at

IO_URING = "io_uring"
RINGS = ("aio_poll", IO_URING)
"""Mechanisms that tell by a ring in the server's memory."""
MECHANISMS = ("select", "poll", "epoll_level")
FURTHER_MECHANISMS = (
    "rt_signals", "signalfd", "epoll_edge", "epoll_once", "epoll_oneshot", "epoll_close",
    IO_URING, BLOCKING,
)  # fmt: skip
STOCK_MECHANISMS = (*MECHANISMS, *FURTHER_MECHANISMS)
"""What a stock Linux runs, io_uring where that is allowed, and a campaign on hardware measures: of
the further ones a small grid."""
IDLE_COUNTS = (0, 250, 1000, 6000)
USER_COUNTS = (4, 16, 64, 256)
LOAD_FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.2)
ACCEPT_LIMITS = (1, 10)
FURTHER_IDLE_COUNTS = (0, 1000, 6000)
FURTHER_FRACTIONS = (0.5, 0.8, 0.95, 1.1)
ON_DEMAND_FRACTIONS = (0.3, 0.5)
"""Beginning a thread takes about as much as half a request."""
ON_DEMAND_IDLE_MAX = 1000
"""Idle connections that have a thread each."""
ON_DEMAND_AT_ONCE = 512
"""Threads for connections that are not idle."""
ONSET_FRACTIONS = (0.85, 0.9, 1.0, 1.05, 1.2)
"""Besides those: from which load on RT signals overflow their queue."""


FIT_USERS = 64
BACKLOG = 4096
FIT_POINT = point_at(mechanism="epoll_level", users=FIT_USERS)
KEPT_FIT_POINT = point_at(FIT_POINT, requests=4)
"""Its connections are kept for several requests: what it answers says what a connection takes."""
FIT_POINTS = (FIT_POINT, KEPT_FIT_POINT)
EMULATED_THINK_NS = 1_000_000
"""Without think times a machine without jitter locks into a pattern of its own."""

SIGNALS = ("rt_signals", "signal_per_fd", "sigtimedwait4", "signalfd")
"""Mechanisms whose servers are told by signals."""
SIGNALS_FD_LIMIT = 4_096
"""Of the servers that are told by signals, so that a queue can hold one for each descriptor."""
SIGNALS_QUEUE = 1_024
"""What a queue of signals holds in the literature: Provos and Lever 2000, section 5."""
FIT_WORKERS = 64
"""Of a server that blocks: a thread for each user of the fit point."""


def bounded(point: Point) -> Point:
    """Return *point* with the queue of the literature, if its server is told by signals."""
    if point.server.mechanism not in SIGNALS:
        return point
    return point_at(point, fd_limit=SIGNALS_FD_LIMIT, signal_queue=SIGNALS_QUEUE)


def emulated_fit_point(mechanism: str) -> Point:
    """Return the fit point of *mechanism*; who is told by signals has the queue of the literature.

    Who blocks has a pool with a thread for each user.

    >>> emulated_fit_point("signalfd").label
    'signalfd idle 0 closed 64 queue 1024'
    """
    workers = FIT_WORKERS if mechanism == BLOCKING else 0
    return bounded(
        point_at(FIT_POINT, mechanism=mechanism, workers=workers, think_ns=EMULATED_THINK_NS)
    )


_EMULATED = (
    *("epoll_level", "select", "poll", "rt_signals", "signalfd", "epoll_edge", "epoll_once"),
    *(BLOCKING, *RINGS),
)
EMULATED_FIT_POINTS = tuple(map(emulated_fit_point, _EMULATED))
"""Of the kernel as it is."""
UNMERGED_FIT_POINTS = tuple(
    map(emulated_fit_point, ("signal_per_fd", "sigtimedwait4", "epoll_ctlv", "dev_poll"))
)
"""Besides those, of a kernel that has what was never merged."""
FIT_POINTS_OF: dict[Steering, tuple[Point, ...]] = {
    "namespaces": FIT_POINTS,
    "loopback": FIT_POINTS,
    "emulated": (*EMULATED_FIT_POINTS, *UNMERGED_FIT_POINTS),
}
"""The points that a fit may see of each kind of target; the first gives what all share.

Those of mechanisms that a target lacks have no runs.
"""
RATE_POINTS = (FIT_POINT,)
"""Points whose runs only say what the rates of held-out points are fractions of."""


def closed_points(
    mechanisms: Sequence[str] = MECHANISMS,
    idle_counts: Sequence[int] = IDLE_COUNTS,
    user_counts: Sequence[int] = USER_COUNTS,
) -> list[Point]:
    """Return the closed-loop grid without the points that a fit may see."""
    grid = [
        point_at(mechanism=mechanism, idle=idle, users=users)
        for mechanism, idle, users in product(mechanisms, idle_counts, user_counts)
    ]
    return [point for point in grid if point not in FIT_POINTS]


def open_point(
    capacity_per_s: float,
    mechanism: str,
    fraction: float,
    idle: int = 0,
    *,
    backlog: int = BACKLOG,
    workers: int = 0,
) -> Point:
    """Return an open loop at a fraction of the capacity of the fit point."""
    return point_at(
        mechanism=mechanism,
        idle=idle,
        loop="open",
        rate_per_s=round(capacity_per_s * fraction),
        backlog=backlog,
        workers=workers,
    )


def open_points(
    capacity_per_s: float,
    mechanisms: Sequence[str] = MECHANISMS,
    idle_counts: Sequence[int] = (0, 6000),
    fractions: Sequence[float] = LOAD_FRACTIONS,
) -> list[Point]:
    """Return open-loop points at fractions of the measured capacity of the fit point."""
    if capacity_per_s <= 0:
        raise ValueError(f"capacity_per_s must be above 0, got {capacity_per_s}")
    return [
        open_point(capacity_per_s, mechanism, fraction, idle)
        for mechanism, idle, fraction in product(mechanisms, idle_counts, fractions)
    ]


def accept_points(mechanisms: Sequence[str] = MECHANISMS) -> list[Point]:
    """Return the points with an accept limit; those without one are in the closed grid."""
    base = point_at(mechanism="select", users=256)
    return [
        point_at(base, mechanism=mechanism, idle=idle, accept_limit=limit)
        for mechanism, idle, limit in product(mechanisms, (0, 6000), ACCEPT_LIMITS)
    ]


def further_points(
    capacity_per_s: float,
    mechanisms: Sequence[str] = FURTHER_MECHANISMS,
    idle_counts: Sequence[int] = FURTHER_IDLE_COUNTS,
    fractions: Sequence[float] = FURTHER_FRACTIONS,
) -> list[Point]:
    """Return the small grid of mechanisms: closed loops of 64 users, open loops.

    Who is told by signals has the queue of the literature, and no limit of descriptors: idle
    connections need more than SIGNALS_FD_LIMIT.
    """
    telling = [name for name in mechanisms if name != BLOCKING]
    points = [
        *closed_points(telling, idle_counts, (FIT_USERS,)),
        *open_points(capacity_per_s, telling, (idle_counts[0], idle_counts[-1]), fractions),
    ]
    if BLOCKING in mechanisms:
        points += blocking_points(capacity_per_s, idle_counts, fractions)
    return [
        point_at(point, signal_queue=SIGNALS_QUEUE) if point.server.mechanism in SIGNALS else point
        for point in points
    ]


def blocking_points(
    capacity_per_s: float, idle_counts: Sequence[int], fractions: Sequence[float]
) -> list[Point]:
    """Return the small grid of threads: a pool, and threads that begin with a connection.

    Only the latter have idle connections, and those they can bear: of a pool each takes a thread.
    """
    pool = point_at(mechanism=BLOCKING, users=FIT_USERS, workers=FIT_WORKERS)
    demand = point_at(pool, threads="on demand", workers=ON_DEMAND_AT_ONCE)

    def open_at(point: Point, fraction: float) -> Point:
        return point_at(point, loop="open", users=0, rate_per_s=round(capacity_per_s * fraction))

    return [
        *([pool] if 0 in idle_counts else []),
        *(
            point_at(demand, idle=idle, workers=demand.server.workers + idle)
            for idle in idle_counts
            if idle <= ON_DEMAND_IDLE_MAX
        ),
        *(open_at(pool, fraction) for fraction in fractions),
        *(open_at(demand, fraction) for fraction in (ON_DEMAND_FRACTIONS if fractions else ())),
    ]


def onset_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops that show, with the small grid's, where RT signals overflow."""
    return [
        point_at(point, signal_queue=SIGNALS_QUEUE)
        for point in open_points(capacity_per_s, (SIGNALS[0],), (0,), ONSET_FRACTIONS)
    ]


def held_out_points(
    capacity_per_s: float, *, quick: bool = False, mechanisms: Sequence[str] = STOCK_MECHANISMS
) -> list[Point]:
    """Return every point of *mechanisms* that a fit may not see; *quick* keeps one in about eight.

    >>> len(held_out_points(20_000, mechanisms=["poll"], quick=True))
    5
    """
    further = [name for name in FURTHER_MECHANISMS if name in mechanisms]
    if quick:
        points = [
            *closed_points(idle_counts=(0, 1000), user_counts=(64,)),
            *open_points(capacity_per_s, idle_counts=(0, 6000), fractions=(0.4,)),
            *(
                point
                for point in accept_points()
                if point.idle.connections == 0 and point.server.accept_limit == 1
            ),
            *further_points(capacity_per_s, further, idle_counts=(1000,), fractions=()),
        ]
    else:
        points = [
            *closed_points(),
            *open_points(capacity_per_s),
            *accept_points(),
            *further_points(capacity_per_s, further),
            *onset_points(capacity_per_s),
        ]
    return [point for point in points if point.server.mechanism in mechanisms]
