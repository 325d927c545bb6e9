"""How many connections a second of wall time each mechanism simulates on the reference engine.

    python -m dispatchsim.validation.benchmark

Open loop at 70% of capacity, and a closed loop of 64 users that saturates the server: the fuller
its batches, the fewer waits there are to simulate. Clients are free. Repetitions are interleaved,
so that a neighbour's burst falls on all cases alike, and medians are shown. Set-up (the world with
its idle connections) is timed apart.
"""

from __future__ import annotations

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import simpy
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ..calibration.cost_profile import Profile, default_profile
from ..calibration.machine_facts import machine_facts
from ..calibration.points import Point
from ..models.simulate import prepare_world, program_of
from ..sim.costs import Costs
from ..sim.metrics import summarise
from ..sim.outcome import outcome_of
from ..sim.reference import ReferenceRun
from ..sim.settings import ClientSettings, RunSettings, ServerSettings
from ..sim.units import SECOND_NS, round_ns
from ..sim.workload import closed_loop, open_loop
from .baselines import fixed_cost_ns, full_wait_ns

MECHANISMS = ("select", "poll", "epoll_level")
IDLE_COUNTS = (0, 10_000, 1_000_000)
LOAD_SHARE = 0.7
USERS = (0, 64)  # 0: the open loop
_SEED = 1
_FD_LIMIT = 2_097_152
_BACKLOG = 65_536  # a scan of a million descriptors lets thousands of connections queue


class Timed(NamedTuple):
    """One repetition of one case."""

    set_up_s: float
    run_s: float
    n_replied: int


class Case(NamedTuple):
    """One row of the table."""

    mechanism: str
    idle: int
    users: int


def time_case(case: Case, costs: Costs, n_connections: int) -> Timed:
    """Simulate *n_connections* beside the idle ones and return the wall times."""
    mechanism, idle, users = case
    point = Point(mechanism=mechanism, idle=idle, users=1)
    rate_per_s = LOAD_SHARE * SECOND_NS / fixed_cost_ns(point, costs)
    seconds = n_connections / rate_per_s
    trace = open_loop(rate_per_s=rate_per_s, seconds=seconds, seed=_SEED)
    if users > 0:
        trace = closed_loop(users=users, connections=n_connections)
        seconds = n_connections * (fixed_cost_ns(point, costs) + full_wait_ns(point, costs) / 16)
        seconds /= SECOND_NS
    # Time for the last connections: a few scans of everything.
    drain_ns = 10_000_000 + 4 * round_ns(full_wait_ns(point, costs))
    settings = RunSettings(
        server=ServerSettings(backlog=_BACKLOG, fd_limit=_FD_LIMIT),
        client=ClientSettings(idle=idle, fd_limit=_FD_LIMIT),
        duration_ns=round_ns(seconds * SECOND_NS) + drain_ns,
        seed=_SEED,
    )
    gc.collect()
    began_s = time.perf_counter()
    world = prepare_world(mechanism, trace, costs, settings)
    run = ReferenceRun(program_of(mechanism), world, duration_ns=settings.duration_ns)
    ready_s = time.perf_counter()
    world = run.run()
    ended_s = time.perf_counter()
    replied = summarise(outcome_of(world, settings.duration_ns)).replied
    return Timed(ready_s - began_s, ended_s - ready_s, replied)


def time_all(
    profile: Profile, idle_counts: Sequence[int], n_connections: int, repetitions: int
) -> dict[Case, list[Timed]]:
    """Return the repetitions of every case, measured in turns."""
    cases = [Case(*case) for case in product(MECHANISMS, idle_counts, USERS)]
    timed: dict[Case, list[Timed]] = {case: [] for case in cases}
    for _ in range(repetitions):
        for case in cases:
            costs = profile.costs(case.mechanism, open_connections=case.idle, free_clients=True)
            timed[case].append(time_case(case, costs, n_connections))
    return timed


def table_of(timed: dict[Case, list[Timed]]) -> Table:
    """Return the medians of all cases."""
    table = Table(box=SIMPLE_HEAD)
    for column in (
        "mechanism",
        "idle",
        "load",
        "connections/s",
        "lowest",
        "highest",
        "set-up",
    ):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    for (mechanism, idle, users), repetitions in timed.items():
        rates = [t.n_replied / t.run_s for t in repetitions]
        set_up_s = statistics.median(t.set_up_s for t in repetitions)
        table.add_row(
            mechanism,
            f"{idle:,}",
            f"{users} users" if users else f"{LOAD_SHARE:.0%}",
            f"{statistics.median(rates):,.0f}",
            f"{min(rates):,.0f}",
            f"{max(rates):,.0f}",
            f"{set_up_s:.2f} s",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Time all cases and print the table."""
    parser = argparse.ArgumentParser(description="Time the reference engine.")
    parser.add_argument("--profile", type=Path, help="costs to simulate with (shipped: the first)")
    parser.add_argument("--connections", type=int, default=20_000, help="connections of a run")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--idle", type=int, nargs="+", default=list(IDLE_COUNTS))
    options = parser.parse_args(arguments)
    for name in ("connections", "repetitions"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    if min(options.idle) < 0:
        parser.error(f"--idle must be at least 0, got {min(options.idle)}")
    profile = Profile.read(options.profile) if options.profile else default_profile()
    console = Console()
    console.print(
        f"reference engine, SimPy {simpy.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {machine_facts()['cpu_model']}",
        highlight=False,
    )
    console.print(
        f"profile {profile.name}, seed {_SEED}, open or closed loop, free "
        f"clients, {options.connections} connections a run, medians of {options.repetitions}; "
        "connections per second of wall time",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    console.print(
        table_of(time_all(profile, options.idle, options.connections, options.repetitions))
    )


if __name__ == "__main__":
    main()
