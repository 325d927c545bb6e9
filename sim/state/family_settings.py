"""Settings of a server that one family of mechanisms uses.

They are here, not in models/, because every world holds them: comparisons run one record of
settings on all mechanisms, and programs are written once for all families.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .program_settings import THREADS_MAX
from .setting import Kind, Setting


class Recovery(IntEnum):
    """What a server does after a signal-queue overflow."""

    NOTHING = 0  # go on with the queued signals: lost events stay unnoticed
    POLL = 1  # flush the queue, poll all once, go back to signals (phhttpd 0.1.2)
    POLL_UNTIL_CALM = 2  # flush, then poll until few descriptors are ready (userver)
    POLL_FOR_EVER = 3  # flush, and never go back to signals (phhttpd before)


class Threads(IntEnum):
    """How a server with blocking calls creates its threads."""

    POOL = 0  # all are started before the run
    ON_DEMAND = 1  # one thread accepts, and starts another for each connection
    PROCESSES = 2  # one process accepts, and starts another for each connection


class SignalSettings(NamedTuple):
    """A server whose events arrive as queued signals.

    A full queue loses signals (RLIMIT_SIGPENDING). The kernel then queues SIGIO, which has the
    lowest number and is delivered before all others. A hybrid server also polls without a loss,
    from poll_above queued signals until a poll finds fewer than calm_below ready descriptors.

    phhttpd sets accept_each_signal and passes_listener. The first leaves one queued signal for
    each waiting connection. The second makes one worker the owner of the listener (F_SETOWN).
    """

    signal_queue: Annotated[
        int, Setting(least=1, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)
    ] = 1024
    """Length of the signal queue (ulimit -i)."""
    signals_elsewhere: Annotated[
        int, Setting(least=0, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)
    ] = 0
    """Queued signals of another process, which count towards server.signal_queue."""
    signal_numbers: Annotated[int, Setting(least=1, most=32, looked_at_by=Kind.BY_SIGNALS)] = 1
    """Signal numbers in use, assigned to descriptors in turn; the lowest is delivered first."""
    recovery: Annotated[int, Setting(words=Recovery, looked_at_by=Kind.BY_SIGNALS)] = int(
        Recovery.POLL
    )
    """What the server does after a signal-queue overflow: nothing (connections are stranded); a
    flush and one poll of all descriptors; or polls until few are ready, or permanently."""
    recovery_array_kept: Annotated[
        bool, Setting(key="recovery_array", words=("rebuilt", "kept"), looked_at_by=Kind.BY_SIGNALS)
    ] = False
    """Whether the array for poll is built for each recovery, or kept up to date at every change."""
    recovery_hands_over: Annotated[
        bool,
        Setting(
            key="recovery_thread",
            words=("same", "sibling"),
            looked_at_by=Kind.BY_SIGNALS,
            left_alone=True,
        ),
    ] = False
    """The thread that polls in a recovery. sibling: a second thread of each worker. The worker
    passes each descriptor to it in a message, and gets it back when it takes signals again."""
    overflow_told_last: Annotated[
        bool, Setting(key="overflow_told", words=("first", "last"), looked_at_by=Kind.BY_SIGNALS)
    ] = False
    """Whether SIGIO, the report of lost signals, is delivered before the queued signals (as in
    every kernel) or after them (an experiment)."""
    poll_above: Annotated[int, Setting(least=0, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)] = 0
    """Number of queued signals from which a hybrid server polls; 0: never."""
    calm_below: Annotated[int, Setting(least=1, most=10_000_000, looked_at_by=Kind.BY_SIGNALS)] = 1
    """Number of ready descriptors in a poll below which the server returns to signals."""
    accept_each_signal: Annotated[bool, Setting(looked_at_by=Kind.BY_SIGNALS, left_alone=True)] = (
        False
    )
    """Accept one connection for each signal of the listener, instead of accept_limit."""
    passes_listener: Annotated[
        bool, Setting(key="pass_listener", needs=Kind.BY_SIGNALS, left_alone=True)
    ] = False
    """Whether a worker hands the listener to the next worker after each accept (F_SETOWN), so that
    one worker at a time is notified of new connections."""


class ThreadSettings(NamedTuple):
    """A server whose threads block in their calls.

    `ProgramSettings.workers` is the size of the pool. Where a thread is started for each connection
    it bounds the threads, including the one that accepts (RLIMIT_NPROC). A thread whose stack does
    not fit address_space_bytes cannot start; 2 MiB is glibc's default on x86.
    """

    threads: Annotated[int, Setting(words=Threads, needs=Kind.BLOCKS, left_alone=True)] = int(
        Threads.POOL
    )
    """Threads of blocking. pool: all start before the run; on demand, processes: one thread accepts
    and starts a thread, or a process, for each connection."""
    stack_bytes: Annotated[
        int, Setting(least=1, file_least="16 KiB", most="1 GiB", looked_at_by=Kind.BLOCKS)
    ] = 2_097_152
    """Size of each thread's stack."""
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
    """Address space for all stacks together; absent: no limit."""


class CompletionSettings(NamedTuple):
    """A server that is notified of completed calls, instead of ready descriptors.

    io_uring runs task work from the front of its queue since Linux 6.5, and due_at_once items at a
    time since 6.13.
    """

    concurrent_threads: Annotated[
        int, Setting(least=0, most=THREADS_MAX, looked_at_by=Kind.BY_PORT)
    ] = 0
    """Threads of a completion port that may run at once; 0: one for each CPU."""
    sends_block: Annotated[
        bool, Setting(key="sends", words=("overlapped", "blocking"), looked_at_by=Kind.BY_PORT)
    ] = False
    """How a completion port handles a send that does not fit the buffer. overlapped: it completes
    later; blocking: the thread sleeps meanwhile, and another thread may run."""
    due_at_once: Annotated[int, Setting(least=0, key=None, looked_at_by=Kind.IO_URING)] = 20
    """Items of task work that io_uring runs at a time; 0: all."""
    due_last_first: Annotated[bool, Setting(key=None, looked_at_by=Kind.IO_URING)] = False
    """Whether io_uring runs all task work, newest first (Linux before 6.5)."""
    accept_looks_again: Annotated[bool, Setting(key=None, looked_at_by=Kind.IO_URING)] = False
    """Whether a multishot accept tries again after the last connection (Linux before 6.10)."""


class ScanSettings(NamedTuple):
    """A server that passes a set of descriptors to each call, or keeps it in /dev/poll."""

    fd_setsize: Annotated[
        int, Setting(least=0, most=20_000_000, looked_at_by=Kind.SELECT, of_client=True)
    ] = 0
    """Bits in select's bitmap; 0: no limit."""
    array_rebuilt: Annotated[
        bool, Setting(key="array", words=("kept", "rebuilt"), looked_at_by=Kind.SCANS)
    ] = False
    """Whether the program keeps the set for select or poll, or rebuilds it before each call."""
    removes_first: Annotated[bool, Setting(looked_at_by=Kind.ONLY_ADDS)] = True
    """Whether a server on Solaris' /dev/poll, where writes only add interests, removes a descriptor
    before it reduces its interest. Otherwise it gets notices that it does not want."""
