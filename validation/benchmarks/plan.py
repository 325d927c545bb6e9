"""How much is measured: the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .scenarios import MECHANISMS

GROUPS = ("engines", "queue", "single")
IDLE_COUNTS = (0, 1_000, 10_000, 1_000_000)
CONNECTIONS_MIN = 1_000
IDLE_MAX = 10_000_000
FULL_MEMORY_CONNECTIONS = 10_000_000
_PER_REFERENCE, _PER_FIRST_MODEL = 25, 125  # connections of a fast run for one of the slow
_SLOW_IDLE = 1_000_000
_STREAM, _STREAM_LONG, _STREAM_QUICK = 20_000_000, 100_000_000, 1_000_000


@dataclass(frozen=True)
class Plan:
    """What is measured, and how much of it.

    Attributes
    ----------
    groups:
        Of `GROUPS`.
    connections:
        Of a run of the fast engine and of the C program.
    repetitions:
        Of every case.
    slow_once:
        Whether the first SimPy model with a million idle connections is timed once only.
    slow_weighed:
        Whether its memory is taken as well, which takes as long again.
    idle:
        Idle connections of the engines' cases.
    memory_connections, growth_runs, stream_connections, compiled:
        Sizes of the single figures, and which mechanisms are compiled from nothing.
    """

    groups: tuple[str, ...] = GROUPS
    connections: int = 500_000
    repetitions: int = 5
    slow_once: bool = True
    slow_weighed: bool = True
    idle: tuple[int, ...] = IDLE_COUNTS
    memory_connections: int = FULL_MEMORY_CONNECTIONS
    growth_runs: int = 10_000
    stream_connections: int = _STREAM
    compiled: tuple[str, ...] = MECHANISMS

    @property
    def reference_connections(self) -> int:
        """Connections of a run of the reference engine, customers of the other tools."""
        return self.connections // _PER_REFERENCE

    @property
    def first_model_connections(self) -> int:
        """Connections of a run of the first SimPy model."""
        return self.connections // _PER_FIRST_MODEL

    def is_slow(self, idle: int) -> bool:
        """Return whether the first SimPy model takes long with *idle* connections."""
        return idle >= _SLOW_IDLE


@dataclass(frozen=True)
class Options:
    """What the command line says: the plan, whose costs, where the raw figures go."""

    plan: Plan
    profile: Path | None
    json: Path | None


def read_options(arguments: Sequence[str] | None) -> Options:
    """Return the options in *arguments*; one that is out of range ends the program."""
    parser = argparse.ArgumentParser(
        prog="python -m dispatchsim.validation.benchmarks",
        description="Time the engines against each other and against other simulators.",
    )
    parser.add_argument("--connections", type=int, help="of a fast run (500,000)")
    parser.add_argument("--repetitions", type=int, help="of every case (5)")
    parser.add_argument("--idle", type=int, nargs="+", help="idle connections")
    parser.add_argument("--only", choices=GROUPS, help="one group of figures")
    parser.add_argument("--stream", type=int, help="connections of the streamed run (20 million)")
    parser.add_argument("--long", action="store_true", help="stream 100 million connections")
    parser.add_argument("--quick", action="store_true", help="less of everything: two minutes")
    parser.add_argument("--profile", type=Path, help="costs to simulate with (the shipped one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all raw figures there")
    given = parser.parse_args(arguments)
    least = {"connections": CONNECTIONS_MIN, "repetitions": 1, "stream": CONNECTIONS_MIN}
    for name, bound in least.items():
        value = getattr(given, name)
        if value is not None and value < bound:
            parser.error(f"--{name} must be at least {bound}, got {value}")
    for idle in given.idle or ():
        if not 0 <= idle <= IDLE_MAX:
            parser.error(f"--idle must be 0 to {IDLE_MAX}, got {idle}")
    if given.long and given.stream is not None:
        parser.error("--long and --stream both say how many connections are streamed")
    if given.json is not None and not given.json.absolute().parent.is_dir():
        parser.error(f"--json: the folder of {given.json} does not exist")
    if given.profile is not None and not given.profile.is_file():
        parser.error(f"--profile: there is no file {given.profile}")
    return Options(_plan(given), given.profile, given.json)


def _plan(given: argparse.Namespace) -> Plan:
    plan = Plan()
    if given.quick:
        plan = Plan(
            connections=100_000,
            repetitions=3,
            slow_weighed=False,
            memory_connections=FULL_MEMORY_CONNECTIONS // 10,
            growth_runs=1_000,
            stream_connections=_STREAM_QUICK,
            compiled=MECHANISMS[-1:],
        )
    stream = _STREAM_LONG if given.long else given.stream
    return Plan(
        groups=(given.only,) if given.only else GROUPS,
        connections=given.connections or plan.connections,
        repetitions=given.repetitions or plan.repetitions,
        slow_once=given.repetitions is None,
        slow_weighed=plan.slow_weighed,
        idle=tuple(sorted(set(given.idle))) if given.idle else plan.idle,
        memory_connections=plan.memory_connections,
        growth_runs=plan.growth_runs,
        stream_connections=stream or plan.stream_connections,
        compiled=plan.compiled,
    )
