"""Drift: what the neighbours of runs say of the machine, and what is left of the noise."""

import numpy as np
import pytest
from tests.calibration.records.test_precision import runs

from dispatchsim.calibration.measure.surroundings import REFERENCE
from dispatchsim.calibration.points.point import point_at
from dispatchsim.calibration.records.measured_runs import RunRecord
from dispatchsim.validation.scoring.drift import Drift, drift_table, drifts, scatter_of


def beside(run: RunRecord, **around: float) -> RunRecord:
    return run.model_copy(update={"around": {name: (ns, ns) for name, ns in around.items()}})


def test_what_slows_the_reference_alike_is_drift() -> None:
    slow = [1.0, 1.1, 0.9, 1.2, 0.8]
    measured = [
        beside(run, **{REFERENCE: 50_000 * each})
        for each, run in zip(slow, runs(*(round(10_000 / each) for each in slow)), strict=True)
    ]
    found = scatter_of(measured)
    assert found is not None
    assert found.n_points == 1
    rates = 1 / np.array(slow)
    assert found.raw == pytest.approx(rates.std(ddof=1) / rates.mean(), rel=1e-3)
    assert found.relative == pytest.approx(0, abs=1e-3)


def test_noise_that_the_reference_does_not_share_stays() -> None:
    measured = [beside(run, **{REFERENCE: 50_000}) for run in runs(900, 1000, 1100)]
    found = scatter_of(measured)
    assert found is not None
    assert found.relative == pytest.approx(found.raw) == pytest.approx(0.1)


def test_nothing_is_said_of_runs_without_neighbours_rejected_or_few() -> None:
    assert scatter_of([]) is None
    assert scatter_of(runs(1, 2, 3)) is None
    few = [beside(run, **{REFERENCE: 1.0}) for run in runs(1000, 1000)]
    assert scatter_of(few) is None
    rejected = [beside(run, **{REFERENCE: 1.0}) for run in runs(5, 5, 5, accepted=False)]
    assert scatter_of([*few, *rejected]) is None
    opened = point_at(mechanism="poll", loop="open", rate_per_s=1000)
    in_open_loops = [
        beside(run, **{REFERENCE: 1.0}).model_copy(update={"point": opened})
        for run in runs(1, 2, 3)
    ]
    assert scatter_of(in_open_loops) is None


def test_each_price_has_its_own_drift() -> None:
    measured = [beside(run, scan=60.0 + i, calls=500.0) for i, run in enumerate(runs(*[1000] * 11))]
    scan, calls = drifts(measured)
    assert (scan.name, scan.n) == ("scan", 11)
    assert (scan.low, scan.high) == pytest.approx((61 / 65, 69 / 65))
    assert calls == Drift("calls", 11, 1.0, 1.0)
    assert drifts(runs(1000)) == []
    table = drift_table(drifts(measured), None)
    assert [row[0] for row in table.rows] == ["scan", "calls"]
    assert "relative to the reference runs" not in table.note
