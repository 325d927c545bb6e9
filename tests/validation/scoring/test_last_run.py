"""Another run as the forecast of the first, beside the model's forecast."""

from __future__ import annotations

import pytest
from tests.validation.synthetic_runs import synthetic_run

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import RunRecord
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.validation.forecast.forecast import Forecast
from dispatchsim.validation.points.measured_points import figures_of_run, group
from dispatchsim.validation.report.last_run_table import last_run_table
from dispatchsim.validation.scoring.knee import KneeErrors
from dispatchsim.validation.scoring.last_run import against_first, cpu_within, pairs_of
from dispatchsim.validation.scoring.regimes import CAPACITY, CLOSED
from dispatchsim.validation.scoring.scoring import PointScore, score

USERS = point_at(mechanism="poll", loop="closed", users=64)
OTHERS = point_at(mechanism="select", loop="closed", users=64)


def faster(run: RunRecord, factor: float, repeat: int) -> RunRecord:
    """Return *run* with that many times the replies."""
    result = run.result.model_copy(update={"replied": round(run.result.replied * factor)})
    return run.model_copy(update={"result": result, "repeat": repeat})


def scores_of(*pairs: tuple[RunRecord, RunRecord]) -> list[PointScore]:
    """Return the scores of runs, each beside another one that stands for its forecast."""
    forecasts = {}
    for run, other in pairs:
        figures = figures_of_run(other)
        made = Forecast(run.point, figures, figures, figures, Verdict.OVERLOADED, (), 0)
        forecasts[run.point] = made
    return score(group(run for run, _ in pairs), forecasts, {})


def test_the_last_run_and_the_forecast_are_compared_with_the_first(profile: Profile) -> None:
    first = synthetic_run(USERS, profile)
    runs = [first, faster(first, 3, 1), faster(first, 1.25, 2)]
    alone = synthetic_run(OTHERS, profile)
    scores = scores_of((faster(first, 2, 0), faster(first, 0.9, 0)), (alone, alone))
    found = against_first([*runs, alone], scores)
    assert [[each.measured.point for each in scores] for scores in found] == [[USERS], [USERS]]
    ((last, model),) = (
        pair for pair in pairs_of(found) if getattr(pair[0], "figure", "") == CAPACITY
    )
    assert (last.n, model.n) == (1, 1)
    assert last.signed == pytest.approx(0.25, rel=1e-2)
    assert model.signed == pytest.approx(-0.1, rel=1e-2)


def test_rejected_runs_and_points_without_a_score_do_not_count(profile: Profile) -> None:
    first = synthetic_run(USERS, profile)
    rejected = faster(first, 2, 1).rejected("steal_share must be ...")
    assert against_first([first, rejected], scores_of((first, first))) == ([], [])
    assert against_first([first, faster(first, 2, 1)], []) == ([], [])


def test_equal_runs_have_no_error_and_the_table_a_row_for_each_metric(profile: Profile) -> None:
    first = synthetic_run(USERS, profile)
    found = against_first([first, faster(first, 1, 1)], scores_of((first, first)))
    pairs = pairs_of(found)
    assert {(last.median, model.median) for last, model in pairs} == {(0, 0)}
    table = last_run_table(pairs, list(map(cpu_within, found)))
    assert {row[1] for row in table.rows} == {CLOSED}
    assert len(table.rows) == len(pairs) > 1
    assert "at 1 of 1 points by the other run, and at 1 of 1 by the forecast" in table.note


def test_the_loads_at_which_p99_passes_a_bound_are_of_the_same_servers(profile: Profile) -> None:
    def slow(run: RunRecord, p99_ms: float, repeat: int) -> RunRecord:
        latency = run.result.latency_ns
        assert latency is not None
        made = latency.model_copy(update={"p99": p99_ms * 1e6})
        result = run.result.model_copy(update={"latency_ns": made})
        return run.model_copy(update={"result": result, "repeat": repeat})

    runs, pairs = [], []
    for mechanism, last_ms in (("poll", 30.0), ("select", 0.1)):
        for rate, p99_ms in ((5_000, 0.1), (6_000, 0.2), (7_000, 40.0)):
            point = point_at(mechanism=mechanism, loop="open", rate_per_s=rate)
            first = slow(synthetic_run(point, profile), p99_ms, 0)
            runs += [first, slow(first, min(p99_ms, last_ms), 1)]
            pairs.append((first, first))
    found = pairs_of(against_first(runs, scores_of(*pairs)))
    knees = {pair[0].bound_ns: pair for pair in found if isinstance(pair[0], KneeErrors)}
    last, model = knees[20_000_000]
    # The last runs of select never pass the bound: their load is at least the highest rate.
    assert (last.n, model.n) == (2, 2)
    assert (last.only_measured, model.only_measured) == (1, 0)
    assert model.median == 0
