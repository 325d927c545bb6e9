"""Classes of clients before a run: shares, numbers of requests, and users by their class."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.sim.load.client_classes import class_tables
from dispatchsim.sim.load.laws import N_DRAWS
from dispatchsim.sim.load.reply_sizes import SPECWEB99
from dispatchsim.sim.load.workload import Load, Trace, TraceBlocks, TraceError
from dispatchsim.sim.state.client_classes import ClientClass, class_sizes
from dispatchsim.sim.state.laws import Counts, Law

COLUMNS = ("at_ns", "requests", "request_bytes", "reply_bytes", "think_ns", "client_class")
FEW_AND_MANY = (
    ClientClass(
        10, Counts("geometric", 40), 200, pause=Law("constant", 9_000), requests_permille=500
    ),
    ClientClass(390, Counts("samples", samples=(1, 2, 9)), reply_bytes=700, requests_permille=100),
    ClientClass(600, reply_mix=SPECWEB99, requests_permille=400),
)


def within_five_sigma(found: int, n: int, share: float) -> bool:
    """Return whether a binomial count is where all but two of a million are."""
    return abs(found - n * share) <= 5 * math.sqrt(n * share * (1 - share))


def whole(blocks: TraceBlocks, size: int) -> dict[str, np.ndarray]:
    parts: list[Trace] = []
    while (block := blocks.take(size)) is not None:
        parts.append(block)
    return {name: np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS}


def test_connections_of_an_open_loop_are_of_a_class_by_their_shares() -> None:
    trace = Load("open", rate_per_s=20_000, classes=FEW_AND_MANY).trace(seed=3, seconds=2, rows=0)
    n = len(trace)
    for number, each in enumerate(FEW_AND_MANY):
        found = int((trace.client_class == number).sum())
        assert within_five_sigma(found, n, each.share_permille / 1_000)
    busy, some, most = (trace.client_class == number for number in range(3))
    assert set(trace.request_bytes[busy]) == {200}
    assert set(trace.request_bytes[~busy]) == {64}
    assert set(trace.think_ns[busy]) == {9_000}
    assert set(trace.think_ns[~busy]) == {0}
    assert set(trace.requests[some]) == {1, 2, 9}
    assert set(trace.requests[most]) == {1}
    assert set(trace.reply_bytes[some]) == {700}
    assert set(trace.reply_bytes[most]) == {size for files in SPECWEB99.sizes for size in files}


@given(size=st.integers(1, 400), seed=st.integers(0, 9))
def test_blocks_of_any_size_have_the_same_classes(size: int, seed: int) -> None:
    load = Load("open", rate_per_s=900, classes=FEW_AND_MANY)
    trace = load.trace(seed, seconds=0.5, rows=0)
    rows = whole(load.blocks(seed, seconds=0.5), size)
    assert all(np.array_equal(rows[name], getattr(trace, name)) for name in COLUMNS)


def test_classes_do_not_move_the_arrivals() -> None:
    plain = Load("open", rate_per_s=900)
    several = plain._replace(classes=FEW_AND_MANY)
    drawn = plain._replace(counts=Counts("geometric", 3))
    at_ns = plain.trace(5, 1, 0).at_ns
    assert np.array_equal(at_ns, several.trace(5, 1, 0).at_ns)
    assert np.array_equal(at_ns, drawn.trace(5, 1, 0).at_ns)


@pytest.mark.parametrize("loop", ["open", "closed", "kept"])
@pytest.mark.parametrize("mean", [1, 2, 50])
def test_geometric_numbers_have_their_mean_and_variance(loop: str, mean: int) -> None:
    counts = Counts("geometric", mean)
    load = {
        "open": Load("open", rate_per_s=100_000, counts=counts),
        "closed": Load("closed", users=10, counts=counts),
        "kept": Load("kept", users=10, rate_per_s=1_000, counts=counts),
    }[loop]
    found = load.trace(seed=1, seconds=1, rows=100_000).requests
    n, variance = found.size, mean * (mean - 1)  # (1 - p) / p^2 with p = 1 / mean
    assert found.min() == 1
    assert abs(found.mean() - mean) <= 5 * math.sqrt(variance / n)
    # The fourth central moment of it is at most 9 variance^2 + variance.
    sigma = math.sqrt((8 * variance**2 + variance) / n)
    assert abs(found.var() - variance) <= 5 * sigma


def test_samples_come_with_equal_probability() -> None:
    counts = Counts("samples", samples=(1, 4, 4, 90))
    found = Load("open", rate_per_s=40_000, counts=counts).trace(2, 1, 0).requests
    assert set(found) == {1, 4, 90}
    for value, share in ((1, 0.25), (4, 0.5), (90, 0.25)):
        assert within_five_sigma(int((found == value).sum()), found.size, share)


@given(size=st.integers(1, 60))
def test_rows_of_a_closed_loop_draw_their_numbers_once(size: int) -> None:
    load = Load("closed", users=4, counts=Counts("geometric", 6), think_ns=100)
    trace = load.trace(7, 0, rows=200)
    blocks = load.blocks(7, 0)
    parts = [blocks.take(size) for _ in range(-(-200 // size))]
    found = np.concatenate([part.requests for part in parts if part])
    assert np.array_equal(found[:200], trace.requests)


def test_users_are_of_a_class_for_ever_and_as_many_as_its_share() -> None:
    closed = Load("closed", users=1_000, classes=FEW_AND_MANY).trace(1, 0, rows=4_000)
    kept = Load("kept", users=1_000, rate_per_s=500, classes=FEW_AND_MANY).trace(1, 1, rows=0)
    for trace in (closed, kept):
        assert np.bincount(trace.user_class).tolist() == [10, 390, 600]
        assert trace.user_class.tolist() != sorted(trace.user_class)  # all sets have some of each


def test_users_begin_by_the_pauses_of_their_class() -> None:
    classes = (
        ClientClass(500, pause=Law("constant", 1_000)),
        ClientClass(250, pause=Law("exponential", 0)),
        ClientClass(250, pause=Law("exponential", 10**9)),
    )
    trace = Load("closed", users=8, classes=classes, pauses_first=True).trace(1, 0, rows=8)
    firsts = {k: trace.at_ns[:8][trace.user_class == k].tolist() for k in range(3)}
    assert firsts[0] == [0, 250, 500, 750]  # one after the other in the course of a pause
    assert firsts[1] == [0, 0]
    assert min(firsts[2]) > 1_000_000
    at_once = Load("closed", users=8, classes=classes).trace(1, 0, rows=8)
    assert at_once.at_ns[:8][at_once.user_class == 2].tolist() == [0, 0]


def test_a_busy_hundredth_may_make_half_of_all_requests() -> None:
    load = Load("kept", users=1_000, rate_per_s=40_000, classes=FEW_AND_MANY)
    trace = load.trace(1, 1, rows=0)
    n, of_class = trace.arrival_ns.size, trace.user_class[trace.arrival_user]
    for number, each in enumerate(FEW_AND_MANY):
        found = int((of_class == number).sum())
        assert within_five_sigma(found, n, each.requests_permille / 1_000)
    # Each of ten busy connections has a twentieth of all.
    busy = np.bincount(trace.arrival_user, minlength=1_000)[trace.user_class == 0]
    assert all(within_five_sigma(int(found), n, 0.05) for found in busy)
    longer = load.trace(1, 2, rows=0)
    assert np.array_equal(longer.arrival_user[:n], trace.arrival_user)


def test_at_a_constant_rate_users_of_each_class_take_turns() -> None:
    classes = (ClientClass(500, requests_permille=750), ClientClass(500, requests_permille=250))
    load = Load("kept", users=4, rate_per_s=100, process="constant", classes=classes)
    trace = load.trace(1, 0.16, rows=0)
    busy, quiet = (np.flatnonzero(trace.user_class == k).tolist() for k in range(2))
    # Requests of the busy are due at 2/3, 2, 10/3 ... of a gap, of the quiet at 2, 6, 10 ...
    turns = [busy[0], busy[1], quiet[0], busy[0], busy[1], busy[0], quiet[1], busy[1]]
    assert trace.arrival_user.tolist()[:8] == turns


def test_shares_are_rounded_up_to_all_clients() -> None:
    thirds = (ClientClass(333), ClientClass(333), ClientClass(334))
    assert class_sizes(thirds, 10) == [3, 4, 3]
    assert class_sizes(thirds, 0) == [0, 0, 0]


def test_tables_of_classes_stand_one_behind_the_other() -> None:
    tables = class_tables(FEW_AND_MANY, 1, of_users=True)
    assert tables["class_request_bytes"].tolist() == [200, 64, 64]
    assert tables["class_path"].tolist() == [-1, -1, -1]
    requests = tables["class_requests"].reshape(3, N_DRAWS)
    assert requests[0].mean() == pytest.approx(40, rel=1e-3)
    assert requests[1].mean() == pytest.approx(4, rel=1e-3)
    assert set(requests[2]) == {1}
    # A constant is a table of one entry where no class has another law.
    alike = class_tables((ClientClass(500), ClientClass(500)), 1, of_users=True)
    assert {name: table.size for name, table in alike.items()} == {
        "pause_ns": 2,
        "class_path": 2,
        "class_request_bytes": 2,
        "class_requests": 2,
        "class_reply_bytes": 2,
    }


def test_a_trace_file_has_no_users_of_classes() -> None:
    trace = Load("closed", users=10, classes=FEW_AND_MANY).trace(1, 0, rows=40)
    with pytest.raises(TraceError, match="a trace file has no classes of users"):
        trace.text()
