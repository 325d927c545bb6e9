"""What one run is told besides its trace and its costs."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, NamedTuple

from .setting import Setting
from .threads import NICE_MAX, NICE_MIN
from .units import PERMILLE, SECOND_NS


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


class Closing(IntEnum):
    """How clients end their connections."""

    RESET = 0  # one packet, and all is forgotten
    FIN = 1  # close(): either side sends a FIN, which the other one acknowledges
    HALF_CLOSE = 2  # shutdown() behind the last request: the FIN goes before the reply has come


class Packets(IntEnum):
    """Who handles the packets that arrive, after the device has interrupted."""

    SOFTIRQ = 0  # the interrupt itself, then a thread of the kernel (Linux, NAPI)
    INTERRUPTS = 1  # each interrupts for itself, and work on them is more urgent than any process
    POLLING = 2  # after one interrupt they are polled for, in a bounded share of the time


class FaultKind(IntEnum):
    """What goes wrong."""

    STALL = 0  # a CPU does nothing but handle interrupts
    LINK = 1  # the link has another bandwidth
    SIGNALS = 2  # another process holds queued signals
    READING = 3  # some clients do not read


LINEAR_SYN_TIMEOUTS_MAX = 100
"""Tries are counted in a byte; Linux takes no more than MAX_TCP_SYNCNT (127) of them."""
PIECES_MAX = 30_000
"""Of a request: they are counted in two bytes."""
RETRIES_MAX = 30
"""Of a connection: every attempt takes memory, used or not."""
PAUSE_MAX_NS = 1 << 42
"""About 73 minutes: a pause times a draw of jitter fits 63 bits."""
WORKERS_MAX = 1024
"""Event loops, or CPUs, of one server."""
THREADS_MAX = 32_768
"""Threads that block in their calls: Linux kernel.pid_max, by default."""
EVERY_CPU = -1
"""Packets go to the CPU that their flow's hash says (RSS, RPS)."""


