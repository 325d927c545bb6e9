"""Settings of a run are checked here, one by one and together, before anything is built."""

from __future__ import annotations

from ..clients.retries import PAUSE_MAX_NS, RETRIES_MAX
from ..state.settings import (
    EVERY_CPU,
    Closing,
    Fault,
    FaultKind,
    NetworkSettings,
    Packets,
    Recovery,
    RunSettings,
    ServerSettings,
    Sharing,
    Threads,
)
from ..state.threads import NICE_MAX, NICE_MIN
from ..state.units import MILLIONTHS, PERMILLE

LINEAR_SYN_TIMEOUTS_MAX = 100
"""Tries are counted in a byte; Linux takes no more than MAX_TCP_SYNCNT (127) of them."""
PIECES_MAX = 30_000
"""Of a request: they are counted in two bytes."""
WORKERS_MAX = 1024
"""Event loops, or CPUs, of one server."""
THREADS_MAX = 32_768
"""Threads that block in their calls: Linux kernel.pid_max, by default."""


def fds_needed_by(n_listening: int, own_fds: int) -> int:
    """Return what a server needs: standard streams, listeners, its mechanism's, a connection."""
    return 4 + (1 + own_fds) * n_listening


def has_timers(server: ServerSettings, *, one_at_a_time: bool) -> bool:
    """Return whether each interest set of *server* has the descriptor of a timer."""
    return server.request_timeout_ns > 0 and not one_at_a_time


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
        "request_timeout_ns": (server.request_timeout_ns, 0),
        "timeout_check_ns": (server.timeout_check_ns, 1),
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
        "window_segments": (network.window_segments, 0),
        "receive_window_bytes": (network.receive_window_bytes, 0),
        "timer_tick_ns": (network.timer_tick_ns, 0),
        "timeout_ns": (client.timeout_ns, 0),
        "client fd_limit": (client.fd_limit, 1),
        "ports": (client.ports, 0),
        "time_wait_ns": (client.time_wait_ns, 0),
        "request_pieces": (client.request_pieces, 1),
        "piece_pause_ns": (client.piece_pause_ns, 0),
        "pieces_permille": (client.pieces_permille, 0),
        "idle": (client.idle, 0),
        "idle_life_ns": (client.idle_life_ns, 0),
        "retries": (client.retries, 0),
        "retry_pause_ns": (client.retry_pause_ns, 0),
        "retry_pause_max_ns": (client.retry_pause_max_ns, 0),
        "retry_jitter_permille": (client.retry_jitter_permille, 0),
        "retry_budget_permille": (client.retry_budget_permille, 0),
        "linear_syn_timeouts": (client.linear_syn_timeouts, 0),
        "syn_timeout_ns": (client.syn_timeout_ns, 1),
        "duration_ns": (settings.duration_ns, 1),
        "warm_up_ns": (settings.warm_up_ns, 0),
        "sample_every_ns": (settings.sample_every_ns, 0),
        "seed": (settings.seed, 0),
    }
    kernel, flood = settings.kernel, settings.flood
    least |= {
        "softirq_budget": (kernel.softirq_budget, 0),
        "receive_queue": (kernel.receive_queue, 1),
        "coalesce_ns": (kernel.coalesce_ns, 0),
        "polling_share_permille": (kernel.polling_share_permille, 1),
        "polling_tick_ns": (kernel.polling_tick_ns, 1),
        "granularity_ns": (kernel.granularity_ns, 0),
        "credit_ns": (kernel.credit_ns, 0),
        "busy_processes": (kernel.busy_processes, 0),
        "files_max": (kernel.files_max, 0),
        "files_elsewhere": (kernel.files_elsewhere, 0),
        "memory_bytes": (kernel.memory_bytes, 0),
        "connection_bytes": (kernel.connection_bytes, 1),
        "flood gap_ns": (flood.gap_ns, 0),
        "flood burst": (flood.burst, 1),
        "flood from_ns": (flood.from_ns, 0),
        "flood until_ns": (flood.until_ns, 0),
    }
    for name, (value, bound) in least.items():
        if value < bound:
            raise ValueError(f"{name} must be at least {bound}, got {value}")
    if settings.warm_up_ns >= settings.duration_ns:
        raise ValueError(
            f"warm_up_ns must be below duration_ns ({settings.duration_ns}), "
            f"got {settings.warm_up_ns}"
        )
    most = {
        "request_pieces": (client.request_pieces, PIECES_MAX),
        "pieces_permille": (client.pieces_permille, PERMILLE),
        "linear_syn_timeouts": (client.linear_syn_timeouts, LINEAR_SYN_TIMEOUTS_MAX),
        "syn_timeout_ns": (client.syn_timeout_ns, PAUSE_MAX_NS),
        "retries": (client.retries, RETRIES_MAX),
        "retry_pause_ns": (client.retry_pause_ns, PAUSE_MAX_NS),
        "retry_pause_max_ns": (client.retry_pause_max_ns, PAUSE_MAX_NS),
        "retry_jitter_permille": (client.retry_jitter_permille, 1_000),
    }
    for name, (value, bound) in most.items():
        if value > bound:
            raise ValueError(f"{name} must be at most {bound}, got {value}")
    if client.request_pieces > 1 and network.set_up == 0:
        raise ValueError(
            "request_pieces must be 1 where set_up is 0: a request that comes along with its SYN "
            f"is whole, got {client.request_pieces}"
        )
    if server.due_last_first and server.due_at_once != 0:
        raise ValueError(f"due_at_once must be 0 with due_last_first, got {server.due_at_once}")
    if not NICE_MIN <= kernel.busy_nice <= NICE_MAX:
        raise ValueError(
            f"busy_nice must be within {NICE_MIN} and {NICE_MAX}, got {kernel.busy_nice}"
        )
    if kernel.coalesce_ns > 0 and kernel.packets != Packets.SOFTIRQ:
        raise ValueError(
            f"coalesce_ns must be 0 unless packets are {Packets.SOFTIRQ!r}, "
            f"got {kernel.coalesce_ns}"
        )
    if client.closing not in tuple(Closing):
        raise ValueError(f"closing must be one of {list(Closing)}, got {client.closing}")
    if kernel.packets not in tuple(Packets):
        raise ValueError(f"packets must be one of {list(Packets)}, got {kernel.packets}")
    _check_paths(network)
    for fault in settings.faults:
        _check_fault(fault, server.cpus)
    _check_workers(settings, own_fds, one_at_a_time=one_at_a_time)


