"""Durations in a histogram: nothing lost, and every quantile about where it is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.sim.figures.histogram import (
    RELATIVE_ERROR,
    Histogram,
    Integers,
    Values,
    bucket_of,
    exact_sum,
)

LARGEST = 2**63 - 1
QS = (0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)

# Sizes from a nanosecond to centuries alike, values next to a power of two, and ties.
TIMES = st.one_of(
    st.integers(0, 9_000),
    st.integers(0, LARGEST),
    st.integers(0, 62).flatmap(lambda bits: st.integers(2**bits - 1, 2**bits + 1)),
    st.just(123_456_789),
)
SAMPLES = st.lists(TIMES, min_size=1, max_size=60).map(lambda v: np.array(v, np.int64))


def histogram_of(*parts: Integers) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    return histogram


def exact_quantile(values: Integers, q: float) -> float:
    """Interpolate between Python integers, which int64 cannot overflow."""
    ordered = sorted(values.tolist())
    at = (len(ordered) - 1) * q
    low = ordered[math.floor(at)]
    return float(low + (ordered[math.ceil(at)] - low) * (at - math.floor(at)))


@given(SAMPLES)
def test_quantiles_are_within_the_error_that_is_promised(values: Integers) -> None:
    found = histogram_of(values).quantiles(QS)
    for q, quantile in zip(QS, found, strict=True):
        # A float holds 53 bits, so the exact one has an error of its own.
        assert quantile == pytest.approx(exact_quantile(values, q), rel=RELATIVE_ERROR + 1e-12)


@given(st.lists(st.integers(0, 4095), min_size=1, max_size=50), st.floats(0, 1))
def test_below_4096_quantiles_are_those_of_numpy(values: list[int], q: float) -> None:
    histogram = histogram_of(np.array(values, np.int64))
    assert histogram.quantiles([q])[0] == pytest.approx(np.quantile(values, q), rel=1e-15)


@given(SAMPLES)
def test_order_statistics_of_both_kinds_agree(values: Integers) -> None:
    exact = Values()
    exact.add(values)
    ranks = range(values.size)
    assert exact.order_statistics(ranks) == sorted(values.astype(float).tolist())
    found = histogram_of(values).order_statistics(ranks)
    assert found == pytest.approx(exact.order_statistics(ranks), rel=RELATIVE_ERROR + 1e-12)
    assert found == sorted(found)


@given(SAMPLES)
def test_number_sum_and_ends_are_exact(values: Integers) -> None:
    histogram = histogram_of(values)
    whole = values.tolist()
    assert (histogram.n, histogram.sum_ns) == (len(whole), sum(whole))
    assert histogram.mean() == sum(whole) / len(whole)
    assert histogram.order_statistics([0]) == [float(min(whole))]
    assert histogram.max() == float(max(whole))
    assert exact_sum(values) == sum(whole)


@given(SAMPLES, SAMPLES)
def test_a_merged_histogram_is_that_of_all(one: Integers, other: Integers) -> None:
    merged = histogram_of(one)
    merged.merge(histogram_of(other))
    merged.merge(Histogram())
    together = histogram_of(np.concatenate([other, one]))
    assert (merged.n, merged.sum_ns) == (together.n, together.sum_ns)
    ranks = range(merged.n)
    assert merged.order_statistics(ranks) == together.order_statistics(ranks)


@given(SAMPLES)
def test_a_larger_value_is_never_in_a_lower_bucket(values: Integers) -> None:
    assert np.all(np.diff(bucket_of(np.sort(values))) >= 0)


@pytest.mark.parametrize("bits", range(12, 63))
def test_buckets_are_as_wide_as_the_layout_says(bits: int) -> None:
    first, width = 2**bits, 2 ** (bits - 11)
    at = np.array([first - 1, first, first + width - 1, first + width], np.int64)
    below, here, last, after = bucket_of(at).tolist()
    assert (here - below, last - here, after - last) == (1, 0, 1)


def test_the_largest_times_need_less_than_a_megabyte() -> None:
    assert bucket_of(np.array([LARGEST]))[0] * 8 < 900_000


def test_nothing_has_no_quantile() -> None:
    empty = histogram_of(np.array([], np.int64))
    assert np.isnan([*empty.quantiles(QS), empty.mean(), empty.max()]).all()


@pytest.mark.parametrize("durations", [Values(), Histogram()])
def test_a_negative_duration_is_refused(durations: Values | Histogram) -> None:
    with pytest.raises(ValueError, match="must be at least 0, got -3 ns"):
        durations.add(np.array([1, -3], np.int64))
    assert durations.n == 0


@pytest.mark.parametrize("durations", [Values(), Histogram()])
@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_that_nobody_has_is_refused(durations: Values | Histogram, rank: int) -> None:
    durations.merge(type(durations)())  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="ranks must be within 0 and"):
        durations.order_statistics([rank])


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_a_quantile_beyond_all_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="must be within 0 and 1"):
        Histogram().quantiles([q])


@given(SAMPLES, st.floats(0, 1))
def test_quantiles_of_kept_values_are_those_of_numpy_to_the_bit(
    values: Integers, share: float
) -> None:
    # Beyond 2**62 the differences that NumPy takes overflow its int64.
    values >>= 1
    exact = Values()
    exact.add(values[::2])
    exact.add(values[1::2])
    qs = [0.5, 0.9, 0.99, 0.999, share]
    assert exact.quantiles(qs) == np.quantile(values, qs).tolist()


def test_ties_within_a_bucket_have_their_ranks() -> None:
    # 8192 to 8195 are one bucket of a histogram.
    exact = Values()
    exact.add(np.array([8195, 8192, 8194, 8192, 1, 8194], np.int64))
    assert exact.order_statistics(range(6)) == [1, 8192, 8192, 8194, 8194, 8195]
