"""A second run as the forecast of the first, beside the model's forecast."""

from __future__ import annotations

import pytest
from tests.validation.synthetic_runs import synthetic_run

from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.profiles.cost_profile import Profile
from dispatchsim.calibration.records.measured_runs import RunRecord
from dispatchsim.sim.figures.summary import Verdict
from dispatchsim.validation.forecast.forecast import Forecast
from dispatchsim.validation.points.measured_points import figures_of_run
from dispatchsim.validation.report.last_run_table import last_run_table
from dispatchsim.validation.scoring.last_run import against_first, cpu_within, pairs_of
from dispatchsim.validation.scoring.regimes import CAPACITY, CLOSED

USERS = point_at(mechanism="poll", loop="closed", users=64)
OTHERS = point_at(mechanism="select", loop="closed", users=64)


def faster(run: RunRecord, factor: float, repeat: int) -> RunRecord:
    """Return *run* with that many times the replies."""
    result = run.result.model_copy(update={"replied": round(run.result.replied * factor)})
    return run.model_copy(update={"result": result, "repeat": repeat})


def forecast_of(run: RunRecord) -> Forecast:
    figures = figures_of_run(run)
    return Forecast(run.point, figures, figures, figures, Verdict.OVERLOADED, (), 0)


def test_the_last_run_and_the_forecast_are_compared_with_the_first(profile: Profile) -> None:
    first = synthetic_run(USERS, profile)
    runs = [first, faster(first, 3, 1), faster(first, 1.25, 2)]
    alone = synthetic_run(OTHERS, profile)
    forecasts = {USERS: forecast_of(faster(first, 0.9, 0)), OTHERS: forecast_of(alone)}
    found = against_first([*runs, alone], forecasts)
    assert [[each.measured.point for each in scores] for scores in found] == [[USERS], [USERS]]
    ((last, model),) = (
        pair for pair in pairs_of(found) if getattr(pair[0], "figure", "") == CAPACITY
    )
    assert (last.n, model.n) == (1, 1)
    assert last.signed == pytest.approx(0.25, rel=1e-3)
    assert model.signed == pytest.approx(-0.1, rel=1e-2)


def test_rejected_runs_and_points_without_a_forecast_do_not_count(profile: Profile) -> None:
    first = synthetic_run(USERS, profile)
    rejected = faster(first, 2, 1).rejected("steal_share must be ...")
    assert against_first([first, rejected], {USERS: forecast_of(first)}) == ([], [])
    assert against_first([first, faster(first, 2, 1)], {}) == ([], [])


def test_equal_runs_have_no_error_and_the_table_a_row_for_each_metric(profile: Profile) -> None:
    first = synthetic_run(USERS, profile)
    found = against_first([first, faster(first, 1, 1)], {USERS: forecast_of(first)})
    pairs = pairs_of(found)
    assert {(last.median, model.median) for last, model in pairs} == {(0, 0)}
    table = last_run_table(pairs, list(map(cpu_within, found)))
    assert {row[1] for row in table.rows} == {CLOSED}
    assert len(table.rows) == len(pairs) > 1
    assert "at 1 of 1 points by a second run, and at 1 of 1 by the forecast" in table.note
