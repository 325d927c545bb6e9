"""Tallies: whatever way records are cut, shuffled and sharded, the figures are those of all."""

import math
from dataclasses import astuple, replace
from operator import attrgetter
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchsim.sim.figures.histogram import RELATIVE_ERROR, Integers
from dispatchsim.sim.figures.queue_lengths import SAMPLE_COLUMNS
from dispatchsim.sim.figures.summary import Summary, Verdict, summary_of, verdict_of
from dispatchsim.sim.figures.tally import Progress, Tallies, Tally
from dispatchsim.sim.state.kinds import NONE, Activity, Count, Status

TENTH_NS = 100_000_000
RANKS = [0.5, 0.9, 0.95, 0.99, 0.999]
FAILED = (
    Status.TIMEOUT,
    Status.REFUSED,
    Status.RESET,
    Status.DESCRIPTORS,
    Status.DROPPED,
    Status.PORTS,
)


class Records(NamedTuple):
    """Of a run from 0 to `end_ns` whose window begins at `begin_ns`."""

    begin_ns: int
    end_ns: int
    connections: list[tuple[int, int, int, int]]  # intended, connected, done, status
    requests: list[tuple[int, int, int]]  # due, ended, status


@st.composite
def records(draw: st.DrawFn) -> Records:
    """Draw a run of any length, crowded at the ends of its window and of its intervals."""
    begin_ns = draw(st.sampled_from([0, 7, 3 * TENTH_NS]))
    window_ns = draw(st.sampled_from([1, 50, TENTH_NS, 2 * TENTH_NS + 3, 3 * TENTH_NS]))
    end_ns = begin_ns + window_ns
    edges = [begin_ns, end_ns, *range(begin_ns, end_ns, TENTH_NS)]
    near = st.sampled_from(edges).flatmap(lambda edge: st.integers(max(0, edge - 2), edge + 2))
    times = st.one_of(near, st.integers(0, end_ns)).map(lambda at_ns: min(at_ns, end_ns))

    def request(status: int, one_ns: int, other_ns: int) -> tuple[int, int, int]:
        if status == Status.OPEN:
            return one_ns, NONE, status
        return min(one_ns, other_ns), max(one_ns, other_ns), status

    def connection(status: int, at_ns: tuple[int, int, int]) -> tuple[int, int, int, int]:
        first, second, third = sorted(at_ns)
        return (first, second, NONE if status == Status.OPEN else third, status)

    answered_mostly = st.sampled_from([0, 0, 0, *(int(status) for status in Status)])
    three = st.tuples(times, times, times)
    connections = st.lists(st.builds(connection, answered_mostly, three), max_size=40)
    requests = st.lists(st.builds(request, answered_mostly, times, times), max_size=40)
    return Records(begin_ns, end_ns, draw(connections), draw(requests))


def columns(rows: list[tuple[int, ...]], width: int) -> list[Integers]:
    return list(np.array(rows, np.int64).reshape(-1, width).T)


def summary_from(tallies: Tallies) -> Summary:
    zeros = np.zeros(len(Count), np.int64)
    no_time = np.zeros((1, len(Activity)), np.int64)
    return summary_of(
        tallies,
        ledger_ns=no_time,
        ledger_mark_ns=no_time,
        of_workers=zeros[:0],
        counts=zeros,
        counts_mark=zeros,
        samples=np.zeros((0, len(SAMPLE_COLUMNS)), np.int64),
    )


def tallies_of(run: Records, *, exact: bool) -> Tallies:
    tallies = Tallies(run.begin_ns, run.end_ns, exact=exact)
    tallies.add_connections(*columns([*run.connections], 4))
    tallies.requests.add(*columns([*run.requests], 3))
    return tallies


def requests_tally(requests: list[tuple[int, int, int]], *, exact: bool) -> Tally:
    return tallies_of(Records(0, 1000, [], requests), exact=exact).requests


