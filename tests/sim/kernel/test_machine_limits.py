"""Limits of the whole machine: files of all processes, memory of all connections."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kernel_settings import KernelSettings
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS

SIX = arrivals(*[10_000] * 6, requests=2, think_ns=SECOND_NS // 2)
"""Six connections that come at once, and stay for half a second."""


def limited(kernel: KernelSettings, idle: int = 0) -> Outcome:
    """Return what becomes of them; both engines agree."""
    run = RunSettings(
        kernel=kernel,
        client=ClientSettings(idle=idle),
        duration_ns=4 * SECOND_NS,
        sample_every_ns=0,
    )
    outcome = simulate("epoll_level", SIX, toy_costs("epoll_level"), run, engine="reference")
    fast = simulate("epoll_level", SIX, toy_costs("epoll_level"), run, engine="fast")
    assert fast.same_as(outcome)
    return outcome


def test_beyond_all_processes_files_accept_fails_with_enfile_until_one_is_closed() -> None:
    # 0, 1, 2, the listener and epoll: 5 files, and 3 elsewhere leave 4 of 12.
    outcome = limited(KernelSettings(files_max=12, files_elsewhere=3))
    assert outcome.counts[Count.ACCEPT_NO_FILE] > 0
    assert outcome.counts[Count.ACCEPT_NO_FD] == 0
    waited = outcome.done_ns > 0.9 * SECOND_NS
    assert waited.tolist() == [False] * 4 + [True] * 2
    assert (outcome.status == Status.REPLIED).all()


@pytest.mark.parametrize(("mechanism", "n_clients"), [("epoll_edge", 3), ("rt_signals", 4)])
def test_at_the_limit_of_descriptors_who_waits_for_eagain_spins(
    mechanism: str, n_clients: int
) -> None:
    # A descriptor is taken before the queue is looked at, so an accept never says EAGAIN here:
    # calls of 100 ns and more fill the 10 ms. Clients that stay have all descriptors but those of
    # standard input, output and errors, the listener and an epoll set.
    run = RunSettings(**on_server(fd_limit=8), duration_ns=10_000_000, sample_every_ns=0)
    trace = arrivals(*range(10_000, 10_000 + n_clients), requests=2, think_ns=SECOND_NS)
    outcome = simulate(mechanism, trace, toy_costs(mechanism), run, engine="reference")
    assert outcome.counts[Count.ACCEPTS] == n_clients
    assert outcome.counts[Count.ACCEPT_AGAIN] < n_clients
    assert outcome.counts[Count.ACCEPT_NO_FD] > 1_000
    assert simulate(mechanism, trace, toy_costs(mechanism), run, engine="fast").same_as(outcome)


def test_a_request_for_which_there_is_no_memory_is_lost_and_comes_again() -> None:
    outcome = limited(KernelSettings(memory_bytes=5_000, connection_bytes=1_000), idle=3)
    # Two fit beside the idle ones. Of the four others two fit a second later, the last after 3 s.
    assert outcome.counts[Count.NO_MEMORY] == outcome.counts[Count.SYN_DROPS] == 4 + 2
    late_s = (outcome.done_ns // SECOND_NS).tolist()
    assert late_s == [0, 0, 1, 1, 3, 3]


def test_no_limit_is_no_limit() -> None:
    outcome = limited(KernelSettings())
    assert outcome.counts[[Count.ACCEPT_NO_FILE, Count.NO_MEMORY]].sum() == 0
    assert (outcome.done_ns < 0.6 * SECOND_NS).all()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (KernelSettings(files_max=9), "files_max must be at least 10, for 4 open connections"),
        (
            KernelSettings(memory_bytes=3_999, connection_bytes=1_000),
            "memory_bytes must hold 4 open connections of 1000 bytes, or be 0, got 3999",
        ),
    ],
)
def test_idle_connections_must_fit(kernel: KernelSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        limited(kernel, idle=4)
