"""The best of several systems: who is out, who stays, and how often the right one is left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dispatchsim.sim.output_analysis.sequential import Selection

Floats = NDArray[np.float64]

ZONE = 0.5


def select(means: list[float], rng: np.random.Generator, *, common: float = 0.0) -> Selection:
    """Select the largest of normal figures of deviation 1, with a zone of ZONE.

    The part *common* of their variance is the same in all.
    """
    selection = Selection(len(means), ZONE, largest=True)
    while selection.best is None:
        own = rng.normal(means, (1 - common) ** 0.5)
        both = own + rng.normal(0.0, common**0.5) if common else own
        selection.feed(both[list(selection.staying)])
    return selection


@pytest.mark.parametrize("common", [0.0, 0.8])
def test_the_best_is_selected_as_often_as_promised_when_it_is_hardest(common: float) -> None:
    """All others are behind by the zone, no more: 1,000 experiments."""
    rng = np.random.default_rng(6)
    correct = sum(
        select([0.0, 0.0, ZONE, 0.0, 0.0], rng, common=common).best == 2 for _ in range(1_000)
    )
    # At least 95% by theory; three standard errors of a share over 1,000 are 2 points.
    assert correct >= 0.93 * 1_000


def test_common_random_numbers_save_replications() -> None:
    rng = np.random.default_rng(7)
    means = [0.0, 0.0, ZONE, 0.0]
    alone = np.mean([select(means, rng).n_replications for _ in range(200)])
    together = np.mean([select(means, rng, common=0.8).n_replications for _ in range(200)])
    assert together < 0.7 * alone


@given(seed=st.integers(0, 2**32), n_systems=st.integers(2, 8))
def test_who_is_far_ahead_is_always_selected_and_at_the_first_look(
    seed: int, n_systems: int
) -> None:
    rng = np.random.default_rng(seed)
    selection = select([0.0] * (n_systems - 1) + [50.0], rng)
    assert selection.best == n_systems - 1
    assert selection.n_replications == 10


@given(seed=st.integers(0, 2**32))
def test_it_ends_in_time_and_whoever_is_out_stays_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    selection = Selection(4, 0.5, largest=True)
    before = set(selection.staying)
    while selection.best is None:
        assert selection.n_replications_max is None or (
            selection.n_replications < selection.n_replications_max
        )
        selection.feed(rng.normal(size=len(selection.staying)))
        assert set(selection.staying) <= before
        assert sorted((*selection.staying, *selection.out)) == [0, 1, 2, 3]
        before = set(selection.staying)
    assert selection.n_replications >= 10


@given(seed=st.integers(0, 2**32), shift=st.integers(-8, 8), exponent=st.integers(-8, 8))
def test_neither_unit_nor_origin_nor_direction_matter(seed: int, shift: int, exponent: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 64, (400, 3)).astype(float)
    scale = 2.0**exponent

    def outcome(zone: float, table: Floats, *, largest: bool) -> tuple[int | None, int]:
        selection = Selection(3, zone, largest=largest)
        for row in table:
            if selection.feed(row[list(selection.staying)]) is not None:
                break
        return selection.best, selection.n_replications

    plain = outcome(16.0, rows, largest=True)
    assert outcome(16.0 * scale, scale * (rows + shift), largest=True) == plain
    assert outcome(16.0, -rows, largest=False) == plain


def test_exact_ties_end_too() -> None:
    selection = Selection(2, 1.0, largest=True, n_first=3)
    for value in (1.0, 2.0):
        assert selection.feed([value, value]) is None
    assert selection.feed([4.0, 4.0]) == 0
    assert selection.n_replications_max == 3


def test_the_triangle_is_as_wide_as_in_the_paper() -> None:
    # Kim and Nelson 2001, §3: two systems, error rate 5%, 10 first replications, c = 1.
    eta = ((2 * 0.05) ** (-2 / 9) - 1) / 2
    h_squared = 2 * eta * 9
    selection = Selection(2, 1.0, largest=True)
    for i in range(10):
        selection.feed([3.0 * (i % 2), 0.0])
        if i < 9:
            assert selection.n_replications_max is None
    variance = 9 / 4 * 10 / 9
    assert selection.n_replications_max == int(h_squared * variance) + 1


def test_what_cannot_be_an_input_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^n_systems: must be at least 2, got 1"):
        Selection(1, 1.0, largest=True)
    with pytest.raises(ValueError, match=r"^zone: must be above 0, got 0"):
        Selection(2, 0, largest=True)
    with pytest.raises(ValueError, match=r"^n_first: must be at least 2, got 1"):
        Selection(2, 1.0, largest=True, n_first=1)
    with pytest.raises(ValueError, match=r"^level: must be above that of a blind choice, 0\.5, "):
        Selection(2, 1.0, largest=True, level=0.5)
    selection = Selection(2, 1.0, largest=True, n_first=2)
    with pytest.raises(ValueError, match=r"^values: must be one for each of the 2 systems that "):
        selection.feed([1.0])
    selection.feed([1.0, 9.0])
    assert selection.feed([1.0, 9.0]) == 1
    with pytest.raises(ValueError, match=r"^values: must be none once the best is known, 1"):
        selection.feed([9.0])
