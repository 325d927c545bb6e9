"""What is simulated to be timed: a server at 70% of its capacity, or with 64 users.

In the open loop connections come at 70% of the rate at which the server would be busy without its
waits; 64 users in a closed loop saturate it with fuller batches, and the fuller a batch, the fewer
waits there are to simulate. Clients are free, so that every engine simulates the server alone. The
runs last until the last connection is answered, beyond any doubt.
"""

from __future__ import annotations

from typing import NamedTuple

from ...calibration.cost_profile import Profile
from ...calibration.points import Point
from ...sim.costs import Costs
from ...sim.settings import ClientSettings, RunSettings, ServerSettings
from ...sim.units import SECOND_NS, round_ns
from ...sim.workload import OpenLoopBlocks, Trace, closed_loop, open_loop
from ..baselines import fixed_cost_ns, full_wait_ns

MECHANISMS = ("select", "poll", "epoll_level")
QUEUE = "M/M/1"
USERS = (0, 64)  # 0: the open loop
LOAD_SHARE = 0.7
SEED = 1
_BACKLOG = 65_536  # a scan of a million descriptors lets thousands of connections queue
_SPARE_FDS = 1_024
_BATCH = 16  # fewer than 64 users make in any batch: the run is long enough
_SCANS_AFTER = 100
_SAMPLES = 1_000


class Case(NamedTuple):
    """What one row of the table simulates: a mechanism, or `QUEUE` for the queue."""

    mechanism: str
    idle: int = 0
    users: int = 0

    @property
    def load(self) -> str:
        """The load as it is printed."""
        return f"{self.users} users" if self.users else f"{LOAD_SHARE:.0%}"


class Scenario(NamedTuple):
    """All that an engine is told."""

    mechanism: str
    trace: Trace
    costs: Costs
    settings: RunSettings


def costs_of(profile: Profile, case: Case) -> Costs:
    """Return what things cost in *case*, with clients free."""
    return profile.costs(case.mechanism, open_connections=case.idle, free_clients=True)


def rate_of(case: Case, costs: Costs) -> float:
    """Return the connections a second that the open loop of *case* offers."""
    return LOAD_SHARE * SECOND_NS / fixed_cost_ns(_point(case), costs)


def scenario_of(case: Case, costs: Costs, n: int) -> Scenario:
    """Return the scenario of *case* with *n* connections, of an open loop about as many."""
    rate_per_s = rate_of(case, costs)
    seconds = n / rate_per_s
    if case.users > 0:
        trace = closed_loop(users=case.users, connections=n)
        point = _point(case)
        one_ns = fixed_cost_ns(point, costs) + full_wait_ns(point, costs) / _BATCH
        seconds = n * one_ns / SECOND_NS
    else:
        trace = open_loop(rate_per_s=rate_per_s, seconds=seconds, seed=SEED)
    return Scenario(case.mechanism, trace, costs, settings_of(case, costs, len(trace), seconds))


def settings_of(case: Case, costs: Costs, n: int, seconds: float) -> RunSettings:
    """Return the settings of a run whose last connection comes by *seconds*."""
    after_ns = SECOND_NS + _SCANS_AFTER * round_ns(full_wait_ns(_point(case), costs))
    duration_ns = round_ns(seconds * SECOND_NS) + after_ns
    fd_limit = case.idle + n + _SPARE_FDS
    return RunSettings(
        server=ServerSettings(backlog=_BACKLOG, fd_limit=fd_limit),
        client=ClientSettings(idle=case.idle, fd_limit=fd_limit),
        duration_ns=duration_ns,
        # As many of a long run as of a short one.
        sample_every_ns=duration_ns // _SAMPLES,
        seed=SEED,
    )


def blocks_of(case: Case, costs: Costs, n: int) -> tuple[OpenLoopBlocks, RunSettings]:
    """Return the open loop of *case* with about *n* connections, drawn as they are needed."""
    rate_per_s = rate_of(case, costs)
    seconds = n / rate_per_s
    blocks = OpenLoopBlocks(rate_per_s=rate_per_s, seconds=seconds, seed=SEED)
    # What limits the clients' descriptors must not depend on how many connections come.
    settings = settings_of(case, costs, 2**40, seconds)
    return blocks, settings._replace(server=settings.server._replace(fd_limit=2**17))


def _point(case: Case) -> Point:
    return Point(mechanism=case.mechanism, idle=case.idle, users=1)
