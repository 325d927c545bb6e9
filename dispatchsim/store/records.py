"""A replication that is wanted, the row that it becomes, and the address that both share.

    scenario ──┐
    profile  ──┤
    seed     ──┼─► canonical JSON ─► sha256 ─► address
    draw     ──┤
    code     ──┘

The address is of the content: of values, not of how they were written or where their files lie. A
scenario counts without `run.seed`, `run.replications` and `run.engine` (a run has its own seed, and
all engines give the same figures), without `machine.profile` (the profile itself counts), and
without keys that are set to their default. A trace counts by what is in it, besides its name.

Rows say nothing of wall time, host or worker: the same run makes the same row everywhere.

The code is a hash of the sources that a run goes through:

    sim/ without output_analysis/, models/     the simulator
    scenario/, calibration/profiles/           what is asked, and what it costs   ─► sha256
    calibration/running/, points/point.py      from both to an engine
    NumPy, which draws the arrivals

It is part of every address, and checked on a cluster. A change of any of these files makes new
addresses, so that a store never mixes results of two versions. Some decide no figure (how numbers
and tables are written, what is said of a metric): a change of one costs the runs that are made
again, and nothing else. Studies, pictures and commands are not part of it.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import calibration, models, scenario, sim
from ..calibration.profiles.cost import CostSource
from ..calibration.profiles.cost_profile import Profile
from ..scenario.errors import ScenarioError
from ..scenario.scenario import Scenario
from ..scenario.server import loops_by_default

_STATISTICS = "output_analysis"  # of sim/: what is said of runs, and not in them
CODE_DIGITS = 12
"""Of a version, where people read it."""

_SOURCES = {
    "sim": (Path(sim.__file__).parent, "**/*.py"),
    "models": (Path(models.__file__).parent, "**/*.py"),
    "scenario": (Path(scenario.__file__).parent, "*.py"),
    "profiles": (Path(calibration.__file__).parent / "profiles", "*.py"),
    "points": (Path(calibration.__file__).parent / "points", "point.py"),
    "running": (Path(calibration.__file__).parent / "running", "*.py"),
}


def deciding_sources() -> Iterator[tuple[str, Path]]:
    """Yield the source files that decide results, each with a name that no installation changes."""
    for name, (folder, pattern) in _SOURCES.items():
        for path in sorted(folder.glob(pattern)):
            if _STATISTICS in path.parts:
                continue
            yield f"{name}/{path.relative_to(folder).as_posix()}", path


@functools.cache
def code_version() -> str:
    """Return the hash of the code that decides results, as it was when first asked for."""
    digest = hashlib.sha256(np.__version__.encode())
    for name, path in deciding_sources():
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\0".encode() + content)
    return digest.hexdigest()


NOT_OF_A_RUN = {"run": ("seed", "replications", "engine"), "machine": ("profile",)}


class Run(NamedTuple):
    """One replication that is wanted.

    Attributes
    ----------
    scenario:
        Its `run.seed` and `run.replications` do not matter; `run.engine` decides who simulates.
    profile:
        What things cost; a run that is addressed has a `Profile`.
    seed:
        Of the arrivals.
    draw:
        Which draw of the costs; None: the central ones.
    """

    scenario: Scenario
    profile: CostSource
    seed: int
    draw: int | None = None


class Record(NamedTuple):
    """One row: a replication and its figures.

    Attributes
    ----------
    address:
        What `address_of` says of its run, 64 hexadecimal digits.
    seed, draw:
        As of the run.
    mechanism:
        `server.mechanism` of the scenario.
    profile:
        Its name.
    scenario:
        As canonical JSON, as it counts for the address: `Scenario.check` reads it.
    verdict:
        A `Verdict`.
    figures:
        As of `metrics.metrics_of`.
    code:
        Which code made it: the beginning of its `code_version`.
    """

    address: str
    seed: int
    draw: int | None
    mechanism: str
    profile: str
    scenario: str
    verdict: str
    figures: dict[str, float]
    code: str = ""


def runs_of(scenario: Scenario, profile: CostSource, n: int, draws: int = 0) -> list[Run]:
    """Return *n* replications of *scenario*, then *draws* runs at drawn costs under their seeds."""
    seeds = range(scenario.run.seed, scenario.run.seed + n)
    central = [Run(scenario, profile, seed) for seed in seeds]
    return central + [Run(scenario, profile, seeds[i % n], i) for i in range(draws)]


def address_of(run: Run) -> str:
    """Return the address of *run*: the sha256 of all that decides its figures, in hexadecimal.

    Raises
    ------
    ScenarioError
        If the scenario's trace cannot be read.
    """
    assert isinstance(run.profile, Profile), "of made-up costs there is no address"
    content = {
        "code": code_version(),
        "draw": run.draw,
        "profile": _profile_digest(run.profile),
        "scenario": scenario_json(run.scenario),
        "seed": run.seed,
        "trace": _trace_digest(run.scenario.load.trace),
    }
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def scenario_json(scenario: Scenario) -> str:
    """Return *scenario* as it counts for an address, as JSON with sorted keys.

    >>> load = {"loop": "open", "rate": "2000/s", "requests": 1}
    >>> scenario_json(Scenario.of(server={"mechanism": "poll"}, load=load, run={"seed": 7}))
    '{"load":{"loop":"open","rate":"2000/s"},"server":{"mechanism":"poll"}}'
    """
    content = scenario.model_dump(exclude_defaults=True, exclude_none=True)
    content["server"].pop("workers", None)
    if scenario.server.workers != (loops_by_default(content) or 1):
        content["server"]["workers"] = scenario.server.workers
    for section, keys in NOT_OF_A_RUN.items():
        kept = {key: v for key, v in content.pop(section, {}).items() if key not in keys}
        if kept:
            content[section] = kept
    return _canonical(content)


@functools.lru_cache(maxsize=64)
def _profile_digest(profile: Profile) -> str:
    return hashlib.sha256(_canonical(profile.model_dump(mode="json")).encode()).hexdigest()


def _trace_digest(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        status = Path(name).stat()
        return _file_digest(name, status.st_mtime_ns, status.st_size)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ScenarioError(f"load.trace: must be a readable file, got {name} ({reason})") from None


@functools.lru_cache(maxsize=64)
def _file_digest(name: str, changed_ns: int, size: int) -> str:
    """Return the sha256 of a file; its time and size stand for a change of it."""
    with Path(name).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _canonical(content: Any) -> str:
    """Return the one JSON text of *content*: keys sorted, no spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
