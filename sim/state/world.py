"""The state of one run: what the server's machine and its clients know, as records of integers.

    World ─┬─ cpus      interrupts, steps, ledger             sim/cpu/processor.py
           ├─ workers   threads of the server program         sim/cpu/processor.py
           ├─ others    all other threads                     sim/engine/other_threads.py
           ├─ sets      interest sets with their ready lists  sim/kernel/interest_set.py
           ├─ listeners accept queues                         sim/tcp/listen_queue.py
           └─ columns   one entry a connection, request or descriptor

    workers        0 ... W-1   threads of the server program, pinned to the CPUs in turn; siblings
                               of workers that take signals are the second half of them
    others, by CPU:
      packet thread   W + k    handles packets that interrupts leave to it (ksoftirqd)
      stalls      W + C + k    keeps the CPU from all others
      busy processes           compute, and do nothing else

A column is a plain list in the reference engine and a NumPy array of a compact type in the
compiled one; the functions over it are the same. Indices: `c` is a connection (the idle population
first, then the trace in order of start), `fd` a descriptor of the server.

The fields of the world stand in groups, one for each subject. The world is flat:
`world.unacked[c]`, whichever group declares the column. A column is declared on one line: what has
an entry, the first value, the type of an array, and its meaning. `assembly.build` makes it from
this line, `assembly.row_window` moves it with its connection, and the C engine takes its layout.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from .backend_settings import BackendSettings
from .client_settings import ClientSettings, NetworkSettings
from .columns import (
    I8,
    I16,
    I32,
    DeclaredColumn,
    Per,
    per_connection,
    per_descriptor,
    per_fault,
    per_path,
    per_request,
    per_run,
)
from .costs import Costs
from .family_settings import CompletionSettings, ScanSettings, SignalSettings, ThreadSettings
from .kernel_settings import KernelSettings, LimitSettings, MachineSettings
from .kinds import NEVER_NS, NONE, WEIGHT, Status
from .memory_settings import MemorySettings
from .program_settings import OverloadSettings, ProgramSettings
from .settings import FloodSettings


@dataclass(slots=True, eq=False)
class InterestSet:
    """One set of watched descriptors: epoll's instance, or what a program hands to select, poll."""

    number: int
    one_shot: bool
    ready: list[int]  # ring of at least D, a power of two
    waiters: list[int]  # stack of workers that block, or are about to
    own: Any  # what the mechanism itself keeps: `Mechanism.memory`
    n_watched: int = 0
    first_ready: int = 0
    n_ready: int = 0  # entries, stale ones among them
    n_stale: int = 0
    n_waiting: int = 0
    timer_fd: int = NONE  # of the timer that has the server look for late requests


@dataclass(slots=True, eq=False)
class Listener:
    """One listening socket: its queues, and the descriptors that workers have of it."""

    number: int
    queue: list[int]  # ring of at least backlog + 2 connections, a power of two
    fds: list[int]  # one a worker that listens, shape (workers,)
    n_fds: int = 0
    owner: int = 0  # which of them is notified, where the listener is handed on
    first_queued: int = 0
    n_queued: int = 0
    n_half: int = 0
    n_old: int = 0  # of these, those whose SYN-ACK was repeated
    empty_ns: int = 0  # when nobody waited to be accepted, the last time


ON_CPU, OFF_CPU, COMES_BACK = 0, 1, 2
"""`Worker.slice_state`: the thread goes on; it had to leave its CPU; it is on its way back."""


