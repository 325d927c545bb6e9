"""Quantiles: over replications, sectioned, and between order statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dispatchsim.sim.output_analysis.quantiles import (
    quantile_of_independent,
    quantile_over_replications,
    quantile_sectioned,
    sections_of,
)

Floats = NDArray[np.float64]

SAMPLES = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=20, max_size=60).map(
    np.array
)
QS = st.floats(0.2, 0.8)
BY_SECTIONS = {"apart": quantile_over_replications, "together": quantile_sectioned}


def test_the_binomial_interval_is_the_one_of_the_tables() -> None:
    # Conover 1999, "Practical Nonparametric Statistics", §3.2: the median of 16 values, 95%, lies
    # between the 4th and the 13th.
    interval = quantile_of_independent(range(1, 17), 0.5)
    assert (interval.low, interval.high) == (4, 13)


@given(n=st.integers(72, 500), q=st.floats(0.05, 0.95))
def test_the_binomial_interval_holds_the_quantile_at_least_as_often_as_it_says(
    n: int, q: float
) -> None:
    interval = quantile_of_independent(range(1, n + 1), q)
    first, last = round(interval.low), round(interval.high)
    below = stats.binom(n, q)
    assert below.cdf(last - 1) - below.cdf(first - 1) >= 0.95 - 1e-12
    # One step less on either side would leave more than its half of the error.
    assert below.cdf(first) >= 0.025 - 1e-12
    assert below.cdf(last - 2) <= 0.975 + 1e-12


def test_too_few_values_cannot_bound_a_quantile() -> None:
    # The largest of n values is below the quantile at 0.99 with probability 0.99^n.
    n = math.ceil(math.log(0.025) / math.log(0.99))
    quantile_of_independent(range(n), 0.99)
    with pytest.raises(ValueError, match=f"^values: must be at least {n}, got {n - 1}"):
        quantile_of_independent(range(n - 1), 0.99)


def test_the_sectioned_quantile_is_that_of_all_values() -> None:
    sections = [[1.0, 2.0, 3.0], [2.0, 3.0, 10.0]]
    interval = quantile_sectioned(sections, 0.5)
    assert interval.estimate == 2.5
    # Medians 2 and 3 about 2.5: a variance of 0.5 with one degree of freedom, whose t is 12.706.
    assert interval.high - 2.5 == pytest.approx(12.7062 * (0.5 / 2) ** 0.5, rel=1e-4)
    assert quantile_over_replications(sections, 0.5).estimate == 2.5
    assert quantile_sectioned(sections, 0.9).estimate == np.quantile([1, 2, 3, 2, 3, 10], 0.9)


def test_a_bias_of_short_sections_widens_the_sectioned_interval_only() -> None:
    # Of three exponential values the quantile at 0.9 comes out far too small, all the same.
    sections = list(np.random.default_rng(1).exponential(size=(400, 3)))
    truth = math.log(10)
    assert not quantile_over_replications(sections, 0.9).holds(truth)
    assert quantile_sectioned(sections, 0.9).holds(truth)


@pytest.mark.parametrize("procedure", BY_SECTIONS)
@given(values=SAMPLES, q=QS, shift=st.floats(-1e6, 1e6), scale=st.floats(1e-3, 1e3))
def test_a_shift_and_a_scale_of_values_are_those_of_the_interval(
    procedure: str, values: Floats, q: float, shift: float, scale: float
) -> None:
    def interval_of(array: Floats) -> tuple[float, float]:
        interval = BY_SECTIONS[procedure](sections_of(array, 4), q)
        return interval.low, interval.high

    low, high = interval_of(values)
    rounding = 1e-6 * (1 + abs(shift) + scale * float(np.abs(values).max()))
    assert interval_of(shift + scale * values) == pytest.approx(
        (shift + scale * low, shift + scale * high), rel=1e-6, abs=rounding
    )


@given(values=SAMPLES, scale=st.floats(0.1, 10))
def test_order_statistics_go_along_with_any_growing_function(values: Floats, scale: float) -> None:
    before = quantile_of_independent(values, 0.5)
    after = quantile_of_independent(np.arctan(scale * values), 0.5)
    assert after.low == np.arctan(scale * before.low)
    assert after.high == np.arctan(scale * before.high)


@pytest.mark.parametrize("procedure", BY_SECTIONS)
@given(values=SAMPLES, seed=st.integers(0, 99))
def test_the_order_of_sections_does_not_matter(procedure: str, values: Floats, seed: int) -> None:
    sections = sections_of(values, 5)
    order = np.random.default_rng(seed).permutation(5)
    before = BY_SECTIONS[procedure](sections, 0.5)
    after = BY_SECTIONS[procedure]([sections[i] for i in order], 0.5)
    assert (after.low, after.high) == pytest.approx((before.low, before.high), rel=1e-6, abs=1e-6)


def test_what_cannot_be_an_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^q: must be above 0 and below 1, got 1"):
        quantile_of_independent(range(100), 1)
    with pytest.raises(ValueError, match=r"^sections: must be at least 2, got 1"):
        quantile_sectioned([[1.0]], 0.5)
    with pytest.raises(ValueError, match=r"^section: must be at least 1, got 0"):
        quantile_over_replications([[1.0], []], 0.5)
    with pytest.raises(ValueError, match=r"^n_sections: must be at least 2, got 1"):
        sections_of([1.0], 1)
    with pytest.raises(ValueError, match=r"^values: must be at least 3, got 2"):
        sections_of([1.0, 2.0], 3)
