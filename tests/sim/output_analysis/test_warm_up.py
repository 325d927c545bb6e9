"""Where the steady state begins, and when nobody can tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dispatchsim.sim.output_analysis.steady_state import WarmUp, mser5
from dispatchsim.validation.output_statistics.coverage import (
    Queue,
    lindley,
    mean_wait,
    services,
    waits,
)

SAMPLES = st.lists(st.integers(-1_000, 1_000), min_size=50, max_size=200).map(np.array)


def test_a_transient_of_known_length_is_removed() -> None:
    values = np.concatenate([np.full(40, 9.0), np.tile([0.0, 1.0], 180)])
    assert mser5(values) == WarmUp(40)


def test_a_transient_ends_with_its_batch_of_five() -> None:
    values = np.concatenate([np.full(42, 9.0), np.tile([0.0, 1.0], 180)])
    assert mser5(values) == WarmUp(45)


@given(values=SAMPLES)
def test_it_is_the_least_error_by_its_definition(values: NDArray[np.int64]) -> None:
    batches = values[: len(values) // 5 * 5].reshape(-1, 5).mean(axis=1)
    n = len(batches)
    errors = [batches[d:].var() / (n - d) for d in range(n - 4)]
    found = mser5(values)
    if found.refused is None:
        assert found.n_removed % 5 == 0
        assert found.n_removed <= len(values) / 2
        assert errors[found.n_removed // 5] == pytest.approx(min(errors), rel=1e-6, abs=1e-9)
    else:
        assert found.n_removed == 0
        assert 2 * int(np.argmin(np.round(errors, 9))) >= n - 1 or min(errors) < 1e-9


@given(values=SAMPLES, shift=st.integers(-1_000, 1_000), scale=st.integers(-4, 4))
def test_neither_unit_nor_origin_matter(values: NDArray[np.int64], shift: int, scale: int) -> None:
    # Powers of two, and a shift that leaves the batches' differences exact: no rounding at all.
    found = mser5(values * 5 * 2.0**scale + shift)
    assert (found.refused is None) == (mser5(values * 5).refused is None)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros(49), "the run has 49 values, fewer than 50"),
        (np.arange(1_000), "the run has not settled: the least error is at the very end"),
        (
            np.concatenate([np.tile([0.0, 1.0], 300), np.tile([8.0, 9.0], 200)]),
            "600 of 1000 values would be removed, more than half",
        ),
    ],
    ids=["short", "growing", "shifted"],
)
def test_it_is_refused_with_the_reason(values: NDArray[np.float64], reason: str) -> None:
    assert mser5(values) == WarmUp(0, reason)


def test_a_queue_that_began_crowded_loses_nearly_all_of_its_bias() -> None:
    """M/M/1 at load 0.8 that begins with 200 services to do: 200 experiments."""
    rng = np.random.default_rng(4)
    truth, whole, kept, refused = mean_wait(Queue.M_M_1, 0.8), [], [], 0
    shape = (5, 5_000)
    for _ in range(200):
        served = services(Queue.M_M_1, shape, rng)
        average = lindley(np.full(5, 200.0), served, rng.exponential(1 / 0.8, shape)).mean(axis=0)
        found = mser5(average)
        refused += found.refused is not None
        whole.append(average.mean())
        kept.append(average[found.n_removed :].mean())
    assert np.mean(whole) > 4 * truth
    assert abs(np.mean(kept) - truth) < 0.03 * (np.mean(whole) - truth)
    assert refused < 0.05 * 200


def test_a_run_in_steady_state_is_left_alone() -> None:
    """M/M/1 at load 0.5: in 200 experiments next to nothing is removed or refused."""
    rng = np.random.default_rng(5)
    found = [mser5(waits(Queue.M_M_1, 0.5, (1, 20_000), rng)[0]) for _ in range(200)]
    assert sum(each.refused is not None for each in found) < 0.03 * 200
    assert np.mean([each.n_removed for each in found]) < 0.05 * 20_000