@dataclass(slots=True, eq=False)
class Cpu:
    """One CPU: what it does now, and where its time went.

    While it is idle, `runnable_ns` is the time at which the first of its queue may run. A step that
    is cut ends as soon as no interrupt is running, and another thread runs.
    """

    number: int
    runnable: list[int]  # ring of threads that wait for this CPU, by what they have had
    ledger_ns: list[int]  # by Activity
    ledger_mark_ns: list[int]
    packets: list[int]  # ring of packets that wait for the packet thread
    idle_at_last_ns: list[int]  # by KernelPath: how long it had been idle in all, at the last run
    first_runnable: int = 0
    n_runnable: int = 0
    n_first: int = 0  # of these, threads that come first regardless of CPU time
    runnable_ns: int = 0
    running: int = NONE  # the thread that has the CPU; NONE: idle
    last: int = NONE  # the thread that has it, or had it last
    switched: bool = False  # another thread had it before this one
    handed_over: bool = False  # and it was not idle in between
    left_work: bool = False  # calls have left some to a thread of the kernel, for the next sleep
    slice_from_ns: int = 0
    given_ns: int = 0  # when it was given to the thread that has it
    idle: bool = False
    was_idle: bool = False  # since its last accept
    has_served: bool = False  # threads have run since the last SYN that found it idle
    idle_from_ns: int = 0
    irq_begin_ns: int = 0
    irq_free_ns: int = NONE
    stolen_ns: int = 0
    in_step: bool = False
    cut: bool = False
    leaves: bool = False  # the thread that has it leaves as soon as it is in no call
    awaits_turn: bool = False  # a tick will look whether its slice is over
    turn_over: bool = False  # a tick has found so, and its interrupt goes on
    least_had_ns: int = 0  # what any thread has had at least that ran or waited here
    step_begin_ns: int = 0
    step_ns: int = 0
    step_stolen_ns: int = 0
    first_packet: int = 0
    n_packets: int = 0
    in_hand: int = NONE  # the packet that the packet thread is at
    asks_after: int = 0  # World.asks_after; 0 while the packet thread has all packets
    n_at_once: int = 0  # packets that one softirq has handled, or the last one
    n_in_round: int = 0  # and the packet thread, since it could leave
    beside: bool = False  # a softirq handles packets while the packet thread waits
    after_call: bool = False  # at the end of a call on a socket, not in an interrupt
    tick: int = 0  # the last in which packets were polled for
    polled_ns: int = 0  # for how long, in that tick
    awaits_tick: bool = False
    awaits_delivery: bool = False
    stalled_until_ns: int = 0
    next_gap: int = 0  # the first of the recording that has not been taken: sim/cpu/gaps.py
    gap_shift_ns: int = 0  # from the times of the recording to those of the run
    gap_until_ns: int = 0  # when the last one ends that was taken
    n_gaps: int = 0  # that were taken
    last_path: int = NONE  # the KernelPath that ran last


@dataclass(slots=True, eq=False)
class Worker:
    """One thread: of the server program, and what it works on, or another one.

    A thread that had to leave its CPU needs `back_ns` to come back, and more if it `switches`, and
    then does what was left of its step.
    """

    number: int
    cpu: Cpu
    interests: InterestSet
    listener: Listener
    listener_fd: int
    event_fd: list[int]  # the descriptors of the last wait, and as much room to sort them in
    own: Any  # what the program itself keeps: `Program.memory`
    handed: list[int]  # ring of descriptors that another one has accepted for it
    n_events: int = 0
    n_listener_signals: int = 0  # of n_notices, if the program accepts one for each
    n_listener_left: int = 0  # of the signals that are still queued
    n_notices: int = 0  # reports of the last call, where these are not the events
    n_accepts: int = 0
    first_handed: int = 0
    n_handed: int = 0
    n_handed_on: int = 0  # that it has accepted for others: sim/kernel/handing_over.py
    spin_ns: int = 0  # what it takes to ask again, for a server that does not block
    activity: int = 0
    woken: bool = False
    blocked: bool = False
    slice_state: int = ON_CPU
    left_step_ns: int = 0
    left_activity: int = 0
    tells_client: bool = False  # by its close: the client has not reset the connection
    back_ns: int = 0
    switches: bool = False  # another thread had its CPU: coming back is a switch
    slice_used_ns: int = 0  # before it had to leave
    done_ns: int = 0  # of a step that was cut: what had been done of it
    left_ns: int = 0  # when it left its CPU
    had_ns: int = 0  # how long it has had a CPU so far, by its weight
    timer_ns: int = NEVER_NS  # when the time of a read is over that it sleeps in
    timed_out: bool = False


