"""Raw results survive the disk, and a bad line is named exactly."""

import json
from pathlib import Path
from typing import Any

import pytest

from dispatchsim.calibration.records.measured_runs import (
    DataError,
    Gaps,
    MicroResult,
    RunRecord,
    append,
    drop_torn_line,
    read_rows,
)

RUN: dict[str, Any] = {
    "format": "dispatchsim-run/1",
    "date": "2026-01-01T00:00:00+00:00",
    "code": "c-0",
    "steering": "loopback",
    "point": {"mechanism": "poll", "idle": 250, "loop": "closed", "users": 64},
    "repeat": 3,
    "seed": 17,
    "warm_up_ns": 500_000_000,
    "window_ns": 1_500_000_000,
    "result": {
        "offered": 10,
        "accepted": 9,
        "replied": 8,
        "errors": {"timeout": 0, "refused": 0, "reset": 1, "descriptors": 0},
        "latency_ns": {"mean": 5.5, "p50": 5, "p90": 8, "p99": 9, "max": 9},
        "reply_rate_per_s": {"min": 1, "mean": 2, "max": 3, "sd": 1},
        "calls": {"waits": 4},
        "cpu": {"process_ns": 1, "busy_ns": 2, "softirq_ns": 0},
        "client": {"cpu_ns": 1, "lag_p50_ns": 0, "lag_max_ns": 0},
    },
    "noise": {
        "server_delay_share": 0.01,
        "client_delay_share": 0.0,
        "steal_share": 0.0,
        "spin_ratio": 1.0,
        "memory_ratio": 1.0,
    },
    "accepted": True,
    "reason": "",
}
MICRO: dict[str, Any] = {
    "format": "dispatchsim-micro/1",
    "date": "2026-01-01T00:00:00+00:00",
    "code": "c-0",
    "bench": "poll_scan",
    "command": "poll_scan --n 1000",
    "parameters": {"n": 1000},
    "round": 0,
    "unit": "ns",
    "median": 65012.0,
    "p10": 64000.0,
    "p90": 70000.0,
    "operations": 2000,
    "steering": "loopback",
}


def write_lines(path: Path, *lines: object) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def changed(**fields: object) -> dict[str, Any]:
    return RUN | fields


def test_a_run_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "fit.jsonl"
    run = RunRecord.model_validate(RUN)
    append(path, run)
    append(path, run)
    assert read_rows(path, RunRecord).rows == [run, run]
    assert run.point.server.backlog == 4096


def test_a_bench_may_print_more_than_the_format_names(tmp_path: Path) -> None:
    path = tmp_path / "micro.jsonl"
    append(path, MicroResult.model_validate(MICRO))
    (row,) = read_rows(path, MicroResult).rows
    assert row.model_dump()["steering"] == "loopback"


def test_gaps_of_before_a_run_are_not_of_the_run() -> None:
    # A generator that polled each millisecond while connections were held; then its clock began.
    at_ns, length_ns = [31_000, 32_100, 33_200, 700, 5_200], [1_100, 1_100, 1_000, 60, 90]
    recorded = Gaps(above_ns=50, n=812, lost_ns=3_999, at_ns=at_ns, length_ns=length_ns)
    left = Gaps(above_ns=50, n=2, lost_ns=150, at_ns=[700, 5_200], length_ns=[60, 90])
    assert recorded.of_run == left
    ordered = Gaps(above_ns=50, n=812, lost_ns=3_999, at_ns=[700, 5_200], length_ns=[60, 90])
    assert ordered.of_run == ordered
    none = Gaps(above_ns=50, n=812, lost_ns=3_999, at_ns=[], length_ns=[])
    assert none.of_run == none


def test_a_missing_file_holds_nothing(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "fit.jsonl", RunRecord).rows == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            changed(format="dispatchsim-run/0"),
            'runs.jsonl line 2: format must be "dispatchsim-run/1", got "dispatchsim-run/0"',
        ),
        (
            changed(repeat="three"),
            'runs.jsonl line 2: field repeat is "three": Input should be a valid integer, '
            "unable to parse string as an integer",
        ),
        (
            changed(extra=1),
            "runs.jsonl line 2: field extra is 1: Extra inputs are not permitted",
        ),
        (
            {name: value for name, value in RUN.items() if name != "seed"},
            "runs.jsonl line 2: field seed is missing",
        ),
        ([1, 2], "runs.jsonl line 2: must be a JSON object, got [1, 2]"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: object, message: str) -> None:
    path = tmp_path / "runs.jsonl"
    write_lines(path, RUN, line)
    with pytest.raises(DataError) as caught:
        read_rows(path, RunRecord)
    assert str(caught.value) == message


def test_an_impossible_point_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    write_lines(path, changed(point=RUN["point"] | {"idle": -1}))
    with pytest.raises(
        DataError, match=r"^runs.jsonl line 1: field point is .*idle.connections: must be at"
    ):
        read_rows(path, RunRecord)


def test_a_torn_last_line_is_reported_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "fit.jsonl"
    append(path, RunRecord.model_validate(RUN))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    loaded = read_rows(path, RunRecord)
    assert len(loaded.rows) == 1
    assert loaded.notices == ["fit.jsonl line 2: torn by an interrupted write, ignored"]
    assert drop_torn_line(path) == "fit.jsonl line 2: torn by an interrupted write, dropped"
    assert path.read_bytes() == whole
    assert drop_torn_line(path) == ""


def test_a_torn_line_elsewhere_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "fit.jsonl"
    path.write_text('{"format": "dispatch\n' + json.dumps(RUN) + "\n")
    with pytest.raises(DataError, match=r"^fit.jsonl line 1: not JSON"):
        read_rows(path, RunRecord)
