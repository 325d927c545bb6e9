"""Kept connections: requests come at a rate, wait at their clients, and go on after a loss."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import MECHANISMS, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.load.workload import Trace, TraceError
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings


def kept(users: int, *due: tuple[int, int], requests: int = 1_000, rows: int = 0) -> Trace:
    """Return a trace of requests that are due at (ns, user)."""
    n = max(users, rows)
    at_ns, user = (np.array(column, np.int64) for column in zip(*due, strict=True))
    ones = np.ones(n, np.int64)
    return Trace(
        "kept", users, 0 * ones, requests * ones, 64 * ones, 128 * ones, 0 * ones, at_ns, user
    )


def outcome_of(mechanism: str, trace: Trace, settings: RunSettings) -> Outcome:
    """Return the outcome that both engines agree on."""
    costs = toy_costs(mechanism)
    outcome = simulate(mechanism, trace, costs, settings, engine="reference")
    assert simulate(mechanism, trace, costs, settings, engine="fast").same_as(outcome)
    return outcome


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_request_waits_for_the_reply_before_it(mechanism: str) -> None:
    trace = kept(3, (10_000, 1), (10_100, 1), (10_200, 2), (500_000, 0))
    outcome = outcome_of(mechanism, trace, RunSettings(duration_ns=1_000_000))
    assert outcome.ended_as.tolist() == [Status.REPLIED] * 4
    assert outcome.asked_on.tolist() == [0, 1, 1, 2]
    assert outcome.due_ns.tolist() == [500_000, 10_000, 10_100, 10_200]
    first, second = outcome.reply_ns[1:3]
    assert second > first > 10_000
    assert outcome.status.tolist() == [Status.OPEN] * 3
    assert summarise(outcome).offered == 4


def test_a_request_is_not_sent_before_the_reply_that_comes_after_the_end() -> None:
    costs = toy_costs("epoll_level")
    costs = costs._replace(client=costs.client._replace(receive_ns=4_000))
    trace = kept(1, (10_000, 0), (10_100, 0))
    whole = simulate("epoll_level", trace, costs, RunSettings(duration_ns=1_000_000))
    settings = RunSettings(duration_ns=whole.reply_ns.tolist()[0] - 1)
    cut = simulate("epoll_level", trace, costs, settings, engine="reference")
    assert simulate("epoll_level", trace, costs, settings, engine="fast").same_as(cut)
    # The reply had arrived and was being read: what follows on it had not been sent.
    assert cut.asked_on.tolist() == [-1, 0]
    assert cut.due_ns.tolist() == [10_100, 10_000]
    assert cut.ended_as.tolist() == [Status.OPEN] * 2


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_connection_that_had_its_requests_is_opened_again(mechanism: str) -> None:
    trace = kept(2, *((10_000 + 50_000 * i, i % 2) for i in range(8)), requests=2, rows=8)
    outcome = outcome_of(mechanism, trace, RunSettings(duration_ns=2_000_000))
    assert outcome.ended_as.tolist() == [Status.REPLIED] * 8
    # Each of two users had four requests, on connections of two; then both keep a third.
    assert np.bincount(outcome.asked_on).tolist() == [2, 2, 2, 2]
    assert outcome.status.tolist() == [Status.REPLIED] * 4 + [Status.OPEN] * 2
    assert outcome.counts[Count.ACCEPTS] == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pool_that_kept_connections_hold_altogether_accepts_those_after_them(
    threads: int,
) -> None:
    trace = kept(threads, (10_000, 0), (60_000, 0), requests=1, rows=4)
    # So far away a client is back when the thread sleeps in accept.
    run = RunSettings(
        **on_server(workers=threads), network=NetworkSettings(20_000), duration_ns=400_000
    )
    outcome = outcome_of("blocking", trace, run)
    assert outcome.ended_as.tolist() == [Status.REPLIED] * 2
    assert outcome.counts[Count.ACCEPTS] == 2


def test_who_gives_up_opens_another_connection_and_asks_what_waits() -> None:
    settings = RunSettings(client=ClientSettings(timeout_ns=100_000), duration_ns=3_000_000)
    costs = toy_costs("epoll_level", application=ApplicationCosts(250_000))
    trace = kept(1, (10_000, 0), (20_000, 0), (90_000, 0), (800_000, 0), rows=9)
    outcome = simulate("epoll_level", trace, costs, settings, engine="reference")
    assert simulate("epoll_level", trace, costs, settings, engine="fast").same_as(outcome)
    # The first times out at 110000, as do the others, in time for nothing: 20000 has waited for
    # 90000 ns by then and is sent; 90000 waits until that gives up at 120000.
    assert outcome.ended_as.tolist() == [Status.TIMEOUT] * 4
    assert sorted((outcome.ended_ns - outcome.due_ns).tolist()) == [100_000] * 4
    # Each was sent on a connection of its own, but for 90000: its time was over at the client.
    assert sorted(outcome.asked_on.tolist()) == [0, 1, 2, 3]
    assert outcome.counts[Count.ACCEPTS] >= 3
    summary = summarise(outcome)
    assert (summary.offered, summary.errors["timeout"]) == (4, 4)
    assert math.isinf(summary.latency_due_ns.p50)


def test_a_request_counts_its_wait_at_the_client() -> None:
    costs = toy_costs("epoll_level", application=ApplicationCosts(100_000))
    trace = kept(1, (0, 0), (0, 0), (0, 0))
    settings = RunSettings(duration_ns=3_000_000)
    outcome = simulate("epoll_level", trace, costs, settings)
    first, second, third = outcome.reply_ns.tolist()
    assert second - first > 100_000
    assert third - second == second - first
    assert outcome.due_ns.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"arrival_user": np.array([3, 0])}, "arrival_user must be 0 to 1, got 0 to 3"),
        ({"arrival_ns": np.array([5, 4])}, "must ascend"),
        ({"arrival_ns": np.zeros(0, np.int64), "arrival_user": np.zeros(0, np.int64)}, "got 0"),
        ({"users": 9}, "9 users need as many connections, got 2"),
        ({"loop": "closed"}, "arrivals must be of kept connections"),
    ],
)
def test_a_trace_of_kept_connections_that_cannot_be_is_refused(
    change: dict[str, Any], rule: str
) -> None:
    with pytest.raises(TraceError, match=rule):
        replace(kept(2, (1, 0), (2, 1)), **change)


def test_the_file_of_a_trace_of_kept_connections_ends_with_its_requests(tmp_path: Path) -> None:
    trace = kept(2, (1, 0), (7, 1))
    lines = [line for line in trace.text().splitlines() if not line.startswith("# ")]
    assert lines[:3] == ["loop kept", "users 2", f"connections {len(trace)}"]
    assert lines[3 + len(trace) :] == ["requests 2", "1 0", "7 1"]
    # The load generator replays it; a scenario has keys for such a load, and takes no file of one.
    trace.write(tmp_path / "trace")
    with pytest.raises(TraceError, match='loop must be open or closed, got "kept"'):
        Trace.read(tmp_path / "trace")
