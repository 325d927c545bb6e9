"""Where everything in a section of a report comes from: machine, runs, profile, code."""

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
"""What a run goes through from its job to its figures: all that points/figures.py imports."""


class MachineRuns(NamedTuple):
    """What was measured on one machine, and the profile that is to forecast it.

    The folder is as `dispatchsim measure` makes it: fit.jsonl, heldout.jsonl, machine.json.
    """

    profile_path: Path
    folder: Path

    @property
    def name(self) -> str:
        """Name of the machine for people."""
        return self.folder.resolve().name


@dataclass(frozen=True)
class Provenance:
    """Where everything in a section comes from; `method` says how forecasts were made."""

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
    """The runs of a machine, and what to tell the user about them.

    `fitted` are those of the points that a fit may use, `held_out` all others.
    """

    fitted: list[RunRecord]
    held_out: list[RunRecord]
    notices: list[str]

    @property
    def all(self) -> list[RunRecord]:
        """Every run, accepted or not."""
        return self.fitted + self.held_out


def read_machine_runs(folder: Path) -> MeasuredRuns:
    """Return the runs in *folder*, each judged beside all others of its file.

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
    """Return where the section on *machine* comes from; notices about the profile come first."""
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
    """Return a sentence if whoever measured the machine says that it was disturbed."""
    return [f"measured on a noisy machine: {facts[NOISY]}"] if NOISY in facts else []


def _fitted_elsewhere(profile: Profile, facts: Mapping[str, object]) -> list[str]:
    """Return a sentence if *profile* and the runs are known to be of two machines."""
    theirs, ours = profile.machine.get("id"), facts.get("id")
    if theirs is None or ours is None or theirs == ours:
        return []
    return [f"profile {profile.name} was fitted on {theirs}, the runs are of {ours}"]


def _facts(path: Path) -> dict[str, Any]:
    """Return the machine's facts, nothing where they cannot be read."""
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
    """Return twelve hexadecimal digits that change with all that may decide a forecast.

    These are the sources, the headers of the C engine, and the libraries that draw numbers.
    """
    return _hash_of(_BELOW_THE_FRONT_DOOR)


@functools.cache
def simulation_hash() -> str:
    """Return twelve hexadecimal digits that change with all that may decide a simulated run.

    They stay the same if scores, pages or the way of measuring change: what was simulated for a
    report, which takes most of its time, stays good for the next one.
    """
    return _hash_of(_SIMULATING)


def simulating_files() -> list[Path]:
    """Return the files that `simulation_hash` reads."""
    return _files_of(_SIMULATING)


def _files_of(places: Sequence[str]) -> list[Path]:
    """Return the sources in *places* of the library: files, or folders with all below them."""
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
