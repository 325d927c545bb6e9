"""Curves and lines are found exactly where they exist, and never fall or go below 0."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.calibration.fit import curve_fit
from dispatchsim.calibration.fit.curve_fit import (
    choose_knots,
    fit_curve,
    fit_intercept_curve,
    fit_line,
    fit_nonnegative,
    fit_rest,
)


@st.composite
def rising_curves(draw: st.DrawFn) -> tuple[list[int], list[float]]:
    """Draw a curve that never falls, by its knots."""
    at = sorted(draw(st.sets(st.integers(0, 20_000), min_size=1, max_size=8)))
    rises = draw(st.lists(st.floats(0, 1e6), min_size=len(at), max_size=len(at)))
    return at, np.cumsum(rises).tolist()


@given(rising_curves())
def test_a_rising_curve_is_found_exactly(curve: tuple[list[int], list[float]]) -> None:
    at, ns = curve
    fit = fit_curve(at, ns)
    assert fit.at == tuple(at)
    assert fit.ns == pytest.approx(ns, rel=1e-6, abs=1e-2)
    assert fit.residual < 1e-4


@given(st.lists(st.tuples(st.integers(0, 20_000), st.floats(0, 1e6)), min_size=1, max_size=30))
def test_no_fit_is_negative_or_falls(points: list[tuple[int, float]]) -> None:
    counts, totals = zip(*points, strict=True)
    fit = fit_curve(counts, totals)
    assert len(fit.at) <= curve_fit.KNOTS_MAX
    assert fit.ns[0] >= 0
    assert min(np.diff(fit.ns), default=0) >= 0


@given(base=st.floats(0, 1e5), slope=st.floats(0, 1e4))
def test_a_line_is_found_exactly(base: float, slope: float) -> None:
    sizes = [0.125, 1, 6, 64]
    line = fit_line(sizes, [base + slope * size for size in sizes])
    assert line.unknowns == pytest.approx((base, slope), rel=1e-6, abs=1e-2)


def test_errors_count_in_proportion_to_the_value() -> None:
    # Two measurements at each end, each 10% off: the relative error is least at both in one place.
    fit = fit_curve([10, 10, 1000, 1000], [900, 1100, 90_000, 110_000])
    assert fit.ns == pytest.approx([980.2, 98_020], rel=0.001)
    assert fit.residual == pytest.approx(0.1, rel=0.01)


def test_what_would_be_negative_is_zero() -> None:
    assert fit_line([1, 2], [200, 100]).unknowns[1] == 0
    assert fit_nonnegative([[1.0], [1.0]], [-5, -5]).unknowns == (0,)


def test_a_curve_that_begins_at_zero_does() -> None:
    fit = fit_curve([10, 20], [500, 900], knots=[0, 10, 20], from_zero=True)
    assert fit.ns == pytest.approx([0, 500, 900])


def test_a_constant_is_told_from_the_curve_above_it() -> None:
    base, curve = fit_intercept_curve([10, 100, 500], [830, 6500, 31_700])
    assert base == pytest.approx(200)
    assert curve.at == (0, 100, 500)
    assert curve.ns == pytest.approx([0, 6300, 31_500])


def test_knots_are_measured_counts_with_both_ends() -> None:
    counts = [7, 1, 3, 3, *range(10, 200, 10)]
    knots = choose_knots(counts)
    assert len(knots) == 8
    assert set(knots) <= set(counts)
    assert (knots[0], knots[-1]) == (1, 190)


def test_impossible_fits_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 measurement, got 0"):
        fit_curve([], [])
    with pytest.raises(ValueError, match=r"at most 8 and ascending, got \(5, 3\)"):
        fit_curve([4], [1], knots=[5, 3])
    with pytest.raises(ValueError, match="within the knots 5 to 6, got 4 to 4"):
        fit_curve([4], [1], knots=[5, 6])


def test_a_bootstrap_interval_is_that_of_the_median() -> None:
    values = np.random.default_rng(3).normal(1000, 50, 25)

    def interval(seed: int) -> tuple[float, float]:
        low, high = curve_fit.bootstrap(
            lambda rounds: [float(np.median(values[rounds]))],
            len(values),
            replicates=1000,
            seed=seed,
            name="test",
        )
        return float(low[0]), float(high[0])

    low, high = interval(1)
    # The standard error of a median of n normal values is 1.25 sd / sqrt(n).
    assert high - low == pytest.approx(2 * 1.96 * 1.25 * 50 / 5, rel=0.5)
    assert low < np.median(values) < high
    assert interval(1) == (low, high)
    assert interval(2) != (low, high)


def test_a_rest_is_fitted_relative_to_its_whole() -> None:
    # The rest of the small one is far off; of its whole that is little.
    fit = fit_rest([8, 20], [16_000, 60_000], [100_000, 200_000])
    (slope,) = fit.unknowns
    assert slope == pytest.approx((8 * 16 / 100**2 + 20 * 60 / 200**2) * 1000 / (0.08**2 + 0.1**2))
    assert 16_000 < slope * 8 < 60_000 * 8 / 20
    assert fit_rest([1, 2], [0, 0], [10, 20]).unknowns == (0,)
