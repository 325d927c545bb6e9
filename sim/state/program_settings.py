"""The server program: how it waits, accepts and replies, and how it limits itself."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .setting import Kind, Setting
from .units import PERMILLE, SECOND_NS


class Sharing(IntEnum):
    """What several workers have in common, besides the table of descriptors."""

    NOTHING = 0  # an accept queue and an interest set each (SO_REUSEPORT)
    ACCEPT_QUEUE = 1  # one accept queue, watched by the interest set of each
    READY_LIST = 2  # one accept queue and one interest set, in which all wait
    HANDED_OVER = 3  # the first worker accepts, and hands connections to the others in turn


class Wakes(IntEnum):
    """Which of the workers that wait for connections a new one wakes."""

    USUAL = 0  # as the kernel does: one that sleeps in accept(), all that wait in other ways
    ALL = 1
    ONE = 2


WORKERS_MAX = 1024
"""Event loops of one server."""
THREADS_MAX = 32_768
"""Threads that block in their calls: Linux kernel.pid_max, by default."""


class ProgramSettings(NamedTuple):
    """How the server program waits, accepts, replies and gives up.

    A server that is notified of changes instead of states remembers a notification until a call
    would block, unless *remembers* is false.

    Workers are threads, pinned to the CPUs in turn. A new connection wakes all that watch its
    queue, or with Wakes.ONE one of them (EPOLLEXCLUSIVE). Of threads that sleep in accept() it
    wakes the one that has slept longest (Linux since 2.4), or with Wakes.ALL all of them.

    drops_half_closed is the behaviour of servers that check EPOLLRDHUP first (HAProxy: option
    abortonclose), and writes_when_told that of Gammo et al. 2004 (userver). An event loop finds
    late requests by a scan each timeout_check_ns. A thread that blocks has a time-out in its call.
    """

    accept_limit: Annotated[
        int, Setting(least=0, most=1_000_000, needs=Kind.LOOPS, left_alone=True)
    ] = 0
    """Accepts for one notification; 0: until none is left."""
    listener_last: Annotated[
        bool, Setting(key="listener", words=("first", "last"), needs=Kind.LOOPS, left_alone=True)
    ] = False
    """Whether a batch's new connections are accepted before or after."""
    read_after_accept: Annotated[bool, Setting(needs=Kind.LOOPS, left_alone=True)] = False
    """Try to read at once, instead of waiting for the first event."""
    remembers: Annotated[bool, Setting(left_alone=True)] = True
    """Whether a server that is notified of changes goes on until a call would block; one that does
    not serves each notice once, and may strand its clients."""
    request_timeout_ns: Annotated[
        int, Setting(least=0, most="1 h", needs=Kind.HAS_TIMERS, left_alone=True)
    ] = 0
    """Close a connection whose request is incomplete this long after its accept, or after the reply
    before; 0 s: never."""
    timeout_check_ns: Annotated[
        int, Setting(least=1, file_least="1 ms", most="1 h", looked_at_by=Kind.LOOPS)
    ] = SECOND_NS
    """How often an event loop scans all its connections for late requests."""
    max_events: Annotated[int, Setting(least=1, most=1_000_000, of_client=True)] = 1024
    """Events that one wait may return."""
    busy: Annotated[bool, Setting(needs=Kind.ASKS, of_client=True, left_alone=True)] = False
    """Ask again and again instead of blocking until something comes."""
    workers: Annotated[int, Setting(least=1, most=THREADS_MAX, of_client=True)] = 1
    """Event loops, each a thread that stays on one of the machine's CPUs; absent: one a CPU
    (machine.cpus). With blocking: threads in the pool, or how many there may be at once, the first
    included. Threads of a pool are one unless it is given."""
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
    """What workers have in common. nothing: each has its own accept queue (SO_REUSEPORT); accept
    queue: one, which all watch; ready list: one epoll set for all; handed over: the first worker
    accepts for the others, in turn (memcached)."""
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
    """Which of the workers that wait a new connection wakes. usual: one of those that sleep in
    accept, all of those that wait in other ways (Linux); all; one: EPOLLEXCLUSIVE."""
    closes_first: Annotated[bool, Setting(left_alone=True)] = True
    """Whether it closes a connection when it has sent its last reply; otherwise it waits until its
    client has."""
    drops_half_closed: Annotated[bool, Setting(left_alone=True)] = False
    """Whether it takes a client that has sent all its requests and a FIN (load.close =
    "half-close") for gone, and closes without a reply."""
    writes_when_told: Annotated[
        bool,
        Setting(
            key="writes", words=("at once", "when told"), needs=Kind.TELLS_STATES, left_alone=True
        ),
    ] = False
    """Whether it writes a reply when it has it, or changes its interest first and waits until it is
    notified that it can."""
    request_cpu_ns: Annotated[int, Setting(least=0, most="1 s", left_alone=True)] = 0
    """CPU time of the application for a request, in the mean, besides the profile's
    (application.request_ns)."""
    request_cpu_drawn: Annotated[bool, Setting(key=None, left_alone=True)] = False
    reply_cpu_per_kb_ns: Annotated[
        int, Setting(least=0, most="1 s", key="reply_cpu_per_kb", left_alone=True)
    ] = 0
    """CPU time of the application for each 1000 bytes of a reply, as to compress or to encrypt."""
    connection_cpu_ns: Annotated[int, Setting(least=0, most="1 s", left_alone=True)] = 0
    """CPU time of the application for a connection, spent before its first request, as for the
    handshake of TLS."""


class OverloadSettings(NamedTuple):
    """How the server program limits itself: which connections it resets, or does not accept.

    Three controls reset a connection that was accepted: the limiter by a running mean of events in
    a call, the queue deadline by the time in the accept queue, and the concurrency limit by the
    number of open connections. The fourth, drop_above, loses the SYN. Each is off at its default.
    """

    limiter_gain_permille: Annotated[
        int, Setting(least=0, most=PERMILLE, needs=Kind.ASKS, left_alone=True)
    ] = 0
    """Overload control by a running mean of the events that a call returns, of this gain, to a
    thousandth; 0: none."""
    limiter_threshold: Annotated[int, Setting(least=0, most=1_000_000)] = 18
    """Above this mean new connections are reset."""
    queue_deadline_ns: Annotated[int, Setting(least=0, most="1 h", left_alone=True)] = 0
    """How long a connection may have waited to be accepted while others always did (it is reset
    then); 0 s: for ever."""
    queue_interval_ns: Annotated[int, Setting(least=0, most="1 h")] = 100_000_000
    """The same where the queue was empty in between; and what counts as always."""
    concurrency_tolerance_permille: Annotated[
        int, Setting(least=0, most=1000 * PERMILLE, needs=Kind.LOOPS, left_alone=True)
    ] = 0
    """Overload control by a limit on open connections that shrinks when the latency of a first
    reply is more than so many times the least seen; 0: none, else at least 1."""
    drop_above: Annotated[int, Setting(least=0, most=20_000_000, left_alone=True)] = 0
    """Open connections above which SYNs are lost; 0: no bound."""
