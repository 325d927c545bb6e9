import math

import numpy as np
import pytest
from scipy.special import stdtrit

from dispatchsim.sim.output_analysis.interval import prediction_interval, two_sided_t


def test_it_covers_the_next_value_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(4000):
        *seen, following = rng.normal(100, 7, 7)
        low, high = prediction_interval(seen)
        hits += low <= following <= high
    # Standard error of a share of 0.95 over 4000: 0.34 points; four of them.
    assert abs(hits / 4000 - 0.95) < 0.014


def test_one_value_gives_no_interval() -> None:
    assert all(math.isnan(bound) for bound in prediction_interval([3.0, float("nan")]))


@pytest.mark.parametrize(
    ("level", "degrees", "reach"),
    # From the table that every textbook has.
    [(0.95, 1, 12.706), (0.95, 4, 2.776), (0.95, 9, 2.262), (0.99, 9, 3.250), (0.90, 29, 1.699)],
)
def test_reaches_are_those_of_the_tables(level: float, degrees: float, reach: float) -> None:
    assert round(two_sided_t(level, degrees), 3) == reach


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("degrees", [1, 1.5, 2, 3, 5, 9.7, 19, 99, 1000])
def test_scipy_finds_the_same(level: float, degrees: float) -> None:
    expected = float(stdtrit(degrees, (1 + level) / 2))
    assert two_sided_t(level, degrees) == pytest.approx(expected, rel=1e-10)
