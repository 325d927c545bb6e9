"""A queue that grows is told from one that merely varies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dispatchsim.sim.figures.summary import Verdict, verdict_of
from dispatchsim.sim.figures.tally import Progress
from dispatchsim.sim.output_analysis.steady_state import drift, verdict_of_drift
from dispatchsim.validation.output_statistics.coverage import (
    Floats,
    Queue,
    lindley,
    services,
    stationary_wait,
)

SAMPLES = st.lists(st.integers(-1_000, 1_000), min_size=10, max_size=80).map(np.array)


def number_in_system(rho: float, runs: int, n: int, rng: np.random.Generator) -> Floats:
    """Return how many are in M/M/1, a row a run, at every mean service while *n* arrive.

    Runs begin in steady state, where there is one.
    """
    gaps, served = rng.exponential(1 / rho, (runs, n)), services(Queue.M_M_1, (runs, n), rng)
    first = stationary_wait(Queue.M_M_1, rho, runs, rng) if rho < 1 else np.zeros(runs)
    arrive = np.cumsum(gaps, axis=1) - gaps
    leave = arrive + lindley(first, served, gaps) + served
    at = np.arange(0.0, n / rho * 0.95)
    return np.array(
        [
            np.searchsorted(a, at, side="right") - np.searchsorted(d, at, side="right")
            for a, d in zip(arrive, leave, strict=True)
        ],
        dtype=float,
    )


def by_ends(row: Floats, n_offered: int) -> Verdict:
    """Return the verdict that the numbers in the system at both ends of the window tell."""
    growth, n_waiting = row[-1] - row[0], int(row[-1])
    answered = int(n_offered - growth)
    progress = Progress(answered, answered // 2, n_waiting)
    return verdict_of(growth, row[0], n_offered=n_offered, n_errors=0, progress=progress)


def verdicts(rho: float, runs: int, n: int, seed: int) -> list[Verdict]:
    table = number_in_system(rho, runs, n, np.random.default_rng(seed))
    return [verdict_of_drift(drift(row[500:], 1.0), arrivals=rho) for row in table]


def test_the_slope_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(10)
    values = rng.normal(size=20) + np.arange(20)
    slope = drift(values, 0.5, n_batches=10)
    means = values.reshape(10, 2).mean(axis=1)
    expected = stats.linregress(np.arange(10) * 1.0, means)
    assert slope.estimate == pytest.approx(expected.slope)
    assert slope.half_width == pytest.approx(stats.t.ppf(0.975, 8) * expected.stderr)


def test_what_grows_evenly_grows_for_certain() -> None:
    slope = drift(np.arange(1_003) * 0.25, 0.5)
    assert slope.estimate == pytest.approx(0.5)
    assert slope.half_width == pytest.approx(0.0, abs=1e-9)


@given(
    values=SAMPLES, shift=st.integers(-9, 9), scale=st.sampled_from([0.25, 2.0, 8.0]), step=SAMPLES
)
def test_units_of_values_and_of_time_are_those_of_the_slope(
    values: NDArray[np.int64], shift: int, scale: float, step: NDArray[np.int64]
) -> None:
    distance = 1.0 + abs(float(step[0]))
    before, after = drift(values, 1.0), drift(scale * values + shift, distance)
    factor = scale / distance
    assert after.low == pytest.approx(factor * before.low, rel=1e-6, abs=1e-6)
    assert after.high == pytest.approx(factor * before.high, rel=1e-6, abs=1e-6)


@given(values=SAMPLES)
def test_backwards_it_falls(values: NDArray[np.int64]) -> None:
    n = len(values) // 10 * 10
    forth, back = drift(values[:n], 1.0), drift(values[:n][::-1], 1.0)
    assert back.low == pytest.approx(-forth.high, rel=1e-6, abs=1e-6)


def test_a_queue_in_steady_state_is_stable() -> None:
    """M/M/1, 20,000 customers, 400 runs a load; one-sided, so 2.5% of false alarms by theory."""
    for rho in (0.5, 0.8):
        alarms = sum(found is not Verdict.STABLE for found in verdicts(rho, 400, 20_000, 11))
        # Three standard errors of a share over 400 are 2.3 points.
        assert alarms <= 0.048 * 400, rho


def test_a_queue_that_gets_more_than_it_serves_is_found_out() -> None:
    """M/M/1 with 2% and with 20% too much: 100 runs of 20,000 customers each."""
    found = verdicts(1.02, 100, 20_000, 12)
    assert sum(each is not Verdict.STABLE for each in found) >= 90
    # It grows by 2% of what arrives: less than what counts as an overload.
    assert Verdict.OVERLOADED not in found
    assert set(verdicts(1.2, 100, 20_000, 13)) == {Verdict.OVERLOADED}


def test_it_sees_a_growth_that_two_points_do_not() -> None:
    """M/M/1 with 0.5% too much, 400,000 customers: some 2,000 wait at the end."""
    rng = np.random.default_rng(14)
    both = []
    for _ in range(20):
        row = number_in_system(1.005, 1, 400_000, rng)[0]
        both.append((by_ends(row, 380_000), verdict_of_drift(drift(row, 1.0), arrivals=1.005)))
    assert all(ends is Verdict.STABLE for ends, _ in both)
    assert sum(drifts is Verdict.BACKLOGGED for _, drifts in both) >= 18


def test_a_short_run_of_a_busy_queue_is_taken_for_growth_less_often_than_by_two_points() -> None:
    """M/M/1 in steady state at load 0.95, 1,000 customers: shorter than what it remembers."""
    table = number_in_system(0.95, 300, 1_000, np.random.default_rng(19))
    growing = (
        [by_ends(row, 950) for row in table],
        [verdict_of_drift(drift(row, 1.0), arrivals=0.95) for row in table],
    )
    at_ends, by_slope = (sum(found is not Verdict.STABLE for found in each) for each in growing)
    assert 0.1 * 300 < by_slope < 0.7 * at_ends


def test_what_cannot_be_an_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^values: must be at least 10, got 9"):
        drift(range(9), 1.0)
    with pytest.raises(ValueError, match=r"^n_batches: must be at least 3, got 2"):
        drift(range(9), 1.0, n_batches=2)
    with pytest.raises(ValueError, match=r"^step: must be above 0, got 0"):
        drift(range(99), 0)
    with pytest.raises(ValueError, match=r"^arrivals: must be above 0, got 0"):
        verdict_of_drift(drift(range(99), 1.0), arrivals=0)
