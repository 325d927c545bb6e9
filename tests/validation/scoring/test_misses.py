"""Intervals of past forecast errors, and how far application work reduces them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.validation.scoring.misses import (
    FIGURES,
    Allowance,
    Known,
    Miss,
    allowance,
    knee_allowance,
    measured_factor,
    pooled,
)

from .made_up_errors import knee, misses

errors_of_costs = st.floats(-2, 2)
shares = st.floats(0, 0.99)


@pytest.mark.parametrize("draw", ["normal", "lognormal", "standard_cauchy"])
def test_an_interval_holds_a_further_miss_whatever_their_distribution(draw: str) -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        *known, new = getattr(rng, draw)(size=60).tolist()
        allowed = allowance(misses(known), "p50_answered_ns", 0.9)
        assert allowed is not None
        inside += allowed.low <= new <= allowed.high
    assert 0.88 < inside / 2000 < 0.93


@given(st.lists(st.floats(-5, 5), min_size=19, max_size=60))
def test_an_interval_grows_with_its_level(values: list[float]) -> None:
    narrow, wide = (allowance(misses(values), "p50_answered_ns", level) for level in (0.5, 0.9))
    assert narrow is not None
    assert wide is not None
    assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_too_few_misses_give_no_interval() -> None:
    assert allowance(misses([0.0] * 18), "p50_answered_ns", 0.9) is None
    assert allowance(misses([0.0] * 19), "p50_answered_ns", 0.9) == Allowance(0.0, 0.0, 0.0, 19)
    assert allowance(misses([0.0] * 40), "p99_answered_ns", 0.9) is None


@given(errors_of_costs, shares, st.floats(1e3, 1e6))
def test_costs_in_error_are_part_of_the_work_of_a_request(
    error: float, share: float, forecast_ns: float
) -> None:
    work_ns, cost_ns = share * forecast_ns, (1 - share) * forecast_ns
    # The CPU time of a request, and its inverse, the throughput of a full CPU.
    measured_ns = work_ns + cost_ns * math.exp(error)
    assert measured_factor("cpu_busy", error, share) == pytest.approx(measured_ns / forecast_ns)
    measured_ns = work_ns + cost_ns / math.exp(error)
    assert measured_factor("throughput_per_s", error, share) == pytest.approx(
        forecast_ns / measured_ns
    )


@given(st.sampled_from(list(FIGURES)), errors_of_costs, shares)
def test_application_work_keeps_the_direction_of_an_error_and_reduces_its_size(
    figure: str, error: float, share: float
) -> None:
    whole = math.log(measured_factor(figure, error, share))
    assert min(0, error) - 1e-9 <= whole <= max(0, error) + 1e-9
    assert measured_factor(figure, error, 0.0) == pytest.approx(math.exp(error))
    assert measured_factor(figure, error, 1.0) == 1


@given(
    st.sampled_from(list(FIGURES)),
    st.lists(errors_of_costs, min_size=19, max_size=40),
    st.lists(st.tuples(st.floats(-9, 9), st.floats(0.01, 1)), max_size=40),
)
def test_points_with_application_work_never_move_an_interval(
    figure: str, of_costs: list[float], of_all: list[tuple[float, float]]
) -> None:
    plain = [Miss("poll", 1.0, {figure: error}) for error in of_costs]
    with_work = [Miss("poll", 1.0, {figure: error}, share) for error, share in of_all]
    assert allowance([*with_work, *plain], figure) == allowance(plain, figure)
    knees = [knee(error) for error in of_costs]
    knees_with_work = [knee(error)._replace(stated=share) for error, share in of_all]
    assert knee_allowance(Known(knees=[*knees_with_work, *knees]), 20e6) == knee_allowance(
        Known(knees=knees), 20e6
    )


def test_errors_with_application_work_alone_give_no_interval() -> None:
    assert allowance([Miss("poll", 1.0, {"cpu_busy": 0.1}, 0.5)] * 40, "cpu_busy") is None
    assert knee_allowance(Known(knees=[knee(0.1)._replace(stated=0.5)] * 40), 20e6) is None


@given(st.sampled_from(list(FIGURES)), errors_of_costs, st.floats(0, 2), st.floats(0, 2), shares)
def test_the_median_error_is_reduced_by_the_share_of_work_and_the_spread_stays(
    figure: str, middle: float, below: float, above: float, share: float
) -> None:
    given = Allowance(middle - below, middle, middle + above, 19)
    found = given.beside_work(figure, share)
    assert found.middle == pytest.approx(math.log(measured_factor(figure, middle, share)))
    assert found.middle - found.low == pytest.approx(below, abs=1e-9)
    assert found.high - found.middle == pytest.approx(above, abs=1e-9)
    assert given.beside_work(figure, 0.0) == pytest.approx(given)


def test_knees_of_the_nearest_bound_say_how_far_off_a_further_one_may_be() -> None:
    own = [knee(0.01 * i, 20) for i in range(19)] + [knee(5.0, 1)] * 30
    found = knee_allowance(Known(knees=own), 35e6)
    assert found is not None
    assert found.bound_ns == 20_000_000  # 50 ms is nearer, but nobody scored it
    assert found.allowed == pytest.approx((0.0, 0.09, 0.18, 19))


def test_few_knees_have_mean_and_spread() -> None:
    few = [knee(error) for error in (0.1, 0.2, 0.3, 0.4, 0.5)]
    found = knee_allowance(Known(knees=few), 20e6)
    assert found is not None
    # Student's t of four degrees of freedom, 2.132, times 0.1581 x sqrt(1 + 1/5).
    assert found.allowed == pytest.approx((0.3 - 0.3692, 0.3, 0.3 + 0.3692, 5), abs=1e-3)
    assert knee_allowance(Known(knees=few[1:]), 20e6) is None
    assert knee_allowance(Known(knees=few), 60e6) is not None
    assert knee_allowance(Known(knees=few), 61e6) is None  # another bound than was scored
    assert knee_allowance(Known(knees=few), 6e6) is None
    assert knee_allowance(Known(), 20e6) is None


def test_few_knees_of_other_machines_give_no_interval() -> None:
    machines = [Known(knees=[knee(-1.0)] * n) for n in (9, 10)]
    found = knee_allowance(pooled(machines, is_of_others=True), 20e6)
    assert found is not None
    assert found.allowed.middle == pytest.approx(-1.0)
    assert knee_allowance(pooled(machines[:1], is_of_others=True), 20e6) is None
    assert knee_allowance(pooled(machines[:1], is_of_others=False), 20e6) is not None


def test_a_load_beyond_the_measured_ones_is_counted_as_such() -> None:
    ends = [knee(0.1)._replace(is_end=True)] * 3
    found = knee_allowance(Known(knees=[*ends, *[knee(0.2)] * 4]), 20e6)
    assert found is not None
    assert (found.allowed.n, found.n_least) == (7, 3)
