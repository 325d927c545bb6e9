"""A measured point: a scenario on a testbed, a row on disk, the options of a program.

points.py chooses the points of a campaign; a grid does not affect results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, StrictInt, model_validator

from ...scenario.errors import ScenarioError
from ...scenario.quantities import DURATION, RATE, SIZE, Unit
from ...scenario.scenario import Scenario
from ...sim.load.trace_file import COLUMNS
from ...sim.load.workload import Trace
from ...sim.state.units import MICROSECOND_NS, SECOND_NS

BLOCKING = "blocking"
"""No mechanism of waiting: threads sleep in their calls."""

Steering = Literal["namespaces", "far_end", "loopback", "emulated"]
"""The CPU that receives the server's packets: its own CPU, the sender's, or the only one. With
far_end it is the server's CPU, and clients are packets of a program without a TCP stack."""
FDS_MAX = 19_900
"""The default limit of descriptors of the server."""
CLIENT_FDS_MAX = 100_000
"""That of the clients. In overload packet clients have had 50,000 connections. Runs of clients with
sockets that reach the limit of their process are rejected."""
TIMEOUT_NS = 4_000_000_000
"""The default time-out of a client, from the intended start of its connection."""
WINDOW = 10
"""The initial congestion window in segments (Linux TCP_INIT_CWND, RFC 6928)."""
_THINK_ROWS = 100_000
_ON_A_TESTBED: dict[str, dict[str, Any]] = {
    # Testbeds set net.ipv4.tcp_syncookies to 0; signal queues have the kernel's limit.
    "server": {"syn_cookies": False, "descriptors": FDS_MAX, "signal_queue": FDS_MAX},
    "load": {"descriptors": CLIENT_FDS_MAX, "timeout": DURATION.format(TIMEOUT_NS)},
    "network": {"window": WINDOW},
    "machine": {"clients": "generator"},
}


class StoredField(NamedTuple):
    """A field of points on disk: its key in a scenario, and its value if absent."""

    key: str
    usual: Any
    """None: the field is never absent."""
    unit: Unit | None = None
    words: Mapping[Any, Any] | None = None
    """Values on disk -> values of the key, if they differ."""


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
    "timeout_ns": StoredField("load.timeout", TIMEOUT_NS, DURATION),
    "fd_limit": StoredField("server.descriptors", 0),
    "signal_queue": StoredField("server.signal_queue", 0),
    "burst": StoredField("burst", 1),
    "threads": StoredField("server.threads", "pool"),
    "workers": StoredField("server.workers", 0),
    "share": StoredField("server.share", "accept queue"),
    "wake": StoredField("server.wake", "all", words={"all": "usual", "one": "one"}),
    "request_work_ns": StoredField("server.request_cpu", 0, DURATION),
    "connections": StoredField("load.connections", 0),
    "arrivals": StoredField("load.arrivals", "poisson"),
}
"""The flat fields of points on disk. Measured files are older than scenarios, and seeds are made
from these fields."""