def _check_paths(network: NetworkSettings) -> None:
    if network.set_up not in (0, 1, 2):
        raise ValueError(f"set_up must be 0, 1 or 2 round trips, got {network.set_up}")
    for path in network.paths:
        for name, value in path._asdict().items():
            if value < 0:
                raise ValueError(f"a path's {name} must be at least 0, got {value}")
        if path.loss_millionths >= MILLIONTHS:
            raise ValueError(
                f"a path's loss_millionths must be below {MILLIONTHS}, got {path.loss_millionths}"
            )
    shares = sum(path.share_permille for path in network.paths)
    if network.paths and shares != PERMILLE:
        raise ValueError(f"the shares of all paths must add up to {PERMILLE}, got {shares}")


def _check_fault(fault: Fault, n_cpus: int) -> None:
    if fault.kind not in tuple(FaultKind):
        raise ValueError(f"a fault's kind must be one of {list(FaultKind)}, got {fault.kind}")
    for name, value, bound in (
        ("at_ns", fault.at_ns, 0),
        ("length_ns", fault.length_ns, 1),
        ("value", fault.value, 0),
    ):
        if value < bound:
            raise ValueError(f"a fault's {name} must be at least {bound}, got {value}")
    if fault.kind == FaultKind.STALL and fault.value >= n_cpus:
        raise ValueError(f"a stall must be of one of the {n_cpus} CPUs (from 0), got {fault.value}")
    if fault.kind == FaultKind.READING and not 0 < fault.value <= PERMILLE:
        raise ValueError(
            f"the clients that stop reading must be 1 to {PERMILLE} of {PERMILLE}, "
            f"got {fault.value}"
        )


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
    if server.sharing == Sharing.HANDED_OVER:
        _check_handing_over(server)
    own_fds += has_timers(server, one_at_a_time=one_at_a_time)
    fds_needed = fds_needed_by(1 if one_at_a_time else server.workers, own_fds)
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
    shares_list = server.sharing == Sharing.READY_LIST and server.workers > 1
    if server.request_timeout_ns > 0 and shares_list:
        raise ValueError(
            "request_timeout_ns must be 0 where workers share a ready list: another worker may be "
            f"serving who is late, got {server.request_timeout_ns}"
        )


def _check_handing_over(server: ServerSettings) -> None:
    if server.workers < 2:
        raise ValueError(
            "workers must be at least 2 where the first one accepts and hands connections over, "
            f"got {server.workers}"
        )
    if server.read_after_accept:
        raise ValueError(
            "read_after_accept must be false where connections are handed over: who accepts does "
            "not read"
        )
