"""Servers that close who does not ask in time, and clients that come back at once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenes import BUSY_CLIENT, Scene, comes_at, on_fast, on_reference
from tests.served import Served, on_server
from tests.steps import timelines
from tests.toy import toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import Trace
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings

LATE, CLOSES, ACCEPTS = int(Count.LATE), int(Count.CLOSES), int(Count.ACCEPTS)
LATER = comes_at(900_000)
"""Nobody comes during the run: what happens is of the idle population alone."""


def agreed(
    mechanism: str,
    trace: Trace,
    server: Served,
    idle: int = 0,
    duration_ns: int = 300_000,
    **network: Any,
) -> Outcome:
    """Return the outcome that both engines agree on."""
    run = RunSettings(
        **server,
        network=NetworkSettings(**network),
        client=ClientSettings(idle=idle),
        duration_ns=duration_ns,
        sample_every_ns=0,
    )
    scene = Scene(mechanism, trace, run, BUSY_CLIENT)
    outcome, _ = on_reference(scene)
    assert on_fast(scene).same_as(outcome)
    return outcome


def test_an_event_loop_walks_its_table_and_closes_who_is_late() -> None:
    steps, outcome = timelines(
        LATER,
        on_server(request_timeout_ns=110_000, timeout_check_ns=100_000),
        duration_ns=190_000,
        client=ClientSettings(idle=2),
        costs=toy_costs("epoll_level", application=ApplicationCosts(0, look_ns=10)),
        run=RunSettings(network=NetworkSettings(delay_ns=20_000)),
    )
    # Descriptors: listener 3, epoll 4, timer 5, and two who have waited since 0 and since -55 us.
    assert steps[0][2:] == [
        (101_100, 101_600, "WAKE"),  # the clock at 100 us: way out of idleness, entry
        (101_600, 101_630, "WAIT"),
        (101_630, 101_830, "READ"),
        (101_830, 101_900, "USER"),  # 0 to 6 are not late
        (101_900, 101_960, "UNWATCH"),
        (101_960, 102_210, "CLOSE"),
        (102_210, 102_280, "WAIT"),
        (102_280, 102_300, "WAIT"),  # level-triggered: the timer is looked at once more
        (102_300, 102_340, "SLEEP"),
        # Its client knows at 122_210 us; SYN, SYN-ACK and the last packet take 20 us each.
        (184_660, 185_160, "WAKE"),
        (185_160, 185_190, "WAIT"),
        (185_190, 185_490, "ACCEPT"),
        (185_490, 185_600, "WATCH"),
        (185_600, 185_700, "ACCEPT"),
        (185_700, 185_770, "WAIT"),
        (185_770, 185_790, "WAIT"),
        (185_790, 185_830, "SLEEP"),
    ]
    assert outcome.counts[[LATE, CLOSES, ACCEPTS, Count.CONNECTIONS_OPEN]].tolist() == [1, 1, 1, 2]


def test_a_thread_closes_when_the_time_of_its_read_is_over() -> None:
    steps, outcome = timelines(
        LATER,
        on_server(workers=2, request_timeout_ns=110_000),
        duration_ns=60_000,
        client=ClientSettings(idle=2),
        mechanism="blocking",
        run=RunSettings(network=NetworkSettings(delay_ns=20_000)),
    )
    assert steps[0] == []
    assert steps[1] == [
        (56_100, 56_600, "WAKE"),  # it has waited since -55 us: way out of idleness, entry
        (56_600, 56_625, "READ"),
        (56_625, 56_875, "CLOSE"),
        (56_875, 56_975, "ACCEPT"),
        (56_975, 57_015, "SLEEP"),
    ]
    assert outcome.counts[[LATE, CLOSES]].tolist() == [1, 1]


LOOPS = ["select", "rt_signals"]


@pytest.mark.parametrize("mechanism", [*LOOPS, "blocking"])
def test_who_is_late_is_closed_and_comes_back_whatever_tells_the_server(mechanism: str) -> None:
    idle = 3
    server = on_server(
        request_timeout_ns=30_000,
        timeout_check_ns=10_000,
        workers=4 if mechanism == "blocking" else 1,
    )
    trace = comes_at(1_000, 30_000, requests=2, think_ns=50_000)
    outcome = agreed(mechanism, trace, server, idle, delay_ns=1_000)
    # Whoever thinks for longer than the server waits has one reply, and then an end of file.
    assert outcome.status.tolist() == [Status.RESET, Status.RESET]
    assert outcome.counts[Count.REPLIES] == 2
    assert outcome.counts[LATE] == outcome.counts[CLOSES] > 10
    # All come back, but for those who are on their way.
    assert outcome.counts[ACCEPTS] >= outcome.counts[CLOSES] - idle


def test_idle_clients_go_on_closing_where_the_server_does_so_too() -> None:
    # Both are about as patient, so closes cross on their way: whoever comes back leaves again.
    def closed_by_clients(duration_ns: int) -> int:
        run = RunSettings(
            **on_server(request_timeout_ns=110_000, timeout_check_ns=5_000),
            network=NetworkSettings(20_000),
            client=ClientSettings(idle=20, idle_life_ns=100_000),
            duration_ns=duration_ns,
            sample_every_ns=0,
        )
        outcome, _ = on_reference(Scene("epoll_level", comes_at(duration_ns), run))
        return int(outcome.counts[CLOSES] - outcome.counts[LATE])

    early = closed_by_clients(5_000_000)
    assert closed_by_clients(20_000_000) > 3 * early > 300


def test_who_asks_in_time_is_not_closed() -> None:
    trace = comes_at(1_000, requests=3, think_ns=50_000)
    server = on_server(request_timeout_ns=100_000, timeout_check_ns=7_000)
    outcome = agreed("epoll_level", trace, server)
    assert outcome.status.tolist() == [Status.REPLIED]
    assert outcome.counts[LATE] == 0


def test_workers_that_share_a_ready_list_have_no_timers() -> None:
    server = on_server(workers=2, sharing=int(Sharing.READY_LIST), request_timeout_ns=5)
    with pytest.raises(ValueError, match="request_timeout_ns must be 0 where sharing"):
        agreed("epoll_level", LATER, server)


@pytest.mark.parametrize("mechanism", ["io_uring", "completion_port"])
def test_completions_have_no_timers_here(mechanism: str) -> None:
    run = RunSettings(**on_server(request_timeout_ns=5))
    with pytest.raises(ValueError, match="request_timeout_ns must be 0 with"):
        simulate(mechanism, LATER, toy_costs(mechanism), run)
