"""The first look: measured loads beside forecasts, one picture, one sentence."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from dispatchsim.calibration.points.point import point_at

sys.path.append(str(Path(__file__).parents[3]))

from tests.validation.synthetic_runs import synthetic_run, toy_profile

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


def test_the_demo_has_a_row_a_server_and_names_the_forecast_that_is_wrong(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "SERVERS", (("epoll_level", 0), ("poll", 0)))
    shipped.mkdir()
    # The server with poll was twice as slow when it was measured as its profile has it.
    for mechanism, scale in (("epoll_level", 1.0), ("poll", 2.0)):
        for rate_per_s in (2_000, 8_000, 14_000, 20_000, 30_000):
            point = point_at(mechanism=mechanism, loop="open", rate_per_s=float(rate_per_s))
            run = synthetic_run(point, toy_profile(scale=scale))
            append(shipped / "heldout.jsonl", run)
    output = io.StringIO()
    demonstration.demonstrate(tmp_path / "out", Console(file=output, width=160), workers=1)
    lines = output.getvalue().splitlines()
    assert lines[0].startswith("At which load does p99 exceed 5 ms? Measured on toy")
    heads, _, *rows = (line.split() for line in lines[1:] if line.strip())
    assert heads == ["server", "measured", "forecast", "error"]
    assert [row[0] for row in rows[:2]] == ["epoll_level,", "poll,"]
    errors = [float(row[-1].removesuffix("%")) for row in rows[:2]]
    assert abs(errors[0]) <= 15
    assert errors[1] > 40
    said = " ".join(output.getvalue().split())
    wrong = "1 of 2 forecasts are within 15%; the forecast for poll, 0 idle connections is wrong: "
    assert wrong in said
    assert "hardly changes" not in said  # p99 is as wrong as the load
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["demo.png"]


def test_a_demo_without_measured_runs_says_so(shipped: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no measured runs of toy are shipped"):
        demonstration.demonstrate(tmp_path / "out", Console(file=io.StringIO()), workers=1)
    assert not (tmp_path / "out").exists()
    assert not shipped.exists()


def test_the_shipped_demo_gives_the_reason_of_its_worst_forecast(tmp_path: Path) -> None:
    # p99 of select is flat: a forecast that is too low passes the bound at a far higher load.
    output = io.StringIO()
    demonstration.demonstrate(tmp_path, Console(file=output, width=160), workers=1)
    said = " ".join(output.getvalue().split())
    assert "the forecast for select, 6,000 idle connections is wrong: " in said
    reason = re.search(
        r"Between [\d,]+/s and [\d,]+/s p99 hardly changes with the load \(measured .+, "
        r"forecast .+\)\. So p99 is wrong by a factor of at most (.+), but the load at which it "
        r"exceeds 5 ms is wrong by a factor of (.+)\. picture",
        said,
    )
    assert reason is not None
    assert 1 < float(reason[1]) < float(reason[2])
