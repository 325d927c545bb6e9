"""A machine that is made up is recorded, refused where it is too noisy, and asked again later."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.calibration.records.test_gap_records import gaps, record

from dispatchsim.calibration.measure.campaign import Campaign, CampaignError, CampaignProgress
from dispatchsim.calibration.measure.quietness import check_quiet
from dispatchsim.calibration.records.gap_records import GAPS_FILE, GapsRecord
from dispatchsim.calibration.records.measured_runs import DataError, append, read_rows
from dispatchsim.calibration.records.neighbour_records import NEIGHBOUR_FILE, NeighbourRecord


def neighbour(busy_share: float, busy_ratio: float = 1.41, **fields: str) -> NeighbourRecord:
    usual = {"cpu": "server", "beside": "spinning", "machine": "epyc", "date": "", "code": ""}
    numbers = {
        "elapsed_ns": 1, "calm_ns": 200.0, "busy_share": busy_share, "busy_ratio": busy_ratio,
    }  # fmt: skip
    return NeighbourRecord.model_validate(usual | fields | numbers)


class MadeUp:
    """A machine of which the server's CPU lacks `lost_ns` of a second, and a core `busy_share`."""

    def __init__(self, *, lost_ns: int = 2_000_000, busy_share: float = 0.1) -> None:
        self.lost_ns, self.busy_share = lost_ns, busy_share
        self.recorded: list[str] = []
        self.said: list[str] = []
        self.notices: list[str] = []

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        self.recorded.append("gaps, quick" if quick else "gaps")
        return [record(gaps([10**6], [self.lost_ns]))]

    def neighbours(self, *, quick: bool) -> list[NeighbourRecord]:
        self.recorded.append("neighbours, quick" if quick else "neighbours")
        return [neighbour(0.9, cpu="client", beside="nothing"), neighbour(self.busy_share)]

    def check(self, folder: Path, *, quick: bool = False, anyway: bool = False) -> None:
        def say(progress: CampaignProgress) -> None:
            self.said.append(progress.note)

        campaign = Campaign(lambda _: [], say)
        check_quiet(folder, "epyc", self, campaign, quick=quick, anyway=anyway)
        self.notices = campaign.summary.notices


def test_a_quiet_machine_is_recorded_once_and_reported_each_time(tmp_path: Path) -> None:
    first, again = MadeUp(), MadeUp()
    first.check(tmp_path, quick=True)
    again.check(tmp_path)
    assert (first.recorded, again.recorded) == (["gaps, quick", "neighbours, quick"], [])
    for each in (first, again):
        assert any(note.startswith("the server's CPU loses 0.2%") for note in each.said)
        assert any("server's CPU, with the other CPU busy: for 10%" in note for note in each.said)
        assert each.notices == []


def test_cores_that_are_shared_over_half_of_the_time_are_refused(tmp_path: Path) -> None:
    busy = MadeUp(busy_share=0.62)
    message = (
        "^the machine's cores are too busy to measure: server's CPU, with the other CPU busy: for "
        "62% of the time calls take 1.4 times as long; the limit is 50% of the time, .*"
        "or measure at another time; use --anyway to measure it anyway$"
    )
    with pytest.raises(CampaignError, match=message):
        busy.check(tmp_path)
    assert not (tmp_path / NEIGHBOUR_FILE).exists()
    busy.check(tmp_path, anyway=True)
    assert busy.notices[0].startswith("the machine's cores are too busy")
    (tmp_path / "half").mkdir()
    MadeUp(busy_share=0.5).check(tmp_path / "half")


@pytest.mark.parametrize("noise", [{"lost_ns": 80_000_000}, {"busy_share": 0.7}])
def test_a_folder_that_was_measured_anyway_is_judged_by_a_new_recording(
    tmp_path: Path, noise: dict[str, int]
) -> None:
    file, kind = (
        (GAPS_FILE, GapsRecord) if "lost_ns" in noise else (NEIGHBOUR_FILE, NeighbourRecord)
    )
    noisy = MadeUp(**noise)
    noisy.check(tmp_path, anyway=True)
    n_kept = len(read_rows(tmp_path / file, kind).rows)
    with pytest.raises(CampaignError, match=r"^the machine.* too "):
        MadeUp(**noise).check(tmp_path)
    assert len(read_rows(tmp_path / file, kind).rows) == n_kept
    again = MadeUp(**noise)
    again.check(tmp_path, anyway=True)
    assert again.recorded == []
    quieter = MadeUp()
    quieter.check(tmp_path)
    assert quieter.notices == []
    assert len(read_rows(tmp_path / file, kind).rows) == 2 * n_kept
    MadeUp(**noise).check(tmp_path)  # the last recording counts


@pytest.mark.parametrize("file", [GAPS_FILE, NEIGHBOUR_FILE])
def test_recordings_of_another_machine_are_refused(tmp_path: Path, file: str) -> None:
    foreign = {
        GAPS_FILE: record(gaps([1], [1])).model_copy(update={"machine": "vax"}),
        NEIGHBOUR_FILE: neighbour(0.1, machine="vax"),
    }
    append(tmp_path / file, foreign[file])
    with pytest.raises(DataError, match=f'^{file}: field machine must be .*"epyc", got "vax"'):
        MadeUp().check(tmp_path, anyway=True)
