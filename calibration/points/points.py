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

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Literal

from ...sim.load.workload import Load

BLOCKING = "blocking"
"""The mechanism that is none: threads sleep in their calls."""
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

Share = Literal["accept queue", "nothing", "handed over"]
"""What event loops have in common: one accept queue, or nothing (SO_REUSEPORT), or the first one,
which accepts and hands connections to the others."""
Wake = Literal["all", "one"]
"""Whom a new connection wakes of those that wait: all, or one (EPOLLEXCLUSIVE)."""
Steering = Literal["namespaces", "loopback", "emulated"]
"""Who processes what the server receives: its CPU, the sender's CPU, the only CPU there is."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One operating point: the server's options, the idle population and the load.

    `users` is 0 in an open loop and `rate_per_s` is 0 in a closed one; `accept_limit` 0 accepts
    until the queue is empty. `fd_limit` is the server's, 0 for one that is never reached;
    `signal_queue` bounds its queued signals (RLIMIT_SIGPENDING), 0 for the kernel's own bound.
    With a `burst` above 1 the connections of an open loop come that many at an instant, at equal
    distances. Of `blocking`, which needs them, `threads` says where its threads come from and
    `workers` how many the pool has, or how many there may be at once, the one that accepts among
    them. Of all others `workers` are event loops on the server's one CPU, 0 for a single one; what
    several `share` is an accept queue or nothing (SO_REUSEPORT), and of those who watch one queue a
    new connection may `wake` all or one (EPOLLEXCLUSIVE).
    """

    mechanism: str
    idle: int = 0
    loop: Literal["closed", "open"] = "closed"
    users: int = 0
    rate_per_s: float = 0
    accept_limit: int = 0
    listener: Literal["first", "last"] = "first"
    read_after_accept: bool = False
    backlog: int = 4096
    max_events: int = 1024
    requests: int = 1
    request_bytes: int = 64
    reply_bytes: int = 128
    think_ns: int = 0
    timeout_ns: int = 4_000_000_000
    fd_limit: int = 0
    signal_queue: int = 0
    burst: int = 1
    threads: Literal["pool", "on demand", "processes"] = "pool"
    workers: int = 0
    share: Share = "accept queue"
    wake: Wake = "all"

    def __post_init__(self) -> None:
        for name in _FROM_0:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in _FROM_1:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.loop == "closed" and (self.users < 1 or self.rate_per_s != 0):
            raise ValueError(
                "a closed loop has at least 1 user and no rate, "
                f"got {self.users} users and {self.rate_per_s}/s"
            )
        if self.loop == "closed" and self.burst != 1:
            raise ValueError(f"a closed loop has no bursts, got {self.burst}")
        if self.loop == "open" and (self.users != 0 or self.rate_per_s <= 0):
            raise ValueError(
                "an open loop has a rate above 0 and no users, "
                f"got {self.rate_per_s}/s and {self.users} users"
            )
        if self.blocks and self.workers < 1:
            raise ValueError(f"{self.mechanism} has at least 1 worker, got {self.workers}")
        if not self.blocks and self.threads != "pool":
            raise ValueError(f"{self.mechanism} has no threads of its own, got {self.threads}")
        if not self.blocks and self.workers == 1:
            raise ValueError("workers must be 0 for a single event loop, got 1")
        if not self.has_loops and (self.share, self.wake) != ("accept queue", "all"):
            raise ValueError(
                "share and wake are of several event loops, "
                f"got {self.share}, {self.wake} of {self.workers}"
            )
        if self.share != "accept queue" and self.wake == "one":
            raise ValueError(f'wake must be "all" where share is "{self.share}", got "one"')

    @property
    def blocks(self) -> bool:
        """Whether the server's threads sleep in their calls."""
        return self.mechanism == BLOCKING

    @property
    def has_loops(self) -> bool:
        """Whether there are several event loops."""
        return self.workers > 1 and not self.blocks

    @property
    def label(self) -> str:
        """A short name for people, with what differs from the usual.

        >>> Point(mechanism="poll", idle=6000, users=64).label
        'poll idle 6000 closed 64'
        """
        load = f"closed {self.users}" if self.loop == "closed" else f"open {self.rate_per_s:.0f}/s"
        parts = [f"{self.mechanism} idle {self.idle} {load}"]
        if self.accept_limit:
            parts.append(f"accept {self.accept_limit}")
        if self.listener != "first":
            parts.append(f"listener {self.listener}")
        if self.requests != 1:
            parts.append(f"requests {self.requests}")
        if self.burst != 1:
            parts.append(f"burst {self.burst}")
        if self.signal_queue:
            parts.append(f"queue {self.signal_queue}")
        if self.blocks:
            parts.append(f"{self.threads} of {self.workers}")
        if self.has_loops:
            parts.append(f"workers {self.workers}")
        if self.share != "accept queue":
            parts.append(f"share {self.share}")
        if self.wake != "all":
            parts.append(f"wake {self.wake}")
        return " ".join(parts)

    @property
    def load(self) -> Load:
        """Who comes, and what they ask for; of a burst the first, all others do the same."""
        return Load(
            loop=self.loop,
            users=self.users,
            rate_per_s=self.rate_per_s / self.burst,
            process="poisson" if self.burst == 1 else "constant",
            requests=self.requests,
            request_bytes=self.request_bytes,
            reply_bytes=self.reply_bytes,
            think_ns=self.think_ns,
        )

    def seed(self, repeat: int) -> int:
        """Return the seed of the arrivals of one repeat, which depends on nothing else."""
        fields = {
            name: _canonical(value)
            for name, value in asdict(self).items()
            if value != _LATER_FIELDS.get(name)
        }
        return seed_of(json.dumps([fields, repeat], sort_keys=True))


