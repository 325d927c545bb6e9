"""A campaign on a machine that is made up: which points it repeats, which loads it refuses."""

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from tests.calibration.records.test_gap_records import gaps, record
from tests.calibration.records.test_precision import runs
from tests.validation.forecast.test_hour_prices import micro

from dispatchsim.calibration.measure import target as hardware
from dispatchsim.calibration.measure.campaign import CampaignError, CampaignProgress
from dispatchsim.calibration.measure.machine_campaigns import Kind, run_campaign
from dispatchsim.calibration.measure.macro import Timing
from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.records.gap_records import GAPS_FILE, GapsRecord
from dispatchsim.calibration.records.measured_runs import MicroResult, RunRecord, append, read_rows
from dispatchsim.calibration.records.neighbour_records import NeighbourRecord
from dispatchsim.calibration.records.noise import judged_by_file
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.machine_facts import Fact
from dispatchsim.calibration.testbed.testbed import Testbed

QUIET = point_at(mechanism="poll", users=16)
NOISY = point_at(mechanism="poll", loop="open", rate_per_s=20_000)


class MadeUp(hardware.HardwareTarget):
    """A machine whose runs are made up: those of NOISY scatter by a tenth."""

    def __init__(self, offered: float = 1.0) -> None:
        testbed = Testbed("loopback", "127.0.0.1")
        super().__init__(testbed, Programs(Path(), ""), Timing(), ("poll",))
        self.offered = offered
        self.asked: list[Point] = []
        self.points = [QUIET, NOISY]
        self.lost_ns = 2_000_000
        self.quickly: bool | None = None

    def facts(self) -> dict[str, Fact]:
        return super().facts() | {"id": "epyc"}

    def held_out(self, *_: object, **__: object) -> list[Point]:
        return self.points

    def gaps(self, *, quick: bool) -> list[GapsRecord]:
        self.quickly = quick
        return [record(gaps([10**6], [self.lost_ns])), record(gaps([10**6], [10**6]))]

    def neighbours(self, **_: object) -> list[NeighbourRecord]:
        return []

    def run_bench(self, command: str, round_number: int) -> list[MicroResult]:
        return [micro(command, 1.0, round_number=round_number)]

    def offers(self, point: Point) -> float:
        self.asked.append(point)
        return 1.0 if point.keeps else self.offered

    def run_point(self, point: Point, repeat: int) -> RunRecord:
        replied = 10_000 + (1000 * (repeat % 3 - 1) if point == NOISY else 0)
        (run,) = runs(replied)
        return run.model_copy(update={"point": point, "repeat": repeat, "steering": "loopback"})


def test_a_point_that_is_known_is_measured_no_further(tmp_path: Path) -> None:
    summary = run_campaign(MadeUp(), kind="heldout", output=tmp_path, repeats=6, within=0.03)
    measured = Counter(run.point for run in read_rows(tmp_path / "heldout.jsonl", RunRecord).rows)
    assert measured == {QUIET: 3, NOISY: 6}
    known, _, needed = summary.notices[-1].partition("; ")
    assert known == "1 of 2 points are known to 3%"
    assert needed.startswith("half of the others with 3 runs need at most ")
    again = run_campaign(MadeUp(), kind="heldout", output=tmp_path, repeats=6, within=0.03)
    assert again.measured == 0


def test_without_a_bound_all_points_have_all_rounds(tmp_path: Path) -> None:
    run_campaign(MadeUp(), kind="heldout", output=tmp_path, repeats=4)
    measured = Counter(run.point for run in read_rows(tmp_path / "heldout.jsonl", RunRecord).rows)
    assert measured == {QUIET: 4, NOISY: 4}


def test_loads_beyond_the_generator_are_refused_unless_asked_for(tmp_path: Path) -> None:
    slow = MadeUp(offered=0.6)
    message = (
        r"^the load generator of this machine begins 60% of the highest held-out load "
        r"\(20000 connections/s\)"
    )
    with pytest.raises(CampaignError, match=message):
        run_campaign(slow, kind="heldout", output=tmp_path, repeats=1)
    assert [point.rate_per_s for point in slow.asked] == [20_000]
    assert not (tmp_path / "heldout.jsonl").exists()
    run_campaign(slow, kind="heldout", output=tmp_path, repeats=1, anyway=True)
    assert len(read_rows(tmp_path / "heldout.jsonl", RunRecord).rows) == 2
    with pytest.raises(CampaignError, match=message):
        run_campaign(slow, kind="heldout", output=tmp_path, repeats=2)
    assert len(slow.asked) == 1  # the answer is kept


