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
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, StrictInt, model_validator

from ...scenario.errors import ScenarioError
from ...scenario.quantities import DURATION, RATE, SIZE, Unit
from ...scenario.scenario import Scenario
from ...sim.load.trace_file import COLUMNS
from ...sim.load.workload import Trace
from ...sim.state.settings import RunSettings
from ...sim.state.units import SECOND_NS

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

Steering = Literal["namespaces", "loopback", "emulated"]
"""Who processes what the server receives: its CPU, the sender's CPU, the only CPU there is."""
FDS_MAX = 19_900
"""Descriptors that server and clients ask for, each, unless a point says otherwise."""
WINDOW = 10
"""Segments that may be under way at first (Linux TCP_INIT_CWND, RFC 6928)."""
_TICK_NS = 4_000_000
"""Of CONFIG_HZ=250, which Debian and all shipped machines have (timer_hz): a slice is over when a
tick finds that it is (kernel/sched/fair.c task_tick_fair()). Two workers of nginx 1.22 on one CPU
of Linux 6.18 had p99 of 4.6 and 4.8 ms."""
_THINK_ROWS = 100_000
_ON_A_TESTBED: dict[str, dict[str, Any]] = {
    # Testbeds set net.ipv4.tcp_syncookies to 0; queues of signals have the kernel's own bound.
    "server": {"syn_cookies": False, "descriptors": FDS_MAX, "signal_queue": FDS_MAX},
    "load": {"descriptors": FDS_MAX, "timeout": "4 s"},
    "network": {"window": WINDOW},
    "machine": {"clients": "generator"},
}


