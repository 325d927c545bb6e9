"""The server's kernel and machine: what the kernel grants, how it shares CPUs and memory out."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .kinds import NICE_MAX, NICE_MIN
from .setting import Kind, Setting
from .units import PERMILLE


class Packets(IntEnum):
    """Who handles the packets that arrive, after the device has interrupted."""

    SOFTIRQ = 0  # the interrupt itself, then a thread of the kernel (Linux, NAPI)
    INTERRUPTS = 1  # each interrupts for itself, and work on them is more urgent than any process
    POLLING = 2  # after one interrupt they are polled for, in a bounded share of the time


CPUS_MAX = 1024
"""CPUs of one server."""
EVERY_CPU = -1
"""Packets go to the CPU that their flow's hash says (RSS, RPS)."""


class LimitSettings(NamedTuple):
    """What the kernel grants the server program: queues, buffers, descriptors.

    A full backlog drops SYNs, or with refuse resets them. syn_cookies answers a SYN that finds too
    many half-open connections without remembering it, as Linux does by default
    (net.ipv4.tcp_syncookies = 1); without, such a SYN is lost.

    fd_limit is the highest number of descriptors (RLIMIT_NOFILE); send_buffer_bytes what Linux lets
    a send buffer grow to (net.ipv4.tcp_wmem).

    epoll_watches bounds the descriptors in all epoll sets together (fs.epoll.max_user_watches: what
    4 % of the memory hold), epoll_instances the sets (fs.epoll.max_user_instances); 0: no bound.
    A connection that cannot be watched is closed.
    """

    backlog: Annotated[int, Setting(least=1, most=65_535)] = 4096
    """Connections that may wait to be accepted."""
    refuse: Annotated[
        bool, Setting(key="backlog_full", words=("drop", "refuse"), left_alone=True)
    ] = False
    """What a full backlog does: drop (the client tries again) or refuse."""
    syn_cookies: Annotated[bool, Setting(left_alone=True)] = True
    """Answer SYNs even when the backlog of half-open connections is full (Linux)."""
    fd_limit: Annotated[
        int, Setting(least=8, file_least=16, most=20_000_000, key="descriptors", of_client=True)
    ] = 1_048_576
    """Open descriptors allowed (ulimit -n)."""
    send_buffer_bytes: Annotated[
        int, Setting(least=1, file_least="1 KiB", most="1 GiB", of_client=True)
    ] = 4_194_304
    """Send buffer of a connection."""
    epoll_watches: Annotated[
        int,
        Setting(
            least=0,
            most=2_000_000_000,
            needs=Kind.WATCHES_ONE_BY_ONE,
            looked_at_by=Kind.IN_EPOLL,
            left_alone=True,
        ),
    ] = 0
    """Descriptors that all epoll sets may hold (fs.epoll.max_user_watches), above which connections
    are closed; 0: no bound."""
    epoll_instances: Annotated[
        int, Setting(least=0, most=1_000_000, looked_at_by=Kind.IN_EPOLL, left_alone=True)
    ] = 0
    """Epoll sets that there may be (fs.epoll.max_user_instances); 0: no bound."""


