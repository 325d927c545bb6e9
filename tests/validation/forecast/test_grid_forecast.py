"""The forecasts of a campaign's grid, written before it is measured, and set beside it after."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.lab import lab

from dispatchsim.calibration.points.points import held_out_points
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import DataError
from dispatchsim.validation.forecast.forecast import forecast
from dispatchsim.validation.forecast.grid_forecast import (
    GridForecast,
    forecast_grid,
    read_forecast,
    write_forecast,
)
from dispatchsim.validation.forecast.provenance import file_hash

CAPACITY_PER_S = 300.0


@pytest.fixture(scope="module")
def profile_path(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> Path:
    path = tmp_path_factory.mktemp("profile") / "toy.toml"
    profile.write(path)
    return path


@pytest.fixture(scope="module")
def made(profile_path: Path) -> GridForecast:
    return forecast_grid(
        profile_path, CAPACITY_PER_S, quick=True, mechanisms=["poll", "blocking"], draws=0
    )


def test_every_point_that_has_prices_is_forecast_as_its_first_three_repeats(
    made: GridForecast, profile_path: Path
) -> None:
    points = held_out_points(CAPACITY_PER_S, quick=True, mechanisms=["poll"])
    assert list(made.forecasts) == points
    blocking = held_out_points(CAPACITY_PER_S, quick=True, mechanisms=["blocking"])
    assert made.made["not_forecast"] == len(blocking) > 0
    point = next(point for point in points if point.load.loop == "open")
    seeds = [point.seed(repeat) for repeat in range(3)]
    alone = forecast(point, Profile.read(profile_path), seeds=seeds, draws=0)
    assert made.forecasts[point].central == alone.central


def test_a_file_says_what_it_was_made_from_and_is_read_as_written(
    made: GridForecast, profile_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "forecast.json"
    write_forecast(made, path)
    content = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert content["profile_hash"] == file_hash(profile_path)
    assert content["capacity_per_s"] == CAPACITY_PER_S
    assert {"date", "code", "version"} <= set(content)
    again = read_forecast(path)
    assert again.made == made.made
    assert repr(again.forecasts) == repr(made.forecasts)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "forecast.json"
    path.write_text('{"format": "dispatchsim-scores/2"}')
    with pytest.raises(DataError, match=r'format must be "dispatchsim-grid-forecast/1", got'):
        read_forecast(path)
    path.write_text("[]")
    with pytest.raises(DataError, match="must be forecasts of a grid"):
        read_forecast(path)


def test_the_command_writes_the_file(tmp_path: Path, profile_path: Path) -> None:
    output = tmp_path / "forecast.json"
    few = ("--quick", "--mechanisms", "poll", "--cost-samples", 0)
    options = (*few, "--workers", 1, "--output", output)
    done = lab("forecast-grid", profile_path, "--capacity", "300/s", *options)
    assert done.exit_code == 0, done.output
    assert done.stdout.rstrip().endswith("5 points")
    assert len(read_forecast(output).forecasts) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--capacity", "42"), "--capacity: "),
        (("--capacity", "0/s"), "capacity_per_s must be above 0"),
        (("--capacity", "9/s", "--mechanisms", "pol"), "--mechanisms: must be one of"),
        (
            ("--capacity", "900/s", "--mechanisms", "blocking"),
            "must have costs for a mechanism of the grid",
        ),
    ],
)
def test_what_cannot_be_forecast_ends_with_a_sentence(
    tmp_path: Path, profile_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = lab("forecast-grid", profile_path, *options, "--output", tmp_path / "forecast.json")
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "forecast.json").exists()
