"""Means: of replications, of one long run, of pairs; and what their intervals must do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dispatchsim.sim.output_analysis.comparison import paired_difference
from dispatchsim.sim.output_analysis.interval import (
    BATCHES_MIN,
    Interval,
    batch_means_interval,
    mean_interval,
)

Floats = NDArray[np.float64]

VALUES = st.floats(-1e6, 1e6, allow_subnormal=False)
SHIFTS = st.floats(-1e6, 1e6, allow_subnormal=False)
SCALES = st.floats(1e-3, 1e3)
MEANS = {"replications": mean_interval, "batch means": batch_means_interval}


def samples(least: int) -> st.SearchStrategy[Floats]:
    return st.lists(VALUES, min_size=least, max_size=60).map(np.array)


def test_the_t_interval_is_that_of_the_textbook() -> None:
    # Law 2015, §4.5: ten observations, 90%.
    values = [1.20, 1.50, 1.68, 1.89, 0.95, 1.49, 1.58, 1.55, 0.50, 1.09]
    interval = mean_interval(values, level=0.9)
    assert interval.estimate == pytest.approx(1.343)
    assert interval.half_width == pytest.approx(0.24, abs=0.005)
    reference = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high))


def test_the_relative_half_width_is_a_share_of_the_estimate() -> None:
    assert Interval(-20.0, -21.0, -19.0, 0.95, "by hand").relative_half_width == 0.05
    assert Interval(0.0, -1.0, 1.0, 0.95, "by hand").relative_half_width == math.inf
    assert Interval(0.0, 0.0, 0.0, 0.95, "by hand").relative_half_width == 0.0


def test_a_figure_that_a_replication_does_not_have_leaves_the_mean_unknown() -> None:
    interval = mean_interval([1.0, math.nan, 2.0])
    assert math.isnan(interval.estimate)
    assert not interval.holds(1.5)
    assert math.isnan(mean_interval([1.0, math.inf]).half_width)


@pytest.mark.parametrize("procedure", MEANS)
@given(values=samples(BATCHES_MIN), shift=SHIFTS, scale=SCALES)
def test_a_shift_and_a_scale_of_values_are_those_of_the_interval(
    procedure: str, values: Floats, shift: float, scale: float
) -> None:
    before = MEANS[procedure](values)
    after = MEANS[procedure](shift + scale * values)
    rounding = 1e-6 * (1 + abs(shift) + scale * float(np.abs(values).max()))
    assert after.low == pytest.approx(shift + scale * before.low, rel=1e-6, abs=rounding)
    assert after.high == pytest.approx(shift + scale * before.high, rel=1e-6, abs=rounding)


@given(values=samples(2), seed=st.integers(0, 99))
def test_the_order_of_replications_does_not_matter(values: Floats, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(values)
    before, after = mean_interval(values), mean_interval(shuffled)
    assert after.low == pytest.approx(before.low, rel=1e-9, abs=1e-6)
    assert after.high == pytest.approx(before.high, rel=1e-9, abs=1e-6)


@given(values=samples(2), level=st.floats(0.5, 0.9))
def test_more_confidence_takes_a_longer_interval(values: Floats, level: float) -> None:
    short, long = mean_interval(values, level=level), mean_interval(values, level=level + 0.05)
    assert long.half_width >= short.half_width


@given(values=samples(BATCHES_MIN), batch=st.integers(1, 6))
def test_overlapping_batch_means_are_those_of_their_definition(values: Floats, batch: int) -> None:
    n = values.size
    if n < BATCHES_MIN * batch:
        with pytest.raises(ValueError, match=f"at least 10 batches of {batch}, got {n}"):
            batch_means_interval(values, batch=batch)
        return
    means = np.array([values[i : i + batch].mean() for i in range(n - batch + 1)])
    variance = n * batch / ((n - batch + 1) * (n - batch)) * ((means - values.mean()) ** 2).sum()
    expected = stats.t.ppf(0.975, 1.5 * (n / batch - 1)) * (variance / n) ** 0.5
    interval = batch_means_interval(values, batch=batch)
    assert interval.half_width == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_batches_of_one_are_independent_values() -> None:
    values = np.random.default_rng(1).normal(size=400)
    batched, naive = batch_means_interval(values, batch=1), mean_interval(values)
    # But for the degrees of freedom, 598.5 against 399.
    assert batched.half_width == pytest.approx(naive.half_width, rel=2e-3)


def test_large_values_do_not_cost_digits() -> None:
    values = np.random.default_rng(2).normal(size=1_000)
    far = batch_means_interval(values + 1e9)
    assert far.half_width == pytest.approx(batch_means_interval(values).half_width, rel=1e-6)


def test_common_random_numbers_gain_what_the_figures_have_in_common() -> None:
    rng = np.random.default_rng(3)
    common, own = rng.normal(size=4_000), rng.normal(size=(2, 4_000))
    paired = paired_difference(10 + common + own[0] / 3, 9 + common + own[1] / 3)
    # Variances 1 + 1/9 each, of differences 2/9.
    assert paired.variance_gain == pytest.approx(10, rel=0.1)
    assert paired.difference.holds(1.0)


@given(first=samples(2), seed=st.integers(0, 99))
def test_the_difference_the_other_way_round_has_the_other_sign(first: Floats, seed: int) -> None:
    second = np.random.default_rng(seed).normal(size=first.size)
    one, other = paired_difference(first, second), paired_difference(second, first)
    assert other.difference.low == -one.difference.high
    assert other.difference.high == -one.difference.low
    assert other.variance_gain == pytest.approx(one.variance_gain, nan_ok=True)


def test_what_differs_by_a_constant_is_known_at_once() -> None:
    paired = paired_difference([1.0, 2.0, 4.0], [0.0, 1.0, 3.0])
    assert (paired.difference.low, paired.difference.high) == (1.0, 1.0)
    assert paired.variance_gain == math.inf
    assert math.isnan(paired_difference([1.0, 1.0], [0.0, 0.0]).variance_gain)


def test_what_cannot_be_an_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^values: must be at least 2 in a row, got shape \(1,\)"):
        mean_interval([1.0])
    with pytest.raises(ValueError, match=r"^level: must be above 0 and below 1, got 95"):
        mean_interval([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match=r"^values: must be finite, got inf"):
        batch_means_interval([math.inf] * 20)
    with pytest.raises(ValueError, match=r"^batch: must be at least 1, got 0"):
        batch_means_interval(range(20), batch=0)
    with pytest.raises(ValueError, match=r"^second: must be as many as the first, 2, got 3"):
        paired_difference([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"^first: must have 1 dimensions, got 2"):
        paired_difference([[1, 2]], [[1, 2]])
