"""Simulate how servers learn that descriptors are ready.

>>> import dispatchsim as ds
>>> scenario = ds.Scenario.of(server={"mechanism": "poll"}, load={"loop": "open", "rate": "2000/s"})
>>> scenario.server.mechanism
'poll'
"""

from importlib.metadata import version

from .calibration.cost_profile import Profile, ProfileError, default_profile, shipped_profiles
from .errors import ScenarioError, UserError
from .models.catalogue import MECHANISMS
from .models.simulate import simulate
from .questions import Capacity, capacity
from .running import Comparison, Result, compare, run
from .scenario import Scenario
from .sim.metrics import Summary, Verdict, summarise
from .sim.outcome import Outcome
from .sim.settings import ClientSettings, NetworkSettings, RunSettings, ServerSettings
from .sim.workload import Trace, TraceError, closed_loop, open_loop

__version__ = version("dispatchsim")

__all__ = [
    "MECHANISMS",
    "Capacity",
    "ClientSettings",
    "Comparison",
    "NetworkSettings",
    "Outcome",
    "Profile",
    "ProfileError",
    "Result",
    "RunSettings",
    "Scenario",
    "ScenarioError",
    "ServerSettings",
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
