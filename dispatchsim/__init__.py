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
    from .calibration.cost_profile import Profile, ProfileError, default_profile, shipped_profiles
    from .errors import ScenarioError, UserError
    from .models.catalogue import MECHANISMS
    from .models.simulate import InterruptedRun, simulate
    from .questions import Capacity, capacity
    from .running import Comparison, Result, compare, run
    from .scenario import Scenario
    from .sim.metrics import Summary, Verdict, summarise
    from .sim.outcome import Outcome
    from .sim.settings import (
        EVERY_CPU,
        ClientSettings,
        NetworkSettings,
        RunSettings,
        ServerSettings,
        Sharing,
    )
    from .sim.workload import Trace, TraceError, closed_loop, open_loop

    __version__: str

# Imported when first asked for: the command line must be able to take Ctrl-C before the compiler
# and the like are read in.
_HOMES = {
    ".calibration.cost_profile": "Profile ProfileError default_profile shipped_profiles",
    ".errors": "ScenarioError UserError",
    ".models.catalogue": "MECHANISMS",
    ".models.simulate": "InterruptedRun simulate",
    ".questions": "Capacity capacity",
    ".running": "Comparison Result compare run",
    ".scenario": "Scenario",
    ".sim.metrics": "Summary Verdict summarise",
    ".sim.outcome": "Outcome",
    ".sim.settings": "EVERY_CPU ClientSettings NetworkSettings RunSettings ServerSettings Sharing",
    ".sim.workload": "Trace TraceError closed_loop open_loop",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "EVERY_CPU",
    "MECHANISMS",
    "Capacity",
    "ClientSettings",
    "Comparison",
    "InterruptedRun",
    "NetworkSettings",
    "Outcome",
    "Profile",
    "ProfileError",
    "Result",
    "RunSettings",
    "Scenario",
    "ScenarioError",
    "ServerSettings",
    "Sharing",
    "Summary",
    "Trace",
    "TraceError",
    "UserError",
    "Verdict",
    "__version__",
    "capacity",
    "closed_loop",
    "compare",
    "default_profile",
    "open_loop",
    "run",
    "shipped_profiles",
    "simulate",
    "summarise",
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
    return sorted({*globals(), *__all__})
