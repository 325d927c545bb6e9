"""The server program: how it waits, accepts and replies, and how it limits itself."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .setting import Setting
from .units import SECOND_NS


class Sharing(IntEnum):
    """What several workers have in common, besides the table of descriptors."""

    NOTHING = 0  # an accept queue and an interest set each (SO_REUSEPORT)
    ACCEPT_QUEUE = 1  # one accept queue, watched by the interest set of each
    READY_LIST = 2  # one accept queue and one interest set, in which all wait
    HANDED_OVER = 3  # the first worker accepts, and hands connections to the others in turn


class Recovery(IntEnum):
    """What a server does when it hears that signals were lost."""

    NOTHING = 0  # go on with what is queued: what was lost is never heard of
    POLL = 1  # flush the queue, poll all once, go back to signals (phhttpd 0.1.2)
    POLL_UNTIL_CALM = 2  # flush, then poll until there is little to do (userver)
    POLL_FOR_EVER = 3  # flush, and never go back to signals (phhttpd before)


class Threads(IntEnum):
    """Where the threads come from of a server that blocks in its calls."""

    POOL = 0  # all there are were started ahead
    ON_DEMAND = 1  # one accepts, and starts a thread for each connection
    PROCESSES = 2  # the same with a process for each


WORKERS_MAX = 1024
"""Event loops, or CPUs, of one server."""
THREADS_MAX = 32_768
"""Threads that block in their calls: Linux kernel.pid_max, by default."""


class ProgramSettings(NamedTuple):
    """How the server program waits, accepts, replies and gives up.

    A busy server asks again and again instead of blocking in its wait.

    accept_limit is the number of accepts for one notification (0: until EAGAIN); where events are
    told by signals, accept_each_signal has a server go through the signals that a call returned and
    accept one connection for each of the listener's (phhttpd), so that the others stay queued.

    A server that is told of changes and not of states remembers what it heard until a call would
    have blocked; one that does not serves each notice once.

    recovery is what follows when signals were lost: by an array for poll that is built anew, or
    kept up to date all the time; after handing each descriptor over to another thread, or not. That
    some were lost is told before those that are queued (SIGIO has a lower number), or with
    overflow_told_last behind them, as no kernel does. signal_numbers are used in turn, by
    descriptor, and the lowest is delivered first.
    removes_first has a server on /dev/poll of Solaris remove a descriptor before it wants less of
    it; array_rebuilt has one on select or poll build its set anew for each call.

    poll_above signals in the queue (0: never) a hybrid server polls without having lost any, and
    it goes back to signals when a poll finds fewer than calm_below ready.

    workers are threads, pinned to the CPUs in turn; sharing says what they have in common, and
    wake_one lets a new connection wake one instead of all that watch its queue (EPOLLEXCLUSIVE).
    Where threads block in their calls, workers is how many there are in the pool or, where they are
    started for a connection, how many there may be at once, the one that accepts among them
    (RLIMIT_NPROC). Each thread reserves stack_bytes (2 MiB: glibc's default on x86), and threads
    whose stacks do not fit address_space_bytes (0: no bound) cannot be started. With wake_one a new
    connection wakes the thread that has slept in accept() for longest (Linux since 2.4), otherwise
    it wakes all of them.

    At a completion port as many as concurrent_threads run at once (0: as many as there are CPUs);
    with sends_block a thread sleeps until the whole reply is in the send buffer, instead of having
    the send completed.

    Of what is due io_uring does due_at_once pieces at a time (0: all there is), the first first, as
    Linux does since 6.13; or, with due_last_first and 0, all from the end of the queue: before 6.5.
    With accept_looks_again it looks in vain after the last connection: before 6.10.

    Where events are told by signals and one accept queue is shared, passes_listener has a worker
    that has accepted hand the listener to the next one: new connections are told to its owner alone
    (F_SETOWN; phhttpd), instead of to all.

    closes_first has the server close a connection when it has sent its last reply; otherwise it
    waits until its client has. To a client that has sent a FIN behind its request it replies,
    unless drops_half_closed: then the end of the input is taken for the end of the client, as
    servers do that look at EPOLLRDHUP first (HAProxy: option abortonclose).

    One that writes_when_told writes no reply before it was told that it can: it changes its
    interest, and waits (Gammo et al. 2004, userver). Servers that are told of changes know already.

    Who has not sent a whole request request_timeout_ns after its accept, or after the reply before,
    is closed (0: never); an event loop looks for such once in timeout_check_ns, a thread that
    blocks is told.
    """

    accept_limit: Annotated[int, Setting(least=0, most=1_000_000)] = 0
    """Accepts for one notification; 0: until none is left."""
    accept_each_signal: Annotated[bool, Setting()] = False
    """Accept one connection for each signal of the listener that a call returned, instead of
    accept_limit."""
    listener_last: Annotated[bool, Setting(key="listener", words=("first", "last"))] = False
    """Whether a batch's new connections are accepted before or after."""
    read_after_accept: Annotated[bool, Setting()] = False
    """Try to read at once, instead of waiting for the first event."""
    remembers: Annotated[bool, Setting()] = True
    """Whether a server that is told of changes goes on until a call would block; one that does not
    serves each notice once, and may strand its clients."""
    request_timeout_ns: Annotated[int, Setting(least=0, most="1 h")] = 0
    """Close a connection whose request is incomplete this long after its accept, or after the reply
    before; 0 s: never."""
    timeout_check_ns: Annotated[int, Setting(least=1, file_least="1 ms", most="1 h")] = SECOND_NS
    """How often an event loop looks for such, in a walk of all its connections."""
    signal_numbers: Annotated[int, Setting(least=1, most=32)] = 1
    """Signal numbers in use, by descriptor in turn: the lowest is delivered first."""
    recovery: Annotated[int, Setting(words=Recovery)] = int(Recovery.POLL)
    """What follows when signals were lost: nothing (who was meant is stranded), a flush and one
    poll of all, or polls until there is little to do, or for ever."""
    recovery_array_kept: Annotated[
        bool, Setting(key="recovery_array", words=("rebuilt", "kept"))
    ] = False
    """Whether the array for poll is kept at every change."""
    recovery_hands_over: Annotated[
        bool, Setting(key="recovery_thread", words=("same", "sibling"))
    ] = False
    """sibling: each descriptor is handed over to another thread."""
    overflow_told_last: Annotated[bool, Setting(key="overflow_told", words=("first", "last"))] = (
        False
    )
    """Whether SIGIO, which tells that signals were lost, comes before those queued, as in every
    kernel, or behind them, to see what follows from that."""
    poll_above: Annotated[int, Setting(least=0, most=10_000_000)] = 0
    """Queued signals from which on a hybrid server polls; 0: it never does."""
    calm_below: Annotated[int, Setting(least=1, most=10_000_000)] = 1
    """A poll that finds fewer ready leads back to signals."""
    removes_first: Annotated[bool, Setting()] = True
    """Whether a server on /dev/poll of Solaris, which adds to an interest, removes a descriptor
    before it wants less of it; if not, it is told of more than it wants."""
    array_rebuilt: Annotated[bool, Setting(key="array", words=("kept", "rebuilt"))] = False
    """Whether the set that select or poll is given is built anew for each call."""
    max_events: Annotated[int, Setting(least=1, most=1_000_000)] = 1024
    """Events that one wait may return."""
    busy: Annotated[bool, Setting()] = False
    """Ask again and again instead of blocking until something comes."""
    workers: Annotated[int, Setting(least=1, most=THREADS_MAX)] = 1
    """Event loops, each a thread that stays on one of the machine's CPUs. With blocking: threads in
    the pool, or how many there may be at once, the first included."""
    sharing: Annotated[int, Setting(key="share", words=Sharing)] = int(Sharing.ACCEPT_QUEUE)
    """What workers have in common. nothing: each has its own accept queue (SO_REUSEPORT); accept
    queue: one, which all watch; ready list: one epoll set for all; handed over: the first worker
    accepts for the others, in turn (memcached)."""
    wake_one: Annotated[bool, Setting(key="wake")] = False
    passes_listener: Annotated[bool, Setting(key="pass_listener")] = False
    """Whether a worker hands the listener to the next one after each accept, so that new
    connections are told to one (F_SETOWN): where events are told by signals."""
    threads: Annotated[int, Setting(words=Threads)] = int(Threads.POOL)
    """With blocking: whether all threads are there from the beginning, or one accepts and starts a
    thread, or a process, for each connection."""
    stack_bytes: Annotated[int, Setting(least=1, file_least="16 KiB", most="1 GiB")] = 2_097_152
    """What each thread reserves for its stack."""
    address_space_bytes: Annotated[
        int, Setting(least=0, file_least="1 MiB", most="1048576 GiB", absent_is_0=True)
    ] = 0
    """Room for all stacks together; absent: without limit."""
    concurrent_threads: Annotated[int, Setting(least=0, most=THREADS_MAX)] = 0
    """Threads of a completion port that run at once; 0: as many as there are CPUs."""
    sends_block: Annotated[bool, Setting(key="sends", words=("overlapped", "blocking"))] = False
    """With a completion port: whether a send that does not fit completes later, or its thread
    sleeps until it does, and another one may run."""
    due_at_once: Annotated[int, Setting(least=0, key=None)] = 20
    due_last_first: bool = False
    accept_looks_again: bool = False
    closes_first: Annotated[bool, Setting()] = True
    """Whether it closes a connection when it has sent its last reply; otherwise it waits until its
    client has."""
    drops_half_closed: Annotated[bool, Setting()] = False
    """Whether it takes a client that has sent all its requests and a FIN (load.close =
    "half-close") for gone, and closes without a reply."""
    writes_when_told: Annotated[bool, Setting(key="writes", words=("at once", "when told"))] = False
    """Whether it writes a reply when it has it, or changes its interest first and waits until it is
    told that it can."""


class OverloadSettings(NamedTuple):
    """How the server program limits itself: what it accepts and resets, or does not accept.

    It resets what it accepts while the running mean of the events told of in a call, of that gain,
    is above limiter_threshold (gain 0: never), or what has waited in the accept queue for longer
    than queue_interval_ns, or than queue_deadline_ns if the queue has not been empty for that
    interval (0: never), or what is more than a limit that shrinks when latency is
    concurrency_tolerance_permille of its least (0: no limit). Above drop_above open connections
    SYNs are lost (0: never).
    """

    limiter_gain_permille: Annotated[int, Setting(least=0, most=1)] = 0
    """Overload control by a running mean of the events told of in a call, of this gain, to a
    thousandth; 0: none."""
    limiter_threshold: Annotated[int, Setting(least=0, most=1_000_000)] = 18
    """Above this mean who comes in is reset."""
    queue_deadline_ns: Annotated[int, Setting(least=0, most="1 h")] = 0
    """How long a connection may have waited to be accepted while others always did (it is reset
    then); 0 s: for ever."""
    queue_interval_ns: Annotated[int, Setting(least=0, most="1 h")] = 100_000_000
    """The same where the queue was empty in between; and what counts as always."""
    concurrency_tolerance_permille: Annotated[int, Setting(least=0, most=1000)] = 0
    """Overload control by a limit on open connections that shrinks when the latency of a first
    reply is more than so many times the least seen; 0: none, else at least 1."""
    drop_above: Annotated[int, Setting(least=0, most=20_000_000)] = 0
    """Open connections above which SYNs are lost; 0: no bound."""
