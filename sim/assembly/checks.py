"""Checks of the settings of a run, one by one and together, before it is built."""

from __future__ import annotations

from ..state.client_classes import CLASSES_MAX
from ..state.client_settings import Closing, NetworkSettings
from ..state.family_settings import Recovery, SignalSettings
from ..state.host_gaps import gaps_problem
from ..state.kernel_settings import Packets
from ..state.kinds import NONE
from ..state.mechanism import Mechanism, Program, Trait
from ..state.program_settings import ProgramSettings
from ..state.rules import broken_rules, too_few_to_backend, too_many_workers
from ..state.setting import check_bounds
from ..state.settings import FOR_SERVER, Fault, FaultKind, RunSettings
from ..state.units import PERMILLE


def fds_needed_by(n_listening: int, own_fds: int) -> int:
    """Return the descriptors a server needs: streams, listeners, its mechanism's, a connection."""
    return 4 + (1 + own_fds) * n_listening


def has_timers(program: ProgramSettings, *, one_at_a_time: bool) -> bool:
    """Return whether each interest set of *program* has the descriptor of a timer."""
    return program.request_timeout_ns > 0 and not one_at_a_time


def has_siblings(signals: SignalSettings, mechanism: Mechanism) -> bool:
    """Return whether each worker has a sibling, which polls after an overflow."""
    recovers = signals.recovery_hands_over and signals.recovery != Recovery.NOTHING
    return recovers and Trait.BY_SIGNALS in mechanism.traits


def check(settings: RunSettings, own_fds: int = 1, *, one_at_a_time: bool = False) -> None:
    """Check every setting, for a mechanism that takes *own_fds* for each interest set.

    There may be far more threads that serve *one_at_a_time* of their descriptors.

    Raises
    ------
    ValueError
        With the name, the rule and the value of the first that is out of its range.
    """
    network = settings.network
    for of, record in (
        *(("", getattr(settings, field)) for field in FOR_SERVER),
        ("", network),
        ("client ", settings.client),
        ("backend ", settings.backend),
        ("", settings.kernel),
        ("", settings.machine),
        ("", settings.memory),
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
    if kernel.coalesce_ns > 0 and kernel.packets != Packets.SOFTIRQ:
        raise ValueError(
            f"coalesce_ns must be 0 unless packets are {Packets.SOFTIRQ!r}, "
            f"got {kernel.coalesce_ns}"
        )
    _check_paths(network)
    _check_classes(settings)
    for name in ("server_gaps", "client_gaps"):
        if problem := gaps_problem(getattr(settings, name)):
            raise ValueError(f"{name}: {problem}")
    for fault in settings.faults:
        _check_fault(fault, settings.machine.cpus)
    _check_workers(settings, own_fds, one_at_a_time=one_at_a_time)


def check_backend(
    settings: RunSettings, program: Program, *, one_at_a_time: bool, has_siblings: bool
) -> None:
    """Check that *program* can query the backend in *settings*, if there is one.

    Raises
    ------
    ValueError
        With the name, the rule and the value of the setting that prevents it.
    """
    n = settings.backend.connections
    if n == 0:
        return
    if not program.asks_backend:
        raise ValueError(
            f"backend connections must be 0 with a program that has no queries, got {n}"
        )
    if has_siblings:
        raise ValueError(
            f"backend connections must be 0 where recovery_hands_over is true: a sibling that "
            f"serves the clients has no connection to the backend, got {n}"
        )
    if settings.client.closing == Closing.HALF_CLOSE:
        raise ValueError(
            "client closing must not be HALF_CLOSE with a backend: a client that half-closes while "
            f"its request is there counts as gone, got {settings.client.closing}"
        )
    too_few = too_few_to_backend(settings, one_at_a_time=one_at_a_time)
    if too_few is not None:
        raise ValueError(f"backend {too_few}")


def _check_paths(network: NetworkSettings) -> None:
    for path in network.paths:
        check_bounds(path, "a path's ")
    shares = sum(path.share_permille for path in network.paths)
    if network.paths and shares != PERMILLE:
        raise ValueError(f"the shares of all paths must add up to {PERMILLE}, got {shares}")


def _check_classes(settings: RunSettings) -> None:
    """Refuse one class of clients, too many, and shares and paths that are none."""
    classes = settings.classes
    if not classes:
        return
    if not 2 <= len(classes) <= CLASSES_MAX:
        raise ValueError(f"classes must be 2 to {CLASSES_MAX}, or none, got {len(classes)}")
    shares = sum(each.share_permille for each in classes)
    if shares != PERMILLE or min(each.share_permille for each in classes) < 1:
        raise ValueError(f"the shares of all classes must add up to {PERMILLE}, got {shares}")
    for each in classes:
        if not NONE <= each.path < len(settings.network.paths):
            raise ValueError(f"the path of a class must be one of the paths, got {each.path}")


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
    too_many = too_many_workers(settings, one_at_a_time=one_at_a_time)
    if too_many is not None:
        raise ValueError(str(too_many))
    if machine.interrupt_cpu >= machine.cpus:
        raise ValueError(
            f"interrupt_cpu must be one of the {machine.cpus} CPUs (from 0), "
            f"got {machine.interrupt_cpu}"
        )
    for broken in broken_rules(settings):
        raise ValueError(str(broken))
    own_fds += has_timers(program, one_at_a_time=one_at_a_time)
    fds_needed = fds_needed_by(1 if one_at_a_time else program.workers, own_fds)
    fds_needed += settings.backend.connections
    if limits.fd_limit < fds_needed:
        raise ValueError(
            f"fd_limit must be at least {fds_needed} for {program.workers} workers, "
            f"got {limits.fd_limit}"
        )
