"""CPUs that the server program cannot use because it has fewer threads, or uses unevenly."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from ..models.catalogue import MECHANISMS
from ..models.client_settings import client_threads_of
from ..sim.assembly.checks import has_siblings
from .scenario import Scenario

_TO_USE_ALL = "to use all CPUs"
_UNEVEN = 0.02
"""A smaller share is not worth a warning: intervals of capacities are wider."""


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


def uneven_share(scenario: Scenario) -> float:
    """Return how many more kept connections than the mean the fullest accept queue has, as a share.

    It is the expected maximum of random shares: Linux chooses a listener by a hash of addresses and
    ports (net/core/sock_reuseport.c). It is 0 unless each worker has a queue of its own, and
    connections stay open. The maximum of n normal values is approximated as in Blom 1958,
    "Statistical estimates and transformed beta-variables".
    """
    server, n_kept = scenario.server, scenario.load.connections or 0
    if server.share != "nothing" or server.workers < 2 or n_kept == 0:
        return 0.0
    n = server.workers
    return NormalDist().inv_cdf((n - 0.375) / (n + 0.25)) * sqrt(n / n_kept)


def uneven_loops(scenario: Scenario) -> str:
    """Return the warning that a run spreads kept connections too evenly; empty below 2%."""
    more = uneven_share(scenario)
    if more < _UNEVEN:
        return ""
    return (
        "capacity may be lower: connections are spread evenly here; by a hash (SO_REUSEPORT) the "
        f"busiest of {scenario.server.workers} workers has some {more:.0%} more"
    )


def cpus_in_vain(scenario: Scenario) -> bool:
    """Return whether a CPU stays idle: no worker, no packet, no other process."""
    machine = scenario.machine
    others = machine.interrupts == "every cpu" or machine.busy_processes > 0
    return not others and threads_of(scenario) < machine.cpus


def is_of_unused_cpus(warning: str) -> bool:
    """Return whether *warning* comes from `unused_cpus`."""
    return _TO_USE_ALL in warning
