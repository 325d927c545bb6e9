"""Replications until the mean is known well enough, or the budget is spent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.sim.output_analysis.interval import mean_interval
from dispatchsim.sim.output_analysis.sequential import GROWTH_MAX, Answer, SequentialMean


def test_it_asks_for_the_first_replications_and_then_for_what_is_missing() -> None:
    mean = SequentialMean(relative=0.1, budget=100, n_first=4)
    assert mean.add() == mean.add([])
    assert mean.add().n_more == 4
    progress = mean.add([8.0, 12.0])
    assert (progress.answer, progress.n_more) == (Answer.GO_ON, 2)
    progress = mean.add([8.0, 12.0])
    assert progress.answer is Answer.GO_ON
    # The interval is some four times too long: 16 times as many, but no more than twice at once.
    assert progress.n_more == 4


def test_it_ends_at_the_adjusted_half_width() -> None:
    values = [98.0, 102.0, 98.0, 102.0]
    interval = mean_interval(values)
    relative = interval.relative_half_width
    enough = relative / (1 - relative)
    assert SequentialMean(relative=enough * 1.001, budget=9, n_first=4).add(values).answer == (
        Answer.REACHED
    )
    assert SequentialMean(relative=enough * 0.999, budget=9, n_first=4).add(values).answer == (
        Answer.GO_ON
    )


def test_out_of_budget_it_has_not_converged_and_says_how_far_it_came() -> None:
    mean = SequentialMean(relative=0.01, budget=4, n_first=3)
    assert mean.add([8.0, 12.0, 8.0]).n_more == 1
    progress = mean.add([12.0])
    assert progress.answer is Answer.OUT_OF_BUDGET
    assert progress.n_more == 0
    assert progress.interval == mean_interval([8.0, 12.0, 8.0, 12.0])


def test_a_figure_that_a_replication_does_not_have_ends_it_at_once() -> None:
    mean = SequentialMean(relative=0.1, budget=1_000, n_first=3)
    assert mean.add([1.0, math.nan, 1.0]).answer is Answer.OUT_OF_BUDGET


def test_a_mean_of_nothing_is_reached_only_if_nothing_varies() -> None:
    assert SequentialMean(relative=0.1, budget=9, n_first=3).add([0.0] * 3).answer == (
        Answer.REACHED
    )
    mean = SequentialMean(relative=0.1, budget=6, n_first=3)
    assert mean.add([-1.0, 0.0, 1.0]).n_more == 3


@given(relative=st.floats(0.01, 1.0), budget=st.integers(5, 300), seed=st.integers(0, 999))
def test_whoever_adds_what_is_asked_for_comes_to_an_end_within_the_budget(
    relative: float, budget: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    mean, n = SequentialMean(relative=relative, budget=budget, n_first=5), 0
    progress = mean.add()
    while progress.answer is Answer.GO_ON:
        assert 1 <= progress.n_more <= max(5, (GROWTH_MAX - 1) * n)
        n += progress.n_more
        progress = mean.add(rng.normal(1.0, 1.0, progress.n_more))
    assert n <= budget
    assert progress.interval is not None
    reached = progress.interval.relative_half_width <= relative / (1 + relative)
    assert progress.answer is (Answer.REACHED if reached else Answer.OUT_OF_BUDGET)
    assert reached or n == budget


def test_what_cannot_be_an_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^relative: must be above 0, got 0"):
        SequentialMean(relative=0, budget=100)
    with pytest.raises(ValueError, match=r"^n_first: must be at least 2, got 1"):
        SequentialMean(relative=0.1, budget=100, n_first=1)
    with pytest.raises(ValueError, match=r"^budget: must be at least n_first \(10\), got 9"):
        SequentialMean(relative=0.1, budget=9)
    with pytest.raises(ValueError, match=r"^values: must be at most the budget, 10, got 11"):
        SequentialMean(relative=0.1, budget=10).add([1.0] * 11)
