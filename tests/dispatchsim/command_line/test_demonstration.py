"""The first look: measured runs beside forecasts, a figure, one what-if."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from dispatchsim.calibration.points.point import point_at

sys.path.append(str(Path(__file__).parents[3]))

from tests.validation.synthetic_runs import SHORT, synthetic_run, toy_profile

from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import append
from dispatchsim.command_line import demonstration
from dispatchsim.scenario.errors import UserError


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ship a toy profile, and let the folder of measured runs be one of this test."""
    profile = toy_profile()
    path = tmp_path / "toy.toml"
    profile.write(path)
    monkeypatch.setattr(demonstration, "example_profile", lambda: Profile.read(path))
    monkeypatch.setattr(demonstration, "measured_folder", lambda: tmp_path)
    return tmp_path / "toy"


def test_the_demo_compares_draws_and_answers(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "LENGTHS", SHORT)
    monkeypatch.setattr(demonstration, "DRAWS", 0)
    monkeypatch.setattr(demonstration, "SEARCHES", 1)
    monkeypatch.setattr(demonstration, "SEARCH_SECONDS", 0.0)
    shipped.mkdir()
    for mechanism in ("poll", "epoll_level"):
        for repeat in range(2):
            point = point_at(mechanism=mechanism, idle=1000, users=64)
            run = synthetic_run(point, toy_profile(), repeat=repeat)
            append(shipped / "heldout.jsonl", run)
    output = io.StringIO()
    demonstration.demonstrate(tmp_path / "out", Console(file=output, width=160), workers=1)
    text = output.getvalue()
    assert "2 points measured on that machine" in text
    assert "at what rate does p99 pass 50 ms?" in text
    assert "meets p99 < 50 ms up to " in text
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["demo.png", "demo.svg"]


def test_a_demo_without_measured_runs_says_so(shipped: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no measured runs of toy are shipped"):
        demonstration.demonstrate(tmp_path / "out", Console(file=io.StringIO()), workers=1)
    assert not (tmp_path / "out").exists()
    assert not shipped.exists()
