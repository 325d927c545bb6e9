"""A requested replication, its row of results, and the address of both.

    scenario ──┐
    profile  ──┤
    seed     ──┼─► canonical JSON ─► sha256 ─► address
    draw     ──┤
    code     ──┘

The address depends on values, not on their spelling or on the place of files. A scenario counts
without `run.seed`, `run.replications` and `run.engine` (a run has its own seed, and all engines
give the same results), without `machine.profile` (the profile itself counts), and without keys set
to their default. A trace counts by its content and its name.

Rows hold no wall time, host or worker: the same run makes the same row everywhere.

The code is a hash of the sources that a run uses:

    sim/ without output_analysis/, models/     the simulator
    scenario/, calibration/profiles/           the scenario, and its costs        ─► sha256
    calibration/running/, points/point.py      from both to an engine
    NumPy, which samples the arrivals

It is part of every address, and checked on a cluster. A change of any of these files makes new
addresses, so a store never mixes results of two versions. Some of the files affect no result
(formats of numbers and tables, texts about metrics): a change of these only repeats runs. Studies,
pictures and commands are not part of the hash.
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

_STATISTICS = "output_analysis"  # in sim/: statistics of runs, not part of them
CODE_DIGITS = 12
"""Digits of a version in messages and tables."""

_SOURCES = {
    "sim": (Path(sim.__file__).parent, "**/*.py"),
    "models": (Path(models.__file__).parent, "**/*.py"),
    "scenario": (Path(scenario.__file__).parent, "*.py"),
    "profiles": (Path(calibration.__file__).parent / "profiles", "*.py"),
    "points": (Path(calibration.__file__).parent / "points", "point.py"),
    "running": (Path(calibration.__file__).parent / "running", "*.py"),
}


def deciding_sources() -> Iterator[tuple[str, Path]]:
    """Yield the source files that affect results, each with a name independent of installation."""
    for name, (folder, pattern) in _SOURCES.items():
        for path in sorted(folder.glob(pattern)):
            if _STATISTICS in path.parts:
                continue
            yield f"{name}/{path.relative_to(folder).as_posix()}", path


@functools.cache
def code_version() -> str:
    """Return the hash of the code that affects results, as it was at the first call."""
    digest = hashlib.sha256(np.__version__.encode())
    for name, path in deciding_sources():
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\0".encode() + content)
    return digest.hexdigest()


NOT_OF_A_RUN = {"run": ("seed", "replications", "engine"), "machine": ("profile",)}


class Run(NamedTuple):
    """One requested replication.

    Attributes
    ----------
    scenario:
        Its `run.seed` and `run.replications` do not matter; `run.engine` selects the engine.
    profile:
        The costs; a run with an address has a `Profile`.
    seed:
        Seed of the arrivals.
    draw:
        Number of the cost sample; None: central costs.
    """

    scenario: Scenario
    profile: CostSource
    seed: int
    draw: int | None = None


class Record(NamedTuple):
    """One row: a replication and its metrics.

    Attributes
    ----------
    address:
        The `address_of` its run, 64 hexadecimal digits.
    seed, draw:
        As in the run.
    mechanism:
        `server.mechanism` of the scenario.
    profile:
        Its name.
    scenario:
        The part that counts for the address, as canonical JSON; `Scenario.check` reads it.
    verdict:
        A `Verdict`.
    figures:
        As from `metrics.metrics_of`.
    code:
        The beginning of the `code_version` that made it.
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
    """Return *n* replications of *scenario*, then *draws* runs at cost samples with these seeds."""
    seeds = range(scenario.run.seed, scenario.run.seed + n)
    central = [Run(scenario, profile, seed) for seed in seeds]
    return central + [Run(scenario, profile, seeds[i % n], i) for i in range(draws)]


def address_of(run: Run) -> str:
    """Return the address of *run*: the sha256 of all inputs that affect its results, as hex.

    Raises
    ------
    ScenarioError
        If the scenario's trace cannot be read.
    """
    assert isinstance(run.profile, Profile), "made-up costs have no address"
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
    """Return the part of *scenario* that counts for an address, as JSON with sorted keys.

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
    """Return the sha256 of a file, cached until its time or size changes."""
    with Path(name).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _canonical(content: Any) -> str:
    """Return the canonical JSON text of *content*: keys sorted, no spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
