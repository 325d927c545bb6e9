"""Python in a process of its own: for what is decided when it starts, or what ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

# Helpers of tests, by their path from the root of the repository; other packages install a
# folder of that name, too.
PRELUDE = f"""
import sys
import types

sys.modules["tests"] = types.ModuleType("tests")
sys.modules["tests"].__path__ = [{str(ROOT / "tests")!r}]
"""


def start(script: str, **variables: str) -> subprocess.Popen[str]:
    """Start *script* with more environment *variables*; an empty one is taken away."""
    environment = {**os.environ, **variables}
    for name in [name for name, value in environment.items() if not value]:
        del environment[name]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PRELUDE + script],
        cwd="/",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(child: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what *child* printed, and its messages, when it has ended as it should."""
    with child:
        try:
            printed, messages = child.communicate(timeout=300)
        finally:
            child.kill()
    assert child.returncode == 0, messages
    return printed, messages


def run(script: str, **variables: str) -> tuple[str, str]:
    """Run *script* to its end; return what it printed, and its messages."""
    return finished(start(script, **variables))
