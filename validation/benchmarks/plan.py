"""The extent of a benchmark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from ...calibration.profiles.cost_profile import Profile
from ...scenario.errors import UserError
from .results import UNITS, Results
from .scenarios import EPOLL

IDLE_MAX = 10_000_000
GROUPS = tuple(UNITS)
"""The default groups of metrics."""


@dataclass(frozen=True)
class Plan:
    """The metrics to measure, and their extent.

    Attributes
    ----------
    groups:
        Groups of metrics.
    connections, repetitions:
        Connections in a run of a compiled contestant, and number of turns.
    idle, mechanisms:
        The cases of the speed benchmark.
    call_connections, memory_idle:
        Connections of a whole call, idle connections of the largest run.
    quick:
        Whether to leave out jobs of more than a few seconds.
    against:
        The Python of another checkout; None: no comparison.
    profile, json:
        Files of the costs (None: the shipped profile) and for the results (None: not written).
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
    groups=("speed", "workers", "queue", "call", "memory", "compile", "start"),
    connections=20_000,
    repetitions=2,
    idle=(0, 10_000),
    call_connections=20_000,
    memory_idle=100_000,
    quick=True,
)


class Job(NamedTuple):
    """One step of the benchmark: the line that shows it, and its function."""

    text: str
    do: Callable[[], None]


@dataclass
class Bench:
    """A running benchmark.

    Attributes
    ----------
    outcomes:
        The fingerprint and its contestants, by case and number of connections.
    """

    plan: Plan
    profile: Profile
    results: Results = field(default_factory=Results)
    notes: list[str] = field(default_factory=list)
    outcomes: dict[tuple[str, int], tuple[str, list[str]]] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Print *text* below the tables, once."""
        if text and text not in self.notes:
            self.notes.append(text)


def plan_of(
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    connections: int | None = None,
    repetitions: int | None = None,
    idle: Sequence[int] = (),
    mechanisms: Sequence[str] = (),
    against: str | None = None,
    profile: Path | None = None,
    json: Path | None = None,
) -> Plan:
    """Return the plan with the given values; others have the defaults, or those of *quick*.

    Raises
    ------
    UserError
        If a number is out of range, or a file is missing.
    """
    for n in idle:
        if not 0 <= n <= IDLE_MAX:
            raise UserError(f"--idle must be 0 to {IDLE_MAX}, got {n}")
    if json is not None and not json.absolute().parent.is_dir():
        raise UserError(f"--json: the folder of {json} does not exist")
    if profile is not None and not profile.is_file():
        raise UserError(f"--profile: there is no file {profile}")
    if against is not None and shutil.which(against) is None:
        raise UserError(f"--against must be a Python interpreter, got {against}")
    plan = _QUICK if quick else Plan()
    return replace(
        plan,
        groups=tuple(only or plan.groups),
        connections=connections or plan.connections,
        repetitions=repetitions or plan.repetitions,
        idle=tuple(sorted(set(idle))) or plan.idle,
        mechanisms=tuple(mechanisms or plan.mechanisms),
        against=against,
        profile=profile,
        json=json,
    )
