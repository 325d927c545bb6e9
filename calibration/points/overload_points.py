"""Operating points of overload: loads beyond the server's capacity, and overflowing queues.

    backlog     loads of 0.5 to 1.4 of the capacity with small and large backlogs: a client that
                finds the queue full repeats its SYN after 1 s and 3 s
    storm       clients with short time-outs that retry, at once or with back-off, and a brief
                surge: does the server recover?

A load is a share of the capacity. The capacity is measured before and after each run with a closed
loop against the same server, because the speed of a shared machine varies.

Sources: Banga and Druschel 1999, "Measuring the capacity of a web server under realistic loads";
Brecht, Pariag and Gammo 2004, "accept()able strategies for improving web server performance";
Bronson et al. 2021, "Metastable failures in distributed systems".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer

from ...scenario.quantities import DURATION, RATE
from ...scenario.sections import LINEAR_SYN_TIMEOUTS
from ...sim.load.trace_file import COLUMNS
from ...sim.load.workload import Trace
from ...sim.state.settings import RunSettings
from ...sim.state.units import SECOND_NS
from .point import BLOCKING, STORED, Point, StoredField, of_stored, point_at, seed_of, stored
from .points import FIT_WORKERS

BACKLOGS = (16, 128, 4096)
LOADS = (0.8, 1.2, 1.4)
LOADS_BETWEEN = (0.5, 1.0)
"""Further loads for the middle backlog."""
BACKLOG_BETWEEN = 128
LINEAR_LOAD = 1.2
CAPACITY_USERS = 64
CAPACITY_BACKLOG = 4096
"""Large enough that no queue overflows while the capacity is measured."""
REQUESTS = 4
"""Requests per connection. With one request, too many connections would wait for their next SYN:
the load generator would run out of descriptors."""
PATIENCE_NS = 3_500_000_000
"""A client's time-out, longer than two time-outs of a SYN (1 s and 2 s)."""
STORM_LOAD = 0.7
STORM_SURGE = 0.8
"""Load added during a surge."""
STORM_PATIENCE_NS = 200_000_000
STORM_RETRIES = 3
"""If all fail, the load is 2.8 times the capacity; the generator cannot offer more."""
SURGE_BEGIN_NS = 2 * SECOND_NS
SURGE_END_NS = 3 * SECOND_NS


_ENDLESS_NS = 3600 * SECOND_NS
"""A limit that doubling pauses do not reach."""
OVERLOAD_STORED = {
    "mechanism": STORED["mechanism"],
    "backlog": StoredField("server.backlog", None),
    "load": StoredField("share", None),
    "accept_limit": STORED["accept_limit"],
    "workers": STORED["workers"],
    "requests": StoredField("load.requests", REQUESTS),
    "timeout_ns": StoredField("load.timeout", PATIENCE_NS, DURATION),
    "linear_syn_timeouts": StoredField(
        "network.syn_timeouts", 0, words={0: "doubling", LINEAR_SYN_TIMEOUTS: "linear first"}
    ),
    "request_work_ns": STORED["request_work_ns"],
    "surge": StoredField("surge", 0.0),
    "retries": StoredField("load.retries", 0),
    "retry_after_ns": StoredField("load.retry_pause", 0, DURATION),
    "retry_doubles": StoredField(
        "load.retry_pause_max", False, DURATION, words={True: _ENDLESS_NS}
    ),
}
"""The fields of rows in overload.jsonl, from which seeds are made."""
_OF_A_CAPACITY = "1000/s"
"""A placeholder until the capacity is measured; see `OverloadPoint.at_rate`."""


