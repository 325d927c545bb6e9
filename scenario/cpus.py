"""CPUs that the server program cannot use because it has fewer threads."""

from __future__ import annotations

from ..models.catalogue import MECHANISMS
from ..models.client_settings import client_threads_of
from ..sim.assembly.checks import has_siblings
from .scenario import Scenario

_TO_USE_ALL = "to use all CPUs"


def threads_of(scenario: Scenario) -> int:
    """Return the number of the program's threads, which occupy the CPUs in turn."""
    server, mechanism = scenario.server, MECHANISMS[scenario.server.mechanism]
    if scenario.machine.role == "client":
        return client_threads_of(mechanism, scenario.load.users or 1)
    workers: int = server.workers
    return workers * (1 + has_siblings(server.run_settings.signals, mechanism))


def unused_cpus(scenario: Scenario) -> str:
    """Return the warning about CPUs that the program cannot use; empty if it can use all.

    Packets and other processes may use such a CPU.
    """
    cpus, threads = scenario.machine.cpus, threads_of(scenario)
    if threads >= cpus:
        return ""
    if scenario.machine.role == "client":
        most = f"at most {threads} for the client {_TO_USE_ALL}"
        return f"machine.cpus: must be {most}, got {cpus}"
    return (
        f"server.workers: must be at least {cpus} {_TO_USE_ALL} (machine.cpus), "
        f"got {scenario.server.workers}"
    )


def cpus_in_vain(scenario: Scenario) -> bool:
    """Return whether a CPU stays idle: no worker, no packet, no other process."""
    machine = scenario.machine
    others = machine.interrupts == "every cpu" or machine.busy_processes > 0
    return not others and threads_of(scenario) < machine.cpus


def is_of_unused_cpus(warning: str) -> bool:
    """Return whether *warning* comes from `unused_cpus`."""
    return _TO_USE_ALL in warning
