"""Traces: drawn once, written whole, read back equal, refused with the line that is wrong."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.sim.load.workload import Trace, TraceError, closed_loop, open_loop

GOOD = "# dispatchsim trace 1\nloop open\nusers 0\nconnections 2\n0 1 64 128 0\n9 2 64 128 5 # x\n"


@given(rate=st.floats(100, 50_000), seed=st.integers(0, 99), requests=st.integers(1, 4))
def test_a_written_trace_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, rate: float, seed: int, requests: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "a.trace"
    trace = open_loop(rate_per_s=rate, seconds=0.05, seed=seed, requests=requests)
    trace.write(path)
    again = Trace.read(path)
    assert (again.loop, again.users) == ("open", 0)
    for name in ("at_ns", "requests", "request_bytes", "reply_bytes", "think_ns"):
        assert np.array_equal(getattr(again, name), getattr(trace, name))


def test_a_poisson_trace_has_the_rate_and_dispersion_of_one() -> None:
    trace = open_loop(rate_per_s=10_000, seconds=10, seed=1)
    gaps_ns = np.diff(trace.at_ns)
    # 100,000 draws: standard error 0.3% of the mean; five of them.
    assert abs(gaps_ns.mean() / 100_000 - 1) < 0.016
    assert abs(gaps_ns.std() / gaps_ns.mean() - 1) < 0.03


def test_the_same_seed_gives_the_same_arrivals_whatever_is_asked_for() -> None:
    one = open_loop(rate_per_s=1000, seconds=1, seed=7)
    other = open_loop(rate_per_s=1000, seconds=1, seed=7, reply_bytes=9_000, think_ns=3)
    assert np.array_equal(one.at_ns, other.at_ns)
    assert not np.array_equal(one.at_ns, open_loop(rate_per_s=1000, seconds=1, seed=8).at_ns)


def test_constant_arrivals_are_equally_spaced() -> None:
    trace = open_loop(rate_per_s=4, seconds=1, seed=0, process="constant")
    assert trace.at_ns.tolist() == [0, 250_000_000, 500_000_000, 750_000_000]


def test_a_good_file_with_comments_is_read(tmp_path: Path) -> None:
    path = tmp_path / "good.trace"
    path.write_text(GOOD)
    assert Trace.read(path).requests.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("trace 1", "trace 2"), 'line 1: expected "# dispatchsim trace 1"'),
        (GOOD.replace("loop open", "loop ajar"), 'loop must be open or closed, got "ajar"'),
        (GOOD.replace("users 0", "users 3"), "users must be 0 in an open loop"),
        (GOOD.replace("connections 2", "connections 3"), "connections is 3, but 2 rows follow"),
        (
            GOOD.replace("0 1 64", "-1 1 64"),
            'line 5: at_ns must be a whole number from 0, got "-1"',
        ),
        (GOOD.replace("0 1 64 128 0", "0 0 64 128 0"), "requests must be at least 1, got 0"),
        (GOOD.replace("9 2", "99999999999999999999 2"), "at_ns must be a whole number from 0"),
        (GOOD.replace("0 1 64 128 0", "10 1 64 128 0"), "the trace is not sorted: arrival 1"),
        (GOOD.replace("9 2 64 128 5", "9 2 64 128"), "line 6: expected 5 numbers"),
        ("", 'line 1: expected "# dispatchsim trace 1"'),
    ],
)
def test_a_bad_file_is_refused_by_name_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.trace"
    path.write_text(text)
    with pytest.raises(TraceError) as error:
        Trace.read(path)
    assert str(path) in str(error.value)
    assert message in str(error.value)


@given(st.binary(max_size=300), st.booleans())
def test_garbage_is_refused_and_never_crashes(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, after_header: bool
) -> None:
    path = tmp_path_factory.mktemp("garbage") / "x.trace"
    path.write_bytes((GOOD.encode() if after_header else b"") + garbage)
    try:
        Trace.read(path)
    except TraceError as error:
        assert str(path) in str(error)  # noqa: PT017 (garbage may by chance be a comment)


def test_a_closed_loop_draws_its_think_times_before_the_run() -> None:
    trace = closed_loop(users=4, connections=1000, seed=3, think_ns=1_000_000)
    assert trace.think_ns.std() > 500_000
    assert np.array_equal(
        trace.think_ns,
        closed_loop(users=9, connections=1000, seed=3, think_ns=1_000_000).think_ns,
    )


@pytest.mark.parametrize(("rate", "seconds"), [(0, 1), (-5, 1), (10, 0), (float("nan"), 1)])
def test_a_rate_or_duration_that_is_not_positive_is_refused(rate: float, seconds: float) -> None:
    with pytest.raises(TraceError, match="rate and duration must be positive"):
        open_loop(rate_per_s=rate, seconds=seconds, seed=1)


def test_users_with_constant_think_times_begin_one_after_the_other_and_keep_their_distance() -> (
    None
):
    trace = closed_loop(users=4, connections=10, think_ns=1_000, think="constant")
    assert trace.at_ns.tolist() == [0, 250, 500] + [750] * 7
    assert set(trace.think_ns.tolist()) == {1_000}
