"""Scores: a claim is reproduced from 90% of the draws on, and a constant that decides is named."""

from __future__ import annotations

import numpy as np
import pytest

from dispatchsim.validation.papers.paper import Choice, Claim, Unstated
from dispatchsim.validation.papers.quantities import Curve, Figures
from dispatchsim.validation.papers.runs import draws
from dispatchsim.validation.papers.scoring import score

RATE = Curve("rate", "here", "a", (1.0,))


def claim(limit: float) -> Claim:
    """Return the claim that the rate is at least *limit*."""
    return Claim("X-1", "V", "here", "rate", "is high", (limit <= RATE,), "none", "nowhere")


def seen(rate: float) -> Figures:
    """Return the figures of a draw with that rate."""
    return {("here", "a", 1.0): {"rate": rate}}


@pytest.mark.parametrize(("n_low", "reproduced"), [(0, True), (1, True), (2, False)])
def test_nine_of_ten_draws_reproduce_a_claim(n_low: int, reproduced: bool) -> None:
    drawn = draws(["cost"], 10)
    figures = [seen(1.0 if i < n_low else 3.0) for i in range(10)]
    found = score(claim(2.0), figures, drawn)
    assert found.share == pytest.approx(1 - n_low / 10)
    assert found.is_reproduced == reproduced


def test_the_constant_that_decides_is_named_and_no_other() -> None:
    drawn = draws(["cost", "noise"], 40)
    figures = [seen(2.0 - each["cost"]) for each in drawn]
    found = score(claim(2.0), figures, drawn)
    assert not found.is_reproduced
    assert [name for name, _ in found.decisive] == ["cost"]
    assert found.decisive[0][1] == pytest.approx(-1.0)
    (side,) = found.sides
    assert side.right == 2.0
    assert side.share == pytest.approx(found.share)


def test_draws_cover_each_range_evenly_and_are_the_same_whenever_they_are_asked_for() -> None:
    drawn = draws(["a", "b", "c"], 20)
    assert drawn == draws(["a", "b", "c"], 20)
    for name in "abc":
        cells = np.floor((np.array([each[name] for each in drawn]) + 1) / 2 * 20)
        assert sorted(cells) == list(range(20))
    with pytest.raises(ValueError, match="at least 1, got 0"):
        draws(["a"], 0)


def test_what_is_unstated_is_drawn_from_end_to_end() -> None:
    timeout = Unstated("load.timeout", 1, 10, "s", "")
    assert [timeout.value(drawn) for drawn in (-1, 0, 1)] == ["1 s", "3.16 s", "10 s"]
    assert Unstated("server.backlog", 128, 1024, "", "").value(1) == 1024
    choice = Choice("load.arrivals", ("constant", "poisson"), "")
    assert [choice.value(drawn) for drawn in (-1, -0.01, 0.01, 1)] == [
        "constant", "constant", "poisson", "poisson",
    ]  # fmt: skip


def test_chance_names_no_constant_though_there_are_many() -> None:
    names = [f"cost {i}" for i in range(100)]
    drawn = draws([*names, "what decides"], 10)
    random = np.random.default_rng(5)
    noise = [seen(value) for value in random.random(10)]
    assert score(claim(0.9), noise, drawn).decisive == ()
    decided = [seen(each["what decides"]) for each in drawn]
    assert [name for name, _ in score(claim(0.5), decided, drawn).decisive] == ["what decides"]
