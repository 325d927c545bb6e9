"""What the door of the command line makes of warnings, and what its bar says."""

from __future__ import annotations

import io
import math
import subprocess
import sys

import pytest
from rich.console import Console

from dispatchsim.command_line import door

_WARNS = """
import warnings, typer
from dispatchsim.command_line.door import Door
from dispatchsim.sim.native.cache import CacheWarning

app = typer.Typer(cls=Door)

@app.callback()
def several(): ...

@app.command()
def warn():
    warnings.warn("what is compiled cannot be kept", CacheWarning)
    warnings.warn("of another library", UserWarning)

app(["warn"])
"""


def test_a_warning_of_this_package_is_a_sentence_and_others_keep_their_place() -> None:
    # In a Python of its own: pytest collects warnings before anything prints them.
    ended = subprocess.run(
        [sys.executable, "-W", "default", "-c", _WARNS], capture_output=True, text=True, check=True
    )
    lines = ended.stderr.splitlines()
    assert lines[0] == "warning: what is compiled cannot be kept"
    assert lines[1].startswith("<string>:")
    assert lines[1].endswith("UserWarning: of another library")


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ((3, 10, 0, 95.0), "3/10 1 min 35 s left"),
        ((3, 10, 2, 95.0), "3/10 2 known, 1 min 35 s left"),
        ((2, 10, 2, math.nan), "2/10 2 known"),
        ((3, 10), "3/10"),
    ],
)
def test_a_bar_says_what_is_known_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, now: tuple[int, int, int, float], says: str
) -> None:
    console = Console(force_terminal=True, width=100, record=True)
    monkeypatch.setattr(door, "notes", lambda: console)
    with door.progress_bar("searching") as bar:
        bar(*now)
    drawn = console.export_text().splitlines()
    assert any(line.startswith("searching") and line.rstrip().endswith(says) for line in drawn)


def test_a_log_gets_a_line_of_progress_at_times(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=False, width=40, file=io.StringIO(), record=True)
    monkeypatch.setattr(door, "notes", lambda: console)
    with door.progress_bar("searching") as bar:
        bar(1, 10, 0, 95.0)  # half a minute is not over
        monkeypatch.setattr(door, "LOGGED_EVERY_S", 0.0)
        bar(3, 10, 2, 95.0)
        bar(10, 10)
    assert console.export_text() == "searching: 3 of 10, 2 known, 1 min 35 s left\n"
