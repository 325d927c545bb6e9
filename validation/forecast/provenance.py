"""The provenance of a report section: machine, runs, profile, code."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from ...calibration.profiles.cost_profile import NOISY, Profile
from ...calibration.records.measured_runs import RunRecord, read_rows
from ...calibration.records.noise import judged_by_file

_LIBRARY = Path(__file__).resolve().parents[2]
_BELOW_THE_FRONT_DOOR = ("sim", "models", "scenario", "calibration", "validation")
_SIMULATING = (
    "sim",
    "models",
    "scenario",
    "calibration/points",
    "calibration/profiles",
    "calibration/records",
    "calibration/running",
    "validation/points/figures.py",
)
"""The sources that a run executes, from its job to its metrics: imports of points/figures.py."""


class MachineRuns(NamedTuple):
    """The runs measured on one machine, and the profile that forecasts them.

    The folder is one of `dispatchsim measure machine`: fit.jsonl, heldout.jsonl, machine.json.
    """

    profile_path: Path
    folder: Path

    @property
    def name(self) -> str:
        """The name of the machine in the report."""
        return self.folder.resolve().name


@dataclass(frozen=True)
class Provenance:
    """The provenance of a section; `method` describes how forecasts were made."""

    date: str
    profile: str
    profile_hash: str
    machine: dict[str, Any]
    steering: tuple[str, ...]
    measured_from: str
    measured_to: str
    measured_code: tuple[str, ...]
    version: str
    code: str
    python: str
    method: dict[str, Any]
    n_runs: int
    n_rejected: int
    rejected_by_reason: dict[str, int]
    notices: tuple[str, ...]


@dataclass(frozen=True)
class MeasuredRuns:
    """The runs of a machine, and notices about them.

    `fitted` are the runs of points that a fit may use, `held_out` all others.
    """

    fitted: list[RunRecord]
    held_out: list[RunRecord]
    notices: list[str]

    @property
    def all(self) -> list[RunRecord]:
        """All runs, accepted or rejected."""
        return self.fitted + self.held_out


def read_machine_runs(folder: Path) -> MeasuredRuns:
    """Return the runs in *folder*, each judged with all others of its file.

    Raises
    ------
    ValueError
        If there are none.
    """
    paths = folder / "fit.jsonl", folder / "heldout.jsonl"
    fitted, held_out = (read_rows(path, RunRecord) for path in paths)
    if not fitted.rows and not held_out.rows:
        names = " and ".join(path.name for path in paths)
        raise ValueError(f"a validation needs measured runs, found none in {names} of {folder}")
    missing = [f"{path.name}: no such file" for path in paths if not path.exists()]
    return MeasuredRuns(
        judged_by_file(fitted.rows),
        judged_by_file(held_out.rows),
        [*missing, *fitted.notices, *held_out.notices],
    )


def provenance_of(
    machine: MachineRuns,
    records: Sequence[RunRecord],
    profile: Profile,
    *,
    method: dict[str, Any],
    notices: Sequence[str],
) -> Provenance:
    """Return the provenance of the section on *machine*; notices about the profile come first."""
    facts = _facts(machine.folder / "machine.json")
    rejected = Counter(r.reason.split(" ")[0] or "unknown" for r in records if not r.accepted)
    dates = sorted(record.date for record in records)
    return Provenance(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        profile=profile.name,
        profile_hash=file_hash(machine.profile_path),
        machine=facts,
        steering=tuple(sorted({record.steering for record in records})),
        measured_from=dates[0],
        measured_to=dates[-1],
        measured_code=tuple(sorted({record.code for record in records})),
        version=installed_version(),
        code=source_hash(),
        python=platform.python_version(),
        method=method,
        n_runs=len(records),
        n_rejected=sum(rejected.values()),
        rejected_by_reason=dict(sorted(rejected.items())),
        notices=(*_noisy(facts), *_fitted_elsewhere(profile, facts), *notices),
    )


def _noisy(facts: Mapping[str, object]) -> list[str]:
    """Return a sentence if the facts record that the machine was disturbed."""
    return [f"measured on a noisy machine: {facts[NOISY]}"] if NOISY in facts else []


def _fitted_elsewhere(profile: Profile, facts: Mapping[str, object]) -> list[str]:
    """Return a sentence if *profile* and the runs come from two different machines."""
    theirs, ours = profile.machine.get("id"), facts.get("id")
    if theirs is None or ours is None or theirs == ours:
        return []
    return [f"profile {profile.name} was fitted on {theirs}, the runs are of {ours}"]


def _facts(path: Path) -> dict[str, Any]:
    """Return the machine's facts; empty if they are unreadable."""
    try:
        facts = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def installed_version() -> str:
    """Return the version of the library, or that it is not installed."""
    try:
        return version("dispatchsim")
    except PackageNotFoundError:
        return "not installed"


@functools.cache
def source_hash() -> str:
    """Return twelve hexadecimal digits that change with everything that may change a forecast.

    These are the sources, the headers of the C engine, and the random-number libraries.
    """
    return _hash_of(_BELOW_THE_FRONT_DOOR)


@functools.cache
def simulation_hash() -> str:
    """Return twelve hexadecimal digits that change with everything that may change a simulated run.

    They do not depend on scores, pages or measuring programs, so the simulated runs of a report,
    which take most of its time, stay valid for the next one.
    """
    return _hash_of(_SIMULATING)


def simulating_files() -> list[Path]:
    """Return the files that `simulation_hash` reads."""
    return _files_of(_SIMULATING)


def _files_of(places: Sequence[str]) -> list[Path]:
    """Return the sources in *places* of the library: files, or folders with all files below."""
    found = []
    for place in places:
        path = _LIBRARY / place
        found += [path] if path.is_file() else sorted([*path.rglob("*.py"), *path.rglob("*.h")])
    return found


def _hash_of(places: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for library in ("numpy", "scipy"):
        digest.update(f"{library} {version(library)}".encode() + b"\0")
    for path in _files_of(places):
        name = path.relative_to(_LIBRARY).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def file_hash(path: Path) -> str:
    """Return twelve hexadecimal digits of the content of *path*."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
