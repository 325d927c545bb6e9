"""The server program: how it waits, accepts and replies, and how it limits itself."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .setting import Kind, Setting
from .units import PERMILLE, SECOND_NS


class Sharing(IntEnum):
    """What several workers share, besides the table of descriptors."""

    NOTHING = 0  # each worker has its own accept queue and interest set (SO_REUSEPORT)
    ACCEPT_QUEUE = 1  # one accept queue, in the interest set of each worker
    READY_LIST = 2  # one accept queue and one interest set for all workers
    HANDED_OVER = 3  # the first worker accepts, and hands connections to the others in turn


class Wakes(IntEnum):
    """Which of the waiting workers a new connection wakes."""

    USUAL = 0  # as Linux: one of the workers asleep in accept(), all other waiting workers
    ALL = 1
    ONE = 2


WORKERS_MAX = 1024
"""Event loops of one server."""
THREADS_MAX = 32_768
"""Threads that block in their calls: Linux kernel.pid_max, by default."""


class ProgramSettings(NamedTuple):
    """How the server program waits, accepts, replies and times out.

    An edge-triggered server remembers a notification until a call would block, unless *remembers*
    is false.

    Workers are threads, pinned to the CPUs in turn. A new connection wakes all workers that watch
    its queue, or with Wakes.ONE one of them (EPOLLEXCLUSIVE). Among threads asleep in accept() it
    wakes the one that has slept longest (Linux since 2.4), or with Wakes.ALL all of them.

    drops_half_closed is the behaviour of servers that check EPOLLRDHUP first (HAProxy: option
    abortonclose), writes_when_told that of userver (Gammo et al. 2004). An event loop finds late
    requests by a scan every timeout_check_ns. A blocking thread has a time-out in its call.
    """

    accept_limit: Annotated[
        int, Setting(least=0, most=1_000_000, needs=Kind.LOOPS, left_alone=True)
    ] = 0
    """Accepts for one notification; 0: until none is left."""
    listener_last: Annotated[
        bool, Setting(key="listener", words=("first", "last"), needs=Kind.LOOPS, left_alone=True)
    ] = False
    """Whether new connections in a batch are accepted before or after its other events."""
    read_after_accept: Annotated[bool, Setting(needs=Kind.LOOPS, left_alone=True)] = False
    """Read directly after the accept, instead of waiting for the first event."""
    remembers: Annotated[bool, Setting(left_alone=True)] = True
    """Whether a server with edge-triggered notices continues until a call would block. Otherwise it
    serves each notice once, and may strand clients."""
    request_timeout_ns: Annotated[
        int, Setting(least=0, most="1 h", needs=Kind.HAS_TIMERS, left_alone=True)
    ] = 0
    """Close a connection whose request is incomplete this long after the accept or the previous
    reply; 0 s: never."""
    timeout_check_ns: Annotated[
        int, Setting(least=1, file_least="1 ms", most="1 h", looked_at_by=Kind.LOOPS)
    ] = SECOND_NS
    """How often an event loop scans all its connections for late requests."""
    max_events: Annotated[int, Setting(least=1, most=1_000_000, of_client=True)] = 1024
    """Events that one wait may return."""
    busy: Annotated[bool, Setting(needs=Kind.ASKS, of_client=True, left_alone=True)] = False
    """Poll in a loop with a time-out of 0, instead of blocking until an event arrives."""
    workers: Annotated[int, Setting(least=1, most=THREADS_MAX, of_client=True)] = 1
    """Event loops, each a thread pinned to a CPU; absent: one for each of machine.cpus. With
    blocking: threads in the pool (absent: 1), or the largest number of threads at once, including
    the first."""
    sharing: Annotated[
        int,
        Setting(
            key="share",
            words=Sharing,
            needs=Kind.ASKS,
            value_needs={
                int(Sharing.READY_LIST): Kind.SHARES_READY_LIST,
                int(Sharing.HANDED_OVER): Kind.TAKES_OVER,
            },
            left_alone=True,
        ),
    ] = int(Sharing.ACCEPT_QUEUE)
    """What workers share. nothing: each has its own accept queue (SO_REUSEPORT); accept queue: all
    watch one queue; ready list: all use one epoll set; handed over: the first worker accepts for
    the others, in turn (memcached)."""
    wakes: Annotated[
        int,
        Setting(
            key="wake",
            words=Wakes,
            value_needs={int(Wakes.ONE): Kind.WAKES_ONE},
            of_several=True,
            left_alone=True,
        ),
    ] = int(Wakes.USUAL)
    """Which waiting workers a new connection wakes. usual: one of the workers asleep in accept, all
    other waiting workers (Linux); all: all of them; one: one of them (EPOLLEXCLUSIVE)."""
    closes_first: Annotated[bool, Setting(left_alone=True)] = True
    """Whether the server closes a connection after its last reply; otherwise it waits for the
    client to close."""
    drops_half_closed: Annotated[bool, Setting(left_alone=True)] = False
    """Whether the server treats a half-closed connection (load.close = "half-close") as closed, and
    sends no reply."""
    writes_when_told: Annotated[
        bool,
        Setting(
            key="writes", words=("at once", "when told"), needs=Kind.TELLS_STATES, left_alone=True
        ),
    ] = False
    """Whether the server writes a reply at once, or first changes its interest and waits for a
    notification that the descriptor is writable."""
    request_cpu_ns: Annotated[int, Setting(least=0, most="1 s", left_alone=True)] = 0
    """Mean CPU time of the application for a request, in addition to the profile's
    application.request_ns."""
    request_cpu_drawn: Annotated[bool, Setting(key=None, left_alone=True)] = False
    reply_cpu_per_kb_ns: Annotated[
        int, Setting(least=0, most="1 s", key="reply_cpu_per_kb", left_alone=True)
    ] = 0
    """CPU time of the application for each 1000 bytes of a reply, such as compression."""
    connection_cpu_ns: Annotated[int, Setting(least=0, most="1 s", left_alone=True)] = 0
    """CPU time of the application for a connection before its first request, such as a TLS
    handshake."""


class OverloadSettings(NamedTuple):
    """Overload control of the server program.

    Three controls reset accepted connections: the limiter by a running mean of the events in a
    call, the queue deadline by the time in the accept queue, and the concurrency limit by the
    number of open connections. The fourth, drop_above, drops SYNs. Each is off by default.
    """

    limiter_gain_permille: Annotated[
        int, Setting(least=0, most=PERMILLE, needs=Kind.ASKS, left_alone=True)
    ] = 0
    """Overload control by a running mean of the events that a call returns: weight of the newest
    call in this mean, to a thousandth; 0: off."""
    limiter_threshold: Annotated[int, Setting(least=0, most=1_000_000)] = 18
    """Running mean above which the server resets new connections."""
    queue_deadline_ns: Annotated[int, Setting(least=0, most="1 h", left_alone=True)] = 0
    """Reset connections that waited longer than this for their accept, while the accept queue has
    not been empty for queue_interval; 0 s: off."""
    queue_interval_ns: Annotated[int, Setting(least=0, most="1 h")] = 100_000_000
    """Time for which the accept queue must not have been empty before queue_deadline applies.
    Earlier, connections that waited longer than this time are reset."""
    concurrency_tolerance_permille: Annotated[
        int, Setting(least=0, most=1000 * PERMILLE, needs=Kind.LOOPS, left_alone=True)
    ] = 0
    """Overload control by a limit on open connections. The limit shrinks when the latency of a
    first reply exceeds the lowest such latency by this factor; 0: off, else at least 1."""
    drop_above: Annotated[int, Setting(least=0, most=20_000_000, left_alone=True)] = 0
    """Open connections above which SYNs are dropped; 0: no bound."""
