"""Curves are piecewise linear, in whole nanoseconds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.sim.state.costs import curve, curve_ns, flat, per_item
from dispatchsim.sim.state.units import round_ns

POINTS = st.dictionaries(st.integers(0, 20_000), st.integers(0, 10**7), min_size=1, max_size=8)


@given(POINTS, st.integers(0, 20_000))
def test_between_its_knots_a_curve_is_their_interpolation(
    points: dict[int, int], count: int
) -> None:
    at = sorted(points)
    if at[0] <= count <= at[-1]:
        expected = np.interp(count, at, [points[n] for n in at])
        assert abs(curve_ns(curve(points), count) - expected) <= 1


@given(POINTS)
def test_a_curve_goes_through_its_knots(points: dict[int, int]) -> None:
    assert {n: curve_ns(curve(points), n) for n in points} == points


def test_the_last_slope_goes_on() -> None:
    assert curve_ns(curve({0: 0, 100: 50, 200: 250}), 400) == 650


@pytest.mark.parametrize("n_knots", range(1, 9))
def test_below_its_first_knot_a_curve_is_flat_however_many_knots_it_has(n_knots: int) -> None:
    line = curve({10 * k: 100 * k for k in range(1, n_knots + 1)})
    assert [curve_ns(line, n) for n in (0, 5, 9, 10)] == [100] * 4


def test_a_curve_is_never_negative() -> None:
    assert curve_ns(curve({0: 100, 10: 50}), 1_000) == 0


def test_simple_curves() -> None:
    assert curve_ns(flat(7), 123) == 7
    assert curve_ns(per_item(7), 123) == 861


@pytest.mark.parametrize("points", [{}, {n: n for n in range(9)}, {-1: 0}, {1: -1}])
def test_a_wrong_curve_is_refused(points: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="curve"):
        curve(points)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_no_float_that_is_not_a_time_enters_the_clock(value: float) -> None:
    with pytest.raises(ValueError, match="finite number of nanoseconds"):
        round_ns(value)
