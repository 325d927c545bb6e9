"""The benchmark prints a table; how fast the engine is, it leaves to the reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatchsim.calibration.cost_profile import Profile
from dispatchsim.validation.benchmark import Case, main, time_case


def test_every_case_is_a_row(
    tmp_path: Path, profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    profile.write(tmp_path / "toy.toml")
    main(
        [
            *("--profile", str(tmp_path / "toy.toml"), "--connections", "300"),
            *("--repetitions", "2", "--idle", "0", "1000"),
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert "SimPy" in lines[0]
    rows = [line.split()[:2] for line in lines if line.split()[:1] and "idle" not in line]
    for idle in ("0", "1,000"):
        mechanisms = [row[0] for row in rows if row[1:] == [idle]]
        # An open and a closed loop each.
        assert mechanisms == ["select", "select", "poll", "poll", "epoll_level", "epoll_level"]


def test_nearly_all_connections_of_a_case_are_answered(profile: Profile) -> None:
    costs = profile.costs("poll", open_connections=50_000, free_clients=True)
    timed = time_case(Case("poll", 50_000, 0), costs, 1_000)
    assert 900 < timed.n_replied < 1_100


@pytest.mark.parametrize(
    "option", [["--connections", "0"], ["--repetitions", "0"], ["--idle", "-1"]]
)
def test_a_value_out_of_range_is_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(option)
    assert "must be at least" in capsys.readouterr().err
