"""The timed scenarios: a server at 70% of its capacity, or with 64 users.

The capacity is the rate that keeps the server busy without its waits. 64 users in a closed loop
saturate it with fuller batches; fuller batches mean fewer simulated waits. Clients cost no CPU
time, so every engine simulates the server alone. A run lasts until its last reply.
"""

from __future__ import annotations

from typing import NamedTuple

from ...calibration.points.point import point_at
from ...calibration.profiles.cost_profile import Profile
from ...sim.load.workload import Trace, closed_loop, open_loop
from ...sim.state.client_settings import ClientSettings
from ...sim.state.costs import Costs
from ...sim.state.kernel_settings import EVERY_CPU, LimitSettings, MachineSettings
from ...sim.state.program_settings import ProgramSettings
from ...sim.state.settings import RunSettings
from ...sim.state.units import SECOND_NS, round_ns
from ..forecast.baselines import fixed_cost_ns, full_wait_ns

EPOLL = "epoll_level"
OPEN, CLOSED = 0, 64
"""Users of the two loads; 0: the open loop."""
LOAD_SHARE = 0.7
SEED = 1
_BACKLOG = 65_536  # a scan of a million descriptors lets thousands of connections queue
_SPARE_FDS = 1_024
_BATCH = 16  # smaller than any batch of 64 users, so the run is long enough
_SCANS_AFTER = 100
_SAMPLES = 1_000


class Case(NamedTuple):
    """One setting in which engines are timed."""

    users: int = CLOSED
    idle: int = 0
    workers: int = 1
    cpus: int = 1
    mechanism: str = EPOLL

    def __str__(self) -> str:
        """Return the case as tables print it."""
        parts = [f"{self.users} users" if self.users else f"{LOAD_SHARE:.0%} open"]
        parts.append(f"{self.idle:,} idle")
        if self.workers > 1:
            parts.append(f"{self.workers} workers on {self.cpus} CPU{'s' * (self.cpus > 1)}")
        if self.mechanism != EPOLL:
            parts.append(self.mechanism)
        return ", ".join(parts)


class Scenario(NamedTuple):
    """The inputs of a run."""

    mechanism: str
    trace: Trace
    costs: Costs
    settings: RunSettings


def scenario_of(profile: Profile, case: Case, n: int) -> Scenario:
    """Return the scenario of *case* with *n* connections (about *n* in an open loop)."""
    costs = profile.costs(case.mechanism, open_connections=case.idle, free_clients=True)
    fds = case.idle + _SPARE_FDS
    point = point_at(mechanism=case.mechanism, idle=case.idle, users=1, fd_limit=fds)
    fixed_ns, wait_ns = fixed_cost_ns(point, costs), full_wait_ns(point, costs)
    if case.users > 0:
        trace = closed_loop(users=case.users, connections=n)
        seconds = n * (fixed_ns + wait_ns / _BATCH) / SECOND_NS
    else:
        rate_per_s = LOAD_SHARE * SECOND_NS / fixed_ns
        seconds = n / rate_per_s
        trace = open_loop(rate_per_s=rate_per_s, seconds=seconds, seed=SEED)
    duration_ns = round_ns(seconds * SECOND_NS) + SECOND_NS + _SCANS_AFTER * round_ns(wait_ns)
    fd_limit = case.idle + len(trace) + _SPARE_FDS
    settings = RunSettings(
        program=ProgramSettings(workers=case.workers),
        limits=LimitSettings(backlog=_BACKLOG, fd_limit=fd_limit),
        machine=MachineSettings(cpus=case.cpus, interrupt_cpu=EVERY_CPU if case.cpus > 1 else 0),
        client=ClientSettings(idle=case.idle, fd_limit=fd_limit),
        duration_ns=duration_ns,
        # Long and short runs have equally many samples.
        sample_every_ns=duration_ns // _SAMPLES,
        seed=SEED,
    )
    return Scenario(case.mechanism, trace, costs, settings)
