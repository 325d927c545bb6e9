"""Simulate how servers learn that descriptors are ready.

>>> import dispatchsim as ds
>>> scenario = ds.Scenario.of(server={"mechanism": "poll"}, load={"loop": "open", "rate": "2000/s"})
>>> scenario.server.mechanism
'poll'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calibration.profiles.choosing import default_profile, example_profile
    from .calibration.profiles.cost_profile import Profile, ProfileError, shipped_profiles
    from .in_simpy.connection import (
        ClientExhaustedError,
        Connection,
        Reply,
        Request,
        RequestError,
        RequestRefusedError,
        RequestResetError,
        RequestTimeoutError,
    )
    from .in_simpy.server import Server
    from .models.catalogue import MECHANISMS
    from .models.simulate import InterruptedRun, ReferenceEngineWarning, simulate
    from .recording.recording import Recording, record
    from .scenario.errors import ScenarioError, UserError
    from .scenario.scenario import Scenario
    from .sim.figures.outcome import Outcome
    from .sim.figures.summary import Summary, Verdict, summarise
    from .sim.load.workload import Trace, TraceError, closed_loop, open_loop
    from .sim.state.client_settings import ClientSettings, NetworkSettings
    from .sim.state.kernel_settings import (
        EVERY_CPU,
        KernelSettings,
        LimitSettings,
        MachineSettings,
    )
    from .sim.state.program_settings import OverloadSettings, ProgramSettings, Sharing
    from .sim.state.settings import RunSettings
    from .store.store import Store
    from .studies.capacity import Capacity, capacity
    from .studies.comparison import Comparison, Contest, compare, contest, run
    from .studies.forecast import ForecastAnswer, forecast
    from .studies.result import Result
    from .studies.sensitivity import Sensitivity, sensitivity
    from .studies.steady import Steady, steady
    from .studies.sweep import Sweep, sweep
    from .studies.tune import Tuning, tune
    from .what_if.notebook import explore

    __version__: str

# Imported at first use: the command line must handle Ctrl-C before slow imports such as the
# compiler.
_HOMES = {
    ".calibration.profiles.cost_profile": "Profile ProfileError shipped_profiles",
    ".calibration.profiles.choosing": "default_profile example_profile",
    ".scenario.errors": "ScenarioError UserError",
    ".in_simpy.connection": "ClientExhaustedError Connection Reply Request RequestError "
    "RequestRefusedError RequestResetError RequestTimeoutError",
    ".in_simpy.server": "Server",
    ".what_if.notebook": "explore",
    ".models.catalogue": "MECHANISMS",
    ".models.simulate": "InterruptedRun ReferenceEngineWarning simulate",
    ".recording.recording": "Recording record",
    ".scenario.scenario": "Scenario",
    ".sim.figures.summary": "Summary Verdict summarise",
    ".sim.figures.outcome": "Outcome",
    ".sim.state.client_settings": "ClientSettings NetworkSettings",
    ".sim.state.kernel_settings": "EVERY_CPU KernelSettings LimitSettings MachineSettings",
    ".sim.state.program_settings": "OverloadSettings ProgramSettings Sharing",
    ".sim.state.settings": "RunSettings",
    ".sim.load.workload": "Trace TraceError closed_loop open_loop",
    ".store.store": "Store",
    ".studies.capacity": "Capacity capacity",
    ".studies.comparison": "Comparison Contest compare contest run",
    ".studies.forecast": "ForecastAnswer forecast",
    ".studies.result": "Result",
    ".studies.sensitivity": "Sensitivity sensitivity",
    ".studies.steady": "Steady steady",
    ".studies.sweep": "Sweep sweep",
    ".studies.tune": "Tuning tune",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "EVERY_CPU",
    "MECHANISMS",
    "Capacity",
    "ClientExhaustedError",
    "ClientSettings",
    "Comparison",
    "Connection",
    "Contest",
    "ForecastAnswer",
    "InterruptedRun",
    "KernelSettings",
    "LimitSettings",
    "MachineSettings",
    "NetworkSettings",
    "Outcome",
    "OverloadSettings",
    "Profile",
    "ProfileError",
    "ProgramSettings",
    "Recording",
    "ReferenceEngineWarning",
    "Reply",
    "Request",
    "RequestError",
    "RequestRefusedError",
    "RequestResetError",
    "RequestTimeoutError",
    "Result",
    "RunSettings",
    "Scenario",
    "ScenarioError",
    "Sensitivity",
    "Server",
    "Sharing",
    "Steady",
    "Store",
    "Summary",
    "Sweep",
    "Trace",
    "TraceError",
    "Tuning",
    "UserError",
    "Verdict",
    "__version__",
    "capacity",
    "closed_loop",
    "compare",
    "contest",
    "default_profile",
    "example_profile",
    "explore",
    "forecast",
    "open_loop",
    "record",
    "run",
    "sensitivity",
    "shipped_profiles",
    "simulate",
    "steady",
    "summarise",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("dispatchsim")
    elif name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
