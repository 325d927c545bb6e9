"""What measuring buys: a borrowed profile is scaled, and errors stand side by side."""

import math
from pathlib import Path

import pytest
from tests.validation.forecast.test_hour_prices import micro
from tests.validation.synthetic_runs import SHORT, synthetic_run, toy_profile

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.profiles.hardware_change import clock_factor
from dispatchsim.calibration.records.measured_runs import append
from dispatchsim.validation.report.what_measuring_buys import (
    MissingBenchError,
    borrowed,
    bought,
    buying_table,
    forecast_from,
    misses_of_scores,
)

POINTS: tuple[Point, ...] = (
    point_at(mechanism="poll", users=4),
    *(
        point_at(mechanism="poll", loop="open", rate_per_s=rate_per_s)
        for rate_per_s in (2_000, 8_000, 16_000)
    ),
)
CROSSING = {"value": (70.0,), "low": (60.0,), "high": (80.0,)}


def benches(path: Path, *, spin: float, memory: float, floor: float) -> Path:
    for name, ns in (("spin", spin), ("memory", memory), ("floor", floor)):
        append(path, micro(name, ns), micro(name, ns * 3, round_number=1), micro(name, ns))
    return path


def test_a_borrowed_profile_is_scaled_by_three_numbers(tmp_path: Path) -> None:
    theirs = benches(tmp_path / "theirs.jsonl", spin=100, memory=50, floor=70)
    ours = benches(tmp_path / "ours.jsonl", spin=50, memory=200, floor=90)
    toy = toy_profile(name="lender")
    call = toy.cost["call"]
    with_crossing = {**call, "crossing_ns": call["read_ns"].model_copy(update=CROSSING)}
    lender = toy.model_copy(update={"cost": {**toy.cost, "call": with_crossing}})
    scaled = borrowed(lender, theirs, ours)
    assert scaled.machine["changed_from"] == "lender"
    # Twice as fast a clock, and memory four times as slow.
    (interrupt,) = scaled.cost["interrupt"]["entry_ns"].value
    (was,) = lender.cost["interrupt"]["entry_ns"].value
    assert interrupt == pytest.approx(was * clock_factor(2))
    scan, was_scan = (p.cost["poll"]["scan"].value[-1] for p in (scaled, lender))
    assert scan == pytest.approx(was_scan * 4)
    (crossing,) = scaled.cost["call"]["crossing_ns"].value
    assert crossing == pytest.approx(90)


def test_a_bench_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "micro.jsonl"
    append(path, micro("spin", 1.0), micro("memory", 1.0))
    with pytest.raises(
        MissingBenchError, match=r"micro\.jsonl: must hold the benchmark floor, got none"
    ):
        borrowed(toy_profile(), path, path)


def test_errors_are_those_of_each_profile(tmp_path: Path) -> None:
    true, dear = toy_profile(name="true"), toy_profile(name="dear", scale=1.5)
    runs = [synthetic_run(point, true, lengths=SHORT) for point in POINTS]
    append(tmp_path / "heldout.jsonl", *runs)
    scores = forecast_from(tmp_path, {"all of it": true, "borrowed": dear})
    right, wrong = (
        bought(way, profile, scores[way])
        for way, profile in (("all of it", true), ("borrowed", dear))
    )
    assert right.n_points == wrong.n_points == len(POINTS)
    assert right.capacity == pytest.approx(0, abs=0.02)
    assert wrong.capacity is not None
    assert wrong.capacity == pytest.approx(-1 / 3, abs=0.1)
    assert wrong.p50 is not None
    assert right.p50 is not None
    assert wrong.p50 > right.p50
    table = buying_table([right, wrong])
    assert [row[0] for row in table.rows] == ["all of it", "borrowed"]
    closed = misses_of_scores(scores["borrowed"])[0]
    assert closed.of["throughput_per_s"] == pytest.approx(math.log(1.5), abs=0.1)