class Point(Scenario):
    """One operating point of a server on a testbed: a scenario, and what no scenario says.

    Keys that it leaves out are as testbeds have them. Threads of `blocking` are the one that
    accepts among them; of all others workers are event loops on the server's one CPU.

    >>> Point.of(server={"mechanism": "poll"}, load={"loop": "closed", "users": 64}).label
    'poll idle 0 closed 64'
    """

    burst: Annotated[StrictInt, Field(ge=1)] = 1
    """Connections of an open loop that come at an instant, at equal distances."""

    @model_validator(mode="before")
    @classmethod
    def _is_on_a_testbed(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        sections = {name: {**keys, **content.get(name, {})} for name, keys in _ON_A_TESTBED.items()}
        return {**content, **sections}

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.load.loop == "closed" and self.burst != 1:
            raise ValueError(f"burst: must be 1 in a closed loop, got {self.burst}")
        if self.blocks and "workers" not in self.server.model_fields_set:
            raise ValueError(
                'server.workers: is missing, and server.mechanism = "blocking" needs it'
            )
        return self

    @property
    def users(self) -> int:
        """Users of a closed loop; 0 in an open one."""
        return self.load.users or 0

    @property
    def rate_per_s(self) -> float:
        """Connections a second that an open loop offers; 0 in a closed one."""
        return self.load.rate or 0

    @property
    def blocks(self) -> bool:
        """Whether the server's threads sleep in their calls."""
        return self.server.mechanism == BLOCKING

    @property
    def has_loops(self) -> bool:
        """Whether there are several event loops."""
        return self.server.workers > 1 and not self.blocks

    @property
    def label(self) -> str:
        """A short name for people, with what differs from the usual."""
        server, load = self.server, self.load
        rate = f"closed {load.users}" if load.loop == "closed" else f"open {load.rate:.0f}/s"
        parts = [f"{server.mechanism} idle {self.idle.connections} {rate}"]
        if server.accept_limit:
            parts.append(f"accept {server.accept_limit}")
        if server.listener != "first":
            parts.append(f"listener {server.listener}")
        if load.requests != 1:
            parts.append(f"requests {load.requests}")
        if self.burst != 1:
            parts.append(f"burst {self.burst}")
        if server.signal_queue != FDS_MAX:
            parts.append(f"queue {server.signal_queue}")
        if self.blocks:
            parts.append(f"{server.threads} of {server.workers}")
        if self.has_loops:
            parts.append(f"workers {server.workers}")
        if server.share != "accept queue":
            parts.append(f"share {server.share}")
        if server.wake == "one":
            parts.append("wake one")
        return " ".join(parts)

    def seed(self, repeat: int) -> int:
        """Return the seed of the arrivals of one repeat, which depends on nothing else."""
        return seed_of_fields(stored(self), repeat)

    def on_its_testbed(self, settings: RunSettings) -> RunSettings:
        """Return the *settings* of a run with what no scenario says."""
        if not self.has_loops:
            return settings
        return settings._replace(kernel=settings.kernel._replace(slice_ns=_TICK_NS))

    def lasting(self, warm_up_ns: int, window_ns: int) -> Self:
        """Return the point with runs that end with their window."""
        duration, warm_up = map(DURATION.format, (warm_up_ns + window_ns, warm_up_ns))
        return self.with_values(run={"duration": duration, "warm_up": warm_up})

    def trace(self, seed: int, seconds: float, rows: int = 0) -> Trace:
        """Return the arrivals of a run of *seconds*; in a closed loop *rows* connections."""
        if self.burst == 1:
            return self.load.workload.trace(seed, seconds, rows)
        assert self.load.rate is not None
        every = self.load.workload._replace(
            rate_per_s=self.load.rate / self.burst, process="constant"
        )
        # Arrivals at equal distances end with the last whole one, and a burst begins one.
        firsts = every.trace(seed, seconds + self.burst / self.load.rate, rows)
        in_time = firsts.at_ns < seconds * SECOND_NS
        columns = (np.repeat(getattr(firsts, name)[in_time], self.burst) for name in COLUMNS)
        return Trace(firsts.loop, firsts.users, *columns)


class StoredField(NamedTuple):
    """A field of points on disk: which key of a scenario it is, and what it is where absent."""

    key: str
    usual: Any
    unit: Unit | None = None


STORED = {
    "mechanism": StoredField("server.mechanism", None),
    "idle": StoredField("idle.connections", 0),
    "loop": StoredField("load.loop", "closed"),
    "users": StoredField("load.users", 0),
    "rate_per_s": StoredField("load.rate", 0.0, RATE),
    "accept_limit": StoredField("server.accept_limit", 0),
    "listener": StoredField("server.listener", "first"),
    "read_after_accept": StoredField("server.read_after_accept", False),
    "backlog": StoredField("server.backlog", 4096),
    "max_events": StoredField("server.max_events", 1024),
    "requests": StoredField("load.requests", 1),
    "request_bytes": StoredField("load.request_size", 64, SIZE),
    "reply_bytes": StoredField("load.reply_size", 128, SIZE),
    "think_ns": StoredField("load.think_time", 0, DURATION),
    "timeout_ns": StoredField("load.timeout", 4_000_000_000, DURATION),
    "fd_limit": StoredField("server.descriptors", 0),
    "signal_queue": StoredField("server.signal_queue", 0),
    "burst": StoredField("burst", 1),
    "threads": StoredField("server.threads", "pool"),
    "workers": StoredField("server.workers", 0),
    "share": StoredField("server.share", "accept queue"),
    "wake": StoredField("server.wake", "all"),
}
"""Of rows on disk, whose points are flat: what measured files say from before there were scenarios
below the front door, and what seeds are made of."""
_LATER_FIELDS = {"fd_limit", "signal_queue", "burst", "threads", "workers", "share", "wake"}
"""Points had seeds before they had these fields, and keep them where these are as usual."""


def point_at(base: Point | None = None, /, **fields: Any) -> Point:
    """Return the point of stored *fields*, those that are absent as in *base* or as usual.

    Raises
    ------
    ScenarioError
        If there is no such field, or a rule is broken.

    >>> point_at(mechanism="poll", idle=6000, users=64).label
    'poll idle 6000 closed 64'
    """
    if base is not None:
        fields = stored(base) | fields
    content: dict[str, Any] = {"load": {"loop": "closed"}}
    for name, value in fields.items():
        if name not in STORED:
            raise ScenarioError(f"point: has no field {name}, got {value}")
        key, usual, unit = STORED[name]
        if value == usual:
            continue
        written = value if unit is None else unit.format(value)
        section, _, field = key.rpartition(".")
        (content.setdefault(section, {}) if section else content)[field] = written
    return Point.check(content, "point")


def stored(point: Point) -> dict[str, Any]:
    """Return the fields of *point* as they stand on disk."""
    fields = {name: _value(point, key, usual) for name, (key, usual, _) in STORED.items()}
    if not point.blocks and fields["workers"] == 1:
        fields["workers"] = 0
    return fields


def _value(point: Point, key: str, usual: Any) -> Any:
    section, _, field = key.rpartition(".")
    value = getattr(getattr(point, section) if section else point, field)
    unbounded = key in ("server.descriptors", "server.signal_queue") and value == FDS_MAX
    return usual if value is None or unbounded else value


StoredPoint = Annotated[
    Point,
    BeforeValidator(lambda value: point_at(**value) if isinstance(value, dict) else value),
    PlainSerializer(stored),
]
"""The point of a row on disk."""


def seed_of(text: str) -> int:
    """Return a seed of 31 bits that depends on *text* and on nothing else."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def seed_of_fields(fields: Mapping[str, Any], repeat: int) -> int:
    """Return the seed of the arrivals of one repeat at a point of stored *fields*."""
    known = {
        name: _canonical(value)
        for name, value in fields.items()
        if name not in _LATER_FIELDS or value != STORED[name].usual
    }
    return seed_of(json.dumps([known, repeat], sort_keys=True))


def _canonical(value: object) -> object:
    """Return 4000 for 4000.0, so that equal points have equal seeds."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def server_options(point: Point) -> list[str]:
    """Return the options of the real server at *point*: all but where it listens and its limits.

    Raises
    ------
    ValueError
        For several event loops, which are for servers of others.
    """
    server = point.server
    if point.has_loops:
        raise ValueError(f"our server has one event loop, got {server.workers} workers")
    queue = server.signal_queue
    return [
        "--mechanism", server.mechanism, "--backlog", str(server.backlog),
        "--accept-limit", str(server.accept_limit), "--listener", server.listener,
        "--max-events", str(server.max_events),
        *(["--read-after-accept"] if server.read_after_accept else []),
        *(["--signal-queue", str(queue)] if queue != FDS_MAX else []),
        *(
            ["--threads", server.threads.replace(" ", "-"), "--workers", str(server.workers)]
            if point.blocks
            else []
        ),
    ]  # fmt: skip


def trace_to_replay(point: Point, seed: int, seconds: float) -> Trace:
    """Return the arrivals of a run of *seconds* on a machine, which begins again with the first.

    Without think times all rows are equal, and one a user does.
    """
    if point.load.loop == "open":
        return point.trace(seed, seconds)
    rows = _THINK_ROWS if point.load.think_time else point.users or 0
    return point.trace(seed, seconds, rows)


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