Column = list[int]
"""A column of integers: a list, or a NumPy array behind the same operations."""


@dataclass(eq=False, kw_only=True)
class Planned:
    """The trace's values for connections, and its rows at hand."""

    __slots__ = ()

    row: Column = per_connection()  # number in the trace (or in the idle population): flows' hash
    at_ns: Column = per_connection(of="at_ns")
    requests: Column = per_connection(0, I32, of="requests")
    request_bytes: Column = per_connection(of="request_bytes")
    reply_bytes: Column = per_connection(of="reply_bytes")
    think_ns: Column = per_connection(of="think_ns")
    class_of: Column = per_connection(0, I8, of="client_class")  # sim/clients/classes.py
    n_idle: int  # connections of the idle population: 0 .. n_idle - 1
    end_row: int  # behind the last connection of the trace, of those that are at hand
    rows_each: int  # rows of a connection of the trace: one for each attempt that it may take
    request_cpu_ns: Column = per_run(Per.DRAW)  # what the application takes: sim/load/laws.py
    next_row: int = 0  # the connection of the trace that starts next
    refill_row: int = NEVER_NS  # from where on more of the trace must be at hand
    refill_request: int = NEVER_NS  # from here on requests with a reply must make room
    timers_each: bool = False  # each request has a timer: the oldest does not time out first
    oldest: int = 0
    timer_set: bool = False


@dataclass(eq=False, kw_only=True)
class Connections:
    """How far each connection is, and what it still has to transfer."""

    __slots__ = ()

    stage: Column = per_connection(0, I8)
    status: Column = per_connection(int(Status.OPEN), I8)
    fd_of: Column = per_connection(NONE, I32)
    intended_ns: Column = per_connection(NONE)
    started_ns: Column = per_connection(NONE)
    queued_ns: Column = per_connection(NONE)  # when it came into the accept queue
    connected_ns: Column = per_connection(NONE)
    done_ns: Column = per_connection(NONE)
    tries: Column = per_connection(0, I8)
    # Of a half-open one: 0 while no timer runs for it; otherwise how often that expired, plus 1.
    syn_acks: Column = per_connection(0, I8)
    disturbs: Column = per_connection(0, I8)  # 1: a thread had the CPU when its SYN was handled
    left: Column = per_connection(0, I32, of="requests")  # without a reply at the client
    answered: Column = per_connection(0, I32)  # replies that the server has sent whole
    replies_by: Column = per_connection(0)  # replies on all connections when its last one left
    pending: Column = per_connection(0, I8)  # 1: a whole request waits in the receive buffer
    part: Column = per_connection(0, I8)  # 1: part of a request waits in the receive buffer
    sent_pieces: Column = per_connection(0, I16)  # of the request that its client is sending
    came_pieces: Column = per_connection(0, I16)  # of the request that is coming, at the server
    asked_ns: Column = per_connection(NONE)  # when the last request came there
    ended: Column = per_connection(0, I8)  # as in kinds.NOT_ENDED
    ending: Column = per_connection(0, I8)  # the end as the client sees it: sim/tcp/closing.py
    request_of: Column = per_connection(NONE)  # the last that its client was due to make
    due_ns: Column = per_request()
    reply_ns: Column = per_request()
    asked_on: Column = per_request()  # the connection that it was made on last
    n_requests: int = 0  # that were due so far; entries behind them hold nothing
    n_silent: int = 0  # requests that clients did not make for want of an entry