_FROM_0 = (
    "idle", "users", "rate_per_s", "accept_limit", "think_ns", "fd_limit", "signal_queue",
    "workers",
)  # fmt: skip
_FROM_1 = ("backlog", "max_events", "requests", "timeout_ns", "burst")
_LATER_FIELDS = {
    "fd_limit": 0, "signal_queue": 0, "burst": 1, "threads": "pool", "workers": 0,
    "share": "accept queue", "wake": "all",
}  # fmt: skip
"""Points had seeds before they had these fields, and keep them where these are as usual."""


def seed_of(text: str) -> int:
    """Return a seed of 31 bits that depends on *text* and on nothing else."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def _canonical(value: object) -> object:
    """Return 4000 for 4000.0, so that equal points have equal seeds."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


FIT_POINT = Point(mechanism="epoll_level", idle=0, users=64)
KEPT_FIT_POINT = replace(FIT_POINT, requests=4)
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
    if point.mechanism not in SIGNALS:
        return point
    return replace(point, fd_limit=SIGNALS_FD_LIMIT, signal_queue=SIGNALS_QUEUE)


def emulated_fit_point(mechanism: str) -> Point:
    """Return the fit point of *mechanism*; who is told by signals has the queue of the literature.

    Who blocks has a pool with a thread for each user.

    >>> emulated_fit_point("signalfd").label
    'signalfd idle 0 closed 64 queue 1024'
    """
    workers = FIT_WORKERS if mechanism == BLOCKING else 0
    return bounded(
        replace(FIT_POINT, mechanism=mechanism, workers=workers, think_ns=EMULATED_THINK_NS)
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
        Point(mechanism=mechanism, idle=idle, users=users)
        for mechanism, idle, users in product(mechanisms, idle_counts, user_counts)
    ]
    return [point for point in grid if point not in FIT_POINTS]


def open_point(
    capacity_per_s: float,
    mechanism: str,
    fraction: float,
    idle: int = 0,
    *,
    backlog: int = Point.backlog,
    workers: int = 0,
) -> Point:
    """Return an open loop at a fraction of the capacity of the fit point."""
    return Point(
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
    base = Point(mechanism="select", users=256)
    return [
        replace(base, mechanism=mechanism, idle=idle, accept_limit=limit)
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
        *closed_points(telling, idle_counts, (FIT_POINT.users,)),
        *open_points(capacity_per_s, telling, (idle_counts[0], idle_counts[-1]), fractions),
    ]
    if BLOCKING in mechanisms:
        points += blocking_points(capacity_per_s, idle_counts, fractions)
    return [
        replace(point, signal_queue=SIGNALS_QUEUE) if point.mechanism in SIGNALS else point
        for point in points
    ]


def blocking_points(
    capacity_per_s: float, idle_counts: Sequence[int], fractions: Sequence[float]
) -> list[Point]:
    """Return the small grid of threads: a pool, and threads that begin with a connection.

    Only the latter have idle connections, and those they can bear: of a pool each takes a thread.
    """
    pool = Point(mechanism=BLOCKING, users=FIT_POINT.users, workers=FIT_WORKERS)
    demand = replace(pool, threads="on demand", workers=ON_DEMAND_AT_ONCE)

    def open_at(point: Point, fraction: float) -> Point:
        return replace(point, loop="open", users=0, rate_per_s=round(capacity_per_s * fraction))

    return [
        *([pool] if 0 in idle_counts else []),
        *(
            replace(demand, idle=idle, workers=demand.workers + idle)
            for idle in idle_counts
            if idle <= ON_DEMAND_IDLE_MAX
        ),
        *(open_at(pool, fraction) for fraction in fractions),
        *(open_at(demand, fraction) for fraction in (ON_DEMAND_FRACTIONS if fractions else ())),
    ]


def onset_points(capacity_per_s: float) -> list[Point]:
    """Return the open loops that show, with the small grid's, where RT signals overflow."""
    return [
        replace(point, signal_queue=SIGNALS_QUEUE)
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
            *(point for point in accept_points() if point.idle == 0 and point.accept_limit == 1),
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
    return [point for point in points if point.mechanism in mechanisms]
