"""`machine.noise`: recordings of the host's gaps beside a profile, in a file, of other machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatchsim.calibration.fit.noise_section import with_noise
from dispatchsim.calibration.profiles.choosing import example_profile
from dispatchsim.calibration.profiles.cost_profile import NOISY, Profile, ProfileError
from dispatchsim.calibration.profiles.gap_recordings import in_order, recordings
from dispatchsim.calibration.records.gap_records import GapsRecord
from dispatchsim.calibration.records.measured_runs import DataError, Gaps, append
from dispatchsim.calibration.records.neighbour_records import NEIGHBOUR_FILE, NeighbourRecord
from dispatchsim.calibration.running.noise import (
    BothSides,
    gaps_of,
    noise_warning,
)
from dispatchsim.calibration.running.preparation import job_of, record_job, settings_of_job
from dispatchsim.scenario.errors import UserError
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.state.host_gaps import HostGaps

SECOND_NS = 1_000_000_000
MACHINE = example_profile().machine_id


def row(cpu: str, beside: str, *at_ns: int, machine: str = MACHINE) -> GapsRecord:
    """Return a recording of gaps of 1 ms in a second."""
    length_ns = [1_000_000] * len(at_ns)
    return GapsRecord.model_validate({
        "date": "2026-11-26", "code": "abc", "machine": machine, "cpu": cpu, "beside": beside,
        "elapsed_ns": SECOND_NS, "median_ns": 1, "p90_ns": 1, "worst_ns": 1_000_000,
        "gaps": Gaps(
            above_ns=5000, n=len(at_ns), lost_ns=sum(length_ns),
            at_ns=list(at_ns), length_ns=length_ns,
        ),
    })  # fmt: skip


def written(path: Path, *rows: GapsRecord) -> str:
    """Write *rows* to *path*; return its name."""
    path.write_text("".join(each.model_dump_json() + "\n" for each in rows))
    return str(path)


def gaps(*at_ns: int) -> HostGaps:
    return HostGaps(at_ns, (1_000_000,) * len(at_ns), SECOND_NS)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A machine's folder with recordings, of the client's CPU two that are named alike."""
    written(
        tmp_path / "gaps.jsonl",
        row("server", "nothing", 10),
        row("server", "spinning", 20),
        row("client", "spinning", 30),
        row("client", "packets", 40),
        row("client", "spinning", 50),
    )
    return tmp_path


def test_as_measured_is_each_sides_last_recording_beside_the_other(measured: Path) -> None:
    profile = with_noise(example_profile(), measured, measured / "mine.toml")
    profile.write(measured / "mine.toml")
    read = Profile.read(measured / "mine.toml")
    assert gaps_of("as measured", read) == BothSides(gaps(20), gaps(50))
    assert gaps_of("client beside packets", read) == BothSides(gaps(40), gaps(40))
    assert gaps_of("none", read) == BothSides()
    # The file itself says the same.
    assert gaps_of(str(measured / "gaps.jsonl"), example_profile()).client == gaps(50)


def test_the_profile_says_how_often_somebody_else_had_the_servers_core(measured: Path) -> None:
    seen = NeighbourRecord(
        date="", code="", machine=MACHINE, cpu="server", beside="spinning", elapsed_ns=1,
        calm_ns=200, busy_share=0.6234,
        busy_ratio=1.414,
    )  # fmt: skip
    append(measured / NEIGHBOUR_FILE, seen, seen.model_copy(update={"cpu": "client"}))
    profile = with_noise(example_profile(), measured, measured / "mine.toml")
    profile.write(measured / "mine.toml")
    read = Profile.read(measured / "mine.toml")
    assert read.noise is not None
    assert (read.noise.core_busy_share, read.noise.core_busy_ratio) == (0.623, 1.41)
    (said,) = read.machine_warnings
    share = "for about 62% of the time the core was most likely shared"
    assert f"{share}, and calls took 1.4 times as long" in said
    assert example_profile().machine_warnings == []
    facts = example_profile().machine | {NOISY: "other work ran beside it"}
    noisy = example_profile().model_copy(update={"machine": facts})
    assert "measured on a noisy machine" in noisy.machine_warnings[0]


def test_a_profile_without_recordings_is_as_before(tmp_path: Path) -> None:
    profile = example_profile()
    assert with_noise(profile, tmp_path, tmp_path / "mine.toml") is profile
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match=r'machine.noise: must be "none" or a file of .* has no '):
        gaps_of("as measured", profile)


