"""What is measured of overload: points, what becomes of the records, the campaign."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.overload_records import record_of

from dispatchsim.calibration.measure.campaign import CampaignError
from dispatchsim.calibration.measure.machine_campaigns import measure_points, run_overload_campaign
from dispatchsim.calibration.measure.macro import Timing
from dispatchsim.calibration.measure.overload_run import difference, load_fault, run_overload
from dispatchsim.calibration.points.overload_points import (
    OverloadPoint,
    overload_point_at,
    overload_points,
)
from dispatchsim.calibration.records.measured_runs import Latency, append, read_rows
from dispatchsim.calibration.records.noise import Series
from dispatchsim.calibration.records.overload_records import (
    OVERLOAD_FILE,
    KernelCounts,
    OverloadRecord,
    delays_of,
    replied_bins,
    started_bins,
)
from dispatchsim.calibration.records.run_result import Records, Window
from dispatchsim.calibration.testbed.c_build import Programs
from dispatchsim.calibration.testbed.processes import RunError
from dispatchsim.calibration.testbed.testbed import TestbedError, open_testbed
from dispatchsim.sim.load.workload import Trace

POINT = overload_point_at(mechanism="epoll_level", backlog=16, load=1.2)
MS = 1_000_000


def records_of(*rows: tuple[int, int, int, int, int]) -> Records:
    """Return the records of *rows*; times in ms, -1 for one that was not reached."""
    table = np.array(rows, dtype=np.int64)
    times = np.where(table[:, :4] < 0, -1, table[:, :4] * MS)
    intended_ns, started_ns, connected_ns, done_ns = times.T
    return Records(intended_ns, started_ns, connected_ns, done_ns, table[:, 4])


RECORDS = records_of(
    (0, 0, 1, 2, 0),  # before the window
    (100, 100, 101, 150, 0),
    (110, 120, 1121, 1130, 0),  # its first SYN was lost
    (120, 120, 121, -1, 1),  # connected, and no reply
    (130, -1, -1, -1, 4),  # no descriptor
    (300, 300, 301, 302, 0),  # after the window
)


def test_delays_are_counted_by_tenths_of_a_second() -> None:
    delays = delays_of(RECORDS, Window(100 * MS, 300 * MS), run_ns=2_000 * MS)
    assert (delays.n, delays.n_without_descriptor) == (4, 1)
    assert {i: n for i, n in enumerate(delays.connect_bins) if n} == {0: 2, 10: 1}
    assert {i: n for i, n in enumerate(delays.reply_bins) if n} == {0: 1, 10: 1}
    assert len(delays.connect_bins) == 20


def test_starts_and_replies_are_counted_over_the_whole_run() -> None:
    assert started_bins(RECORDS, 400 * MS) == [1, 3, 0, 1]
    assert replied_bins(RECORDS, 1_200 * MS) == [1, 1, 0, 1, *[0] * 7, 1]


def test_only_what_the_kernel_counted_anew_is_kept() -> None:
    before = KernelCounts(server={"InSegs": 5, "ListenDrops": 7}, client={}, softnet_drops=3)
    after = KernelCounts(
        server={"InSegs": 9, "ListenDrops": 7}, client={"TCPSynRetrans": 2}, softnet_drops=4
    )
    counted = KernelCounts(server={"InSegs": 4}, client={"TCPSynRetrans": 2}, softnet_drops=1)
    assert difference(before, after) == counted


def test_what_a_far_end_sends_again_is_counted_as_a_kernel_does() -> None:
    none = KernelCounts(server={}, client={}, softnet_drops=0)
    assert difference(none, none, n_syn_repeated=3).client == {"TCPSynRetrans": 3}
    assert difference(none, none).client == {}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"offered": 970}, ""),
        ({"offered": 969}, "offered_share must be at least 0.97, got 0.969"),
        ({"lag_p99_ns": 100_000}, ""),
        ({"lag_p99_ns": 100_001}, "lag_p99_ns must be at most 10% of the p99 of 1000000, got 10"),
        ({"lag_p99_ns": None, "offered": 1000}, ""),  # of a run from before it was recorded
        # Descriptors belong to the point, and clients that try again have no number of their own.
        ({"descriptors": 400}, ""),
        ({"retries": 3, "offered": 300, "lag_p99_ns": 9_000_000}, ""),
    ],
)
def test_a_run_counts_if_the_generator_was_not_the_limit(
    change: dict[str, int | None], fault: str
) -> None:
    record = record_of(POINT, 0)
    at_ns = np.arange(1000, dtype=np.int64) * MS
    columns = (np.full(1000, n, np.int64) for n in (4, 64, 128, 0))
    client = record.result.client.model_copy(update={"lag_p99_ns": change.get("lag_p99_ns", 0)})
    errors = record.result.errors.model_copy(update={"descriptors": change.get("descriptors", 0)})
    latency = Latency(mean=5e5, p50=4e5, p90=6e5, p99=1e6, max=2e6)
    result = record.result.model_copy(
        update={
            "offered": change.get("offered", 1000),
            "client": client,
            "errors": errors,
            "latency_ns": latency,
        }
    )
    point = POINT.with_values(load={"retries": change.get("retries", 0)})
    trace = Trace("open", 0, at_ns, *columns)
    said = load_fault(point, trace, Window(0, 1000 * MS), result)
    assert said.startswith(fault) if fault else said == ""


def of_some_tries(measure: Callable[[], OverloadRecord]) -> OverloadRecord:
    """Measure again if this process slept through a window of a capacity, or of the run."""
    for _ in range(4):
        try:
            record = measure()
        except RunError as error:
            if "sent no reply" not in str(error):
                raise
        else:
            if record.result.offered:
                return record
    return measure()


@pytest.mark.parametrize("retries", [0, 2])
def test_clients_of_the_far_end_leave_the_records_of_any(
    c_programs: Programs, retries: int
) -> None:
    brief = Timing(0.1, 0.1, 0.3, 0.05, calibration_ms=10)
    point = overload_point_at(POINT, retries=retries, timeout_ns=50 * MS, linear_syn_timeouts=4)
    try:
        with open_testbed("far_end") as testbed:
            record = of_some_tries(
                lambda: run_overload(
                    point, 0, testbed=testbed, programs=c_programs, series=Series.of([]),
                    timing=brief, capacity_timing=brief,
                )
            )  # fmt: skip
    except TestbedError as error:
        pytest.skip(str(error))
    assert record.steering == "far_end"
    assert min(record.capacity_before_per_s, record.capacity_after_per_s) > 0
    assert record.result.offered > 0
    assert sum(record.started) > 0
    assert record.kernel.server["InSegs"] > record.kernel.client.get("OutSegs", 0)


def test_runs_of_two_steerings_are_not_mixed(tmp_path: Path) -> None:
    append(tmp_path / OVERLOAD_FILE, record_of(POINT, 0))
    refused = (
        "^the folder holds runs with steering namespaces, but this run would have far_end: "
        "choose another folder$"
    )
    with pytest.raises(CampaignError, match=refused):
        run_overload_campaign(tmp_path, steering="far_end")


def test_a_load_is_a_share_of_the_capacity_and_a_surge_comes_on_top() -> None:
    surging = overload_point_at(mechanism="epoll_level", backlog=16, load=0.5, surge=1.5)
    trace = surging.at_rate(1_000).trace(seed=3, seconds=5.0)
    per_second = np.bincount(trace.at_ns // (1_000 * MS), minlength=5)
    # Counts of a Poisson process: within six standard deviations.
    assert np.all(np.abs(per_second - [1_000, 1_000, 4_000, 1_000, 1_000]) < 6 * 4_000**0.5)
    assert np.all(np.diff(trace.at_ns) >= 0)
    assert set(trace.requests) == {4}


def test_the_generator_is_told_who_tries_again() -> None:
    doubling = overload_point_at(
        mechanism="epoll_level",
        backlog=16,
        load=1.0,
        retries=3,
        retry_after_ns=200 * MS,
        retry_doubles=True,
    )
    assert doubling.load_options() == (
        *("--retries", "3"),
        *("--retry-after-ms", "200"),
        "--retry-doubles",
    )
    assert POINT.load_options() == ()


def test_every_point_has_arrivals_of_its_own() -> None:
    points = overload_points()
    assert len({point.seed(repeat) for point in points for repeat in range(3)}) == 3 * len(points)


def test_a_point_is_read_and_written_as_files_have_it() -> None:
    doubling = overload_points()[-1]
    record = record_of(doubling, 0).model_dump(mode="json")
    assert record["point"] == {
        "mechanism": "epoll_level",
        "backlog": 4096,
        "load": 0.7,
        "accept_limit": 0,
        "workers": 0,
        "requests": 4,
        "timeout_ns": 200 * MS,
        "linear_syn_timeouts": 0,
        "request_work_ns": 0,
        "surge": 0.8,
        "retries": 3,
        "retry_after_ns": 200 * MS,
        "retry_doubles": True,
    }
    assert record["seed"] == 2_121_868_282
    for point in overload_points():
        assert (
            OverloadRecord.model_validate_json(record_of(point, 0).model_dump_json()).point == point
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"load": 0.0}, r"share: must be above 0, got 0.0"),
        ({"retries": -1}, r"load\.retries: must be at least 0, got -1"),
        ({"backlog": 0}, r"server\.backlog: must be at least 1, got 0"),
        ({"mechanism": "blocking"}, r"server\.workers: is missing"),
        ({"linear_syn_timeouts": 3}, "linear_syn_timeouts must be 0 or 4, got 3"),
        (
            {"retry_doubles": True},
            r"load\.retry_pause_max: must be absent where load\.retries is 0",
        ),
        ({"patience": 1}, "has no field patience"),
    ],
)
def test_an_impossible_point_is_refused(change: dict[str, float | str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        overload_point_at(**{"mechanism": "epoll_level", "backlog": 16, "load": 1.0, **change})


def test_what_is_accepted_is_measured_once_and_what_is_rejected_again(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []
    points = overload_points()[:3]

    def measure(point: OverloadPoint, repeat: int) -> OverloadRecord:
        asked.append((point.label, repeat))
        again = asked.count((point.label, repeat)) > 1
        return record_of(point, repeat, accepted=again or point != points[1])

    summary = measure_points(tmp_path / OVERLOAD_FILE, OverloadRecord, measure, [points, points])
    assert (summary.measured, summary.rejected, summary.given_up) == (6, 2, 0)
    assert asked.count((points[1].label, 0)) == asked.count((points[1].label, 1)) == 2
    assert len(read_rows(tmp_path / OVERLOAD_FILE, OverloadRecord).rows) == 8
    again = measure_points(
        tmp_path / OVERLOAD_FILE, OverloadRecord, measure, [points, points, points]
    )
    assert (again.measured, again.skipped) == (3, 6)


def test_an_interruption_keeps_what_is_finished(tmp_path: Path) -> None:
    points = overload_points()[:3]

    def measure(point: OverloadPoint, repeat: int) -> OverloadRecord:
        if len(read_rows(tmp_path / OVERLOAD_FILE, OverloadRecord).rows) == 1:
            raise KeyboardInterrupt
        return record_of(point, repeat)

    summary = measure_points(tmp_path / OVERLOAD_FILE, OverloadRecord, measure, [points])
    assert summary.interrupted
    assert len(read_rows(tmp_path / OVERLOAD_FILE, OverloadRecord).rows) == summary.measured == 1


def test_runs_that_fail_again_and_again_end_the_campaign(tmp_path: Path) -> None:
    def measure(_point: OverloadPoint, _repeat: int) -> OverloadRecord:
        raise RunError("no server")

    with pytest.raises(
        RuntimeError, match=r"4 runs failed in succession, the last one .*no server"
    ):
        measure_points(tmp_path / OVERLOAD_FILE, OverloadRecord, measure, [overload_points()])
