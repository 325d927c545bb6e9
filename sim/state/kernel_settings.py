"""The server's kernel and machine: limits, and the sharing of CPUs and memory."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .kinds import NICE_MAX, NICE_MIN
from .setting import Kind, Setting
from .units import PERMILLE


class Packets(IntEnum):
    """The part of the kernel that handles arriving packets, after the device's interrupt."""

    SOFTIRQ = 0  # the interrupt itself, then a kernel thread (Linux, NAPI)
    INTERRUPTS = 1  # one interrupt for each packet, with priority over all processes
    POLLING = 2  # polling after one interrupt, in a bounded share of the time


CPUS_MAX = 1024
"""CPUs of one server."""
SEND_BUFFER_MAX = 4_194_304
"""Largest size of a send buffer that grows (Linux net.ipv4.tcp_wmem)."""
EVERY_CPU = -1
"""Packets go to the CPU that the hash of their flow selects (RSS, RPS)."""


class LimitSettings(NamedTuple):
    """Limits of the server program in the kernel: queues, buffers, descriptors.

    A full backlog drops SYNs, or with refuse resets them. With syn_cookies the kernel replies to a
    SYN when too many connections are half open, without storing it (Linux default,
    net.ipv4.tcp_syncookies = 1). Otherwise it drops the SYN.

    fd_limit is the largest number of descriptors (RLIMIT_NOFILE). send_buffer_bytes is the size to
    which the server has fixed a connection's send buffer (SO_SNDBUF). With 0 the buffer grows with
    the window up to SEND_BUFFER_MAX (sim/tcp/windows.py).

    epoll_watches bounds the descriptors in all epoll sets together (fs.epoll.max_user_watches: as
    many as fit 4 % of the memory), epoll_instances the sets (fs.epoll.max_user_instances); 0: no
    bound. The server closes a connection that it cannot watch.
    """

    backlog: Annotated[int, Setting(least=1, most=65_535)] = 4096
    """Connections that may wait to be accepted."""
    refuse: Annotated[
        bool, Setting(key="backlog_full", words=("drop", "refuse"), left_alone=True)
    ] = False
    """Reply to a SYN at a full backlog. drop: none, and the client repeats its SYN; refuse: a
    reset."""
    syn_cookies: Annotated[bool, Setting(left_alone=True)] = True
    """Accept SYNs even when the queue of half-open connections is full (Linux)."""
    fd_limit: Annotated[
        int, Setting(least=8, file_least=16, most=20_000_000, key="descriptors", of_client=True)
    ] = 1_048_576
    """Open descriptors allowed (ulimit -n)."""
    send_buffer_bytes: Annotated[
        int, Setting(least=0, file_least="1 KiB", most="1 GiB", absent_is_0=True, of_client=True)
    ] = 0
    """Size of a connection's send buffer (SO_SNDBUF); absent: it grows as Linux's, up to 4 MiB."""
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
    """Descriptors in all epoll sets together (fs.epoll.max_user_watches); the server closes further
    connections. 0: no bound."""
    epoll_instances: Annotated[
        int, Setting(least=0, most=1_000_000, looked_at_by=Kind.IN_EPOLL, left_alone=True)
    ] = 0
    """Largest number of epoll sets (fs.epoll.max_user_instances); 0: no bound."""


