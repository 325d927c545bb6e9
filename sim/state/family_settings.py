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
    """What a server does after signals were lost."""

    NOTHING = 0  # go on with the queued signals: lost events stay unnoticed
    POLL = 1  # flush the queue, poll all once, go back to signals (phhttpd 0.1.2)
    POLL_UNTIL_CALM = 2  # flush, then poll until few descriptors are ready (userver)
    POLL_FOR_EVER = 3  # flush, and never go back to signals (phhttpd before)


class Threads(IntEnum):
    """How a server that blocks in its calls comes by its threads."""

    POOL = 0  # all are started before the run
    ON_DEMAND = 1  # one thread accepts, and starts another for each connection
    PROCESSES = 2  # one process accepts, and starts another for each connection


class SignalSettings(NamedTuple):
    """A server whose events arrive as queued signals.

    A full queue loses signals (RLIMIT_SIGPENDING). The kernel then queues SIGIO, which has the
    lowest number and so is delivered before all others. A hybrid server also polls without a
    loss, from poll_above queued signals until a poll finds fewer than calm_below ready.

    phhttpd sets accept_each_signal and passes_listener. The first leaves one queued signal for
    each connection that waits; the second makes one worker the owner of the listener (F_SETOWN).
    """

    signal_queue: Annotated[
        int, Setting(least=1, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)
    ] = 1024
    """Signals that may be queued (ulimit -i), where events arrive as signals."""
    signals_elsewhere: Annotated[
        int, Setting(least=0, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)
    ] = 0
    """Of these, how many another process has queued."""
    signal_numbers: Annotated[int, Setting(least=1, most=32, looked_at_by=Kind.BY_SIGNALS)] = 1
    """Signal numbers in use, by descriptor in turn: the lowest is delivered first."""
    recovery: Annotated[int, Setting(words=Recovery, looked_at_by=Kind.BY_SIGNALS)] = int(
        Recovery.POLL
    )
    """What follows when signals were lost: nothing (their connections are stranded), a flush and
    one poll of all, or polls until there is little to do, or for ever."""
    recovery_array_kept: Annotated[
        bool, Setting(key="recovery_array", words=("rebuilt", "kept"), looked_at_by=Kind.BY_SIGNALS)
    ] = False
    """Whether the array for poll is kept up to date at every change, at a cost, or built for it."""
    recovery_hands_over: Annotated[
        bool,
        Setting(
            key="recovery_thread",
            words=("same", "sibling"),
            looked_at_by=Kind.BY_SIGNALS,
            left_alone=True,
        ),
    ] = False
    """sibling: a second thread of each worker polls. Each descriptor is handed over to it in a
    message, and back where the worker takes signals again."""
    overflow_told_last: Annotated[
        bool, Setting(key="overflow_told", words=("first", "last"), looked_at_by=Kind.BY_SIGNALS)
    ] = False
    """Whether SIGIO, which reports lost signals, is delivered before those queued, as in every
    kernel, or after them, to see what follows from that."""
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
    """Whether a worker hands the listener to the next one after each accept, so that one worker is
    notified of new connections (F_SETOWN), where events arrive as signals."""


class ThreadSettings(NamedTuple):
    """A server whose threads block in their calls.

    `ProgramSettings.workers` is the size of the pool. Where threads are started for a connection it
    bounds them, including the thread that accepts (RLIMIT_NPROC). A thread whose stack does not fit
    address_space_bytes cannot be started; 2 MiB is glibc's default on x86.
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
    """A server that is notified of completed calls, instead of ready descriptors.

    io_uring does due work from the front of its queue since Linux 6.5, and in pieces of due_at_once
    since 6.13.
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
    """Whether an accept after the last connection tries again (Linux before 6.10)."""


class ScanSettings(NamedTuple):
    """A server that hands its kernel a set of descriptors, or keeps one on a device."""

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
    before it reduces its interest; if not, it is notified of more than it wants."""