def test_gaps_of_one_length_may_be_asked_for() -> None:
    regular = HostGaps((0,), (3_000_000,), SECOND_NS)
    assert gaps_of("3 ms every 1 s", example_profile()) == BothSides(regular, regular)
    with pytest.raises(UserError, match=r"machine.noise: .*got .3 apples"):
        gaps_of("3 apples every 1 s", example_profile())
    with pytest.raises(UserError, match=r"machine.noise: period_ns must hold all gaps"):
        gaps_of("1 s every 1 s", example_profile())


def test_an_unknown_recording_is_refused_with_those_that_there_are(measured: Path) -> None:
    profile = with_noise(example_profile(), measured, measured / "mine.toml")
    profile.write(measured / "mine.toml")
    with pytest.raises(
        UserError, match=r'must be one of "none", "as measured", "server", .* got "x"'
    ):
        gaps_of("x", Profile.read(measured / "mine.toml"))


def test_a_recording_of_another_machine_is_refused_or_named(tmp_path: Path) -> None:
    other = written(tmp_path / "gaps.jsonl", row("server", "nothing", 1, machine="laptop"))
    with pytest.raises(DataError, match=f'that of machine.json, "{MACHINE}", got "laptop"'):
        with_noise(example_profile(), tmp_path, tmp_path / "mine.toml")
    (tmp_path / "gaps.jsonl").unlink()
    watched = NeighbourRecord(
        date="", code="", machine="laptop", cpu="server", beside="spinning", elapsed_ns=1,
        calm_ns=200, busy_share=0.1, busy_ratio=1.4,
    )  # fmt: skip
    append(tmp_path / NEIGHBOUR_FILE, watched)
    with pytest.raises(DataError, match=f'neighbour.jsonl: .*"{MACHINE}", got "laptop"'):
        with_noise(example_profile(), tmp_path, tmp_path / "mine.toml")
    (tmp_path / NEIGHBOUR_FILE).unlink()
    other = written(tmp_path / "gaps.jsonl", row("server", "nothing", 1, machine="laptop"))
    warning = noise_warning(other, example_profile())
    assert warning == (
        f"machine.noise: {other} was recorded on laptop, but the costs are those of {MACHINE}"
    )
    own = written(tmp_path / "own.jsonl", row("server", "nothing", 1))
    assert noise_warning(own, example_profile()) == noise_warning("none", example_profile()) == ""


def test_another_file_beside_the_profile_is_refused(measured: Path) -> None:
    profile = with_noise(example_profile(), measured, measured / "mine.toml")
    profile.write(measured / "mine.toml")
    file = measured / "mine.gaps.jsonl"
    written(file, row("server", "nothing", 1))
    with pytest.raises(ProfileError, match=r"noise.sha256: must be that of mine.gaps.jsonl"):
        gaps_of("as measured", Profile.read(measured / "mine.toml"))
    file.unlink()
    with pytest.raises(ProfileError, match=r"noise.recordings: must be a file beside the profile"):
        gaps_of("as measured", Profile.read(measured / "mine.toml"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "must be a recording of `dispatchsim lab gaps`"),
        ('{"cpu": "server"}', "must be a recording of `dispatchsim lab gaps`"),
        (
            json.dumps({
                "machine": "x", "cpu": "server", "beside": "nothing", "elapsed_ns": -5,
                "gaps": {"at_ns": [-3], "length_ns": [1]},
            }),
            "",
        ),
    ],
)  # fmt: skip
def test_a_broken_file_of_recordings_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "gaps.jsonl"
    path.write_text(line + "\n")
    if problem:
        with pytest.raises(ProfileError, match=f"gaps.jsonl line 1: {problem}"):
            recordings(str(path))
    else:
        assert recordings(str(path))["server"].gaps == HostGaps((), (), 1)


def test_measured_gaps_that_overlap_by_rounding_are_put_in_order() -> None:
    found = in_order([10, 19, 25], [10, 6, 5], 30, is_drawn=False)
    assert found == HostGaps((10, 20, 25), (10, 5, 5), 31, False)


def test_a_run_has_the_gaps_and_other_draws_do_not_move(measured: Path) -> None:
    def scenario(noise: str) -> Scenario:
        return Scenario.of(
            server={"mechanism": "epoll_level"},
            load={"loop": "open", "rate": "2000/s"},
            machine={"noise": noise, "clients": "generator"},
            run={"duration": "300 ms", "warm_up": "100 ms"},
        )

    path = str(measured / "gaps.jsonl")
    noisy, quiet = (job_of(scenario(noise), example_profile(), seed=3) for noise in (path, "none"))
    assert settings_of_job(noisy).server_gaps == gaps(20)
    assert settings_of_job(noisy)._replace(
        server_gaps=HostGaps(), client_gaps=HostGaps()
    ) == settings_of_job(quiet)
    at_ns = [record_job(job)[1].intended_ns.tolist() for job in (noisy, quiet)]
    assert at_ns[0] == at_ns[1]
