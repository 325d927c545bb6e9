"""Which runs are made of a server: those that a fit may see, and those that are forecast.

fit        fitted variant, no idle connections, 1 and 1000 requests a connection
held out   fitted variant and other back ends at 250, 1000, 6000 idle connections;
           several workers and ways to accept without any
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product

from ...calibration.observed.observed_run import (
    ObservedLoad,
    ObservedRun,
    ObservedServer,
    Source,
)
from ...calibration.points.points import Point
from .servers import MEMCACHED, NGINX, REDIS, TRANSMISSION, RealServer, Variant

SERVERS = {server.name: server for server in (MEMCACHED, NGINX, TRANSMISSION, REDIS)}
USERS = 64
IDLE_COUNTS = (0, 250, 1000, 6000)
REQUESTS = (1, 1000)
"""Of a connection: what a connection costs, and what a request does."""
SELECT_IDLE_MAX = 900
"""libevent's select aborts where a descriptor does not fit an fd_set of 1024."""


@dataclass(frozen=True)
class Case:
    """A variant of a server under one load."""

    server: RealServer
    variant: Variant
    requests: int
    idle: int = 0

    @property
    def is_fitted(self) -> bool:
        """Whether the fit may see it."""
        return self.variant is self.server.fitted and self.idle == 0

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.server.name} {self.variant.name}, idle {self.idle}, requests {self.requests}"

    @property
    def load(self) -> Point:
        """What the load generator does; of its mechanism the load generator knows nothing."""
        return Point(
            mechanism=self.variant.habits.mechanism,
            users=USERS,
            idle=self.idle,
            requests=self.requests,
        )

    @property
    def said(self) -> ObservedServer:
        """What a run's record says of the server."""
        return ObservedServer(
            name=self.server.name,
            command=self.variant.shown,
            protocol=self.server.asking.protocol,
            **asdict(self.variant.habits),
        )

    @property
    def asked(self) -> ObservedRun:
        """The run as it is planned: what is asked of whom, and nothing that was seen."""
        load = ObservedLoad(loop="closed", users=USERS, requests=self.requests, idle=self.idle)
        return ObservedRun(
            source=Source(tool="dispatchsim"),
            server=self.said,
            load=load,
            window_ns=1,
            offered=0,
            replied=0,
        )

    def is_of(self, run: ObservedRun) -> bool:
        """Return whether *run* is one of this case."""
        return (run.server.name, run.server.command) == (self.said.name, self.said.command) and (
            run.load.requests,
            run.load.idle,
            run.load.users,
        ) == (self.requests, self.idle, USERS)


def cases_of(server: RealServer, *, quick: bool = False) -> list[Case]:
    """Return all cases of *server*, those to fit first; *quick* keeps the ends of the ranges.

    >>> [case.label for case in cases_of(REDIS, quick=True)][-1]
    'redis epoll, idle 1000, requests 1000'
    """
    idle_counts = (0, 1000) if quick else IDLE_COUNTS
    requests = REQUESTS[-1:] if quick else REQUESTS
    fit = [Case(server, server.fitted, n) for n in REQUESTS]
    held_out = [
        Case(server, variant, n, idle)
        for variant in (server.fitted, *server.others)
        for idle, n in product(_idle_counts(server, variant, idle_counts), requests)
    ]
    return [*fit, *(case for case in held_out if not case.is_fitted)]


def _idle_counts(
    server: RealServer, variant: Variant, idle_counts: tuple[int, ...]
) -> tuple[int, ...]:
    """Return how many idle connections *variant* is measured with."""
    if variant.habits.mechanism == "select":
        return tuple(idle for idle in idle_counts if idle <= SELECT_IDLE_MAX)
    is_other_back_end = variant.habits.mechanism != server.fitted.habits.mechanism
    return idle_counts if is_other_back_end or variant is server.fitted else (0,)
