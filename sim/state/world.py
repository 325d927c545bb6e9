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
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .costs import Costs
from .interests import InterestSet
from .kinds import NONE
from .listener import Listener
from .settings import (
    ClientSettings,
    FloodSettings,
    KernelSettings,
    NetworkSettings,
    ServerSettings,
)
from .threads import NEVER_NS, WEIGHT, Cpu, Worker

Column = list[int]
"""A column of integers: a list, or a NumPy array behind the same operations."""


@dataclass(slots=True, eq=False)
class World:
    """One run. Times in ns since its start; sizes: C connections, D descriptors, R requests."""

    costs: Costs
    server: ServerSettings
    network: NetworkSettings
    client: ClientSettings
    kernel: KernelSettings
    flood: FloodSettings
    cpus: list[Cpu]
    workers: list[Worker]
    others: list[Worker]
    sets: list[InterestSet]
    listeners: list[Listener]
    n_idle: int  # connections of the idle population: 0 .. n_idle - 1
    end_row: int  # behind the last connection of the trace, of those that are at hand
    n_users: int
    rows_each: int  # rows of a connection of the trace: one for each attempt that it may take
    free_clients: bool  # clients cost nothing and wait for nothing: no queue to simulate
    leaves_packets: bool  # interrupts do not handle all packets at once
    delivers_own: bool  # clients are on the server's machine, whose CPU handles replies, too
    entry_varies: bool  # an interrupt costs more the longer ago the last one was
    some_stop_reading: bool  # clients, during some fault
    # -- trace, constant: shape (C,)
    row: Column  # number in the trace (or in the idle population): what flows are hashed by
    at_ns: Column
    requests: Column
    request_bytes: Column
    reply_bytes: Column
    think_ns: Column
    first_request: Column  # index of a connection's first request in due_ns and reply_ns
    idle_life_ns: Column  # draws for the idle population, shape (idle_lives,)
    retry_draws: Column  # shares of a pause that are not waited, of 2**20; shape (draws,)
    generation: Column  # how often an idle connection has come back, shape (idle,)
    # -- connections: shape (C,)
    stage: Column
    status: Column
    fd_of: Column
    intended_ns: Column
    started_ns: Column
    queued_ns: Column  # when it came into the accept queue
    connected_ns: Column
    done_ns: Column
    tries: Column
    left: Column  # requests without a reply at the client
    answered: Column  # replies that the server has sent whole
    part: Column  # 1: part of a request waits in the receive buffer
    sent_pieces: Column  # of the request that its client is sending
    came_pieces: Column  # of the request that is coming, at the server
    pending: Column  # 1: a whole request waits in the receive buffer
    asked_ns: Column  # when the last one came there
    converses: Column  # 1: the last reply followed its request soon: sim/tcp/windows.py
    ended: Column  # as in kinds.NOT_ENDED
    ending: Column  # what the client knows of the end: sim/tcp/closing.py
    unsent: Column  # bytes of the reply not yet in the send buffer
    unacked: Column  # bytes in the send buffer
    under_way: (
        Column  # of these, what was sent and waits for its acknowledgement: sim/tcp/windows.py
    )
    window_grown: Column  # segments that may be under way more than at first; or less
    slow_until: Column  # the window up to which it doubles (ssthresh), in segments; 0: no bound
    sent_ns: Column  # when the last of a reply was sent, where windows are
    held: Column  # bytes that its client had not read until held_until_ns (slow_clients.py)
    held_until_ns: Column
    # -- requests: shape (R,)
    due_ns: Column
    reply_ns: Column
    # -- descriptors: shape (D,)
    connection_of: Column
    state: Column
    watched_by: Column  # the interest set that a descriptor is in, or NONE
    interest: Column  # what for; 0 while disarmed (EPOLLONESHOT)
    listed: Column  # number on the ready list + 1; 0: not on it
    passed: Column  # 1: became ready behind the running scan
    since_ns: Column  # when the server began to wait for a request; shape (1,) if it does not mind
    free_fds: Column  # min-heap
    # -- ways to the link, shape (paths,): sim/wire/paths.py
    path_until: Column  # thousandths of the connections that have this path or an earlier one
    path_delay_ns: Column
    path_up_bits_per_s: Column
    path_down_bits_per_s: Column
    path_loss: Column
    loss_draws: Column
    # -- what happens besides: floods, and faults, shape (faults,)
    flood_gap_ns: Column
    fault_kind: Column
    fault_at_ns: Column
    fault_length_ns: Column
    fault_value: Column
    # -- whom to tell of the last occurrence: shape (workers,)
    posted: Column
    # -- accounts
    counts: Column
    counts_mark: Column
    samples: Column  # flattened rows of happenings.SAMPLE_COLUMNS
    n_samples: int = 0
    sample_every_ns: int = 0
    mark_ns: int = 0
    # -- clock
    now_ns: int = 0
    waker: int = NONE  # number of the CPU that runs now, in a call or in an interrupt
    # -- descriptors
    n_free: int = 0
    next_fd: int = 0
    n_posted: int = 0
    fresh: bool = False  # the descriptor posted last was not ready before
    news: int = 0  # what it is ready for now: READABLE, WRITABLE, or both if it was hung up
    # -- clients and links
    next_row: int = 0  # the connection of the trace that starts next
    refill_row: int = NEVER_NS  # from where on more of the trace must be at hand
    retry_tokens: int = 0  # thousandths of repetitions that clients may begin
    n_open: int = 0
    n_ports: int = 0  # of the clients, in use or in TIME_WAIT
    n_time_wait: int = 0  # connections that the server keeps in TIME_WAIT
    oldest: int = 0
    timer_set: bool = False
    client_free_ns: int = 0
    up_bits_per_s: int = 0  # as the link is now
    down_bits_per_s: int = 0
    up_free_ns: int = 0
    down_free_ns: int = 0
    n_paths: int = 0
    next_loss_draw: int = 0
    lost_by: int = 0  # of the message sent last over a path: sim/wire/paths.py
    # -- threads and processes besides the server
    busy_weight: int = WEIGHT  # of each process that computes, by its nice value
    n_others: int = 0  # of the other threads, those that do not sleep
    next_gap: int = 0
    signals_elsewhere: int = 0  # that another process holds now
    calendar: Any = field(default=None)
