"""Operating points of overload: a load beyond what the server can do, and queues that overflow.

    backlog     loads of a half to 1.4 of the capacity with small and large backlogs: who finds the
                queue full repeats its SYN after 1 s and 3 s
    storm       clients with little patience that try again, at once or with back-off, and a surge
                that is over soon: does the server recover?

A load is given as a share of the capacity, which is measured before and after each run with a
closed loop against the same server: a shared machine is now faster, now slower.

Sources: Banga and Druschel 1999, "Measuring the capacity of a web server under realistic loads";
Brecht, Pariag and Gammo 2004, "accept()able strategies for improving web server performance";
Bronson et al. 2021, "Metastable failures in distributed systems".
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from ...sim.load.trace_file import COLUMNS
from ...sim.load.workload import Trace
from ...sim.state.units import SECOND_NS
from .point import BLOCKING, Point, point_at, seed_of
from .points import FIT_WORKERS

BACKLOGS = (16, 128, 4096)
LOADS = (0.8, 1.2, 1.4)
LOADS_BETWEEN = (0.5, 1.0)
"""Of the backlog in the middle."""
BACKLOG_BETWEEN = 128
LINEAR_LOAD = 1.2
LINEAR_SYN_TIMEOUTS = 4
"""What Linux 6.5 and later do (net.ipv4.tcp_syn_linear_timeouts)."""
CAPACITY_USERS = 64
CAPACITY_BACKLOG = 4096
"""No queue overflows while the capacity is measured."""
REQUESTS = 4
"""Of a connection. With one request, connections that wait for their next SYN would be more than
the descriptors a load generator may have."""
PATIENCE_NS = 3_500_000_000
"""Longer than two time-outs of a SYN, 1 s and 2 s."""
STORM_LOAD = 0.7
STORM_SURGE = 0.8
"""Added to the load while a surge lasts."""
STORM_PATIENCE_NS = 200_000_000
STORM_RETRIES = 3
"""If all fail, 2.8 times the capacity are asked for: more is beyond what the generator can do."""
SURGE_BEGIN_NS = 2 * SECOND_NS
SURGE_END_NS = 3 * SECOND_NS


@dataclass(frozen=True, kw_only=True)
class OverloadPoint:
    """One operating point of overload.

    `load` is a share of the capacity; `surge` is added to it from SURGE_BEGIN_NS to SURGE_END_NS
    (0: none). A client that has no whole reply `timeout_ns` after its intended start leaves, and
    tries again up to `retries` times: after `retry_after_ns`, with `retry_doubles` each time after
    twice as long. `linear_syn_timeouts` is the sysctl of the client's side. Other fields as of
    `Point`.
    """

    mechanism: str
    backlog: int
    load: float
    accept_limit: int = 0
    workers: int = 0
    requests: int = REQUESTS
    timeout_ns: int = PATIENCE_NS
    linear_syn_timeouts: int = 0
    surge: float = 0.0
    retries: int = 0
    retry_after_ns: int = 0
    retry_doubles: bool = False

    def __post_init__(self) -> None:
        if self.load <= 0:
            raise ValueError(f"load must be above 0, got {self.load}")
        for name in ("surge", "retries", "retry_after_ns", "linear_syn_timeouts"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        self.open_point(1000 * self.load)  # checks all that a point of a server has

    @property
    def kind(self) -> Literal["backlog", "storm"]:
        """What the point is to show."""
        return "storm" if self.surge > 0 else "backlog"

    @property
    def server(self) -> str:
        """The server's name for people."""
        accept = " accept 1" if self.accept_limit == 1 else ""
        return f"{self.mechanism}{accept}"

    @property
    def label(self) -> str:
        """A short name for people.

        >>> OverloadPoint(mechanism="epoll_level", backlog=16, load=1.2).label
        'epoll_level backlog 16 load 1.2'
        """
        parts = [f"{self.server} backlog {self.backlog} load {self.load:g}"]
        if self.linear_syn_timeouts:
            parts.append(f"{self.linear_syn_timeouts} linear SYN time-outs")
        if self.surge:
            parts.append(f"surge {self.surge:g}")
        if self.retries:
            again = (
                f"after {self.retry_after_ns // 1_000_000} ms" if self.retry_after_ns else "at once"
            )
            parts.append(f"retries {again}{' doubling' if self.retry_doubles else ''}")
        return " ".join(parts)

    def capacity_point(self) -> Point:
        """Return the closed loop that measures the capacity of this server."""
        return point_at(
            mechanism=self.mechanism,
            users=CAPACITY_USERS,
            accept_limit=self.accept_limit,
            backlog=CAPACITY_BACKLOG,
            requests=self.requests,
            workers=self.workers,
        )

    def open_point(self, rate_per_s: float) -> Point:
        """Return the open loop of *rate_per_s* connections, without a surge."""
        return point_at(
            self.capacity_point(),
            loop="open",
            users=0,
            rate_per_s=rate_per_s,
            backlog=self.backlog,
            timeout_ns=self.timeout_ns,
        )

    def seed(self, repeat: int) -> int:
        """Return the seed of the arrivals of one repeat."""
        return seed_of(json.dumps([asdict(self), repeat], sort_keys=True))

    def trace(self, rate_per_s: float, seed: int, seconds: float) -> Trace:
        """Return the arrivals of *seconds*: Poisson at *rate_per_s*, and those of the surge."""
        base = self.open_point(rate_per_s).trace(seed, seconds)
        if self.surge == 0:
            return base
        lasts_s = (SURGE_END_NS - SURGE_BEGIN_NS) / SECOND_NS
        more = self.open_point(self.surge / self.load * rate_per_s).trace(seed + 1, lasts_s)
        at_ns = np.concatenate([base.at_ns, more.at_ns + SURGE_BEGIN_NS])
        order = np.argsort(at_ns, kind="stable")
        others = (
            np.concatenate([getattr(base, name), getattr(more, name)])[order]
            for name in COLUMNS[1:]
        )
        return Trace(base.loop, base.users, at_ns[order], *others)

    def load_options(self) -> tuple[str, ...]:
        """Return the options of the load generator that say who tries again."""
        if not self.retries:
            return ()
        return (
            *("--retries", str(self.retries)),
            *("--retry-after-ms", str(self.retry_after_ns // 1_000_000)),
            *(("--retry-doubles",) if self.retry_doubles else ()),
        )


SERVERS = (("epoll_level", 0), (BLOCKING, FIT_WORKERS))
"""Mechanisms, and how many threads: events against a pool."""


def backlog_points() -> list[OverloadPoint]:
    """Return the points of backlogs and loads."""
    points = [
        OverloadPoint(mechanism=mechanism, workers=workers, backlog=backlog, load=load)
        for mechanism, workers in SERVERS
        for backlog in BACKLOGS
        for load in (*LOADS, *(LOADS_BETWEEN if backlog == BACKLOG_BETWEEN else ()))
    ]
    linear = [
        replace(point, linear_syn_timeouts=LINEAR_SYN_TIMEOUTS)
        for point in points
        if point.backlog == BACKLOG_BETWEEN and point.load == LINEAR_LOAD and not point.workers
    ]
    return points + linear


def storm_points() -> list[OverloadPoint]:
    """Return the points of retry storms: without retries, at once, with back-off; threads."""
    at_once = [
        OverloadPoint(
            mechanism=mechanism, workers=workers, backlog=CAPACITY_BACKLOG, load=STORM_LOAD,
            surge=STORM_SURGE, timeout_ns=STORM_PATIENCE_NS, retries=STORM_RETRIES,
        )
        for mechanism, workers in SERVERS
    ]  # fmt: skip
    events = at_once[0]
    return [
        replace(events, retries=0),
        *at_once,
        replace(events, retry_after_ns=STORM_PATIENCE_NS, retry_doubles=True),
    ]


def overload_points(*, quick: bool = False) -> list[OverloadPoint]:
    """Return every point of overload; *quick* keeps one in about seven.

    >>> len(overload_points()), len(overload_points(quick=True))
    (27, 4)
    """
    points = [*backlog_points(), *storm_points()]
    return points[1::7] if quick else points
