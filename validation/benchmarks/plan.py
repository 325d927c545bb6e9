"""How much is measured: the options of the command line."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ...calibration.profiles.cost_profile import Profile
from .results import UNITS, Results
from .scenarios import EPOLL

CONNECTIONS_MIN = 1_000
IDLE_MAX = 10_000_000
GROUPS = tuple(UNITS)
"""What a run measures unless the options name groups."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how much of it.

    Attributes
    ----------
    groups:
        Groups of metrics.
    connections, repetitions:
        Connections of a run of a compiled contestant, and turns.
    idle, mechanisms:
        The cases of the speed.
    call_connections, memory_idle:
        Connections of a whole call, idle connections of the largest run.
    quick:
        Whether everything that takes more than a few seconds is left out.
    against:
        The Python of another checkout; None: there is no comparison.
    profile, json:
        Files of the costs (None: the shipped ones) and for the results (None: none).
    """

    groups: tuple[str, ...] = GROUPS
    connections: int = 300_000
    repetitions: int = 7
    idle: tuple[int, ...] = (0, 10_000, 1_000_000)
    mechanisms: tuple[str, ...] = (EPOLL,)
    call_connections: int = 1_000_000
    memory_idle: int = 10_000_000
    quick: bool = False
    against: str | None = None
    profile: Path | None = None
    json: Path | None = None


_QUICK = Plan(
    groups=("speed", "workers", "queue", "threads", "call", "memory", "compile", "start"),
    connections=20_000,
    repetitions=2,
    idle=(0, 10_000),
    call_connections=20_000,
    memory_idle=100_000,
    quick=True,
)


class Job(NamedTuple):
    """One step of the benchmark: the line that shows it, and what it does."""

    text: str
    do: Callable[[], None]


@dataclass
class Bench:
    """A benchmark that is being run.

    Attributes
    ----------
    outcomes:
        For each case and number of connections, the fingerprint and who has left it.
    """

    plan: Plan
    profile: Profile
    results: Results = field(default_factory=Results)
    notes: list[str] = field(default_factory=list)
    outcomes: dict[tuple[str, int], tuple[str, list[str]]] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Have *text* printed below the tables, once."""
        if text and text not in self.notes:
            self.notes.append(text)


def read_options(arguments: Sequence[str] | None) -> Plan:
    """Return the plan in *arguments*; an option out of its range ends the program."""
    parser = argparse.ArgumentParser(
        prog="python -m dispatchsim.validation.benchmarks",
        description="Time the engines side by side with C by hand and with other simulators.",
    )
    parser.add_argument("--quick", action="store_true", help="measure less, within a minute")
    parser.add_argument("--only", choices=tuple(UNITS), nargs="+", help="measure these groups")
    parser.add_argument("--connections", type=int, help="set the size of a compiled run (300,000)")
    parser.add_argument("--repetitions", type=int, help="set the number of turns (7)")
    parser.add_argument("--idle", type=int, nargs="+", help="set the idle connections")
    parser.add_argument("--mechanisms", nargs="+", help=f"time these ({EPOLL})")
    parser.add_argument("--against", metavar="PYTHON", help="compare with another checkout")
    parser.add_argument("--profile", type=Path, help="set the costs (the shipped profile)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    given = parser.parse_args(arguments)
    for name, bound in (("connections", CONNECTIONS_MIN), ("repetitions", 1)):
        value = getattr(given, name)
        if value is not None and value < bound:
            parser.error(f"--{name} must be at least {bound}, got {value}")
    for idle in given.idle or ():
        if not 0 <= idle <= IDLE_MAX:
            parser.error(f"--idle must be 0 to {IDLE_MAX}, got {idle}")
    if given.json is not None and not given.json.absolute().parent.is_dir():
        parser.error(f"--json: the folder of {given.json} does not exist")
    if given.profile is not None and not given.profile.is_file():
        parser.error(f"--profile: there is no file {given.profile}")
    if given.against is not None and shutil.which(given.against) is None:
        parser.error(f"--against must be a Python interpreter, got {given.against}")
    return _plan(given)


def _plan(given: argparse.Namespace) -> Plan:
    plan = _QUICK if given.quick else Plan()
    return replace(
        plan,
        groups=tuple(given.only or plan.groups),
        connections=given.connections or plan.connections,
        repetitions=given.repetitions or plan.repetitions,
        idle=tuple(sorted(set(given.idle))) if given.idle else plan.idle,
        mechanisms=tuple(given.mechanisms or plan.mechanisms),
        against=given.against,
        profile=given.profile,
        json=given.json,
    )