class KernelSettings(NamedTuple):
    """How the server's kernel shares its CPUs among packets, threads and other processes.

    A softirq handles up to softirq_budget packets at a time (0: all), in ten rounds of 64 (Linux:
    MAX_SOFTIRQ_RESTART, net.core.dev_weight). It ends after a round if a thread is to run or 2 ms
    are over. It leaves the remaining packets to a kernel thread, which shares the CPU with other
    threads (kernel/softirq.c: ksoftirqd). Up to receive_queue packets wait for that thread, or for
    their handler where packets are not SOFTIRQ; the device holds as many before its interrupt.
    Further packets are dropped (net.core.netdev_max_backlog; 4.2BSD: IFQ_MAXLEN, 50).

    A device delays its interrupt by coalesce_ns after a packet, to collect further packets (NAPI
    softirqs only; ethtool -C rx-usecs, or the time of an interrupt from one CPU to another).

    Polling takes at most polling_share_permille of each polling_tick_ns (Mogul and Ramakrishnan
    1997, section 7).

    Since Linux 6.5 interrupts, and ends of calls on sockets, handle packets while the kernel thread
    that has packets waits for the CPU (interrupts_beside).

    A thread leaves its CPU to waiting threads at the first tick after it has run for slice_ns
    (Linux kernel/sched/fair.c: 0.7 ms, twice that on two CPUs). With wake_preemption a waking
    thread preempts one that has had at least as much CPU time, plus granularity_ns. Its unused time
    while asleep counts up to credit_ns. Both are 0 since Linux 6.6; before, the same file has 1 and
    3 ms on one CPU, 2 and 6 ms on two (wakeup_gran(), place_entity()).

    files_max bounds the open files of all processes together (fs.file-max); other processes hold
    files_elsewhere of them. At the bound accept() fails with ENFILE. Each connection takes
    connection_bytes, including its part of the server's memory. A SYN that does not fit
    memory_bytes is dropped (0: no bound). The kernel keeps 5 KiB of the default of 16 KiB: socket,
    epoll item and a waiting request, as in `MemorySettings`. The rest stands for the buffers of the
    server program, which no bench measures.
    """

    packets: Annotated[int, Setting(words=Packets, left_alone=True)] = int(Packets.SOFTIRQ)
    """How the kernel handles packets. softirq: in the interrupt, then in a kernel thread (Linux);
    interrupts: one interrupt a packet, with priority over all processes (4.2BSD); polling: by
    polling, in a share of the time."""
    softirq_budget: Annotated[int, Setting(least=0, most=1_000_000, left_alone=True)] = 640
    """Packets that one softirq handles before ksoftirqd takes over, which shares the CPU with the
    server (Linux: 10 rounds of 64); 0: all packets, without a limit of time."""
    receive_queue: Annotated[int, Setting(least=1, most=1_000_000)] = 1000
    """Packets that may wait where an interrupt does not handle all of them."""
    coalesce_ns: Annotated[int, Setting(least=0, most="100 ms", left_alone=True)] = 0
    """Delay of the device's interrupt after a packet, to collect further packets (ethtool -C
    rx-usecs)."""
    polling_share_permille: Annotated[int, Setting(least=1, most=PERMILLE)] = 750
    """Largest share of each 10 ms for polling, to a thousandth."""
    polling_tick_ns: Annotated[int, Setting(least=1, key=None)] = 10_000_000
    wake_preemption: Annotated[bool, Setting(left_alone=True)] = True
    """Whether a waking thread preempts a thread that has had at least as much CPU time."""
    interrupts_beside: Annotated[bool, Setting(key=None)] = True
    granularity_ns: Annotated[int, Setting(least=0, key=None)] = 0
    credit_ns: Annotated[int, Setting(least=0, key=None)] = 0
    slice_ns: Annotated[int, Setting(least=1, key=None)] = 1_400_000
    tick_ns: Annotated[int, Setting(least=1, file_least="100 us", most="100 ms")] = 4_000_000
    """Time between two clock ticks, at which time slices end (CONFIG_HZ=250: 4 ms)."""
    files_max: Annotated[
        int, Setting(least=0, most=1_000_000_000, key="files", left_alone=True)
    ] = 0
    """Largest number of open files of all processes (fs.file-max: ENFILE); 0: no bound."""
    files_elsewhere: Annotated[int, Setting(least=0, most=1_000_000_000, left_alone=True)] = 0
    """Open files of other processes, which count towards machine.files."""
    memory_bytes: Annotated[
        int,
        Setting(least=0, file_least="1 KiB", most="1048576 GiB", absent_is_0=True, left_alone=True),
    ] = 0
    """Memory for all connections; SYNs that do not fit are dropped. Absent: no limit."""
    connection_bytes: Annotated[
        int, Setting(least=1, file_least="1 KiB", most="1048576 GiB", key="connection_memory")
    ] = 16_384
    """Memory of one connection, in the kernel and in the server."""


class MachineSettings(NamedTuple):
    """The CPUs of the server's machine, and other processes on them.

    interrupt_cpu is the CPU that handles packets, or EVERY_CPU. busy_processes only compute, on the
    CPUs in turn, at busy_nice. On a contended CPU each step of niceness takes a fifth less or a
    quarter more (sched_prio_to_weight).
    """

    cpus: Annotated[int, Setting(least=1, run_most=CPUS_MAX)] = 1
    """CPUs of the server; workers are pinned to them in turn."""
    interrupt_cpu: Annotated[int, Setting(least=EVERY_CPU, key=None, left_alone=True)] = 0
    busy_processes: Annotated[int, Setting(least=0, most=1000, left_alone=True)] = 0
    """Other processes that only compute, on the CPUs in turn."""
    busy_nice: Annotated[int, Setting(least=NICE_MIN, run_most=NICE_MAX)] = 0
    """Nice value of the busy processes; 19 takes the smallest share of a CPU."""
