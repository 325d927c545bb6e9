"""What an effect is worth on a machine, told by runs that were made with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab import lab
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.points.points import FIT_POINT
from dispatchsim.calibration.profiles.cost import Cost
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import DataError, append
from dispatchsim.validation.report.ablation import effect_lines

OPEN = [point_at(mechanism="epoll_level", loop="open", rate_per_s=r) for r in (4_000, 6_000)]


def cold_profile() -> Profile:
    """Return a profile in which a handshake alone takes 20 us more."""
    toy = toy_profile()
    ns = (20_000.0,)
    cold = Cost(at=(0,), value=ns, low=ns, high=ns, residual=0, source="made up")
    interrupt = {**toy.cost["interrupt"], "cold_ns": cold}
    return toy.model_copy(update={"cost": {**toy.cost, "interrupt": interrupt}})


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"heldout\.jsonl: must hold accepted runs, got none"):
        list(effect_lines(tmp_path, toy_profile(), (), 1))
    done = lab("ablation", tmp_path, "--profile", "epyc-family25-2cpu-linux-6.18")
    assert (done.exit_code, done.stderr) == (
        2,
        f"error: {tmp_path}/heldout.jsonl: the file is missing or empty; "
        f"`dispatchsim measure machine heldout --output {tmp_path}` writes it\n",
    )


def test_runs_with_an_effect_are_forecast_with_it_and_not_without(tmp_path: Path) -> None:
    profile = cold_profile()
    append(tmp_path / "fit.jsonl", synthetic_run(FIT_POINT, profile))
    closed = point_at(mechanism="epoll_level", users=8)
    append(tmp_path / "heldout.jsonl", *(synthetic_run(p, profile) for p in (closed, *OPEN)))
    heading, *lines = effect_lines(tmp_path, profile, [], 1)
    assert heading.split()[-2:] == ["without", "with"]
    assert {line.split()[0] for line in lines} == {"cold-handshakes"}
    (cpu,) = (line.split() for line in lines if "CPU busy" in line)
    assert cpu[-3] == "2"  # points
    assert cpu[-1] == "+0.0%"
    assert -50 < float(cpu[-2].rstrip("%")) < -2
