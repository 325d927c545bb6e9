"""Rates that change with time, and replies that differ in size: drawn, the same in any blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dispatchsim.sim.load.arrivals import Bursts, Crowd, Pattern, Ramp, Wave
from dispatchsim.sim.load.reply_sizes import SPECWEB99
from dispatchsim.sim.load.workload import (
    Load,
    OpenLoopBlocks,
    Trace,
    TraceError,
    closed_loop,
    open_loop,
)
from dispatchsim.sim.state.units import SECOND_NS

PATTERNS: list[Pattern] = [
    Bursts(burst_s=0.1, calm_s=0.4),
    Bursts(burst_s=0.1, calm_s=0.4, factor=3.0),
    Crowd(at_s=1.0, length_s=0.5, factor=4.0),
    Wave(period_s=2.0, swing=1.0),
    Ramp(((0.0, 0.0), (1.0, 1.0), (2.0, 0.5), (3.0, 2.0))),
]


def drawn(
    pattern: Pattern, seconds: float = 4.0, seed: int = 1, rate_per_s: float = 5_000
) -> Trace:
    return open_loop(rate_per_s=rate_per_s, seconds=seconds, seed=seed, pattern=pattern)


def numbers(trace: Trace, seconds: float, width_s: float) -> NDArray[np.int64]:
    """Return how many come in each interval of *width_s*."""
    edges = np.arange(0, round(seconds / width_s) + 1) * width_s * SECOND_NS
    return np.histogram(trace.at_ns, edges)[0]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("block", [1, 700, 100_000])
def test_blocks_of_any_length_are_the_rows_of_the_trace(pattern: Pattern, block: int) -> None:
    load = Load("open", rate_per_s=1_000.0, pattern=pattern, reply_mix=SPECWEB99)
    blocks = OpenLoopBlocks(load, seconds=1.5, seed=3)
    parts: list[Trace] = []
    while (part := blocks.take(block)) is not None:
        assert len(part) <= block
        parts.append(part)
    assert all(len(part) == block for part in parts[:-1])
    whole = open_loop(rate_per_s=1_000.0, seconds=1.5, seed=3, pattern=pattern, reply_mix=SPECWEB99)
    for name in ("at_ns", "reply_bytes"):
        column = np.concatenate([getattr(part, name) for part in parts])
        assert np.array_equal(column, getattr(whole, name))


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_a_longer_run_begins_with_a_shorter_one(pattern: Pattern) -> None:
    short, long = drawn(pattern, 1.2), drawn(pattern, 3.0)
    assert np.array_equal(long.at_ns[: len(short)], short.at_ns)
    assert long.at_ns[len(short)] >= 1.2 * SECOND_NS


def test_a_crowd_comes_when_it_is_told_and_goes() -> None:
    n = numbers(drawn(PATTERNS[2]), 4.0, 0.5)
    # 2500 in half a second, but for 10000 in the third; five standard deviations.
    expected = np.array([2_500, 2_500, 10_000, *[2_500] * 5])
    assert (np.abs(n - expected) < 5 * np.sqrt(expected)).all()


def test_a_wave_has_the_mean_rate_and_a_trough_without_anybody() -> None:
    n = numbers(drawn(Wave(period_s=2.0, swing=1.0)), 4.0, 0.25)
    assert abs(n.sum() - 20_000) < 5 * math.sqrt(20_000)
    assert n[:4].sum() > 4 * n[4:8].sum()
    edges = np.arange(17) * 0.25
    # The integral of the rate over each quarter of a second.
    integral = 5_000 * (edges - np.cos(math.pi * edges) / math.pi)
    expected = np.diff(integral)
    assert (np.abs(n - expected) < 5 * np.sqrt(expected) + 1).all()


def test_a_ramp_follows_its_lines_and_stays_at_its_ends() -> None:
    points = ((1.0, 0.2), (2.0, 1.0), (2.5, 0.0), (3.0, 0.0))
    n = numbers(drawn(Ramp(points)), 4.0, 0.25)
    # 5000 a second times the mean of each quarter's ends, as the lines are straight between.
    multiples = [0.2, 0.2, 0.2, 0.2, 0.2, 0.4, 0.6, 0.8, 1.0, 0.5, 0, 0, 0, 0, 0, 0, 0]
    expected = 1_250 * (np.array(multiples[:-1]) + multiples[1:]) / 2
    assert (np.abs(n - expected) <= 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("factor", [math.inf, 4.0])
def test_bursts_keep_the_mean_rate_and_spread_the_counts(factor: float) -> None:
    seconds, rate_per_s = 400.0, 200.0
    pattern = Bursts(burst_s=0.1, calm_s=0.4, factor=factor)
    trace = drawn(pattern, seconds, rate_per_s=rate_per_s)
    n = numbers(trace, seconds, 0.1)
    # Phases last 0.25 s in the mean: 1600 of them leave the mean uncertain by some 5 %.
    assert n.mean() == pytest.approx(rate_per_s * 0.1, rel=0.2)
    if math.isinf(factor):
        # Silence while it is calm: most intervals are empty, at 20 a Poisson process has none.
        assert 0.5 < (n == 0).mean() < 0.8
    else:
        assert 1.5 * n.mean() < n.var()
        assert (n == 0).mean() < 0.01


def test_a_burst_factor_of_one_is_a_poisson_process() -> None:
    gaps_ns = np.diff(drawn(Bursts(0.1, 0.4, 1.0), 20.0).at_ns)
    assert gaps_ns.std() / gaps_ns.mean() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        (Bursts(0.0, 1.0), "burst_s must be above 0"),
        (Bursts(1.0, 1.0, 0.5), "factor must be at least 1, got 0.5"),
        (Bursts(1.0, 1.0, math.nan), "factor must be at least 1, got nan"),
        (Crowd(-1.0, 1.0, 2.0), "at_s must be at least 0"),
        (Crowd(0.0, 1.0, math.inf), "factor must be finite, got inf"),
        (Wave(1.0, 1.5), "swing must be within 0 and 1, got 1.5"),
        (Ramp(((0.0, 1.0),)), "points must be at least 2, got 1"),
        (Ramp(((1.0, 1.0), (1.0, 2.0))), "points must be in order, .* got 1.0 s"),
        (Ramp(((-1.0, 1.0), (1.0, 2.0))), "points must be in order, from 0 .* got -1.0 s"),
        (Ramp(((0.0, -1.0), (1.0, 2.0))), "a multiple must be at least 0 and finite, got -1"),
        (Ramp(((0.0, 0.0), (1.0, 0.0))), "points must have a multiple above 0, got none"),
    ],
)
def test_what_is_no_rate_is_refused(pattern: Pattern, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        drawn(pattern)


def test_a_pattern_is_of_random_arrivals() -> None:
    with pytest.raises(TraceError, match="a pattern is of a poisson process, got constant"):
        open_loop(rate_per_s=10, seconds=1, seed=1, process="constant", pattern=PATTERNS[0])


def test_specweb99_has_four_classes_of_nine_sizes() -> None:
    trace = closed_loop(users=1, connections=100_000, seed=2, reply_mix=SPECWEB99)
    sizes = trace.reply_bytes
    assert np.unique(sizes).size == 36
    assert (sizes.min(), sizes.max()) == (102, 921_600)
    shares = np.histogram(sizes, [0, 1_000, 10_000, 100_000, 1_000_000])[0] / sizes.size
    assert shares == pytest.approx([0.35, 0.50, 0.14, 0.01], abs=0.006)


def test_who_comes_does_not_depend_on_what_they_ask_for() -> None:
    keys: dict[str, Any] = {"rate_per_s": 1_000.0, "seconds": 1.0, "seed": 3}
    mixed = open_loop(**keys, reply_mix=SPECWEB99)
    assert np.array_equal(mixed.at_ns, open_loop(**keys).at_ns)
