"""A made-up profile: round costs, so that these tests depend on no measurement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from typer.testing import CliRunner, Result

from dispatchsim.calibration.points.points import MECHANISMS
from dispatchsim.calibration.profiles.cost import MECHANISM_TABLES, SHARED_TABLES, unit_of
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.command_line.app import app
from dispatchsim.sim.state.costs import Curve

SCENARIO = """
[server]
mechanism = "epoll_level"
[load]
loop = "open"
rate = "2000/s"
[run]
duration = "60 ms"
warm_up = "10 ms"
replications = 3
"""


def profile_content(*, without: str = "") -> dict[str, Any]:
    """Return a profile in which a call costs 1 us and a scanned descriptor 50 ns.

    It prices three mechanisms: a comparison compiles the engine of each that has prices.
    """
    tables: dict[str, dict[str, Any]] = {}
    priced = {name: MECHANISM_TABLES[name] for name in MECHANISMS}
    for table, kind in {**SHARED_TABLES, **priced}.items():
        if table != without:
            tables[table] = {
                name: _cost(table, name, is_curve=hint is Curve)
                for name, hint in get_type_hints(kind).items()
                # No cost per descriptor: a distribution, and curves over microseconds of idleness.
                if name not in ("way", "idle_exit_since") and table != "cold"
            }
    return {
        "format": "dispatchsim-profile/1",
        "name": "made-up",
        "machine": {"cpu_model": "none"},
        "range": {"open_connections_max": 2000},
        "cost": tables,
    }


def _cost(table: str, name: str, *, is_curve: bool) -> dict[str, Any]:
    value = [0.0, 50_000.0] if is_curve else [1000.0]
    return {
        "unit": unit_of(table, name),
        "at": [0, 1000] if is_curve else [0],
        "value": value,
        "low": [0.97 * v for v in value],
        "high": [1.03 * v for v in value],
        "residual": 0.01,
        "source": "made up",
    }


@pytest.fixture(scope="session")
def profile() -> Profile:
    return Profile.model_validate(profile_content())


@pytest.fixture(scope="session")
def profile_path(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profiles") / "made-up.toml"
    profile.write(path)
    return path


@pytest.fixture
def scenario_path(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that calls the command line in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call
