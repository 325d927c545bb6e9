"""The state of one run: what the server's machine and its clients know, as records of integers.

    World ─┬─ cpus      interrupts, steps, ledger            sim/cpu/processor.py
           ├─ workers   threads of the server program        sim/cpu/processor.py
           ├─ others    all other threads                    sim/engine/other_threads.py
           ├─ sets      interest sets with their ready lists  sim/kernel/interest_set.py
           ├─ listeners accept queues                         sim/tcp/listen_queue.py
           └─ columns   one entry a connection, request or descriptor

A column is a plain list in the reference engine and a NumPy array of a compact type in the
compiled one; the functions over it are the same. Indices: `c` is a connection (the idle population
first, then the trace in order of start), `fd` a descriptor of the server.

The fields stand in groups, one for each subject. The world is flat: `world.unacked[c]`, whichever
group declares the column. A column is declared on one line: what has an entry, the first value, the
type of an array, and its meaning. `assembly.build` makes it from this line, `assembly.row_window`
moves it with its connection, and the C engine takes its layout.
"""

# ruff: noqa: RUF009 (each of the calls returns a field)
from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

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
from .kernel_settings import KernelSettings, LimitSettings, MachineSettings
from .kinds import NONE, Status
from .program_settings import OverloadSettings, ProgramSettings
from .settings import FloodSettings
from .threads import NEVER_NS, WEIGHT, Cpu, InterestSet, Listener, Worker

Column = list[int]
"""A column of integers: a list, or a NumPy array behind the same operations."""


@dataclass(eq=False, kw_only=True)
class Planned:
    """What the trace says of connections, and the rows of it that are at hand."""

    __slots__ = ()

    row: Column = per_connection()  # number in the trace (or in the idle population): flows' hash
    at_ns: Column = per_connection(of="at_ns")
    requests: Column = per_connection(0, I32, of="requests")
    request_bytes: Column = per_connection(of="request_bytes")
    reply_bytes: Column = per_connection(of="reply_bytes")
    think_ns: Column = per_connection(of="think_ns")
    first_request: Column = per_connection()  # index of its first request in due_ns and reply_ns
    n_idle: int  # connections of the idle population: 0 .. n_idle - 1
    end_row: int  # behind the last connection of the trace, of those that are at hand
    rows_each: int  # rows of a connection of the trace: one for each attempt that it may take
    next_row: int = 0  # the connection of the trace that starts next
    refill_row: int = NEVER_NS  # from where on more of the trace must be at hand
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
    left: Column = per_connection(0, I32, of="requests")  # without a reply at the client
    answered: Column = per_connection(0, I32)  # replies that the server has sent whole
    pending: Column = per_connection(0, I8)  # 1: a whole request waits in the receive buffer
    part: Column = per_connection(0, I8)  # 1: part of a request waits in the receive buffer
    sent_pieces: Column = per_connection(0, I16)  # of the request that its client is sending
    came_pieces: Column = per_connection(0, I16)  # of the request that is coming, at the server
    asked_ns: Column = per_connection(NONE)  # when the last request came there
    ended: Column = per_connection(0, I8)  # as in kinds.NOT_ENDED
    ending: Column = per_connection(0, I8)  # what the client knows of the end: sim/tcp/closing.py
    due_ns: Column = per_request(NONE)
    reply_ns: Column = per_request(NONE)


@dataclass(eq=False, kw_only=True)
class Flights:
    """What is on its way of each reply: sim/tcp/windows.py, sim/clients/slow_clients.py."""

    __slots__ = ()

    converses: Column = per_connection(0, I8)  # 1: the last reply followed its request soon
    unsent: Column = per_connection()  # bytes of the reply not yet in the send buffer
    unacked: Column = per_connection()  # bytes in the send buffer
    under_way: Column = per_connection()  # of these, sent and not yet acknowledged
    window_grown: Column = per_connection(0, I32)  # segments under way more than at first; or less
    slow_until: Column = per_connection(0, I32)  # ssthresh, in segments; 0: no bound
    sent_ns: Column = per_connection()  # when the last of a reply was sent, where windows are
    held: Column = per_connection()  # bytes that its client had not read until held_until_ns
    held_until_ns: Column = per_connection()
    some_stop_reading: bool  # clients, during some fault


