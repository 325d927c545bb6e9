"""Compile with gcc what is not in the cache yet, and move it there whole."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...sim.native.compiler import first_error
from .errors import TargetError


def compiled(target: Path, arguments: Sequence[str], *, name: str, seconds_max: float) -> Path:
    """Return *target*, which gcc made of *arguments* if it was not there.

    *name* is what does not build, for people.

    Raises
    ------
    TargetError
        If a source does not compile.
    """
    if target.is_file():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        built = Path(scratch, target.name)
        finished = subprocess.run(
            ["gcc", *arguments, "-o", str(built)],
            capture_output=True, text=True, timeout=seconds_max, check=False,
        )  # fmt: skip
        if finished.returncode != 0:
            raise TargetError(f"{name} does not build: {first_error(finished.stderr, 'gcc')}")
        os.replace(built, target)
    return target
