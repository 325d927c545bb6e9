"""Clients that give up, measured beside simulated: knees, verdicts, and what the command prints."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab import lab
from tests.validation.synthetic_runs import synthetic_run, toy_profile

from dispatchsim.calibration.measure.impatient_run import IMPATIENT_FILE
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import toml_of
from dispatchsim.calibration.records.measured_runs import append
from dispatchsim.validation.overload.impatient import (
    Knee,
    MeasuredLoad,
    Result,
    capacity_per_s,
    compare,
    impatient_tables,
    knee_of,
    knees,
    points_of,
    verdict_of,
)

POINT = point_at(
    mechanism="epoll_level", loop="open", rate_per_s=10_000, request_work_ns=20_000,
    timeout_ns=50_000_000,
)  # fmt: skip
CAPACITY_PER_S = 10_000.0


def at(load: float, measured: float, simulated: float) -> MeasuredLoad:
    """Return a load with one run, in which so many replies a second were measured, simulated."""
    point = point_at(POINT, rate_per_s=round(load * CAPACITY_PER_S))
    results = (Result(measured, 1.0),) if not math.isnan(measured) else ()
    return MeasuredLoad(point, load, results, (Result(simulated, 1.0),), (1.0,), ())


LOADS = [
    at(0.9, 9_000, 8_600),  # 4.4% below
    at(1.0, 10_000, 9_400),  # 6% below
    at(1.1, 11_000, 10_900),
    at(1.2, 100, 700),  # 600/s too many
    at(1.3, 0, 450),
]


def test_a_knee_is_where_the_share_that_is_replied_to_falls() -> None:
    assert knee_of([(0.9, 1.0), (1.0, 0.95), (1.2, 0.45)]) == pytest.approx(1.02)
    assert math.isnan(knee_of([(0.9, 1.0), (1.0, 0.95)]))
    assert knee_of([(1.0, 0.5), (1.1, 0.4)]) == 0  # it is below the lightest load
    # Shares at 1.1 and 1.2: measured 1 and 1/120, simulated 10,900/11,000 and 7/120.
    (knee,) = knees(LOADS)
    assert knee.measured == pytest.approx(1.1 + 0.1 * 0.1 / (1 - 1 / 120))
    share = 10_900 / 11_000
    assert knee.simulated == pytest.approx(1.1 + 0.1 * (share - 0.9) / (share - 7 / 120))
    assert knee.capacity_per_s == pytest.approx(CAPACITY_PER_S)


def test_a_load_without_a_run_that_counts_makes_no_knee() -> None:
    lost = at(1.2, float("nan"), 0)
    (knee,) = knees([*LOADS[:3], lost, LOADS[4]])
    assert 1.1 < knee.measured < 1.3
    assert verdict_of(lost, knee.measured) == ""


def test_bounds_are_relative_below_the_knee_and_absolute_past_it() -> None:
    knee = knees(LOADS)[0].measured
    assert [verdict_of(entry, knee) for entry in LOADS] == [
        "reached", "missed", "", "missed", "reached",
    ]  # fmt: skip
    # All loads are below a knee that is nowhere, and past one below the lightest.
    assert verdict_of(LOADS[4], 0.0) == "reached"
    assert verdict_of(LOADS[4], float("nan")) == "missed"
    assert verdict_of(LOADS[0], float("nan")) == "reached"


def test_the_knee_is_judged_and_one_that_is_not_simulated_is_missed() -> None:
    by_knee = {
        "reached": Knee(1, CAPACITY_PER_S, 1.0, 1.04),
        "missed": Knee(1, CAPACITY_PER_S, 1.0, 1.06),
    }
    assert by_knee["reached"].error == pytest.approx(0.04)
    _, table = impatient_tables(LOADS)
    assert table.rows[0][-1] == "reached"
    slope = [replace(entry, simulated=(Result(9_000, 1.0),)) for entry in LOADS[:3]]
    never = [*slope, replace(LOADS[3], simulated=(Result(11_500, 1.0),))]
    assert impatient_tables(never)[1].rows[0][-1] == "missed"


def test_noise_is_half_the_range_and_offered_the_worst_run() -> None:
    entry = replace(
        LOADS[0], measured=(Result(9_000, 1.0), Result(8_800, 0.9)), offered_shares=(0.99, 0.98)
    )
    assert (entry.replied_per_s, entry.noise_per_s) == (8_900, 100)
    row = impatient_tables([entry])[0].rows[0]
    assert row[:6] == ("50 ms", "0.90", "9,000/s", "98.0%", "2", "8,900/s ± 100")
    assert row[6:8] == ("8,600/s", "-300/s")


def test_the_simulation_of_a_simulated_run_is_that_run() -> None:
    profile = toy_profile()
    runs = [synthetic_run(POINT, profile, repeat=n) for n in range(2)]
    noisy = synthetic_run(POINT, profile, repeat=2, reason="noise")
    seen: list[tuple[int, int]] = []
    (entry,) = compare([*runs, noisy], profile, lambda done, n: seen.append((done, n)))
    assert seen == [(1, 2), (2, 2)]
    # Its warm-up is 12 us longer, so a reply at either end of the window may be on the other side.
    for measured, simulated in zip(entry.measured, entry.simulated, strict=True):
        assert simulated.replied_per_s == pytest.approx(measured.replied_per_s, abs=2 / 0.06)
    assert entry.load == pytest.approx(POINT.rate_per_s / capacity_per_s(profile))
    last = impatient_tables([entry])[-1]
    assert last.rows == [(POINT.label, "2", "noise")]


def test_points_are_at_shares_of_the_simulated_capacity() -> None:
    profile = toy_profile()
    capacity = capacity_per_s(profile)
    points = points_of(profile)
    assert min(p.rate_per_s for p in points) == round(0.8 * capacity)
    assert max(p.rate_per_s for p in points) == round(1.5 * capacity)
    # A request takes its share of these 20 us and of some 40 us that all else takes.
    assert capacity < 1e9 / 20_000


def test_the_command_prints_what_is_there_and_asks_for_runs(tmp_path: Path) -> None:
    profile = toy_profile()
    path = tmp_path / "toy.toml"
    path.write_text(toml_of(profile))
    done = lab("impatient", tmp_path, "--profile", path, "--repeats", 0)
    assert done.exit_code == 2
    assert f"{IMPATIENT_FILE}: must hold runs, got none: --repeats above 0" in done.stderr
    append(tmp_path / IMPATIENT_FILE, synthetic_run(POINT, profile))
    done = lab("impatient", tmp_path, "--profile", path, "--repeats", 0)
    assert done.exit_code == 0, done.output
    for text in ("Clients that give up", "10,000/s", "Knees", "50 ms"):
        assert text in done.stdout
