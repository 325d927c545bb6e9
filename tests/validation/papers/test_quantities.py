"""Quantities: curves and what is made of them have the values that arithmetic gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.validation.papers.quantities import (
    Curve,
    Figures,
    flat,
    last_kept,
    near,
    straight,
    within,
)

AT = (1.0, 2.0, 3.0)
RATE = Curve("rate", "here", "a", AT)
OTHER = Curve("rate", "here", "b", AT)


def figures(a: list[float], b: list[float] | None = None) -> Figures:
    """Return the figures of a draw in which servers a and b have these rates."""
    found: dict[tuple[str, str, float], dict[str, float]] = {}
    for server, values in (("a", a), ("b", b or a)):
        found |= {("here", server, x): {"rate": value} for x, value in zip(AT, values, strict=True)}
    return found


def test_a_curve_has_the_figures_at_its_points_and_may_be_cut() -> None:
    seen = figures([5.0, 7.0, 6.0])
    assert RATE.of(seen).tolist() == [5.0, 7.0, 6.0]
    assert RATE.where(2.0).of(seen).tolist() == [7.0, 6.0]
    assert RATE.point(1.0).of(seen).tolist() == [5.0]
    assert RATE.axis.of(seen).tolist() == list(AT)
    reduced = (RATE.max(), RATE.min(), RATE.mean(), RATE.first(), RATE.last())
    assert [float(q.of(seen)[0]) for q in reduced] == [7.0, 5.0, 6.0, 5.0, 6.0]


def test_arithmetic_is_said_as_it_is_done() -> None:
    seen = figures([4.0, 6.0, 8.0], [2.0, 2.0, 2.0])
    quantity = 2 * (RATE + OTHER) / OTHER - 1
    assert quantity.of(seen).tolist() == [5.0, 7.0, 9.0]
    assert str(2 * (RATE.point(1.0) + 3)) == "2 x (rate of a at 1 (here) + 3)"


def test_a_quantity_may_have_a_name_of_its_own() -> None:
    named = (RATE + OTHER).named("both rates")
    assert str(2 * named.last()) == "2 x (last both rates)"
    assert named.of(figures([1.0, 2.0, 3.0])).tolist() == [2.0, 4.0, 6.0]


def test_points_that_were_not_run_are_left_out_and_none_at_all_is_an_error() -> None:
    seen = {key: value for key, value in figures([1.0, 2.0, 3.0]).items() if key[2] != 2.0}
    assert RATE.of(seen).tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="no point of it was run"):
        RATE.point(2.0).of(seen)
    with pytest.raises(ValueError, match="no point from 4 to 5"):
        RATE.where(4.0, 5.0)


def test_a_comparison_holds_at_every_point_or_not_at_all() -> None:
    seen = figures([1.0, 2.0, 3.0], [2.0, 3.0, 3.0])
    assert (RATE <= OTHER).holds(seen)
    assert not (RATE < OTHER).holds(seen)
    assert (OTHER > 1.5).holds(seen)
    assert not (RATE <= OTHER).holds(figures([1.0, math.nan, 1.0], [2.0, 2.0, 2.0]))
    assert (RATE <= OTHER).holds(figures([1.0, 1.0, 1.0], [2.0, math.inf, 2.0]))
    assert not (RATE <= OTHER).holds(figures([1.0, math.inf, 1.0], [2.0, math.inf, 2.0]))


@given(st.floats(1, 100), st.floats(0, 0.5), st.floats(0.01, 200))
def test_within_is_a_share_and_near_a_distance(middle: float, share: float, value: float) -> None:
    seen = figures([value] * 3)
    low, high = (1 - share) * middle, (1 + share) * middle
    held = all(c.holds(seen) for c in within(RATE, middle, share))
    assert held == (low <= value <= high)
    close = all(c.holds(seen) for c in near(RATE, middle, share))
    assert close == (middle - share <= value <= middle + share)


def test_flatness_straightness_and_the_last_rate_that_is_kept() -> None:
    assert all(c.holds(figures([10.0, 10.5, 10.0])) for c in flat(RATE, 0.1))
    assert not all(c.holds(figures([10.0, 12.0, 10.0])) for c in flat(RATE, 0.1))
    assert float(straight(RATE).of(figures([1.0, 2.0, 3.0]))[0]) == pytest.approx(1.0)
    assert float(straight(RATE).of(figures([1.0, 3.0, 1.0]))[0]) == pytest.approx(0.0)
    kept = last_kept(RATE, 0.95)
    assert float(kept.of(figures([1.0, 2.0, 1.0]))[0]) == 2.0
    assert float(kept.of(figures([0.5, 2.0, 3.0]))[0]) == 0.0
    assert np.isfinite(kept.of(figures([1.0, 2.0, 3.0]))).all()