@dataclass(eq=False, kw_only=True)
class Kept:
    """Connections that are kept open, and requests at a rate independent of them.

    A request waits at its client, in a list of that client's, while its connection has another one.
    """

    __slots__ = ()

    is_kept: bool = False
    arrival_ns: Column = per_run(Per.ARRIVAL)
    arrival_user: Column = per_run(Per.ARRIVAL, 0, I32)
    next_arrival: int = 0
    user_of: Column = per_connection(NONE, I32)
    is_usable: Column = per_connection(0, I8)  # 1: its client may send requests on it
    row_of: Column = per_run(Per.USER, NONE, I32)  # the connection that a client keeps now
    first_waiting: Column = per_run(Per.USER, NONE)  # request that waits at its client
    last_waiting: Column = per_run(Per.USER, NONE)
    waits_before: Column = per_request()  # the request behind this one


@dataclass(eq=False, kw_only=True)
class Flights:
    """What is on its way of each reply: sim/tcp/windows.py, sim/clients/slow_clients.py."""

    __slots__ = ()

    converses: Column = per_connection(0, I8)  # 1: the last reply followed its request soon
    replies_acked: bool  # by packets of their own
    received_ns: Column = per_connection()  # when its client received the last reply
    n_quick: Column = per_connection(NONE, I8)  # acknowledgements left that are not delayed
    owes_ack: Column = per_connection(0, I8)  # 1: its client has a SYN-ACK or reply to acknowledge
    answers: Column = per_connection(0, I8)  # 1: its client is interactive, and delays these
    unsent: Column = per_connection()  # bytes of the reply not yet in the send buffer
    unacked: Column = per_connection()  # bytes in the send buffer
    under_way: Column = per_connection()  # of these, sent and not yet acknowledged
    joined: Column = per_connection()  # of these, sent while others were under way
    all_there_ns: Column = per_connection()  # when the client's kernel has all that is under way
    buffer_segments: Column = per_connection(0, I32)  # of the window that its send buffer grew to
    window_grown: Column = per_connection(0, I32)  # segments under way more than at first; or less
    slow_until: Column = per_connection(0, I32)  # ssthresh, in segments; 0: no bound
    sent_ns: Column = per_connection()  # when the last of a reply was sent, where windows are
    held: Column = per_connection()  # bytes that its client had not read until held_until_ns
    held_until_ns: Column = per_connection()
    some_stop_reading: bool  # clients, during some fault
    n_unread: int = 0  # requests that wait in receive buffers
    n_unacked: int = 0  # bytes in the send buffers of connections whose clients are not gone


@dataclass(eq=False, kw_only=True)
class Descriptors:
    """The server's descriptors, and the workers to notify of the last occurrence."""

    __slots__ = ()

    connection_of: Column = per_descriptor(NONE, I32)
    state: Column = per_descriptor(0, I8)
    watched_by: Column = per_descriptor(NONE, I32)  # the interest set that it is in, or NONE
    interest: Column = per_descriptor(0, I8)  # what for; 0 while disarmed (EPOLLONESHOT)
    listed: Column = per_descriptor()  # number on the ready list + 1; 0: not on it
    passed: Column = per_descriptor(0, I8)  # 1: became ready behind the running scan
    listens_at: Column = per_descriptor(NONE, I32)  # the listener that it is a descriptor of
    fresh: Column = per_descriptor(0, I8)  # 1: it was not ready when it was posted last
    news: Column = per_descriptor(0, I8)  # what it was posted for: READABLE, WRITABLE, or both
    since_ns: Column = per_run(Per.TIMED_DESCRIPTOR)  # since when the server waits for a request
    free_fds: Column = per_run(Per.FREE_DESCRIPTOR, 0, I32)  # min-heap
    n_free: int = 0
    next_fd: int = 0
    posted: Column = per_run(Per.WORKER, NONE, I32)  # workers to notify of the last occurrence
    n_posted: int = 0