class OverloadPoint(Point):
    """One operating point of overload: a point whose rate is a share of the measured capacity.

    A client without a whole reply `load.timeout` after its intended start gives up, and retries
    according to `load.retries` and `load.retry_pause`.

    >>> overload_point_at(mechanism="epoll_level", backlog=16, load=1.2).label
    'epoll_level backlog 16 load 1.2'
    """

    on_testbeds: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **Point.on_testbeds,
        "load": {
            **Point.on_testbeds["load"],
            "loop": "open",
            "rate": _OF_A_CAPACITY,
            "requests": REQUESTS,
            "timeout": DURATION.format(PATIENCE_NS),
        },
    }
    stored_as: ClassVar[Mapping[str, StoredField]] = OVERLOAD_STORED

    share: Annotated[float, Field(gt=0)]
    """The load relative to the capacity."""
    surge: Annotated[float, Field(ge=0)] = 0.0
    """Added to `share` from SURGE_BEGIN_NS to SURGE_END_NS."""
    shares_cpu: bool = True
    """Whether the clients' kernel receives on the server's CPU. Packet clients have no kernel. The
    steering of a run's record shows this, so it is not stored with the point."""

    @property
    def kind(self) -> Literal["backlog", "storm"]:
        """The experiment to which the point belongs."""
        return "storm" if self.surge > 0 else "backlog"

    @property
    def server_name(self) -> str:
        """The server's name in labels."""
        accept = " accept 1" if self.server.accept_limit == 1 else ""
        return f"{self.server.mechanism}{accept}"

    @property
    def linear_syn_timeouts(self) -> int:
        """The sysctl net.ipv4.tcp_syn_linear_timeouts of the client's side."""
        return self.network.linear_syn_timeouts

    @property
    def retry_doubles(self) -> bool:
        """Whether the pause before a retry doubles each time."""
        return self.load.retry_pause_max is not None

    @property
    def label(self) -> str:
        """A short name for people."""
        load = self.load
        parts = [f"{self.server_name} backlog {self.server.backlog} load {self.share:g}"]
        if self.linear_syn_timeouts:
            parts.append(f"{self.linear_syn_timeouts} linear SYN time-outs")
        if self.surge:
            parts.append(f"surge {self.surge:g}")
        if self.server.request_cpu:
            parts.append(f"work {DURATION.format(self.server.request_cpu)}")
        if load.retries:
            again = f"after {load.retry_pause // 1_000_000} ms" if load.retry_pause else "at once"
            parts.append(f"retries {again}{' doubling' if self.retry_doubles else ''}")
        return " ".join(parts)

    def capacity_point(self) -> Point:
        """Return the closed loop that measures the server's capacity."""
        fields = stored(self)
        same = ("mechanism", "accept_limit", "requests", "workers", "request_work_ns")
        return point_at(
            users=CAPACITY_USERS, backlog=CAPACITY_BACKLOG, **{name: fields[name] for name in same}
        )

    def at_rate(self, rate_per_s: float) -> Self:
        """Return the point with its rate in connections/s, which `share` is on a machine."""
        return self.with_values(load={"rate": RATE.format(rate_per_s)})

    def seed(self, repeat: int) -> int:
        """Return the seed of the arrivals of one repeat."""
        fields = stored(self)
        if not self.server.request_cpu:  # seeds are older than this field
            del fields["request_work_ns"]
        return seed_of(json.dumps([fields, repeat], sort_keys=True))

    def trace(self, seed: int, seconds: float, rows: int = 0) -> Trace:
        """Return the arrivals of *seconds*: Poisson at the rate, and those of the surge."""
        base = super().trace(seed, seconds, rows)
        if self.surge == 0:
            return base
        lasts_s = (SURGE_END_NS - SURGE_BEGIN_NS) / SECOND_NS
        rate_per_s = self.surge / self.share * self.rate_per_s
        more = self.load.workload._replace(rate_per_s=rate_per_s).trace(seed + 1, lasts_s, 0)
        at_ns = np.concatenate([base.at_ns, more.at_ns + SURGE_BEGIN_NS])
        order = np.argsort(at_ns, kind="stable")
        others = (
            np.concatenate([getattr(base, name), getattr(more, name)])[order]
            for name in COLUMNS[1:]
        )
        return Trace(base.loop, base.users, at_ns[order], *others)

    def on_its_testbed(self, settings: RunSettings) -> RunSettings:
        """Return the *settings* of a run in two network namespaces of a machine."""
        settings = super().on_its_testbed(settings)
        return settings._replace(network=settings.network._replace(one_machine=self.shares_cpu))

    def load_options(self) -> tuple[str, ...]:
        """Return the load generator's options for retries."""
        load = self.load
        if not load.retries:
            return ()
        return (
            *("--retries", str(load.retries)),
            *("--retry-after-ms", str(load.retry_pause // 1_000_000)),
            *(("--retry-doubles",) if self.retry_doubles else ()),
        )


def overload_point_at(base: OverloadPoint | None = None, /, **fields: Any) -> OverloadPoint:
    """Return the point of stored *fields*; absent ones are as in *base* or the default.

    Raises
    ------
    ScenarioError
        If a field is unknown or missing, or a rule is broken.
    """
    return of_stored(OverloadPoint, fields if base is None else stored(base) | fields)


StoredOverloadPoint = Annotated[
    OverloadPoint,
    BeforeValidator(lambda value: overload_point_at(**value) if isinstance(value, dict) else value),
    PlainSerializer(stored),
]
"""The point of a row on disk."""


SERVERS = (("epoll_level", 0), (BLOCKING, FIT_WORKERS))
"""Mechanisms and numbers of threads: events against a pool."""


def backlog_points() -> list[OverloadPoint]:
    """Return the points of backlogs and loads."""
    points = [
        overload_point_at(mechanism=mechanism, workers=workers, backlog=backlog, load=load)
        for mechanism, workers in SERVERS
        for backlog in BACKLOGS
        for load in (*LOADS, *(LOADS_BETWEEN if backlog == BACKLOG_BETWEEN else ()))
    ]
    linear = [
        overload_point_at(point, linear_syn_timeouts=LINEAR_SYN_TIMEOUTS)
        for point in points
        if point.server.backlog == BACKLOG_BETWEEN
        and point.share == LINEAR_LOAD
        and not point.blocks
    ]
    return points + linear


def storm_points() -> list[OverloadPoint]:
    """Return the points of retry storms: without retries, at once, with back-off; threads."""
    at_once = [
        overload_point_at(
            mechanism=mechanism, workers=workers, backlog=CAPACITY_BACKLOG, load=STORM_LOAD,
            surge=STORM_SURGE, timeout_ns=STORM_PATIENCE_NS, retries=STORM_RETRIES,
        )
        for mechanism, workers in SERVERS
    ]  # fmt: skip
    events = at_once[0]
    return [
        overload_point_at(events, retries=0),
        *at_once,
        overload_point_at(events, retry_after_ns=STORM_PATIENCE_NS, retry_doubles=True),
    ]


def overload_points(*, quick: bool = False) -> list[OverloadPoint]:
    """Return every point of overload; *quick* keeps one in about seven.

    >>> len(overload_points()), len(overload_points(quick=True))
    (27, 4)
    """
    points = [*backlog_points(), *storm_points()]
    return points[1::7] if quick else points
