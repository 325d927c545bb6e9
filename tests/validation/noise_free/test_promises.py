"""What counts, what is within, and who is worst."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.validation.emulated_runs import emulated_run
from tests.validation.synthetic_runs import toy_profile

from dispatchsim.calibration.points.point import Point, point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.validation.forecast.baselines import Baseline
from dispatchsim.validation.noise_free.promises import LIMITS, misfit, promises, worst_points
from dispatchsim.validation.noise_free.run_forecast import repeating, run_forecasts
from dispatchsim.validation.noise_free.scoring import RunScore, relative, score_runs
from dispatchsim.validation.report.noise_free_section import (
    OF_RUNS,
    REGIMES,
    readings_of_runs,
    regime_of,
    regime_table,
)
from dispatchsim.validation.report.summary_tables import suspect_table
from dispatchsim.validation.scoring.suspects import suspicions
from dispatchsim.validation.scoring.targets import OURS

FIT = point_at(mechanism="epoll_level", users=64)
BUSY = point_at(mechanism="poll", idle=200, users=64)
CALM = point_at(mechanism="epoll_level", users=1)
LIGHT, HEAVY = (
    point_at(mechanism="epoll_level", loop="open", rate_per_s=rate) for rate in (6_000, 40_000)
)
POINTS = [FIT, BUSY, CALM, LIGHT, HEAVY]


def scores_of(points: Sequence[Point], truth: Profile, model: Profile) -> list[RunScore]:
    """Return the scores of *model*'s forecasts of runs on *truth*, two seeds of open loops."""
    runs = [
        emulated_run(point, truth, repeat=repeat)
        for point in points
        for repeat in range(2 if point.load.loop == "open" else 1)
    ]
    found = run_forecasts([repeating(run, model) for run in runs])
    answers = {point: {"a formula": Baseline(2e4, 0.5, None)} for point in points}
    return score_runs(runs, found, answers, seen={FIT})


@pytest.fixture(scope="module")
def perfect(profile: Profile) -> list[RunScore]:
    return scores_of(POINTS, profile, profile)


@pytest.fixture(scope="module")
def cheap(profile: Profile) -> list[RunScore]:
    """Return the scores of a model whose server costs are 3% too low."""
    return scores_of(POINTS, profile, toy_profile(scale=0.97))


def at(scores: Sequence[RunScore], point: Point) -> list[RunScore]:
    return [s for s in scores if s.point == point]


def test_a_perfect_model_keeps_every_promise(perfect: list[RunScore]) -> None:
    for promise in promises(perfect):
        assert promise.verdict == "reached"
        assert promise.errors[OURS].worst == 0
    assert all(misfit(s) == 0 for s in perfect)


def test_throughput_counts_where_it_is_the_servers(perfect: list[RunScore]) -> None:
    saturated = {s.point for s in perfect if s.saturated}
    assert saturated == {FIT, BUSY, HEAVY}
    for s in perfect:
        assert (s.errors.throughput_per_s is None) == (s.point not in saturated)


def test_load_is_told_as_a_share_of_the_servers_own_capacity(perfect: list[RunScore]) -> None:
    capacity = max(s.measured.throughput_per_s for s in at(perfect, HEAVY))
    assert at(perfect, LIGHT)[0].load_share == pytest.approx(6_000 / capacity)
    assert at(perfect, BUSY)[0].load_share is None


def test_what_the_fit_saw_does_not_count(cheap: list[RunScore]) -> None:
    (cpu, *_, capacity) = promises(cheap)
    assert (cpu.n_points, cpu.errors[OURS].n_runs) == (4, 6)
    assert capacity.n_points == 2
    assert FIT not in {s.point for s in worst_points(cheap, 10)}


