"""Calls for each request: those of the shipped runs of one user, and of the same runs simulated."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab import lab

from dispatchsim.calibration.profiles.cost_profile import Profile, shipped_profiles
from dispatchsim.calibration.records.measured_runs import RunRecord, read_rows
from dispatchsim.validation.noise_free.call_counts import CallsOfRun, calls_of

NAME = "counted-linux-6.1-unmerged"
MEASURED = Path(__file__).parents[3] / "calibration" / "measured" / NAME
PROFILE = shipped_profiles()[NAME]
ONE_USER = [
    run for run in read_rows(MEASURED / "heldout.jsonl", RunRecord).rows if run.point.users == 1
]


@pytest.mark.parametrize("record", ONE_USER, ids=lambda record: record.point.label)
def test_a_model_makes_the_calls_of_the_c_server(record: RunRecord) -> None:
    run = calls_of(record, Profile.read(PROFILE))
    assert run.n_requests > 1_000
    assert run.measured["accepts"] > 0
    # Who is told of all that can be written waits all the time: how often is a matter of time.
    spins = {"waits", "asks"} if run.record.point.server.mechanism == "epoll_once" else set()
    assert set(run.unequal) <= spins


def test_there_is_such_a_run_of_every_mechanism_twice() -> None:
    of = [run.point.server.mechanism for run in ONE_USER]
    assert len(of) == 2 * len(set(of)) == 26


def test_one_call_in_a_hundred_requests_is_seen() -> None:
    run = calls_of(ONE_USER[0], Profile.read(PROFILE))
    assert run.unequal == []
    more = {**run.simulated, "reads": run.simulated["reads"] + 0.01}
    other = CallsOfRun(run.record, run.n_requests, run.measured, more)
    assert other.unequal == ["reads"]
    assert 0 < other.error < 0.01


def test_a_folder_without_runs_of_a_counted_target_is_refused(
    tmp_path: Path,
) -> None:
    done = lab("call-counts", tmp_path, "--profile", PROFILE)
    assert done.exit_code == 2
    assert done.stderr == (
        f"error: {tmp_path}: must hold accepted runs of the emulated target, which counts calls: "
        f"`dispatchsim measure machine --target emulated --output {tmp_path}` writes them\n"
    )