@dataclass(eq=False, kw_only=True)
class Links:
    """The link of the clients, and their ways to it: sim/wire/network.py, link.py, paths.py."""

    __slots__ = ()

    path_until: Column = per_path(of="share_permille")  # of clients on it or on an earlier one
    path_delay_ns: Column = per_path(of="delay_ns")
    path_up_bits_per_s: Column = per_path(of="up_bits_per_s")
    path_down_bits_per_s: Column = per_path(of="down_bits_per_s")
    path_loss: Column = per_path(of="loss_millionths")
    n_paths: int = 0
    loss_draws: Column = per_run(Per.DRAW, 0, I32)
    next_loss_draw: int = 0
    lost_by: int = 0  # of the message sent last over a path
    up_bits_per_s: int = 0  # as the link is now
    down_bits_per_s: int = 0
    busy_begin_ns: Column = per_run(Per.BUSY_PERIOD)  # rings of half each: up, then down
    busy_end_ns: Column = per_run(Per.BUSY_PERIOD)
    first_busy: Column = per_run(Per.DIRECTION, 0, I32)
    n_busy: Column = per_run(Per.DIRECTION, 0, I32)


@dataclass(eq=False, kw_only=True)
class Clients:
    """What clients do besides their requests: they idle, try again, and hold ports."""

    __slots__ = ()

    idle_life_ns: Column = per_run(Per.DRAW)  # life times of idle connections
    generation: Column = per_run(Per.IDLE, 0, I32)  # how often an idle connection has come back
    retry_draws: Column = per_run(Per.DRAW, 0, I32)  # shares of a pause not waited, of 2**20
    n_classes: int = 1  # of clients
    class_of_user: Column = per_run(Per.DRAW, 0, I8)  # in a closed loop in order of their start
    # A value, or a table of random values, for each class in turn: sim/load/client_classes.py
    pause_ns: Column = per_run(Per.DRAW)  # pauses between requests
    class_requests: Column = per_run(Per.DRAW, 0, I32)
    class_request_bytes: Column = per_run(Per.DRAW)
    class_reply_bytes: Column = per_run(Per.DRAW)
    class_path: Column = per_run(Per.DRAW, NONE, I16)
    retry_tokens: int = 0  # thousandths of repetitions that clients may begin
    n_users: int
    n_open: int = 0
    n_ports: int = 0  # of the clients, in use or in TIME_WAIT
    n_time_wait: int = 0  # connections that the server keeps in TIME_WAIT
    client_free_ns: int = 0
    free_clients: bool  # clients cost nothing and wait for nothing: no queue to simulate
    delivers_own: bool  # clients are on the server's machine, whose CPU handles replies, too


@dataclass(eq=False, kw_only=True)
class Backend:
    """Connections to the backend, and requests that are at it: sim/clients/backend.py.

    Their descriptors follow one another. The connections of an interest set are a pool, with the
    number of the set: those that are free are a stack, and descriptors of clients that wait for one
    a list.
    """

    __slots__ = ()

    backend_delay_ns: Column = per_run(Per.DRAW)
    backend_draws: Column = per_run(Per.DRAW, 0, I32)  # of 1000 equal parts; below the share: asks
    asker: Column = per_run(Per.BACKEND, NONE, I32)  # descriptor of the client whose request it has
    working_ns: Column = per_run(Per.BACKEND)  # how long the backend works on that request
    query_came_ns: Column = per_run(Per.BACKEND)  # when that request came there
    n_replies_sent: Column = per_run(Per.BACKEND, 0, I8)  # how often its reply came to the server
    behind: Column = per_run(Per.BACKEND, NONE, I32)  # the next one in the stack, or at the backend
    first_free: Column = per_run(Per.WORKER, NONE, I32)  # connection, by pool
    first_asking: Column = per_run(Per.WORKER, NONE, I32)  # descriptor of a client, by pool
    last_asking: Column = per_run(Per.WORKER, NONE, I32)
    asks: Column = per_run(Per.ASKING_DESCRIPTOR, NONE, I32)  # connection, IN_LINE, or NONE
    line_before: Column = per_run(Per.ASKING_DESCRIPTOR, NONE, I32)  # the one before it in the line
    line_behind: Column = per_run(Per.ASKING_DESCRIPTOR, NONE, I32)  # the one behind it
    first_backend_fd: int = 0
    first_at_backend: int = NONE  # of the connections whose requests wait at the backend
    last_at_backend: int = NONE
    n_at_work: int = 0
    n_in_queue: int = 0
    n_in_line: int = 0
    accounted_ns: int = 0  # until when the counts of times have everything


