"""Settings of a server that one family of mechanisms looks at.

They stand here and not in models/ because a world holds them, whatever its mechanism: one record of
settings is run on every mechanism that is compared, and programs are written once for all families.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .program_settings import THREADS_MAX
from .setting import Kind, Setting


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


class SignalSettings(NamedTuple):
    """A server whose events queued signals report.

    signal_queue bounds the signals that may be queued (RLIMIT_SIGPENDING), of which other processes
    hold signals_elsewhere; signal_numbers are used in turn, by descriptor, and the lowest is
    delivered first.

    recovery is what follows when signals were lost: by an array for poll that is built anew, or
    kept up to date all the time; after handing each descriptor over to another thread, or not. That
    some were lost is told before those that are queued (SIGIO has a lower number), or with
    overflow_told_last behind them, as no kernel does.

    poll_above signals in the queue (0: never) a hybrid server polls without having lost any, and
    it goes back to signals when a poll finds fewer than calm_below ready.

    With accept_each_signal a server goes through the signals that a call returned and accepts one
    connection for each of the listener's (phhttpd), so that the others stay queued. Where one
    accept queue is shared, passes_listener has a worker that has accepted hand the listener to the
    next one: new connections are told to its owner alone (F_SETOWN; phhttpd), instead of to all.
    """

    signal_queue: Annotated[
        int, Setting(least=1, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)
    ] = 1024
    """Signals that may be queued (ulimit -i), where events are told by signals."""
    signals_elsewhere: Annotated[
        int, Setting(least=0, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)
    ] = 0
    """Of these, how many another process holds."""
    signal_numbers: Annotated[int, Setting(least=1, most=32, looked_at_by=Kind.BY_SIGNALS)] = 1
    """Signal numbers in use, by descriptor in turn: the lowest is delivered first."""
    recovery: Annotated[int, Setting(words=Recovery, looked_at_by=Kind.BY_SIGNALS)] = int(
        Recovery.POLL
    )
    """What follows when signals were lost: nothing (who was meant is stranded), a flush and one
    poll of all, or polls until there is little to do, or for ever."""
    recovery_array_kept: Annotated[
        bool, Setting(key="recovery_array", words=("rebuilt", "kept"), looked_at_by=Kind.BY_SIGNALS)
    ] = False
    """Whether the array for poll is kept at every change."""
    recovery_hands_over: Annotated[
        bool,
        Setting(key="recovery_thread", words=("same", "sibling"), looked_at_by=Kind.BY_SIGNALS),
    ] = False
    """sibling: each descriptor is handed over to another thread."""
    overflow_told_last: Annotated[
        bool, Setting(key="overflow_told", words=("first", "last"), looked_at_by=Kind.BY_SIGNALS)
    ] = False
    """Whether SIGIO, which tells that signals were lost, comes before those queued, as in every
    kernel, or behind them, to see what follows from that."""
    poll_above: Annotated[int, Setting(least=0, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)] = 0
    """Queued signals from which on a hybrid server polls; 0: it never does."""
    calm_below: Annotated[int, Setting(least=1, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)] = 1
    """A poll that finds fewer ready leads back to signals."""
    accept_each_signal: Annotated[bool, Setting(looked_at_by=Kind.BY_SIGNALS, left_alone=True)] = (
        False
    )
    """Accept one connection for each signal of the listener that a call returned, instead of
    accept_limit."""
    passes_listener: Annotated[
        bool, Setting(key="pass_listener", needs=Kind.BY_SIGNALS, left_alone=True)
    ] = False
    """Whether a worker hands the listener to the next one after each accept, so that new
    connections are told to one (F_SETOWN): where events are told by signals."""


class ThreadSettings(NamedTuple):
    """A server whose threads block in their calls.

    `ProgramSettings.workers` is how many there are in the pool or, where they are started for a
    connection, how many there may be at once, the one that accepts among them (RLIMIT_NPROC). Each
    thread reserves stack_bytes (2 MiB: glibc's default on x86), and threads whose stacks do not fit
    address_space_bytes (0: no bound) cannot be started.
    """

    threads: Annotated[int, Setting(words=Threads, needs=Kind.BLOCKS, left_alone=True)] = int(
        Threads.POOL
    )
    """With blocking: whether all threads are there from the beginning, or one accepts and starts a
    thread, or a process, for each connection."""
    stack_bytes: Annotated[
        int, Setting(least=1, file_least="16 KiB", most="1 GiB", looked_at_by=Kind.BLOCKS)
    ] = 2_097_152
    """What each thread reserves for its stack."""
    address_space_bytes: Annotated[
        int,
        Setting(
            least=0,
            file_least="1 MiB",
            most="1048576 GiB",
            absent_is_0=True,
            looked_at_by=Kind.BLOCKS,
        ),
    ] = 0
    """Room for all stacks together; absent: without limit."""


class CompletionSettings(NamedTuple):
    """A server that is told what was done, instead of what can be.

    At a completion port as many as concurrent_threads run at once (0: as many as there are CPUs);
    with sends_block a thread sleeps until the whole reply is in the send buffer, instead of having
    the send completed.

    Of what is due io_uring does due_at_once pieces at a time (0: all there is), the first first, as
    Linux does since 6.13; or, with due_last_first and 0, all from the end of the queue: before 6.5.
    With accept_looks_again it looks in vain after the last connection: before 6.10.
    """

    concurrent_threads: Annotated[
        int, Setting(least=0, most=THREADS_MAX, looked_at_by=Kind.BY_PORT)
    ] = 0
    """Threads of a completion port that run at once; 0: as many as there are CPUs."""
    sends_block: Annotated[
        bool, Setting(key="sends", words=("overlapped", "blocking"), looked_at_by=Kind.BY_PORT)
    ] = False
    """With a completion port: whether a send that does not fit completes later, or its thread
    sleeps until it does, and another one may run."""
    due_at_once: Annotated[int, Setting(least=0, key=None, looked_at_by=Kind.IO_URING)] = 20
    """Pieces of what is due that io_uring does at a time; 0: all there is."""
    due_last_first: Annotated[bool, Setting(key=None, looked_at_by=Kind.IO_URING)] = False
    """Whether io_uring does all that is due, from the end of its queue (Linux before 6.5)."""
    accept_looks_again: Annotated[bool, Setting(key=None, looked_at_by=Kind.IO_URING)] = False
    """Whether an accept looks in vain after the last connection (Linux before 6.10)."""


class ScanSettings(NamedTuple):
    """A server that hands its kernel a set of descriptors, or keeps one on a device.

    fd_setsize is the highest descriptor that select's bitmap can hold (0: no bound). array_rebuilt
    has a server on select or poll build its set anew for each call; removes_first has one on
    /dev/poll of Solaris remove a descriptor before it wants less of it.
    """

    fd_setsize: Annotated[
        int, Setting(least=0, most=20_000_000, looked_at_by=Kind.SELECT, of_client=True)
    ] = 0
    """Bits in select's bitmap; 0: as many as needed."""
    array_rebuilt: Annotated[
        bool, Setting(key="array", words=("kept", "rebuilt"), looked_at_by=Kind.SCANS)
    ] = False
    """Whether the set that select or poll is given is built anew for each call."""
    removes_first: Annotated[bool, Setting(looked_at_by=Kind.ONLY_ADDS)] = True
    """Whether a server on /dev/poll of Solaris, which adds to an interest, removes a descriptor
    before it wants less of it; if not, it is told of more than it wants."""
