"""The load at which signals begin to be lost: of shipped runs, and of the same runs simulated."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab import lab
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.points.points import FIT_POINT, HARDWARE, held_out_points
from dispatchsim.calibration.profiles.cost_profile import shipped_profiles
from dispatchsim.validation.overload.overflow_onset import is_of_onset, onset

NAME = "counted-linux-6.1-unmerged"
MEASURED = Path(__file__).parents[3] / "calibration" / "measured" / NAME


@pytest.mark.parametrize(
    ("loads", "found"),
    [
        ([(100.0, 0), (110.0, 0), (120.0, 3), (130.0, 0)], (110.0, 120.0)),
        ([(100.0, 2)], (0.0, 100.0)),
        ([(100.0, 0)], (100.0, float("inf"))),
    ],
)
def test_the_onset_is_between_two_loads(
    loads: list[tuple[float, int]], found: tuple[float, float]
) -> None:
    assert onset(loads) == found


def test_the_simulated_onset_is_the_measured_one() -> None:
    done = lab("overflow-onset", MEASURED, "--profile", shipped_profiles()[NAME])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    loads = [[float(word.replace(",", "")) for word in line.split()] for line in lines[2:-2]]
    assert len(loads) > 10
    measured, simulated = (
        onset([(load[0], int(load[column])) for load in loads]) for column in (1, 2)
    )
    assert simulated == measured  # 10% was wanted; a step of the loads is 2%


def test_on_hardware_the_onset_is_of_the_small_grid_and_the_loads_between() -> None:
    run = synthetic_run(point_at(mechanism="poll", users=1), toy_profile())
    points = [FIT_POINT, *held_out_points(20_000)]
    of_onset = [p for p in points if is_of_onset(run.model_copy(update={"point": p}))]
    assert set(HARDWARE.points("held_out", "onset", capacity_per_s=20_000)) < set(of_onset)
    assert len(of_onset) == 9
    assert {(point.load.loop, point.idle.connections) for point in of_onset} == {("open", 0)}


def test_a_folder_without_such_runs_is_refused(tmp_path: Path) -> None:
    done = lab("overflow-onset", tmp_path, "--profile", NAME)
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {tmp_path}: must hold accepted runs in which RT signals begin to overflow: "
        f"`dispatchsim measure machine heldout --output {tmp_path}` writes them\n"
    )