def test_a_point_is_within_where_all_its_runs_are(perfect: list[RunScore]) -> None:
    first, second = at(perfect, LIGHT)
    off = replace(second, errors=second.errors._replace(mean_ns=0.06))
    mean = promises([first, off])[3]
    assert (mean.figure, mean.verdict) == ("mean_ns", "missed")
    assert (mean.n_points_within, mean.n_points) == (0, 1)
    assert (mean.n_runs_within, mean.errors[OURS].n_runs) == (1, 2)


def test_the_worst_points_come_first_and_once(cheap: list[RunScore]) -> None:
    worst = worst_points(cheap, 3)
    assert len({s.point for s in worst}) == 3
    misfits = [misfit(s) for s in worst]
    assert misfits == sorted(misfits, reverse=True)
    assert misfits[0] == max(misfit(s) for s in cheap if not s.seen)


def test_a_formula_is_scored_on_what_it_says(perfect: list[RunScore]) -> None:
    cpu, waits, _, mean, _, capacity = (p.errors["a formula"] for p in promises(perfect))
    assert cpu.n_runs == 6
    assert waits.n_runs == mean.n_runs == 0
    assert waits.median is None
    assert capacity.n_runs == 3


def test_nothing_measured_is_no_promise_kept() -> None:
    assert [p.verdict for p in promises([])] == ["not measured"] * len(LIMITS)


def test_a_forecast_that_is_missing_is_wrong_by_all() -> None:
    assert relative(float("nan"), 3.0) == -1
    assert relative(3.0, float("nan")) is None
    assert relative(3.0, 0.0) is None


def test_regimes_are_told_apart_by_loop_and_load(cheap: list[RunScore]) -> None:
    regimes = {point: {regime_of(s) for s in at(cheap, point)} for point in POINTS}
    assert regimes == {
        FIT: {REGIMES[1]},
        BUSY: {REGIMES[1]},
        CALM: {REGIMES[1]},
        LIGHT: {REGIMES[0]},
        HEAVY: {REGIMES[2]},
    }


def test_suspects_of_low_loads_are_read_up_to_eighty_percent(perfect: list[RunScore]) -> None:
    (light, _) = at(perfect, LIGHT)
    shares = (0.8, 0.9, 1.0, 1.1, None)
    regimes = [
        {reading.regime for reading in readings_of_runs([replace(light, load_share=share)])}
        for share in shares
    ]
    assert regimes == [
        {"no queue: up to 80% of capacity"},
        {"queue: up to the capacity"},
        {"queue: up to the capacity"},
        {"past the capacity"},
        set(),
    ]


def test_suspects_of_closed_loops_are_those_of_counts_and_capacity(cheap: list[RunScore]) -> None:
    read = {reading.figure for reading in readings_of_runs(at(cheap, BUSY))}
    assert read == {"events_per_wait", "throughput_per_s"}
    assert readings_of_runs(at(cheap, FIT)) == []


def test_a_median_error_is_compared_with_the_promised_limit(cheap: list[RunScore]) -> None:
    table = suspect_table(suspicions(readings_of_runs(at(cheap, LIGHT))), OF_RUNS)
    assert "limit" in table.headings
    assert ("CPU time of a request", "2.0%") in [
        (row[0].split(",")[0], row[4]) for row in table.rows
    ]
    assert suspect_table([], OF_RUNS).note == (
        "No metric is wrong for certain: its median error must be beyond its limit and have one "
        "sign at several points. "
        "Not read in closed loops: CPU time of a request, mean latency, p99 latency."
    )


def test_errors_by_regime_leave_out_what_the_fit_has_seen(cheap: list[RunScore]) -> None:
    cpu = regime_table(cheap).rows[0]
    assert cpu[:2] == ("CPU per request", "2.0%")
    n_closed = len(at(cheap, BUSY) + at(cheap, CALM))
    size, within = cpu[3].split(" ", 1)
    assert within == f"(0 of {n_closed})"
    assert 2.5 < float(size.rstrip("%")) < 3.5  # busy all the time: cheaper by what costs are
    assert [cell.split(" of ")[1] for cell in cpu[2:]] == ["2)", f"{n_closed})", "2)"]
