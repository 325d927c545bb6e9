"""From trace, costs and settings to the state before a run: clients about to come, nothing open."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import MakeColumn, as_lists
from .costs import Costs
from .happenings import SAMPLE_COLUMNS
from .interest_set import InterestSet
from .kinds import NONE, Activity, Count, Stage, Status
from .listen_queue import Listener
from .mechanism import MakeMemory, no_memory
from .processor import Cpu, Worker
from .retries import PAUSE_MAX_NS, RETRIES_MAX
from .settings import EVERY_CPU, Recovery, RunSettings, Sharing, Threads
from .workload import Trace
from .world import World

WORKERS_MAX = 1024
"""Event loops, or CPUs, of one server."""
THREADS_MAX = 32_768
"""Threads that block in their calls: Linux kernel.pid_max, by default."""
LINEAR_SYN_TIMEOUTS_MAX = 100
"""Tries are counted in a byte; Linux takes no more than MAX_TCP_SYNCNT (127) of them."""
_SPARE_FDS = 16  # standard streams, listeners and what mechanisms open
_NO_DRAWS = np.zeros(0, np.int64)
_I8, _I32, _I64 = np.int8, np.int32, np.int64

ROW_STATE: dict[str, tuple[int, type[np.signedinteger[Any]]]] = {
    "stage": (int(Stage.NONE), _I8),
    "status": (int(Status.OPEN), _I8),
    "fd_of": (NONE, _I32),
    "intended_ns": (NONE, _I64),
    "started_ns": (NONE, _I64),
    "queued_ns": (NONE, _I64),
    "connected_ns": (NONE, _I64),
    "done_ns": (NONE, _I64),
    "tries": (0, _I8),
    "answered": (0, _I32),
    "pending": (0, _I8),
    "ended": (0, _I8),
    "unsent": (0, _I64),
    "unacked": (0, _I64),
}
"""What is known of a connection before it starts, and the type that holds it."""


def build_world(
    trace: Trace,
    costs: Costs,
    settings: RunSettings,
    idle_life_ns: NDArray[np.int64],
    column: MakeColumn = as_lists,
    *,
    retry_draws: NDArray[np.int64] = _NO_DRAWS,
    own_fds: int = 1,
    memory: MakeMemory = no_memory,
    worker_memory: MakeMemory = no_memory,
    one_shot: bool = False,
    n_connections: int | None = None,
    one_at_a_time: bool = False,
) -> World:
    """Return the state before a run.

    Parameters
    ----------
    trace, costs, settings:
        What is run. The trace may be the first rows of a longer one.
    idle_life_ns:
        Life times of idle connections, drawn before the run.
    column:
        How columns are held.
    retry_draws:
        Shares of pauses that clients do not wait, of 2**20.
    own_fds:
        Descriptors that the mechanism takes for each interest set.
    memory:
        Makes what the mechanism keeps for each interest set.
    worker_memory:
        Makes what the program keeps for each worker.
    one_shot:
        Whether the mechanism disarms each connection that it returns.
    n_connections:
        Connections that may be open at once, at most; None: all of the trace and the idle ones.
    one_at_a_time:
        Whether workers are threads with one descriptor in hand: `Mechanism.one_at_a_time`.

    Raises
    ------
    ValueError
        If a setting is out of its range, or the idle population does not fit the server's
        descriptors.
    """
    check(settings, own_fds, one_at_a_time=one_at_a_time)
    n_idle = settings.client.idle
    server, network, client = settings.server, settings.network, settings.client
    rows_each = 1 + client.retries
    c = n_idle + len(trace) * rows_each
    n_at_once = n_idle + len(trace) if n_connections is None else n_connections
    # What is left of an attempt at the server may outlast it at its client.
    n_at_server = c if n_connections is None else n_connections
    n_sets = 1 if one_at_a_time or server.sharing == Sharing.READY_LIST else server.workers
    n_listeners = server.workers if server.sharing == Sharing.NOTHING and not one_at_a_time else 1
    n_listening = 1 if one_at_a_time else server.workers
    d = min(server.fd_limit, n_at_server + _SPARE_FDS + (1 + own_fds) * n_listening)
    fds_needed = n_idle + _fds_needed(n_listening, own_fds)
    if n_idle > 0 and fds_needed > d:
        raise ValueError(
            f"idle must leave the server a descriptor: {n_idle} idle connections "
            f"need {fds_needed} descriptors, fd_limit is {server.fd_limit}"
        )
    n_requests = int(trace.requests.sum()) * rows_each
    n_samples = (
        settings.duration_ns // settings.sample_every_ns + 2 if settings.sample_every_ns else 0
    )
    i8, i32, i64 = _I8, _I32, _I64

    def of_trace(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.concatenate([np.zeros(n_idle, i64), np.repeat(values, rows_each)])

    requests = of_trace(trace.requests)
    cpus = [
        Cpu(
            number=k,
            runnable=column(server.workers, NONE, i32),
            ledger_ns=column(len(Activity), 0, i64),
            ledger_mark_ns=column(len(Activity), 0, i64),
        )
        for k in range(server.cpus)
    ]
    sets = [
        InterestSet(
            number=i,
            one_shot=one_shot or (server.sharing == Sharing.READY_LIST and server.workers > 1),
            ready=column(power_of_two(d), 0, i32),
            waiters=column(server.workers, NONE, i32),
            own=memory(server, d, column),
        )
        for i in range(n_sets)
    ]
    listeners = [
        Listener(
            number=i,
            queue=column(power_of_two(server.backlog + 2), NONE, i32),
            fds=column(n_sets // n_listeners, NONE, i32),
        )
        for i in range(n_listeners)
    ]
    workers = [
        Worker(
            number=w,
            cpu=cpus[w % server.cpus],
            interests=sets[w % n_sets],
            listener=listeners[w % n_listeners],
            listener_fd=NONE,
            event_fd=column(1 if one_at_a_time else 2 * d, 0, i32),
            own=worker_memory(server, d, column),
        )
        for w in range(server.workers)
    ]
    states: dict[str, Any] = {
        name: column(c, value, kind) for name, (value, kind) in ROW_STATE.items()
    }
    return World(
        costs=costs,
        server=server,
        network=network,
        client=client,
        cpus=cpus,
        workers=workers,
        sets=sets,
        listeners=listeners,
        n_idle=n_idle,
        end_row=c,
        n_users=trace.users,
        free_clients=not any(costs.client)
        and not network.up_bits_per_s
        and not network.down_bits_per_s
        and client.fd_limit >= n_at_once,
        rows_each=rows_each,
        row=column(c, np.concatenate([np.arange(n_idle), np.arange(c - n_idle)]), i64),
        at_ns=column(c, of_trace(trace.at_ns), i64),
        requests=column(c, requests, i32),
        request_bytes=column(c, of_trace(trace.request_bytes), i64),
        reply_bytes=column(c, of_trace(trace.reply_bytes), i64),
        think_ns=column(c, of_trace(trace.think_ns), i64),
        first_request=column(c, np.cumsum(requests) - requests, i64),
        idle_life_ns=column(max(1, idle_life_ns.size), idle_life_ns, i64),
        retry_draws=column(max(1, retry_draws.size), retry_draws, i32),
        generation=column(max(1, n_idle), 0, i32),
        **states,
        left=column(c, requests, i32),
        due_ns=column(n_requests, NONE, i64),
        reply_ns=column(n_requests, NONE, i64),
        connection_of=column(d, NONE, i32),
        state=column(d, 0, i8),
        watched_by=column(d, NONE, i32),
        interest=column(d, 0, i8),
        listed=column(d, 0, i64),
        passed=column(d, 0, i8),
        free_fds=[] if column is as_lists else column(d, 0, i32),
        posted=column(server.workers, NONE, i32),
        counts=column(len(Count), 0, i64),
        counts_mark=column(len(Count), 0, i64),
        samples=column(n_samples * len(SAMPLE_COLUMNS), 0, i64),
        sample_every_ns=settings.sample_every_ns,
        next_row=n_idle,
        oldest=n_idle,
    )


def power_of_two(n: int) -> int:
    """Return the least power of two that is at least *n*: a ring of it needs no division."""
    return 1 << (n - 1).bit_length()


def _fds_needed(n_listening: int, own_fds: int) -> int:
    """Return what a server needs: standard streams, listeners, its mechanism's, a connection."""
    return 4 + (1 + own_fds) * n_listening