class ServerSettings(NamedTuple):
    """The server program and its limits.

    syn_cookies answers a SYN that finds too many half-open connections without remembering it, as
    Linux does by default (net.ipv4.tcp_syncookies = 1); without, such a SYN is lost.

    A busy server asks again and again instead of blocking in its wait.

    accept_limit is the number of accepts for one notification (0: until EAGAIN); where events are
    told by signals, accept_each_signal has a server go through the signals that a call returned and
    accept one connection for each of the listener's (phhttpd), so that the others stay queued.
    fd_limit is the highest number of descriptors; fd_setsize the highest that a bitmap can hold (0:
    no bound); send_buffer_bytes what Linux lets a send buffer grow to (net.ipv4.tcp_wmem).

    A server that is told of changes and not of states remembers what it heard until a call would
    have blocked; one that does not serves each notice once. signal_queue bounds the signals that
    may be queued (RLIMIT_SIGPENDING), of which other processes hold signals_elsewhere;
    signal_numbers are used in turn, by descriptor, and the lowest is delivered first.

    recovery is what follows when signals were lost: by an array for poll that is built anew, or
    kept up to date all the time; after handing each descriptor over to another thread, or not. That
    some were lost is told before those that are queued (SIGIO has a lower number), or with
    overflow_told_last behind them, as no kernel does.
    removes_first has a server on /dev/poll of Solaris remove a descriptor before it wants less of
    it; array_rebuilt has one on select or poll build its set anew for each call.

    poll_above signals in the queue (0: never) a hybrid server polls without having lost any, and
    it goes back to signals when a poll finds fewer than calm_below ready.

    Overload control resets what it accepts while the running mean of the events told of in a call,
    of that gain, is above limiter_threshold (gain 0: never), or what has waited in the accept queue
    for longer than queue_interval_ns, or than queue_deadline_ns if the queue has not been empty for
    that interval (0: never), or what is more than a limit that shrinks when latency is
    concurrency_tolerance_permille of its least (0: no limit). Above drop_above open connections
    SYNs are lost (0: never).

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

    epoll_watches bounds the descriptors in all epoll sets together (fs.epoll.max_user_watches: what
    4 % of the memory hold), epoll_instances the sets (fs.epoll.max_user_instances); 0: no bound.
    A connection that cannot be watched is closed.

    closes_first has the server close a connection when it has sent its last reply; otherwise it
    waits until its client has. To a client that has sent a FIN behind its request it replies,
    unless drops_half_closed: then the end of the input is taken for the end of the client, as
    servers do that look at EPOLLRDHUP first (HAProxy: option abortonclose).

    One that writes_when_told writes no reply before it was told that it can: it changes its
    interest, and waits (Gammo et al. 2004, userver). Servers that are told of changes know already.

    Who has not sent a whole request request_timeout_ns after its accept, or after the reply before,
    is closed (0: never); an event loop looks for such once in timeout_check_ns, a thread that
    blocks is told.

    interrupt_cpu is the CPU that handles packets, or EVERY_CPU; slice_ns how long a worker keeps
    its CPU while others wait for it (Linux kernel/sched/fair.c: 0.7 ms, twice that on two CPUs).
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
    signal_queue: Annotated[int, Setting(least=1, most=10_000_000)] = 1024
    """Signals that may be queued (ulimit -i), where events are told by signals."""
    signals_elsewhere: Annotated[int, Setting(least=0, most=10_000_000)] = 0
    """Of these, how many another process holds."""
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
    backlog: Annotated[int, Setting(least=1, most=65_535)] = 4096
    """Connections that may wait to be accepted."""
    refuse: Annotated[bool, Setting(key="backlog_full", words=("drop", "refuse"))] = False
    """What a full backlog does: drop (the client tries again) or refuse."""
    syn_cookies: Annotated[bool, Setting()] = True
    """Answer SYNs even when the backlog of half-open connections is full (Linux)."""
    max_events: Annotated[int, Setting(least=1, most=1_000_000)] = 1024
    """Events that one wait may return."""
    busy: Annotated[bool, Setting()] = False
    """Ask again and again instead of blocking until something comes."""
    fd_limit: Annotated[
        int, Setting(least=8, file_least=16, most=20_000_000, key="descriptors")
    ] = 1_048_576
    """Open descriptors allowed (ulimit -n)."""
    fd_setsize: Annotated[int, Setting(least=0, most=20_000_000)] = 0
    """Bits in select's bitmap; 0: as many as needed."""
    send_buffer_bytes: Annotated[int, Setting(least=1, file_least="1 KiB", most="1 GiB")] = (
        4_194_304
    )
    """Send buffer of a connection."""
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
    workers: Annotated[int, Setting(least=1, most=THREADS_MAX)] = 1
    """Event loops, each a thread that stays on one of the machine's CPUs. With blocking: threads in
    the pool, or how many there may be at once, the first included."""
    cpus: Annotated[int, Setting(least=1, key=None)] = 1
    sharing: Annotated[int, Setting(key="share", words=Sharing)] = int(Sharing.ACCEPT_QUEUE)
    """What workers have in common. nothing: each has its own accept queue (SO_REUSEPORT); accept
    queue: one, which all watch; ready list: one epoll set for all; handed over: the first worker
    accepts for the others, in turn (memcached)."""
    wake_one: Annotated[bool, Setting(key="wake")] = False
    passes_listener: Annotated[bool, Setting(key="pass_listener")] = False
    """Whether a worker hands the listener to the next one after each accept, so that new
    connections are told to one (F_SETOWN): where events are told by signals."""
    epoll_watches: Annotated[int, Setting(least=0, most=2_000_000_000)] = 0
    """Descriptors that all epoll sets may hold (fs.epoll.max_user_watches), above which connections
    are closed; 0: no bound."""
    epoll_instances: Annotated[int, Setting(least=0, most=1_000_000)] = 0
    """Epoll sets that there may be (fs.epoll.max_user_instances); 0: no bound."""
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
    interrupt_cpu: Annotated[int, Setting(least=EVERY_CPU, key=None)] = 0
    slice_ns: Annotated[int, Setting(least=1, key=None)] = 1_400_000