def test_loads_over_kept_connections_are_asked_for_and_refused_too(tmp_path: Path) -> None:
    kept = [
        point_at(mechanism="poll", loop="open", rate_per_s=rate, connections=10)
        for rate in (30_000, 50_000)
    ]
    able, unable = MadeUp(), MadeUp()
    unable.offers = lambda point: 0.5 if point.keeps else 1.0  # type: ignore[method-assign]
    for target in (able, unable):
        target.points = [QUIET, NOISY, *kept]
    run_campaign(able, kind="heldout", output=tmp_path / "able", repeats=1)
    assert [point.rate_per_s for point in able.asked] == [20_000, 50_000]
    run_campaign(able, kind="heldout", output=tmp_path / "able", repeats=2)
    assert len(able.asked) == 2
    message = r"^the load .* begins 50% of .* \(50000 requests over kept connections/s\)"
    with pytest.raises(CampaignError, match=message):
        run_campaign(unable, kind="heldout", output=tmp_path / "unable", repeats=1)


def test_runs_of_a_busy_begin_are_measured_again(tmp_path: Path) -> None:
    def looked(floor_ns: float) -> MadeUp:
        target = MadeUp()
        measure = target.run_point

        def run_point(point: Point, repeat: int) -> RunRecord:
            run = measure(point, repeat)
            noise = run.noise.model_copy(update={"floor_ns": floor_ns, "floor_ratio": 1.0})
            return run.model_copy(update={"noise": noise})

        target.run_point = run_point  # type: ignore[method-assign]
        return target

    busy, calm = looked(300.0), looked(200.0)
    first = run_campaign(busy, kind="heldout", output=tmp_path, repeats=1)
    assert not any("another guest" in notice for notice in first.notices)
    second = run_campaign(calm, kind="heldout", output=tmp_path, repeats=2)
    assert second.measured == 2
    shared = [notice for notice in second.notices if "shared their core" in notice]
    assert [notice.partition(" accepted")[0] for notice in shared] == ["2 of 10"]
    again = run_campaign(calm, kind="heldout", output=tmp_path, repeats=2)
    assert again.measured == 2
    runs_there = read_rows(tmp_path / "heldout.jsonl", RunRecord).rows
    assert Counter(run.point for run in judged_by_file(runs_there) if run.accepted) == {
        QUIET: 2,
        NOISY: 2,
    }


def test_a_bench_beside_a_busy_core_is_measured_again(tmp_path: Path) -> None:
    target = MadeUp()
    run_campaign(target, kind="micro", output=tmp_path, repeats=1)
    path = tmp_path / "micro.jsonl"
    rows = read_rows(path, MicroResult).rows
    path.unlink()
    append(path, rows[0].model_copy(update={"floor_ratio": 1.4}), *rows[1:])
    again = run_campaign(target, kind="micro", output=tmp_path, repeats=1)
    assert again.measured == 1
    assert not any("benches were only" in notice for notice in again.notices)


def test_a_budget_that_ends_before_the_capacity_is_known_is_no_noise(tmp_path: Path) -> None:
    summary = run_campaign(MadeUp(), kind="heldout", output=tmp_path, repeats=1, budget_s=0)
    assert summary.out_of_time
    assert (summary.measured, summary.capacity_per_s) == (0, 0)


def test_benches_with_other_clients_are_not_mixed(tmp_path: Path) -> None:
    row = micro("floor", 1.0, round_number=0).model_dump() | {"steering": "far_end"}
    append(tmp_path / "micro.jsonl", MicroResult.model_validate(row))
    refused = "^the folder holds runs with steering far_end, but this run would have loopback: "
    with pytest.raises(CampaignError, match=refused):
        run_campaign(MadeUp(), kind="micro", output=tmp_path, repeats=1)
    run_campaign(MadeUp(), kind="heldout", output=tmp_path, repeats=1)


def test_gaps_are_recorded_once_and_said(tmp_path: Path) -> None:
    said: list[CampaignProgress] = []
    first, again = MadeUp(), MadeUp()
    run_campaign(
        first, kind="profile", output=tmp_path, repeats=1, quick=True, progress=said.append
    )
    assert first.quickly
    assert any(
        "the server's CPU loses 0.2% of its time in gaps, timer ticks included" in p.note
        for p in said
    )
    assert len(read_rows(tmp_path / GAPS_FILE, GapsRecord).rows) == 2
    run_campaign(again, kind="profile", output=tmp_path, repeats=1)
    assert again.quickly is None


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_machine_that_its_host_keeps_is_refused_unless_asked_for(
    tmp_path: Path, kind: Kind
) -> None:
    slow = MadeUp()
    slow.lost_ns = 80_000_000
    message = r"^the machine is too noisy to measure: the server's CPU loses 8.0% .*--anyway"
    with pytest.raises(CampaignError, match=message):
        run_campaign(slow, kind=kind, output=tmp_path, repeats=1)
    assert [path.name for path in tmp_path.iterdir()] == ["machine.json"]
    summary = run_campaign(slow, kind=kind, output=tmp_path, repeats=1, anyway=True)
    assert summary.notices[0].startswith("the machine is too noisy")
