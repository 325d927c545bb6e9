"""What a flood is, what is read from its programs, and that a campaign goes on where it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.calibration.fit.synthetic_flood import flood_record
from tests.calibration.records.test_gap_records import gaps
from tests.calibration.records.test_gap_records import record as record_of_gaps

from dispatchsim.calibration.measure import machine_campaigns, quietness
from dispatchsim.calibration.measure.campaign import CampaignError, CampaignProgress
from dispatchsim.calibration.measure.flood_run import softnet_of
from dispatchsim.calibration.measure.machine_campaigns import run_flood_campaign
from dispatchsim.calibration.points.flood_points import FloodPoint, flood_points
from dispatchsim.calibration.records.flood_records import (
    FLOOD_FILE,
    FloodRecord,
    Samples,
    gaps_of,
    quantiles_of,
    read_calls,
    read_samples,
    train_of,
    victim_of,
)
from dispatchsim.calibration.records.measured_runs import DataError, read_rows
from dispatchsim.calibration.testbed.machine_facts import machine_id
from dispatchsim.calibration.testbed.processes import RunError
from dispatchsim.calibration.testbed.testbed import Testbed

MS_NS = 1_000_000


def test_every_flood_of_a_campaign_is_another() -> None:
    points = flood_points()
    assert len(set(points)) == len(points)
    assert {point.use for point in points} == {"calibration", "heldout"}
    assert len({point.seed(0) for point in points}) == len(points)


def test_a_constant_flood_is_due_evenly_and_its_trains_at_their_spacing() -> None:
    point = FloodPoint(use="calibration", rate_per_s=2000, train=2, spacing_ns=10_000)
    assert point.due_ns(0, 3 * MS_NS).tolist() == [
        0,
        10_000,
        MS_NS,
        1_010_000,
        2 * MS_NS,
        2_010_000,
    ]


def test_a_random_flood_is_the_same_each_time_and_another_for_each_repeat() -> None:
    point = FloodPoint(use="heldout", rate_per_s=50_000, law="poisson")
    first, second = point.due_ns(0, 200 * MS_NS), point.due_ns(1, 200 * MS_NS)
    assert np.array_equal(first, point.due_ns(0, 200 * MS_NS))
    assert not np.array_equal(first[:100], second[:100])
    assert (np.diff(first) >= 0).all()
    assert first[-1] < 200 * MS_NS
    # 10,000 are expected, with a standard deviation of 100; the seed is fixed.
    assert abs(len(first) - 10_000) < 500


def samples_of(*rows: tuple[int, int, int, int]) -> Samples:
    """Return samples from rows of begin, length, chunks by the end, CPU time."""
    table = np.array(rows, dtype=np.int64)
    return Samples(*(table[:, column] for column in range(4)))


def evenly(until_ns: int, stolen: dict[int, int]) -> Samples:
    """Return the samples of chunks of 200 ns, interrupted at times for so long; a row a ms."""
    rows, at_ns, n_chunks, regular_ns = [], 0, 0, 0
    for begin_ns in [*sorted(stolen), until_ns]:
        while at_ns < begin_ns:
            if at_ns >= regular_ns:
                n_chunks += 1
                rows.append((at_ns, 200, n_chunks, at_ns + 200))
                regular_ns += MS_NS
                at_ns += 200
            step_ns = min(regular_ns, begin_ns) - at_ns
            n_chunks += -(-step_ns // 200)
            at_ns += -(-step_ns // 200) * 200
        if begin_ns in stolen:
            n_chunks += 1
            rows.append((at_ns, 200 + stolen[begin_ns], n_chunks, 0))
            at_ns += 200 + stolen[begin_ns]
    rows.append((at_ns, 200, n_chunks + 1, at_ns + 200))
    return samples_of(*rows)


def test_progress_is_the_ratio_of_work_with_and_without_the_flood() -> None:
    start_ns, end_ns, quiet_ns = 40 * MS_NS, 140 * MS_NS, 40 * MS_NS
    # In the flood 25 us are taken of every 100.
    stolen = dict.fromkeys(range(start_ns, end_ns, 100_000), 25_000)
    victim = victim_of(evenly(180 * MS_NS, stolen), start_ns, end_ns, quiet_ns)
    assert victim.progress == pytest.approx(0.75, abs=0.002)
    assert victim.cpu_share == pytest.approx(1, abs=0.002)  # the CPU clock saw nothing
    assert victim.taken_ns.p50 == 25_000
    assert victim.taken_quiet_ns.n == 0


def test_samples_that_do_not_reach_over_the_flood_are_an_error() -> None:
    with pytest.raises(RunError, match="do not cover the whole flood"):
        victim_of(evenly(100 * MS_NS, {}), 40 * MS_NS, 140 * MS_NS, 40 * MS_NS)


def test_a_train_is_charged_with_all_that_follows_it_soon_and_with_nothing_else() -> None:
    point = FloodPoint(use="calibration", rate_per_s=2000, train=2, spacing_ns=10_000)
    sent_ns = np.array([0, 10_000, MS_NS, 1_010_000]) + 5 * MS_NS
    stolen = {
        5_006_000: 8_000,
        5_020_000: 4_000,
        5_500_000: 9_000,  # a tick
        6_006_000: 6_000,
    }
    train = train_of(point, evenly(8 * MS_NS, stolen), sent_ns, 5e6)
    assert train is not None
    assert (train.taken_ns.n, train.taken_ns.p50) == (2, 9_000)
    assert (train.delay_ns.n, train.delay_ns.p50) == (2, 6_000)
    held_out = point.model_copy(update={"use": "heldout"})
    assert train_of(held_out, evenly(8 * MS_NS, stolen), sent_ns, 5e6) is None


def test_a_chunk_is_a_gap_from_a_microsecond_on() -> None:
    gaps = gaps_of(samples_of((0, 1_199, 1, 0), (5_000, 1_200, 2, 0)), 200)
    assert (gaps.at_ns.tolist(), gaps.taken_ns.tolist()) == ([5_000], [1_000])


def test_quantiles_of_nothing_are_nothing() -> None:
    assert quantiles_of(np.array([], dtype=np.int64)).n == 0


@pytest.mark.parametrize("content", [None, b"", b"1234567"])
def test_broken_output_of_the_programs_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    for read in (read_samples, read_calls):
        with pytest.raises(RunError, match=r"wrote no|not rows of"):
            read(path)


def test_the_row_of_a_cpu_is_found_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "softnet_stat"
    row = "000000{} 00000001 00000002" + " 00000000" * 9 + " 0000000{} 00000000 00000000"
    path.write_text("\n".join([row.format("0a", 1), row.format("0b", 3)]) + "\n")
    assert softnet_of(3, path) == (11, 1, 2)
    with pytest.raises(RunError, match="no line for CPU 2"):
        softnet_of(2, path)


@pytest.fixture
def floods(monkeypatch: pytest.MonkeyPatch) -> list[tuple[FloodPoint, int]]:
    """Replace floods by records; return the list of those that were run."""
    run: list[tuple[FloodPoint, int]] = []

    def record(point: FloodPoint, repeat: int, **_: object) -> FloodRecord:
        run.append((point, repeat))
        return flood_record(point, repeat)

    class Opened:
        def __enter__(self) -> Testbed:
            return Testbed("namespaces", "10.0.0.1")

        def __exit__(self, *_: object) -> None:
            pass

    class AlwaysCalm:
        def __init__(self, *_: object) -> None:
            pass

        def recall(self, _rows: object) -> None:
            pass

        def judged(self, measure: Callable[[], FloodRecord]) -> FloodRecord:
            return measure()

    monkeypatch.setattr(machine_campaigns, "CalmCore", AlwaysCalm)
    monkeypatch.setattr(machine_campaigns, "run_flood", record)
    monkeypatch.setattr(quietness, "measure_gaps", lambda *_, **__: [])
    monkeypatch.setattr(quietness, "measure_neighbours", lambda *_, **__: [])
    monkeypatch.setattr(machine_campaigns, "build", lambda: None)
    monkeypatch.setattr(machine_campaigns, "open_testbed", lambda _: Opened())
    return run


POINTS = flood_points()[:3]


def test_a_campaign_goes_on_where_it_was_interrupted(
    floods: list[tuple[FloodPoint, int]], tmp_path: Path
) -> None:
    def interrupt(progress: CampaignProgress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    first = run_flood_campaign(tmp_path, repeats=2, points=POINTS, progress=interrupt)
    assert (first.interrupted, first.measured) == (True, 2)
    path = tmp_path / FLOOD_FILE
    path.write_bytes(path.read_bytes()[:-30])
    second = run_flood_campaign(tmp_path, repeats=2, points=POINTS)
    assert (second.measured, second.skipped) == (5, 1)
    assert second.notices == [f"{FLOOD_FILE} line 2: torn by an interrupted write, dropped"]
    assert len(floods) == 7
    done = {(row.point, row.repeat) for row in read_rows(path, FloodRecord).rows}
    assert done == {(point, repeat) for point in POINTS for repeat in range(2)}


def test_floods_of_a_noisy_machine_are_refused_unless_asked_for(
    floods: list[tuple[FloodPoint, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_lost = record_of_gaps(gaps([0], [500_000_000])).model_copy(
        update={"machine": machine_id()}
    )
    monkeypatch.setattr(quietness, "measure_gaps", lambda *_, **__: [half_lost])
    with pytest.raises(CampaignError, match=r"^the machine is too noisy to measure: .*--anyway"):
        run_flood_campaign(tmp_path, repeats=1, points=POINTS)
    assert floods == []
    summary = run_flood_campaign(tmp_path, repeats=1, points=POINTS, anyway=True)
    assert summary.measured == 3
    assert summary.notices[0].startswith("the machine is too noisy to measure")


def test_a_disturbed_flood_is_kept_and_run_again(
    floods: list[tuple[FloodPoint, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disturbed(point: FloodPoint, repeat: int, **_: object) -> FloodRecord:
        floods.append((point, repeat))
        return flood_record(point, repeat, accepted=False, reason="steal_share")

    monkeypatch.setattr(machine_campaigns, "run_flood", disturbed)
    summary = run_flood_campaign(tmp_path, repeats=1, points=POINTS[:1])
    assert (summary.measured, summary.rejected, summary.given_up) == (0, 3, 1)
    assert len(read_rows(tmp_path / FLOOD_FILE, FloodRecord).rows) == 3


@pytest.mark.usefixtures("floods")
def test_a_campaign_that_fails_again_and_again_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> FloodRecord:
        raise RunError("flood printed nothing within 1.0 s")

    monkeypatch.setattr(machine_campaigns, "run_flood", fail)
    with pytest.raises(CampaignError, match="4 floods failed in succession"):
        run_flood_campaign(tmp_path, points=POINTS)
    with pytest.raises(CampaignError, match="repeats must be at least 1, got 0"):
        run_flood_campaign(tmp_path, repeats=0)


def test_a_record_of_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / FLOOD_FILE
    row = json.loads(flood_record(POINTS[0], 0).model_dump_json())
    row["victim"]["progress"] = "much"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=r'line 1: field victim\.progress is "much"'):
        read_rows(path, FloodRecord)
    path.write_text('{"format": "dispatchsim-run/1"}\n')
    with pytest.raises(DataError, match='format must be "dispatchsim-flood/1"'):
        read_rows(path, FloodRecord)
