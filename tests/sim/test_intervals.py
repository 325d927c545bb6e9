import math

import numpy as np

from dispatchsim.sim.intervals import prediction_interval


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