class Point(Scenario):
    """One operating point of a server on a testbed: a scenario with additional fields.

    Omitted keys have the values of a testbed. The threads of `blocking` include the accepting one.
    For other mechanisms `workers` are event loops on the server's one CPU.

    >>> Point.of(server={"mechanism": "poll"}, load={"loop": "closed", "users": 64}).label
    'poll idle 0 closed 64'
    """

    on_testbeds: ClassVar[Mapping[str, Mapping[str, Any]]] = _ON_A_TESTBED
    """Keys whose default differs from that in scenarios."""
    stored_as: ClassVar[Mapping[str, StoredField]] = STORED
    """The fields on disk."""

    burst: Annotated[StrictInt, Field(ge=1)] = 1
    """The number of connections that arrive at once; bursts come at equal distances."""

    @model_validator(mode="before")
    @classmethod
    def _is_on_a_testbed(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        sections = {
            name: {**keys, **content.get(name, {})} for name, keys in cls.on_testbeds.items()
        }
        return {**content, **sections}

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.load.loop == "closed" and self.burst != 1:
            raise ValueError(f"burst: must be 1 in a closed loop, got {self.burst}")
        if self.keeps and self.burst != 1:
            raise ValueError(f"burst: must be 1 with kept connections, got {self.burst}")
        if self.server.request_cpu % MICROSECOND_NS:
            raise ValueError(
                "server.request_cpu: must be whole microseconds on a testbed, "
                f"got {DURATION.format(self.server.request_cpu)}"
            )
        if self.blocks and "workers" not in self.server.model_fields_set:
            raise ValueError(
                'server.workers: is missing, and server.mechanism = "blocking" needs it'
            )
        return self

    @property
    def users(self) -> int:
        """The users of a closed loop; 0 in an open one."""
        return self.load.users or 0

    @property
    def rate_per_s(self) -> float:
        """Connections/s that an open loop offers; 0 in a closed one.

        Requests/s with kept connections.
        """
        return self.load.rate or 0

    @property
    def keeps(self) -> bool:
        """Whether clients keep their connections and send requests over them at a rate."""
        return self.load.connections is not None

    @property
    def replies_each(self) -> int:
        """The replies in a record of a run: those of a connection, or of a request.

        With kept connections a record is a request.
        """
        return 1 if self.keeps else self.load.requests

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
        """A short name with the values that differ from the default."""
        server, load = self.server, self.load
        parts = [f"{server.mechanism} idle {self.idle.connections} {self._load_label}"]
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
        if server.request_cpu:
            parts.append(f"work {DURATION.format(server.request_cpu)}")
        if load.timeout != TIMEOUT_NS:
            parts.append(f"timeout {DURATION.format(load.timeout)}")
        return " ".join(parts)

    @property
    def _load_label(self) -> str:
        load = self.load
        if load.loop == "closed":
            return f"closed {load.users}"
        kept = f"kept {load.connections} " if self.keeps else ""
        arrivals = "" if load.arrivals == "poisson" else f" {load.arrivals}"
        return f"{kept}open {load.rate:.0f}/s{arrivals}"

    def seed(self, repeat: int) -> int:
        """Return the seed of the arrivals of one repeat, which depends only on point and repeat."""
        return seed_of_fields(stored(self), repeat)

    def lasting(self, warm_up_ns: int, window_ns: int) -> Self:
        """Return the point with runs that end at the end of their window."""
        duration, warm_up = map(DURATION.format, (warm_up_ns + window_ns, warm_up_ns))
        return self.with_values(run={"duration": duration, "warm_up": warm_up})

    @property
    def pause_law(self) -> None:
        """None: pauses are in the trace, which the load generator replays."""
        return None

    def trace(self, seed: int, seconds: float, rows: int = 0) -> Trace:
        """Return the arrivals of a run of *seconds*; in a closed loop *rows* connections."""
        if self.burst == 1:
            return self.load.workload.trace(seed, seconds, rows)
        assert self.load.rate is not None
        every = self.load.workload._replace(
            rate_per_s=self.load.rate / self.burst, process="constant"
        )
        # Equally spaced arrivals end with the last whole distance, which begins with a burst.
        firsts = every.trace(seed, seconds + self.burst / self.load.rate, rows)
        in_time = firsts.at_ns < seconds * SECOND_NS
        columns = (np.repeat(getattr(firsts, name)[in_time], self.burst) for name in COLUMNS)
        return Trace(firsts.loop, firsts.users, *columns)


_LATER_FIELDS = {
    "fd_limit", "signal_queue", "burst", "threads", "workers", "share", "wake", "request_work_ns",
    "connections", "arrivals",
}  # fmt: skip
"""Fields newer than seeds; at their default they do not change the seed."""


def point_at(base: Point | None = None, /, **fields: Any) -> Point:
    """Return the point of stored *fields*, those that are absent as in *base* or as usual.

    Raises
    ------
    ScenarioError
        If a field is unknown, or a rule is broken.

    >>> point_at(mechanism="poll", idle=6000, users=64).label
    'poll idle 6000 closed 64'
    """
    known = {} if base is None else stored(base)
    return of_stored(Point, known | fields, load={"loop": "closed"})


AnyPoint = TypeVar("AnyPoint", bound=Point)


def of_stored(kind: type[AnyPoint], fields: Mapping[str, Any], **sections: Any) -> AnyPoint:
    """Return the point of *kind* with *fields* on disk, which override *sections*.

    Raises
    ------
    ScenarioError
        If a field is unknown or missing, or a rule is broken.
    """
    content = dict(sections)
    for name, value in fields.items():
        if name not in kind.stored_as:
            raise ScenarioError(f"point: has no field {name}, got {value}")
        stored_field = kind.stored_as[name]
        if stored_field.usual is not None and value == stored_field.usual:
            continue
        section, _, key = stored_field.key.rpartition(".")
        written = _written(name, value, stored_field)
        (content.setdefault(section, {}) if section else content)[key] = written
    for name, stored_field in kind.stored_as.items():
        if stored_field.usual is None and name not in fields:
            raise ScenarioError(f"point: field {name} is missing")
    return kind.check(content, "point")


def _written(name: str, value: Any, stored_field: StoredField) -> Any:
    """Return the value in a scenario file for the *value* on disk."""
    words, unit = stored_field.words, stored_field.unit
    if words is not None:
        if value not in words:
            raise ScenarioError(
                f"point: {name} must be {' or '.join(map(str, words))}, got {value}"
            )
        value = words[value]
    return value if unit is None else unit.format(value)


def stored(point: Point) -> dict[str, Any]:
    """Return the fields of *point* on disk."""
    fields = {name: _value(point, each) for name, each in point.stored_as.items()}
    if not point.blocks and fields["workers"] == 1:
        fields["workers"] = 0
    return fields


def _value(point: Point, stored_field: StoredField) -> Any:
    section, _, key = stored_field.key.rpartition(".")
    value = getattr(getattr(point, section) if section else point, key)
    unbounded = key in ("descriptors", "signal_queue") and value == FDS_MAX
    if value is None or unbounded:
        return stored_field.usual
    if stored_field.words is None:
        return value
    return {there: here for here, there in stored_field.words.items()}.get(value, value)


StoredPoint = Annotated[
    Point,
    BeforeValidator(lambda value: point_at(**value) if isinstance(value, dict) else value),
    PlainSerializer(stored),
]
"""The point of a row on disk."""


def seed_of(text: str) -> int:
    """Return a seed of 31 bits that depends only on *text*."""
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
    """Return the options of the real server at *point*, without its address and limits.

    Raises
    ------
    ValueError
        If the point has several event loops, which our server lacks.
    """
    server = point.server
    if point.has_loops:
        raise ValueError(f"our server has one event loop, got {server.workers} workers")
    queue, work_us = server.signal_queue, server.request_cpu // MICROSECOND_NS
    return [
        "--mechanism", server.mechanism, "--backlog", str(server.backlog),
        "--accept-limit", str(server.accept_limit), "--listener", server.listener,
        "--max-events", str(server.max_events),
        *(["--read-after-accept"] if server.read_after_accept else []),
        *(["--signal-queue", str(queue)] if queue != FDS_MAX else []),
        *(["--request-us", str(work_us)] if work_us else []),
        *(
            ["--threads", server.threads.replace(" ", "-"), "--workers", str(server.workers)]
            if point.blocks
            else []
        ),
    ]  # fmt: skip


def trace_to_replay(point: Point, seed: int, seconds: float) -> Trace:
    """Return the arrivals of a run of *seconds* on a machine; the trace repeats from its start.

    Without think times all rows are equal, so one row for each user suffices.
    """
    if point.load.loop == "open":
        return point.trace(seed, seconds)
    rows = _THINK_ROWS if point.load.think_time else point.users or 0
    return point.trace(seed, seconds, rows)