class KernelSettings(NamedTuple):
    """How the server's kernel shares its CPUs out: to packets, to threads, to other processes.

    Of packets that come while others are being handled, an interrupt handles softirq_budget in one
    go (0: all), then leaves them to a thread of the kernel, which takes turns with the others as
    they do with each other (Linux kernel/softirq.c: ksoftirqd). Up to receive_queue wait for it, or
    for whoever handles them where packets are not SOFTIRQ; the device holds as many that could not
    interrupt yet. What finds no room is lost (net.core.netdev_max_backlog; 4.2BSD: IFQ_MAXLEN, 50).

    A device waits coalesce_ns after a packet before it interrupts, for others that come along (NAPI
    softirqs only; ethtool -C rx-usecs, or the way of an interrupt from one CPU to another).

    Where packets are polled for, that takes at most polling_share_permille of each polling_tick_ns
    (Mogul and Ramakrishnan 1997, section 7).

    With wake_preemption a thread that wakes up takes the CPU from one that has had more of it by
    granularity_ns; of what it did not use while asleep credit_ns counts, at most (Linux up to 6.5,
    kernel/sched/fair.c: wakeup_gran(), place_entity(); 1 and 3 ms on one CPU, here for two).
    busy_processes do nothing but compute, on the CPUs in turn, at busy_nice: each step of it is a
    fifth less, or a quarter more, of a CPU that others want, too (sched_prio_to_weight).

    files_max bounds the open files of all processes together (fs.file-max), of which other ones
    hold files_elsewhere: beyond it accept() fails with ENFILE. Each connection takes
    connection_bytes, its part of the server's memory included; a connection request for which
    memory_bytes leave no room is lost (0: no bound).
    """

    packets: Annotated[int, Setting(words=Packets)] = int(Packets.SOFTIRQ)
    """Who handles packets. softirq: the interrupt, then a thread of the kernel (Linux); interrupts:
    each interrupts for itself and comes before all processes (4.2BSD); polling: they are polled
    for, in a share of the time."""
    softirq_budget: Annotated[int, Setting(least=0, most=1_000_000)] = 0
    """Packets that one softirq handles before its thread takes over, which shares the CPU with the
    server; 0: all there are."""
    receive_queue: Annotated[int, Setting(least=1, most=1_000_000)] = 1000
    """Packets that may wait to be handled where an interrupt does not handle all."""
    coalesce_ns: Annotated[int, Setting(least=0, most="100 ms")] = 0
    """How long a device waits after a packet for others that come along, before it interrupts
    (ethtool -C rx-usecs)."""
    polling_share_permille: Annotated[int, Setting(least=1, most=1)] = 750
    """Share of each 10 ms in which packets may be polled for, to a thousandth."""
    polling_tick_ns: Annotated[int, Setting(least=1, key=None)] = 10_000_000
    wake_preemption: Annotated[bool, Setting()] = False
    """Whether a thread that wakes up takes the CPU from one that has had more."""
    granularity_ns: Annotated[int, Setting(least=0, key=None)] = 2_000_000
    credit_ns: Annotated[int, Setting(least=0, key=None)] = 6_000_000
    busy_processes: Annotated[int, Setting(least=0, most=1000)] = 0
    """Other processes that do nothing but compute, on the CPUs in turn."""
    busy_nice: Annotated[int, Setting(least=NICE_MIN, run_most=NICE_MAX, most=19)] = 0
    """How nice these are: 19 takes least of a CPU."""
    files_max: Annotated[int, Setting(least=0, most=1_000_000_000, key="files")] = 0
    """Open files of all processes together (fs.file-max: ENFILE); 0: no bound."""
    files_elsewhere: Annotated[int, Setting(least=0, most=1_000_000_000)] = 0
    """Of these, how many other processes have."""
    memory_bytes: Annotated[
        int, Setting(least=0, file_least="1 KiB", most="1048576 GiB", absent_is_0=True)
    ] = 0
    """For all connections; a SYN for which there is none left is lost. Absent: without limit."""
    connection_bytes: Annotated[
        int, Setting(least=1, file_least="1 KiB", most="1048576 GiB", key="connection_memory")
    ] = 16_384
    """What one connection takes, in the kernel and in the server."""


class FloodSettings(NamedTuple):
    """Datagrams that nobody reads, in bursts: gap_ns between two bursts (0: no flood).

    The gaps are exponential where is_poisson, of that mean. They begin at from_ns.
    """

    gap_ns: Annotated[int, Setting(least=0, key=None)] = 0
    burst: Annotated[int, Setting(least=1, key=None)] = 1
    is_poisson: bool = True
    from_ns: Annotated[int, Setting(least=0, key=None)] = 0
    until_ns: Annotated[int, Setting(least=0, key=None)] = 0  # 0: to the end of the run


