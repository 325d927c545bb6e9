"""Queues whose answers are known, and the recursion that simulates them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dispatchsim.validation.output_statistics.coverage import (
    Queue,
    lindley,
    mean_wait,
    services,
    stationary_wait,
    wait_probability,
    wait_quantile,
    waits,
)

QUEUES = list(Queue)


@given(seed=st.integers(0, 2**32), n=st.integers(1, 60), first=st.floats(0, 20))
def test_the_recursion_is_lindleys(seed: int, n: int, first: float) -> None:
    rng = np.random.default_rng(seed)
    served, gaps = rng.exponential(size=(2, n)), rng.exponential(1.2, (2, n))
    found = lindley(np.array([first, 0.0]), served, gaps)
    for row, wait in enumerate((first, 0.0)):
        waited = wait
        for i in range(n):
            assert found[row, i] == pytest.approx(waited, abs=1e-9)
            waited = max(0.0, waited + served[row, i] - gaps[row, i])


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("rho", [0.5, 0.8, 0.9])
def test_mean_and_quantiles_belong_to_one_distribution(queue: Queue, rho: float) -> None:
    # The mean of what is not negative is the integral of the probability to be above.
    grid = np.linspace(0, 10, 10_001)
    above = [1 - wait_probability(queue, rho, float(wait)) for wait in grid]
    # Beyond the grid the tail is that of an exponential: its mean is its value over its decay.
    decay = math.log(above[-1_001] / above[-1])
    mean = float(np.trapezoid(above, grid)) + above[-1] / decay
    assert mean == pytest.approx(mean_wait(queue, rho), rel=2e-3)


@pytest.mark.parametrize("queue", QUEUES)
@given(rho=st.floats(0.3, 0.85), q=st.floats(0.2, 0.99))
@example(rho=0.85, q=0.99)  # the sum has lost its digits at the quantile of M/M/1
def test_a_quantile_is_where_the_probability_is_reached(queue: Queue, rho: float, q: float) -> None:
    probability = wait_probability(queue, rho, wait_quantile(queue, rho, q))
    assert probability == pytest.approx(max(q, 1 - rho), abs=1e-6)


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_the_first_wait_is_drawn_from_the_steady_state(queue: Queue, rho: float) -> None:
    n = 200_000
    first = stationary_wait(queue, rho, n, np.random.default_rng(15))
    error = float(first.std()) / n**0.5
    assert abs(float(first.mean()) - mean_wait(queue, rho)) < 4 * error
    for q in (0.6, 0.95):
        below = float((first <= wait_quantile(queue, rho, q)).mean())
        assert abs(below - q) < 4 * (q * (1 - q) / n) ** 0.5


@pytest.mark.parametrize("queue", QUEUES)
def test_a_run_stays_in_the_steady_state_and_an_empty_one_comes_to_it(queue: Queue) -> None:
    rng = np.random.default_rng(16)
    n = 40_000
    for empty in (False, True):
        last = waits(queue, 0.7, (n, 300), rng, empty=empty)[:, [0, -1]]
        assert (last[:, 0] == 0).all() == empty
        error = float(last[:, 1].std()) / n**0.5
        assert abs(float(last[:, 1].mean()) - mean_wait(queue, 0.7)) < 4 * error


def test_services_take_one_in_the_mean() -> None:
    rng = np.random.default_rng(17)
    assert (services(Queue.M_D_1, (2, 3), rng) == 1).all()
    assert float(services(Queue.M_M_1, (1, 100_000), rng).mean()) == pytest.approx(1, abs=0.02)