@given(records())
def test_exact_figures_are_what_they_are_defined_to_be(run: Records) -> None:
    begin_ns, end_ns = run.begin_ns, run.end_ns
    due = [row for row in run.requests if begin_ns <= row[0] < end_ns]
    waits = [ended - at for at, ended, status in due if status == Status.REPLIED]
    done = [row[1] for row in run.requests if row[2] == Status.REPLIED and row[1] >= begin_ns]
    came = [row for row in run.connections if begin_ns <= row[0] < end_ns]
    lives = [row[2] - row[0] for row in came if row[3] == Status.REPLIED]
    found = summary_from(tallies_of(run, exact=True))
    assert found.offered == len(due)
    assert found.replied == len(done)
    errors = {kind.name.lower(): sum(row[2] == kind for row in due) for kind in FAILED}
    assert found.errors == errors
    connects = [row[1] - row[0] for row in came if row[1] > 0]  # at 0 it was open before the run
    for latency, values in (
        (found.latency_ns, waits),
        (found.connections.lifetime_ns, lives),
        (found.connections.connect_ns, connects),
    ):
        quantiles = np.quantile(values, RANKS) if values else [math.nan] * len(RANKS)
        ends = (np.mean(values), np.max(values)) if values else (math.nan, math.nan)
        expected = [ends[0], *quantiles, ends[1]]
        assert np.array_equal(astuple(latency), expected, equal_nan=True)
    assert found.connections.offered == len(came)
    width_ns = min(TENTH_NS, end_ns - begin_ns)
    n = (end_ns - begin_ns) // width_ns
    rates = np.histogram(done, begin_ns + width_ns * np.arange(n + 1))[0] * (1e9 / width_ns)
    assert astuple(found.reply_rate_per_s) == (rates.min(), rates.mean(), rates.max(), rates.std())
    waited = [
        math.inf if row[2] in FAILED else (row[1] if row[2] != Status.OPEN else end_ns) - row[0]
        for row in due
    ]
    expected = (
        np.quantile(np.array(waited, float), RANKS, method="higher")
        if due
        else [math.nan] * len(RANKS)
    )
    assert np.array_equal(astuple(found.latency_due_ns), expected, equal_nan=True)
    open_begin = sum(a < begin_ns and (b == NONE or b >= begin_ns) for a, b, _ in run.requests)
    waiting = [a for a, b, _ in run.requests if a < end_ns and b == NONE]
    middle_ns = (begin_ns + end_ns) // 2
    expected_verdict = verdict_of(
        len(waiting) - open_begin,
        open_begin,
        len(due),
        sum(errors.values()),
        n_gave_up=sum(a < begin_ns <= b and kind in FAILED for a, b, kind in run.requests),
        progress=Progress(
            answered=len(done),
            answered_late=sum(reply >= middle_ns for reply in done),
            waiting=len(waiting),
            waiting_long=sum(since < middle_ns for since in waiting),
            waiting_through=sum(since < begin_ns for since in waiting),
        ),
    )
    assert found.verdict is expected_verdict


@given(records(), st.randoms(use_true_random=False), st.integers(1, 9), st.booleans())
def test_cuts_and_order_do_not_matter(
    run: Records, random: Random, chunk: int, exact: bool
) -> None:
    connections, requests = list(run.connections), list(run.requests)
    random.shuffle(connections)
    random.shuffle(requests)
    whole = Tallies(run.begin_ns, run.end_ns, exact=exact)
    for first in range(0, len(connections), chunk):
        whole.add_connections(*columns([*connections[first : first + chunk]], 4))
    for first in range(0, len(requests), chunk):
        whole.requests.add(*columns([*requests[first : first + chunk]], 3))
    # As text, for NaN is not equal to itself.
    assert repr(summary_from(whole)) == repr(summary_from(tallies_of(run, exact=exact)))


@given(records())
def test_a_histogram_changes_nothing_but_quantiles_and_those_little(run: Records) -> None:
    exact = summary_from(tallies_of(run, exact=True))
    found = summary_from(tallies_of(run, exact=False))
    for name in ("latency_ns", "connections.lifetime_ns", "connections.connect_ns"):
        ours, theirs = (astuple(attrgetter(name)(one)) for one in (found, exact))
        assert ours == pytest.approx(theirs, rel=RELATIVE_ERROR + 1e-12, nan_ok=True)
        assert (ours[0], ours[-1]) == pytest.approx((theirs[0], theirs[-1]), rel=0, nan_ok=True)
    ours, theirs = astuple(found.latency_due_ns), astuple(exact.latency_due_ns)
    assert ours == pytest.approx(theirs, rel=RELATIVE_ERROR, nan_ok=True)
    quantiles = ("latency_ns", "connections", "latency_due_ns")
    same = {name: getattr(exact, name) for name in quantiles}
    assert replace(found, **same) == exact


@pytest.mark.parametrize("exact", [True, False])
def test_p99_counts_those_who_still_wait(exact: bool) -> None:
    answered, still, failed = (0, 10, 0), (0, NONE, 5), (0, 10, 1)
    some_wait = requests_tally([answered] * 95 + [still] * 5, exact=exact)
    assert some_wait.quantiles_due_ns([0.5, 0.99]) == [10, 1000]
    some_failed = requests_tally([answered] * 95 + [failed] * 5, exact=exact)
    assert some_failed.quantiles_due_ns([0.5, 0.99]) == [10, math.inf]


def test_what_lies_beyond_the_end_has_not_happened() -> None:
    tally = Tally(100, 200, exact=True)
    # Done after the end; due after the end; a row of the trace that nobody has begun.
    tally.add(np.array([150, 201, -1]), np.array([201, 300, -1]), np.array([0, 0, 5]))
    assert (tally.n_offered, tally.n_replied) == (1, 0)
    assert (tally.n_open_begin, tally.n_open_end) == (0, 1)
    assert (tally.latency.n, tally.waiting.n) == (0, 1)
    assert tally.progress == Progress(waiting=1)


@pytest.mark.parametrize(("begin_ns", "end_ns"), [(5, 5), (6, 5), (-1, 5)])
def test_a_window_must_have_a_length(begin_ns: int, end_ns: int) -> None:
    with pytest.raises(ValueError, match="0 <= begin < end"):
        Tally(begin_ns, end_ns, exact=True)


def test_nobody_came_is_a_stable_run() -> None:
    found = summary_from(Tallies(0, 10, exact=False))
    assert (found.offered, found.verdict) == (0, Verdict.STABLE)
    assert math.isnan(found.latency_due_ns.p99)