class Fault(NamedTuple):
    """What goes wrong from at_ns for length_ns.

    value is of a STALL the CPU that is stalled, of a LINK its bandwidth in bits a second each way
    meanwhile (0: without limit), of SIGNALS how many another process holds more, of READING which
    thousandths of the clients do not read.
    """

    kind: int
    at_ns: int
    length_ns: int
    value: int = 0


class PathSettings(NamedTuple):
    """What lies between some clients and the link; a bandwidth of 0 is without limit.

    It is the path of share_permille of the connections. delay_ns is one way; of a million segments
    loss_millionths are lost, each way.
    """

    share_permille: int
    delay_ns: int = 0
    up_bits_per_s: int = 0
    down_bits_per_s: int = 0
    loss_millionths: int = 0


class NetworkSettings(NamedTuple):
    """The link between clients and server; a bandwidth of 0 is without limit.

    window_segments may be under way of a reply at first (RFC 6928: 10), more after each round trip,
    up to receive_window_bytes (0: no bound); with 0 segments all of a reply is sent at once.

    set_up is how many round trips there are before the first request leaves: 1 of the handshake; 0
    where it rides along with the SYN (TCP Fast Open, RFC 7413), unless the accept queue is full; 2
    where another one follows the handshake (TLS 1.3, of whose CPU time nothing is known here).
    paths are those of clients to the link, with shares that add up to a thousand; none: they are at
    the link.

    Up is to the machine that is simulated. Where that is the client, service_ns is what the far end
    takes to answer a request.

    What is lost is sent again by the timers of kernels that count ticks of timer_tick_ns (Linux:
    1/CONFIG_HZ; see sim/wire/retransmission.py); 0: at its very time.

    With one_machine and no delay clients are on the machine of the server, whose CPU handles what
    they receive, too: SYN-ACKs and what acknowledges them wait their turn behind other packets. (A
    testbed of two network namespaces, whose receive processing is steered to one CPU.) Otherwise
    what comes without a delay is there before anything else can be.
    """

    delay_ns: Annotated[int, Setting(least=0, key=None)] = 0
    up_bits_per_s: Annotated[
        int, Setting(least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True)
    ] = 0
    """From the clients; absent: without limit."""
    down_bits_per_s: Annotated[
        int, Setting(least=0, file_least="1 kbit/s", most="1000 Gbit/s", absent_is_0=True)
    ] = 0
    """To the clients; absent: without limit."""
    service_ns: Annotated[int, Setting(least=0, key=None)] = 0
    window_segments: Annotated[int, Setting(least=0, most=1_000_000, key="window")] = 0
    """Segments of a reply that may be under way at first, more after each round trip (Linux: 10);
    0: all of a reply is sent at once."""
    receive_window_bytes: Annotated[
        int, Setting(least=0, file_least="1 KiB", most="1048576 GiB", absent_is_0=True)
    ] = 0
    """What a client takes before it acknowledges; absent: no bound."""
    set_up: int = 1
    paths: tuple[PathSettings, ...] = ()
    timer_tick_ns: Annotated[int, Setting(least=0, most="100 ms")] = 0
    """Of kernels whose timers send again what was lost: at a tick, and in steps of 8 after 63
    (Linux with CONFIG_HZ=250 has "4 ms", so a second goes off in steps of 32 ms); 0: at its very
    time."""
    one_machine: bool = False


