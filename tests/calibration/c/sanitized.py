"""The C programs with sanitizers, each source compiled once by whichever worker needs it first.

Undefined behaviour ends such a program with an error, which fails a test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.calibration.c.c_programs import CALIBRATION
from tests.run_cache import in_turn


def sanitized(*names: str) -> Path:
    """Return the folder of the programs *names* of this run of the suite, or skip."""
    missing = [tool for tool in ("gcc", "make") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed, so the C programs cannot be built")
    folder = Path(os.environ["XDG_CACHE_HOME"], "sanitized")
    # Less optimized than the programs that measure: the sanitizers see more, and gcc ends sooner.
    command = ["make", "-s", "-j2", "-C", str(CALIBRATION), "SANITIZE=1", "OPTIMIZE=-O1"]
    with in_turn("sanitized"):
        finished = subprocess.run(
            [*command, f"BUILD={folder}", *(str(folder / name) for name in names)],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert finished.returncode == 0, finished.stderr
    absent = [name for name in names if not (folder / name).is_file()]
    assert not absent, f"make reported success but built no {absent}: is gcc a working compiler?"
    return folder
