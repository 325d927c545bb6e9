"""The measured side of the CPU ledger is a file for each profiled point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.validation.synthetic_runs import SHORT

from dispatchsim.calibration.points.point import point_at, stored
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import DataError
from dispatchsim.sim.state.kinds import Activity
from dispatchsim.validation.noise_free.ledger import by_activity, ledgers, read_profiles
from dispatchsim.validation.noise_free.run_forecast import noise_free_job, simulated

POINT = point_at(mechanism="epoll_level", users=8)


def content_of(profile: Profile, **changes: Any) -> dict[str, Any]:
    """Return a file's content that says of instructions what the simulator says of time."""
    forecast = simulated(noise_free_job(POINT, POINT.seed(0), SHORT, profile))
    spent = dict(forecast.ledger_ns, tick=12.5)
    return {
        "format": "dispatchsim-instructions/1",
        "point": stored(POINT),
        "repeat": 0,
        "replies": 100,
        "warm_up_ns": SHORT.warm_up_ns,
        "window_ns": SHORT.window_ns,
        "busy_ns": 100 * 40_000,
        "activities": spent,
        "functions": {"do_syscall_64": 88.5},
        "inclusive": {},
        **changes,
    }


def write(folder: Path, content: object) -> Path:
    (folder / "a.json").write_text(json.dumps(content))
    return folder


def test_instructions_stand_beside_the_same_run_simulated(profile: Profile, tmp_path: Path) -> None:
    (found,) = ledgers(read_profiles(write(tmp_path, content_of(profile))), profile)
    assert found.measured.pop("tick") == 12.5
    assert found.simulated.pop("tick") == 0
    assert found.measured == found.simulated
    assert found.measured["watch"] > 0
    assert (found.source, found.busy_ns) == ("a.json", 40_000)


def test_parts_of_an_activity_are_put_together() -> None:
    whole = by_activity({"watch": 1, "rewatch": 2, "unwatch": 4, "interrupt_idle": 8})
    assert (whole["watch"], whole["interrupt"], whole["read"]) == (7, 8, 0)


def test_no_folder_is_no_profile(tmp_path: Path) -> None:
    assert read_profiles(tmp_path / "instructions") == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "x/1"}, r"a\.json: format is 'x/1', this version reads"),
        ({"replies": 0}, r"a\.json: field replies: .* greater than or equal to 1"),
        ({"activities": {"idling": 1.0}}, r'a\.json: activities: must be of user, .* got "idling"'),
        ({"point": {"mechanism": "poll"}}, r"a\.json: field point: .*load\.users: is missing"),
    ],
)
def test_a_broken_file_is_named(
    profile: Profile, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = write(tmp_path, content_of(profile, **changes))
    with pytest.raises(DataError, match=message):
        read_profiles(folder)


def test_what_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match=r"a\.json: not JSON"):
        read_profiles(tmp_path)


def test_every_activity_of_the_simulator_has_its_place() -> None:
    of_no_server = (Activity.IDLE, Activity.CONNECT)
    spent = {each.name.lower(): 1.0 for each in Activity if each not in of_no_server}
    assert sum(by_activity(spent).values()) == len(spent)
