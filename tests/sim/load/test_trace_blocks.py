"""Traces in blocks: whatever the sizes of the blocks, the rows are those drawn at once."""

import itertools
from collections.abc import Iterable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.toy import TraceSlices

from dispatchsim.sim.load import workload
from dispatchsim.sim.load.streams import generator
from dispatchsim.sim.load.workload import (
    ClosedLoopBlocks,
    Load,
    OpenLoopBlocks,
    Trace,
    TraceBlocks,
    TraceError,
    closed_loop,
    open_loop,
)

NAMES = ("at_ns", "requests", "request_bytes", "reply_bytes", "think_ns")
SIZES = st.lists(st.integers(1, 200), min_size=1, max_size=8)


def blocks_of(source: TraceBlocks, sizes: Iterable[int]) -> list[Trace]:
    """Take blocks of *sizes*, again and again, to the end."""
    blocks: list[Trace] = []
    for n in itertools.cycle(sizes):
        block = source.take(n)
        if block is None:
            assert source.take(n) is None
            return blocks
        assert (block.loop, block.users) == (source.loop, source.users)
        blocks.append(block)
        if len(block) < n:
            assert source.take(n) is None
    raise AssertionError("endless")


def same(blocks: list[Trace], whole: Trace) -> bool:
    return all(
        np.array_equal(np.concatenate([getattr(b, name) for b in blocks]), getattr(whole, name))
        for name in NAMES
    )


@given(
    rate=st.floats(20, 20_000),
    seed=st.integers(0, 99),
    process=st.sampled_from(["poisson", "constant"]),
    sizes=SIZES,
)
def test_blocks_of_an_open_loop_are_the_trace(
    rate: float, seed: int, process: Literal["poisson", "constant"], sizes: list[int]
) -> None:
    source = OpenLoopBlocks(
        Load("open", rate_per_s=rate, process=process, requests=3, think_ns=9),
        seconds=0.1,
        seed=seed,
    )
    try:
        whole = open_loop(
            rate_per_s=rate, seconds=0.1, seed=seed, process=process, requests=3, think_ns=9
        )
    except TraceError:  # nobody comes
        assert source.take(sizes[0]) is None
        return
    assert same(blocks_of(source, sizes), whole)


@given(rate=st.floats(100, 20_000), seconds=st.floats(0.05, 0.2), seed=st.integers(0, 99))
def test_poisson_arrivals_are_one_draw_of_gaps(rate: float, seconds: float, seed: int) -> None:
    gaps_ns = generator(seed, "arrivals").exponential(1e9 / rate, int(3 * rate * seconds) + 99)
    at_ns = np.rint(np.cumsum(gaps_ns))
    expected = at_ns[at_ns < seconds * 1e9].astype(np.int64)
    if expected.size:
        found = open_loop(rate_per_s=rate, seconds=seconds, seed=seed)
        assert np.array_equal(found.at_ns, expected)


@given(
    connections=st.integers(1, 500),
    think_ns=st.sampled_from([0, 1_000_000]),
    seed=st.integers(0, 99),
    sizes=SIZES,
)
def test_blocks_of_a_closed_loop_are_the_trace(
    connections: int, think_ns: int, seed: int, sizes: list[int]
) -> None:
    whole = closed_loop(users=7, connections=connections, seed=seed, think_ns=think_ns)
    if think_ns:
        drawn = generator(seed, "think").exponential(think_ns, connections)
        assert np.array_equal(whole.think_ns, np.rint(drawn).astype(np.int64))
    source = ClosedLoopBlocks(
        Load("closed", users=7, think_ns=think_ns), connections=connections, seed=seed
    )
    assert same(blocks_of(source, sizes), whole)
    endless = ClosedLoopBlocks(Load("closed", users=7, think_ns=think_ns), seed=seed)
    begun = endless.take(connections)
    assert begun is not None
    assert same([begun], whole)
    assert endless.take(3) is not None


@given(rows=st.integers(1, 60), sizes=SIZES)
def test_slices_of_a_trace_are_the_trace(rows: int, sizes: list[int]) -> None:
    whole = open_loop(rate_per_s=1000, seconds=rows / 1000, seed=1, process="constant")
    assert same(blocks_of(TraceSlices(whole), sizes), whole)


def test_only_what_is_in_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "CONNECTIONS_MAX", 100)
    with pytest.raises(TraceError, match="over 100 connections"):
        open_loop(rate_per_s=2000, seconds=0.1, seed=1)
    with pytest.raises(TraceError, match="needs 1 to 100 connections, got 200"):
        closed_loop(users=1, connections=200)
    arrivals = OpenLoopBlocks(
        Load("open", rate_per_s=2000, process="constant"), seconds=0.1, seed=1
    )
    assert sum(len(block) for block in blocks_of(arrivals, [99, 7])) == 200
    users = ClosedLoopBlocks(Load("closed", users=1), connections=200)
    assert [len(block) for block in blocks_of(users, [80])] == [80, 80, 40]


@pytest.mark.parametrize("n", [0, -1, 50_000_001])
def test_a_block_has_a_size(n: int) -> None:
    with pytest.raises(TraceError, match=f"a block needs 1 to 50000000 connections, got {n}"):
        ClosedLoopBlocks(Load("closed", users=1)).take(n)


def test_a_row_that_breaks_a_rule_is_refused_before_the_first_block() -> None:
    with pytest.raises(TraceError, match="requests must be at least 1, got 0"):
        OpenLoopBlocks(Load("open", rate_per_s=1, requests=0), seconds=1, seed=1)
    with pytest.raises(TraceError, match="at least 1 in a closed one, got 0"):
        ClosedLoopBlocks(Load("closed", users=0))
    with pytest.raises(TraceError, match="connections must be at least 1, got 0"):
        ClosedLoopBlocks(Load("closed", users=1), connections=0)
    with pytest.raises(TraceError, match="duration must be below"):
        OpenLoopBlocks(Load("open", rate_per_s=1), seconds=1e10, seed=1)
    with pytest.raises(TraceError, match="rate and duration must be positive"):
        OpenLoopBlocks(Load("open", rate_per_s=float("inf")), seconds=1, seed=1)