@dataclass(eq=False, kw_only=True)
class Descriptors:
    """The server's descriptors, and whom to tell of the last occurrence."""

    __slots__ = ()

    connection_of: Column = per_descriptor(NONE, I32)
    state: Column = per_descriptor(0, I8)
    watched_by: Column = per_descriptor(NONE, I32)  # the interest set that it is in, or NONE
    interest: Column = per_descriptor(0, I8)  # what for; 0 while disarmed (EPOLLONESHOT)
    listed: Column = per_descriptor()  # number on the ready list + 1; 0: not on it
    passed: Column = per_descriptor(0, I8)  # 1: became ready behind the running scan
    since_ns: Column = per_run(Per.TIMED_DESCRIPTOR)  # since when the server waits for a request
    free_fds: Column = per_run(Per.FREE_DESCRIPTOR, 0, I32)  # min-heap
    n_free: int = 0
    next_fd: int = 0
    posted: Column = per_run(Per.WORKER, NONE, I32)  # whom to tell of the last occurrence
    n_posted: int = 0
    fresh: bool = False  # the descriptor posted last was not ready before
    news: int = 0  # what it is ready for now: READABLE, WRITABLE, or both if it was hung up


@dataclass(eq=False, kw_only=True)
class Links:
    """The link of the clients, and their ways to it: sim/wire/network.py, sim/wire/paths.py."""

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
    up_free_ns: int = 0
    down_free_ns: int = 0


@dataclass(eq=False, kw_only=True)
class Clients:
    """What clients do besides their requests: they idle, try again, and hold ports."""

    __slots__ = ()

    idle_life_ns: Column = per_run(Per.DRAW)  # life times of idle connections
    generation: Column = per_run(Per.IDLE, 0, I32)  # how often an idle connection has come back
    retry_draws: Column = per_run(Per.DRAW, 0, I32)  # shares of a pause not waited, of 2**20
    retry_tokens: int = 0  # thousandths of repetitions that clients may begin
    n_users: int
    n_open: int = 0
    n_ports: int = 0  # of the clients, in use or in TIME_WAIT
    n_time_wait: int = 0  # connections that the server keeps in TIME_WAIT
    client_free_ns: int = 0
    free_clients: bool  # clients cost nothing and wait for nothing: no queue to simulate
    delivers_own: bool  # clients are on the server's machine, whose CPU handles replies, too


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
    leaves_packets: bool  # interrupts do not handle all packets at once
    entry_varies: bool  # an interrupt costs more the longer ago the last one was
    busy_weight: int = WEIGHT  # of each process that computes, by its nice value
    n_others: int = 0  # of the other threads, those that do not sleep
    signals_elsewhere: int = 0  # that another process holds now


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
class World(Accounts, Disturbances, Clients, Links, Descriptors, Flights, Connections, Planned):
    """One run. Times in ns since its start."""

    costs: Costs
    program: ProgramSettings
    overload: OverloadSettings
    limits: LimitSettings
    network: NetworkSettings
    client: ClientSettings
    kernel: KernelSettings
    machine: MachineSettings
    flood: FloodSettings
    cpus: list[Cpu]
    workers: list[Worker]
    others: list[Worker]
    sets: list[InterestSet]
    listeners: list[Listener]
    now_ns: int = 0
    waker: int = NONE  # number of the CPU that runs now, in a call or in an interrupt
    calendar: Any = field(default=None)


COLUMNS: dict[str, DeclaredColumn] = {
    each.name: each.metadata["column"] for each in fields(World) if "column" in each.metadata
}
"""The columns of the world as they are declared, by their names."""
