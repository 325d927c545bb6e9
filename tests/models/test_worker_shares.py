"""How many connections each worker has had: accepted, handed to it, or open before the run."""

from __future__ import annotations

import numpy as np
import pytest
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.summary import ConnectionFigures, summarise
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.family_settings import Recovery, Threads
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings

FIVE = arrivals(*[10_000] * 5)


def kept(users: int) -> Trace:
    """Return a trace of connections that are open, and of one request."""
    ones, one = np.ones(users, np.int64), np.ones(1, np.int64)
    columns = (0 * ones, 10 * ones, 64 * ones, 128 * ones, 0 * ones)
    return Trace("kept", users, *columns, 10_000 * one, 0 * one)


def figures(trace: Trace, mechanism: str = "epoll_level", **settings: int) -> ConnectionFigures:
    """Return the figures of connections that both engines agree on."""
    run, costs = RunSettings(**on_server(**settings), duration_ns=1_000_000), toy_costs(mechanism)
    both = [
        summarise(simulate(mechanism, trace, costs, run, engine=engine)).connections
        for engine in ("fast", "reference")
    ]
    assert both[0].of_workers == both[1].of_workers
    return both[0]


def test_a_single_worker_has_no_share() -> None:
    assert figures(FIVE).of_workers == ()


def test_workers_with_a_queue_each_have_what_they_accepted() -> None:
    shares = figures(FIVE, workers=2, sharing=int(Sharing.NOTHING)).of_workers
    assert len(shares) == 2
    assert sum(shares) == 5


def test_a_worker_has_what_was_handed_to_it() -> None:
    assert figures(FIVE, workers=3, sharing=int(Sharing.HANDED_OVER)).of_workers == (0, 3, 2)


def test_a_connection_in_a_shared_set_is_of_no_worker() -> None:
    assert figures(FIVE, workers=3, sharing=int(Sharing.READY_LIST)).of_workers == ()


def test_threads_of_a_pool_have_what_they_accepted() -> None:
    assert sum(figures(FIVE, "blocking", workers=3).of_workers) == 5


def test_a_thread_that_was_begun_for_a_connection_has_no_share() -> None:
    begun = int(Threads.ON_DEMAND)
    assert figures(FIVE, "blocking", workers=9, threads=begun).of_workers == ()


def test_what_a_sibling_accepts_is_of_its_worker() -> None:
    recovery = {"signal_queue": 1, "recovery": int(Recovery.POLL_FOR_EVER), "cpus": 2}
    shares = figures(FIVE, "rt_signals", workers=2, recovery_hands_over=True, **recovery).of_workers
    assert (len(shares), sum(shares)) == (2, 5)


@pytest.mark.parametrize(
    ("sharing", "shares"),
    [
        (Sharing.NOTHING, (2, 2, 3)),
        (Sharing.ACCEPT_QUEUE, (2, 2, 3)),
        (Sharing.HANDED_OVER, (0, 3, 4)),
        (Sharing.READY_LIST, ()),
    ],
)
def test_connections_that_were_open_before_are_divided_evenly(
    sharing: Sharing, shares: tuple[int, ...]
) -> None:
    assert figures(kept(7), workers=3, sharing=int(sharing)).of_workers == shares
