"""Intervals hold the truth as often as they say, where theory promises it, and not elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lab import lab

from dispatchsim.sim.output_analysis.comparison import paired_difference
from dispatchsim.validation.output_statistics.coverage import (
    FAILS,
    HOLDS,
    Case,
    Measured,
    Procedure,
    Queue,
    measure,
    paired_means,
    row,
)

EXPERIMENTS = 1_000


def cheapest(cases: tuple[Case, ...]) -> list[Case]:
    """Return one case of each procedure, with the fewest customers: `lab coverage` has all."""
    dearest_first = sorted(cases, key=lambda case: -case.length * case.replications)
    return list({case.procedure: case for case in dearest_first}.values())


AT_LEAST = {Procedure.INDEPENDENT, Procedure.RANKING, Procedure.SELECTION}
"""These promise a probability or more, and with several systems alike it is often more."""


def name_of(case: Case) -> str:
    return f"{case.procedure}: {case.queue} {case.rho}, {case.length} x {case.replications}"


@pytest.mark.parametrize("case", cheapest(HOLDS), ids=name_of)
def test_an_interval_of_95_percent_holds_the_truth_in_93_to_97(case: Case) -> None:
    share = measure(case, EXPERIMENTS).share
    assert share >= 0.93
    assert share <= 0.97 or case.procedure in AT_LEAST


@pytest.mark.parametrize("case", cheapest(FAILS), ids=name_of)
def test_what_is_too_short_holds_it_less_often_than_it_says(case: Case) -> None:
    measured = measure(case, EXPERIMENTS // 2)
    assert measured.interval[1] < 0.95


def test_common_random_numbers_gain_an_order_of_magnitude_between_like_queues() -> None:
    case = Case(Procedure.PAIRED, Queue.M_M_1, 0.5, 2_000, 400)
    first, second = paired_means(case, np.random.default_rng(18))
    assert paired_difference(first, second).variance_gain > 10


def test_the_share_has_the_binomial_interval_of_its_experiments() -> None:
    measured = Measured(HOLDS[0], 950, 1_000)
    assert measured.share == 0.95
    low, high = measured.interval
    # Clopper and Pearson, by table: 93.5% to 96.3%.
    assert (round(low, 3), round(high, 3)) == (0.935, 0.963)
    assert "93.5%..96.3%" in row(measured)


def test_the_table_has_a_row_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatchsim.validation.output_statistics.coverage.HOLDS", HOLDS[:1])
    monkeypatch.setattr("dispatchsim.validation.output_statistics.coverage.FAILS", FAILS[:1])
    lines = lab("coverage", "--experiments", 20, "--seed", 3).stdout.splitlines()
    assert lines[0] == "20 experiments per case, seed 3"
    assert lines[2:5:2] == ["-- long enough", "-- not long enough"]
    assert len(lines) == 6