def check(settings: RunSettings, own_fds: int = 1, *, one_at_a_time: bool = False) -> None:
    """Check every setting, for a mechanism that takes *own_fds* for each interest set.

    Of threads with *one_at_a_time* of their descriptors there may be far more.

    Raises
    ------
    ValueError
        With the name, the rule and the value of the first that is out of its range.
    """
    server, client, network = settings.server, settings.client, settings.network
    least = {
        "accept_limit": (server.accept_limit, 0),
        "backlog": (server.backlog, 1),
        "max_events": (server.max_events, 1),
        "signal_queue": (server.signal_queue, 1),
        "signals_elsewhere": (server.signals_elsewhere, 0),
        "signal_numbers": (server.signal_numbers, 1),
        "poll_above": (server.poll_above, 0),
        "calm_below": (server.calm_below, 1),
        "concurrent_threads": (server.concurrent_threads, 0),
        "due_at_once": (server.due_at_once, 0),
        "fd_limit": (server.fd_limit, 8),
        "fd_setsize": (server.fd_setsize, 0),
        "send_buffer_bytes": (server.send_buffer_bytes, 1),
        "limiter_gain_permille": (server.limiter_gain_permille, 0),
        "limiter_threshold": (server.limiter_threshold, 0),
        "queue_deadline_ns": (server.queue_deadline_ns, 0),
        "queue_interval_ns": (server.queue_interval_ns, 0),
        "concurrency_tolerance_permille": (server.concurrency_tolerance_permille, 0),
        "drop_above": (server.drop_above, 0),
        "workers": (server.workers, 1),
        "cpus": (server.cpus, 1),
        "slice_ns": (server.slice_ns, 1),
        "epoll_watches": (server.epoll_watches, 0),
        "epoll_instances": (server.epoll_instances, 0),
        "stack_bytes": (server.stack_bytes, 1),
        "address_space_bytes": (server.address_space_bytes, 0),
        "interrupt_cpu": (server.interrupt_cpu, EVERY_CPU),
        "delay_ns": (network.delay_ns, 0),
        "up_bits_per_s": (network.up_bits_per_s, 0),
        "down_bits_per_s": (network.down_bits_per_s, 0),
        "service_ns": (network.service_ns, 0),
        "timeout_ns": (client.timeout_ns, 0),
        "client fd_limit": (client.fd_limit, 1),
        "idle": (client.idle, 0),
        "idle_life_ns": (client.idle_life_ns, 0),
        "linear_syn_timeouts": (client.linear_syn_timeouts, 0),
        "retries": (client.retries, 0),
        "retry_pause_ns": (client.retry_pause_ns, 0),
        "retry_pause_max_ns": (client.retry_pause_max_ns, 0),
        "retry_jitter_permille": (client.retry_jitter_permille, 0),
        "retry_budget_permille": (client.retry_budget_permille, 0),
        "duration_ns": (settings.duration_ns, 1),
        "warm_up_ns": (settings.warm_up_ns, 0),
        "sample_every_ns": (settings.sample_every_ns, 0),
        "seed": (settings.seed, 0),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise ValueError(f"{name} must be at least {bound}, got {value}")
    if settings.warm_up_ns >= settings.duration_ns:
        raise ValueError(
            f"warm_up_ns must be below duration_ns ({settings.duration_ns}), "
            f"got {settings.warm_up_ns}"
        )
    if server.due_last_first and server.due_at_once != 0:
        raise ValueError(f"due_at_once must be 0 with due_last_first, got {server.due_at_once}")
    most = {
        "linear_syn_timeouts": (client.linear_syn_timeouts, LINEAR_SYN_TIMEOUTS_MAX),
        "retries": (client.retries, RETRIES_MAX),
        "retry_pause_ns": (client.retry_pause_ns, PAUSE_MAX_NS),
        "retry_pause_max_ns": (client.retry_pause_max_ns, PAUSE_MAX_NS),
        "retry_jitter_permille": (client.retry_jitter_permille, 1_000),
    }
    for name, (value, bound) in most.items():
        if value > bound:
            raise ValueError(f"{name} must be at most {bound}, got {value}")
    _check_workers(settings, own_fds, one_at_a_time=one_at_a_time)


def _check_workers(settings: RunSettings, own_fds: int, *, one_at_a_time: bool) -> None:
    server = settings.server
    workers_max = THREADS_MAX if one_at_a_time else WORKERS_MAX
    if server.workers > workers_max:
        raise ValueError(f"workers must be at most {workers_max}, got {server.workers}")
    if server.cpus > WORKERS_MAX:
        raise ValueError(f"cpus must be at most {WORKERS_MAX}, got {server.cpus}")
    if server.interrupt_cpu >= server.cpus:
        raise ValueError(
            f"interrupt_cpu must be one of the {server.cpus} CPUs (from 0), "
            f"got {server.interrupt_cpu}"
        )
    if server.recovery not in tuple(Recovery):
        raise ValueError(f"recovery must be one of {list(Recovery)}, got {server.recovery}")
    if server.threads not in tuple(Threads):
        raise ValueError(f"threads must be one of {list(Threads)}, got {server.threads}")
    if server.sharing not in tuple(Sharing):
        raise ValueError(f"sharing must be one of {list(Sharing)}, got {server.sharing}")
    fds_needed = _fds_needed(1 if one_at_a_time else server.workers, own_fds)
    if server.fd_limit < fds_needed:
        raise ValueError(
            f"fd_limit must be at least {fds_needed} for {server.workers} workers, "
            f"got {server.fd_limit}"
        )
    if server.sharing == Sharing.READY_LIST and server.workers > 1 and server.read_after_accept:
        raise ValueError(
            "read_after_accept must be false where workers share a ready list: the connection "
            "is watched already, and another worker would read from it, too"
        )