@dataclass(eq=False, kw_only=True)
class Disturbances:
    """What happens besides: floods, faults, other threads and processes."""

    __slots__ = ()

    flood_gap_ns: Column = per_run(Per.DRAW)
    next_gap: int = 0
    fault_kind: Column = per_fault(of="kind")
    fault_at_ns: Column = per_fault(of="at_ns")
    fault_length_ns: Column = per_fault(of="length_ns")
    fault_value: Column = per_fault(of="value")
    asks_after: int  # packets that a softirq handles before it asks whether to go on
    comes_late: bool  # a device waits before it interrupts, or its interrupt is on its way
    entry_varies: bool  # an interrupt costs more the longer ago the last one was
    caches_cool: bool  # packets and calls take longer if others have run meanwhile
    idle_exit_varies: bool  # waking takes longer the longer a CPU was idle
    busy_weight: int = WEIGHT  # of each process that computes, by its nice value
    n_others: int = 0  # of the other threads, those that do not sleep
    signals_elsewhere: int = 0  # that another process holds now
    server_gap_at_ns: Column = per_run(Per.DRAW)  # recording of the host's gaps
    server_gap_length_ns: Column = per_run(Per.DRAW)
    server_gap_period_ns: int = 0
    n_server_gaps: int = 0  # of the recording
    client_gap_at_ns: Column = per_run(Per.DRAW)  # the same of the clients' CPU
    client_gap_length_ns: Column = per_run(Per.DRAW)
    client_gap_period_ns: int = 0
    client_gaps_from_ns: int = 0  # the time of the recording at which the run begins
    n_client_gaps: int = 0


@dataclass(eq=False, kw_only=True)
class Accounts:
    """What a run counts and samples."""

    __slots__ = ()

    counts: Column = per_run(Per.COUNT)
    counts_mark: Column = per_run(Per.COUNT)
    samples: Column = per_run(Per.SAMPLE)  # flattened rows of figures.queue_lengths.SAMPLE_COLUMNS
    n_samples: int = 0
    sample_every_ns: int = 0
    mark_ns: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class World(
    Accounts,
    Disturbances,
    Backend,
    Clients,
    Links,
    Descriptors,
    Flights,
    Kept,
    Connections,
    Planned,
):
    """One run. Times in ns since its start."""

    costs: Costs
    program: ProgramSettings
    overload: OverloadSettings
    limits: LimitSettings
    signals: SignalSettings
    blocking: ThreadSettings
    completions: CompletionSettings
    scans: ScanSettings
    network: NetworkSettings
    client: ClientSettings
    backend: BackendSettings
    kernel: KernelSettings
    machine: MachineSettings
    memory: MemorySettings
    watch_bytes: int  # memory of a watched descriptor, by its mechanism
    flood: FloodSettings
    cpus: list[Cpu]
    workers: list[Worker]
    others: list[Worker]
    sets: list[InterestSet]
    listeners: list[Listener]
    n_siblings: int = 0  # the last of the workers, and of the sets: models/signals/sibling.py
    now_ns: int = 0
    waker: int = NONE  # number of the CPU that runs now, in a call or in an interrupt
    calendar: Any = field(default=None)


COLUMNS: dict[str, DeclaredColumn] = {
    each.name: each.metadata["column"] for each in fields(World) if "column" in each.metadata
}
"""The columns of the world as they are declared, by their names."""