class ClientSettings(NamedTuple):
    """The clients besides their trace: patience, descriptors, and the idle population.

    Idle connections are open when the run begins. With idle_life_ns each is closed by its client
    after an exponential time of that mean and opened again at once; 0: they stay.

    closing is how they end their connections, as in `Closing`. With FINs they close when they have
    their last reply, or when the server has where that closes first. The idle population resets.

    A client repeats a SYN that is not answered after time-outs that double from the second on;
    linear_syn_timeouts more of the first length come before (net.ipv4.tcp_syn_linear_timeouts: 4
    since Linux 6.5). The first, and that of the server's SYN-ACK, takes syn_timeout_ns: 1 s since
    RFC 6298, 3 s before (RFC 1122; Linux until 3.0).

    Each connection takes one of the clients' ports (net.ipv4.ip_local_port_range: 28232 an address;
    0: no bound), and keeps it for time_wait_ns after its client has closed it (60 s on Linux where
    the client closes first; 0: clients that reset).

    A request of pieces_permille of the connections comes in request_pieces (1: whole), with
    piece_pause_ns between.

    A connection that fails is tried again, retries times at most, and each attempt has timeout_ns.
    Before is a pause of retry_pause_ns, doubled each time up to retry_pause_max_ns (0: it stays the
    same), less a random share of it, of at most retry_jitter_permille. All clients together repeat
    no more than retry_budget_permille of what they have begun, of which ten may be saved up (0: no
    bound).
    """

    timeout_ns: Annotated[
        int, Setting(least=0, file_least="1 ms", most="1 h", absent_is_0=True)
    ] = 0
    """When a client gives up; absent: never."""
    fd_limit: Annotated[int, Setting(least=1, key=None)] = 1_048_576
    idle: Annotated[int, Setting(least=0, key=None)] = 0
    idle_life_ns: Annotated[int, Setting(least=0, key=None)] = 0
    closing: Annotated[int, Setting(words=Closing, key=None)] = int(Closing.RESET)
    linear_syn_timeouts: Annotated[
        int, Setting(least=0, run_most=LINEAR_SYN_TIMEOUTS_MAX, key=None)
    ] = 0
    syn_timeout_ns: Annotated[int, Setting(least=1, run_most=PAUSE_MAX_NS, key=None)] = SECOND_NS
    ports: Annotated[int, Setting(least=0, file_least=1, most=2**40, absent_is_0=True)] = 0
    """Ports of all clients together, 28232 an address on Linux; absent: no bound."""
    time_wait_ns: Annotated[int, Setting(least=0, key=None)] = 0
    request_pieces: Annotated[
        int, Setting(least=1, most=PIECES_MAX, run_most=PIECES_MAX, key="pieces")
    ] = 1
    """Of a request: each is an event and a read, and only the last is answered."""
    piece_pause_ns: Annotated[int, Setting(least=0, most="1 h")] = 0
    """Between two of them."""
    pieces_permille: Annotated[
        int, Setting(least=0, most=1, run_most=PERMILLE, key="piece_share")
    ] = 1_000
    """Of the connections whose requests come in pieces."""
    retries: Annotated[int, Setting(least=0, most=RETRIES_MAX, run_most=RETRIES_MAX)] = 0
    """How often a client whose connection failed opens another one, at most; each has the whole
    time-out."""
    retry_pause_ns: Annotated[int, Setting(least=0, most="1 h", run_most=PAUSE_MAX_NS)] = 0
    """Before the first of them."""
    retry_pause_max_ns: Annotated[
        int, Setting(least=0, file_least="0 s", most="1 h", run_most=PAUSE_MAX_NS, absent_is_0=True)
    ] = 0
    """The pause doubles each time, up to this; absent: it stays the same."""
    retry_jitter_permille: Annotated[int, Setting(least=0, most=1, run_most=PERMILLE)] = 0
    """The largest share of a pause, drawn for each, that is not waited."""
    retry_budget_permille: Annotated[
        int, Setting(least=0, file_least=0.001, most=10, absent_is_0=True)
    ] = 0
    """Repetitions of all clients together per connection that they have begun, of which ten may be
    saved up; absent: without bound."""


class RunSettings(NamedTuple):
    """Everything about a run but its trace, its costs and its mechanism."""

    server: ServerSettings = ServerSettings()
    network: NetworkSettings = NetworkSettings()
    client: ClientSettings = ClientSettings()
    kernel: KernelSettings = KernelSettings()
    flood: FloodSettings = FloodSettings()
    faults: tuple[Fault, ...] = ()
    duration_ns: Annotated[int, Setting(least=1, key=None)] = 2 * SECOND_NS
    warm_up_ns: Annotated[int, Setting(least=0, key=None)] = 0
    sample_every_ns: Annotated[int, Setting(least=0, key=None)] = 10_000_000
    seed: Annotated[int, Setting(least=0, key=None)] = 1