class KernelSettings(NamedTuple):
    """How the server's kernel shares its CPUs out: to packets, to threads, to other processes.

    Of packets that come while others are being handled, an interrupt handles softirq_budget in one
    go (0: all), ten rounds of 64 (Linux: MAX_SOFTIRQ_RESTART, net.core.dev_weight). It gives up
    after a round at which a thread is to run or 2 ms are over. Then it leaves them to a thread of
    the kernel, which takes turns with the others as they do with each other (kernel/softirq.c:
    ksoftirqd). Up to receive_queue wait for that thread, or for what handles them where packets are
    not SOFTIRQ; the device holds as many that could not interrupt yet. What finds no room is lost
    (net.core.netdev_max_backlog; 4.2BSD: IFQ_MAXLEN, 50).

    A device waits coalesce_ns after a packet before it interrupts, for others that come along (NAPI
    softirqs only; ethtool -C rx-usecs, or the way of an interrupt from one CPU to another).

    Where packets are polled for, that takes at most polling_share_permille of each polling_tick_ns
    (Mogul and Ramakrishnan 1997, section 7).

    Since Linux 6.5 interrupts handle packets beside the thread of the kernel that has them, while
    it waits for the CPU (interrupts_beside).

    A thread that others wait for leaves its CPU at the first tick at which it has had it for
    slice_ns (Linux kernel/sched/fair.c: 0.7 ms, twice that on two CPUs). With wake_preemption a
    thread that wakes up takes the CPU from one that has had as much or more, and granularity_ns
    more; of what it did not use while asleep credit_ns counts, at most. Both are 0 since Linux 6.6;
    before, the same file has 1 and 3 ms on one CPU, 2 and 6 ms on two (wakeup_gran(),
    place_entity()).

    files_max bounds the open files of all processes together (fs.file-max), of which other ones
    hold files_elsewhere: beyond it accept() fails with ENFILE. Each connection takes
    connection_bytes, its part of the server's memory included; a connection request for which
    memory_bytes leave no room is lost (0: no bound). Of the default of 16 KiB the kernel keeps 5
    KiB: socket, epoll item and a waiting request, as `MemorySettings` has them. The rest stands for
    the buffers of the server program, which no bench prices.
    """

    packets: Annotated[int, Setting(words=Packets, left_alone=True)] = int(Packets.SOFTIRQ)
    """Who handles packets. softirq: the interrupt, then a thread of the kernel (Linux); interrupts:
    each interrupts for itself and comes before all processes (4.2BSD); polling: they are polled
    for, in a share of the time."""
    softirq_budget: Annotated[int, Setting(least=0, most=1_000_000, left_alone=True)] = 640
    """Packets that one softirq handles before its thread takes over, which shares the CPU with the
    server (Linux: 10 rounds of 64); 0: all there are, however long it takes."""
    receive_queue: Annotated[int, Setting(least=1, most=1_000_000)] = 1000
    """Packets that may wait to be handled where an interrupt does not handle all."""
    coalesce_ns: Annotated[int, Setting(least=0, most="100 ms", left_alone=True)] = 0
    """How long a device waits after a packet for others that come along, before it interrupts
    (ethtool -C rx-usecs)."""
    polling_share_permille: Annotated[int, Setting(least=1, most=PERMILLE)] = 750
    """Share of each 10 ms in which packets may be polled for, to a thousandth."""
    polling_tick_ns: Annotated[int, Setting(least=1, key=None)] = 10_000_000
    wake_preemption: Annotated[bool, Setting(left_alone=True)] = True
    """Whether a thread that wakes up takes the CPU from one that has had as much or more."""
    interrupts_beside: Annotated[bool, Setting(key=None)] = True
    granularity_ns: Annotated[int, Setting(least=0, key=None)] = 0
    credit_ns: Annotated[int, Setting(least=0, key=None)] = 0
    slice_ns: Annotated[int, Setting(least=1, key=None)] = 1_400_000
    tick_ns: Annotated[int, Setting(least=1, file_least="100 us", most="100 ms")] = 4_000_000
    """Time between two ticks of the clock, at which turns of threads end (CONFIG_HZ=250: 4 ms)."""
    files_max: Annotated[
        int, Setting(least=0, most=1_000_000_000, key="files", left_alone=True)
    ] = 0
    """Open files of all processes together (fs.file-max: ENFILE); 0: no bound."""
    files_elsewhere: Annotated[int, Setting(least=0, most=1_000_000_000, left_alone=True)] = 0
    """Of these, how many other processes have."""
    memory_bytes: Annotated[
        int,
        Setting(least=0, file_least="1 KiB", most="1048576 GiB", absent_is_0=True, left_alone=True),
    ] = 0
    """For all connections; a SYN for which there is none left is lost. Absent: without limit."""
    connection_bytes: Annotated[
        int, Setting(least=1, file_least="1 KiB", most="1048576 GiB", key="connection_memory")
    ] = 16_384
    """What one connection takes, in the kernel and in the server."""


class MachineSettings(NamedTuple):
    """The CPUs that the server's machine has, and what else runs on them.

    interrupt_cpu is the CPU that handles packets, or EVERY_CPU. busy_processes do nothing but
    compute, on the CPUs in turn, at busy_nice: each step of it is a fifth less, or a quarter more,
    of a CPU that others want, too (sched_prio_to_weight).
    """

    cpus: Annotated[int, Setting(least=1, run_most=CPUS_MAX)] = 1
    """CPUs of the server; workers are put on them in turn."""
    interrupt_cpu: Annotated[int, Setting(least=EVERY_CPU, key=None, left_alone=True)] = 0
    busy_processes: Annotated[int, Setting(least=0, most=1000, left_alone=True)] = 0
    """Other processes that do nothing but compute, on the CPUs in turn."""
    busy_nice: Annotated[int, Setting(least=NICE_MIN, run_most=NICE_MAX)] = 0
    """How nice these are: 19 takes least of a CPU."""
