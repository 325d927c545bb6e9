"""From a scenario to the settings of its runs: limits, link, kernel, faults, lengths."""

from __future__ import annotations

from ..models.catalogue import MECHANISMS
from ..models.client_settings import client_threads_of
from ..models.releases import with_release
from ..sim.state.client_settings import ClientSettings, Closing, NetworkSettings
from ..sim.state.kernel_settings import EVERY_CPU, KernelSettings, MachineSettings
from ..sim.state.laws import Laws
from ..sim.state.memory_settings import MemorySettings
from ..sim.state.program_settings import ProgramSettings
from ..sim.state.settings import RunSettings, having
from ..sim.state.units import SECOND_NS
from .clients import shares_of_paths
from .declared import settings_from
from .faults import faults_of, flood_of
from .scenario import Scenario
from .sections import paths_of

_CLOSINGS = {"reset": Closing.RESET, "fin": Closing.FIN, "half-close": Closing.HALF_CLOSE}
_SYN_TIMEOUTS_NS = {"from 3 s": 3 * SECOND_NS}


def settings_of(
    scenario: Scenario, network_delay_ns: int, seed: int, *, kernel: str = ""
) -> RunSettings:
    """Return the settings of a run of *scenario*, on Linux *kernel* unless it names another."""
    load, network = scenario.load, scenario.network
    idle, machine = scenario.idle, scenario.machine
    settings = _of_server(scenario)._replace(
        network=settings_from(
            network,
            NetworkSettings,
            delay_ns=network_delay_ns,
            service_ns=load.service_time,
            set_up=network.set_up,
            paths=paths_of(scenario.path, shares_of_paths(scenario.clients, scenario.path)),
        ),
        client=settings_from(
            load,
            ClientSettings,
            # Without a limit the clients may be many machines.
            fd_limit=load.descriptors or 2**40,
            time_wait_ns=load.time_wait if load.ports else 0,
            idle=idle.connections,
            idle_life_ns=idle.life or 0,
            closing=int(_CLOSINGS[load.close]),
            linear_syn_timeouts=network.linear_syn_timeouts,
            syn_timeout_ns=_SYN_TIMEOUTS_NS.get(network.syn_timeouts, SECOND_NS),
        ),
        backend=scenario.backend.settings,
        kernel=settings_from(machine, KernelSettings),
        machine=settings_from(
            machine,
            MachineSettings,
            interrupt_cpu=EVERY_CPU if machine.interrupts == "every cpu" else 0,
        ),
        memory=settings_from(machine, MemorySettings),
        flood=flood_of(scenario.flood),
        faults=faults_of(scenario.fault),
        laws=_laws_of(scenario),
        classes=scenario.client_classes,
        duration_ns=scenario.run.duration,
        warm_up_ns=scenario.run.warm_up,
        seed=seed,
    )
    return with_release(settings, scenario.server.mechanism, machine.kernel or kernel)


def _laws_of(scenario: Scenario) -> Laws:
    """Return the laws of random values; constant values are settings."""
    law = scenario.server.request_cpu_law
    cpu = None if law.kind == "constant" or law.mean == 0 else law
    return Laws(cpu, scenario.pause_law, scenario.backend.drawn_law)


def _of_server(scenario: Scenario) -> RunSettings:
    server = scenario.server
    settings = server.run_settings
    if scenario.machine.role == "server":
        return settings
    workers = client_threads_of(MECHANISMS[server.mechanism], scenario.load.users or 1)
    return having(settings, workers=workers, wakes=ProgramSettings().wakes)
