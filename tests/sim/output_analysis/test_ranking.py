"""All systems against all others, with one error rate for everything that is said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dispatchsim.sim.output_analysis.comparison import holm, rank

Floats = NDArray[np.float64]

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30).map(np.array)


@st.composite
def tables(draw: st.DrawFn) -> Floats:
    n_replications, n_systems = draw(st.integers(2, 12)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.normal(rng.normal(0, 1, n_systems), 1.0, (n_replications, n_systems))


def test_holms_own_steps() -> None:
    # 0.01 · 4, 0.02 · 3, then no less than the step before.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


@given(p=P_VALUES, rate=st.floats(0.001, 0.2))
def test_holm_rejects_no_more_than_single_tests_and_no_less_than_bonferroni(
    p: Floats, rate: float
) -> None:
    rejected = holm(p) <= rate
    assert (p <= rate)[rejected].all()
    assert rejected[p * p.size <= rate].all()


@given(p=P_VALUES, seed=st.integers(0, 99))
def test_holm_keeps_the_order_and_does_not_ask_for_one(p: Floats, seed: int) -> None:
    adjusted = holm(p)
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
    order = np.random.default_rng(seed).permutation(p.size)
    assert holm(p[order]).tolist() == adjusted[order].tolist()


def test_systems_that_differ_are_put_in_order() -> None:
    rng = np.random.default_rng(8)
    latency = rng.normal(10, 1, (12, 1)) + rng.normal([3.0, 0.0, 0.0, 9.0], 0.3, (12, 4))
    ranking = rank(latency, largest=False)
    assert set(ranking.order[:2]) == {1, 2}
    assert ranking.order[2:] == (0, 3)
    assert set(ranking.perhaps_best) == {1, 2}
    assert ranking.better(1, 0)
    assert not ranking.better(0, 1)
    assert not ranking.better(1, 2)


@given(table=tables())
def test_nobody_is_better_than_who_is_better_and_somebody_is_perhaps_the_best(
    table: Floats,
) -> None:
    ranking = rank(table, largest=True)
    n = len(ranking.order)
    better = {(i, j) for i in range(n) for j in range(n) if ranking.better(i, j)}
    assert not any((j, i) in better for i, j in better)
    assert all(table[:, i].mean() > table[:, j].mean() for i, j in better)
    assert ranking.perhaps_best[0] == ranking.order[0]


@given(table=tables(), seed=st.integers(0, 99))
def test_the_order_of_systems_and_replications_does_not_matter(table: Floats, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.permutation(table.shape[1])
    moved = rank(rng.permutation(table)[:, columns], largest=True)
    expected = rank(table, largest=True).p_better[np.ix_(columns, columns)]
    assert moved.p_better == pytest.approx(expected, rel=1e-6, abs=1e-12)


@given(table=tables())
def test_the_smallest_is_the_largest_of_the_negative(table: Floats) -> None:
    small, large = rank(table, largest=False), rank(-table, largest=True)
    assert small.order == large.order
    assert small.p_better.tolist() == large.p_better.tolist()


def test_what_is_the_same_cannot_be_told_apart_and_what_always_differs_can() -> None:
    same = np.array([1.0, 4.0, 2.0])
    ranking = rank(np.column_stack([same, same, same + 1]), largest=False)
    assert ranking.perhaps_best == (0, 1)
    assert ranking.better(0, 2)


@pytest.mark.parametrize("common", [0.0, 3.0])
def test_among_systems_alike_a_false_statement_is_as_rare_as_promised(common: float) -> None:
    """Five normal systems, 8 replications: 1,000 experiments, with and without common numbers."""
    rng = np.random.default_rng(9)
    wrong = 0
    for _ in range(1_000):
        table = rng.normal(size=(8, 5)) + rng.normal(0, common, (8, 1))
        wrong += len(rank(table, largest=True).perhaps_best) < 5
    # At most 5% by theory; three standard errors of a share over 1,000 are 2 points.
    assert wrong <= 0.07 * 1_000


def test_what_cannot_be_an_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^values: must be of at least 2 systems, got 1"):
        rank([[1.0], [2.0]], largest=True)
    with pytest.raises(ValueError, match=r"^values: must be at least 2, got 1"):
        rank([[1.0, 2.0]], largest=True)
    with pytest.raises(ValueError, match=r"^p_values: must be between 0 and 1, got 1\.5"):
        holm([0.5, 1.5])
