"""Settings of a run are checked here, one by one and together, before anything is built."""

from __future__ import annotations

from ..state.client_settings import NetworkSettings
from ..state.kernel_settings import Packets
from ..state.program_settings import THREADS_MAX, WORKERS_MAX, ProgramSettings, Sharing
from ..state.setting import check_bounds
from ..state.settings import FOR_SERVER, Fault, FaultKind, RunSettings
from ..state.units import PERMILLE


def fds_needed_by(n_listening: int, own_fds: int) -> int:
    """Return what a server needs: standard streams, listeners, its mechanism's, a connection."""
    return 4 + (1 + own_fds) * n_listening


def has_timers(program: ProgramSettings, *, one_at_a_time: bool) -> bool:
    """Return whether each interest set of *program* has the descriptor of a timer."""
    return program.request_timeout_ns > 0 and not one_at_a_time


def check(settings: RunSettings, own_fds: int = 1, *, one_at_a_time: bool = False) -> None:
    """Check every setting, for a mechanism that takes *own_fds* for each interest set.

    Of threads with *one_at_a_time* of their descriptors there may be far more.

    Raises
    ------
    ValueError
        With the name, the rule and the value of the first that is out of its range.
    """
    client, network = settings.client, settings.network
    for of, record in (
        *(("", getattr(settings, field)) for field in FOR_SERVER),
        ("", network),
        ("client ", client),
        ("", settings.kernel),
        ("", settings.machine),
        ("flood ", settings.flood),
        ("", settings),
    ):
        check_bounds(record, of)
    if settings.warm_up_ns >= settings.duration_ns:
        raise ValueError(
            f"warm_up_ns must be below duration_ns ({settings.duration_ns}), "
            f"got {settings.warm_up_ns}"
        )
    kernel = settings.kernel
    if client.request_pieces > 1 and network.set_up == 0:
        raise ValueError(
            "request_pieces must be 1 where set_up is 0: a request that comes along with its SYN "
            f"is whole, got {client.request_pieces}"
        )
    due_at_once = settings.completions.due_at_once
    if settings.completions.due_last_first and due_at_once != 0:
        raise ValueError(f"due_at_once must be 0 with due_last_first, got {due_at_once}")
    if kernel.coalesce_ns > 0 and kernel.packets != Packets.SOFTIRQ:
        raise ValueError(
            f"coalesce_ns must be 0 unless packets are {Packets.SOFTIRQ!r}, "
            f"got {kernel.coalesce_ns}"
        )
    _check_paths(network)
    for fault in settings.faults:
        _check_fault(fault, settings.machine.cpus)
    _check_workers(settings, own_fds, one_at_a_time=one_at_a_time)


def _check_paths(network: NetworkSettings) -> None:
    for path in network.paths:
        check_bounds(path, "a path's ")
    shares = sum(path.share_permille for path in network.paths)
    if network.paths and shares != PERMILLE:
        raise ValueError(f"the shares of all paths must add up to {PERMILLE}, got {shares}")


def _check_fault(fault: Fault, n_cpus: int) -> None:
    check_bounds(fault, "a fault's ")
    if fault.kind == FaultKind.STALL and fault.value >= n_cpus:
        raise ValueError(f"a stall must be of one of the {n_cpus} CPUs (from 0), got {fault.value}")
    if fault.kind == FaultKind.READING and not 0 < fault.value <= PERMILLE:
        raise ValueError(
            f"the clients that stop reading must be 1 to {PERMILLE} of {PERMILLE}, "
            f"got {fault.value}"
        )


def _check_workers(settings: RunSettings, own_fds: int, *, one_at_a_time: bool) -> None:
    program, limits, machine = settings.program, settings.limits, settings.machine
    workers_max = THREADS_MAX if one_at_a_time else WORKERS_MAX
    if program.workers > workers_max:
        raise ValueError(f"workers must be at most {workers_max}, got {program.workers}")
    if machine.interrupt_cpu >= machine.cpus:
        raise ValueError(
            f"interrupt_cpu must be one of the {machine.cpus} CPUs (from 0), "
            f"got {machine.interrupt_cpu}"
        )
    if program.sharing == Sharing.HANDED_OVER:
        _check_handing_over(program)
    own_fds += has_timers(program, one_at_a_time=one_at_a_time)
    fds_needed = fds_needed_by(1 if one_at_a_time else program.workers, own_fds)
    if limits.fd_limit < fds_needed:
        raise ValueError(
            f"fd_limit must be at least {fds_needed} for {program.workers} workers, "
            f"got {limits.fd_limit}"
        )
    if program.sharing == Sharing.READY_LIST and program.workers > 1 and program.read_after_accept:
        raise ValueError(
            "read_after_accept must be false where workers share a ready list: the connection "
            "is watched already, and another worker would read from it, too"
        )
    shares_list = program.sharing == Sharing.READY_LIST and program.workers > 1
    if program.request_timeout_ns > 0 and shares_list:
        raise ValueError(
            "request_timeout_ns must be 0 where workers share a ready list: another worker may be "
            f"serving who is late, got {program.request_timeout_ns}"
        )


def _check_handing_over(program: ProgramSettings) -> None:
    if program.workers < 2:
        raise ValueError(
            "workers must be at least 2 where the first one accepts and hands connections over, "
            f"got {program.workers}"
        )
    if program.read_after_accept:
        raise ValueError(
            "read_after_accept must be false where connections are handed over: who accepts does "
            "not read"
        )
