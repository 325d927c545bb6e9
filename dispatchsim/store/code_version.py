"""Which code decides a result: a hash of the sources that a run goes through.

    sim/, models/                       the simulator
    what reads and prices a scenario    ─► sha256 ─► part of every address, and checked on a cluster
    NumPy, which draws the arrivals

A change of any of them makes new addresses, so that a store never mixes results of two versions.
What only shows results (tables, figures, commands) is not part of it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .. import calibration, models, scenario, sim

_STATISTICS = "output_analysis"  # of sim/: what is said of runs, and not in them
CODE_DIGITS = 12
"""Of a version, where people read it."""

_SOURCES = {
    "sim": (Path(sim.__file__).parent, "**/*.py"),
    "models": (Path(models.__file__).parent, "**/*.py"),
    "scenario": (Path(scenario.__file__).parent, "*.py"),
    "profiles": (Path(calibration.__file__).parent / "profiles", "*.py"),
    "running": (Path(__file__).parents[1] / "running", "*.py"),
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
