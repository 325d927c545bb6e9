"""Threads at a completion port, computed by hand; M23 of the literature by name.

As in test_worker_timelines: on three CPUs packets go to CPU 2, which handles connection and request
of 10000 until 11430 and calls a thread elsewhere at 11350, which leaves idleness at 12350.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.served import on_server
from tests.steps import timelines
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import Verdict, summarise
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.program_settings import Sharing, Wakes
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS

NAME = "completion_port"
ONE = arrivals(10_000)
WHILE = RunSettings(duration_ns=20_000, sample_every_ns=0)


def outcome_with(trace: Any, idle: int = 0, timeout_ns: int = 0, **server: Any) -> Outcome:
    """Return the outcome of *trace* in 10 ms, on both engines."""
    run = RunSettings(
        **on_server(**server),
        client=ClientSettings(idle=idle, timeout_ns=timeout_ns),
        duration_ns=10 * MILLISECOND_NS,
        sample_every_ns=0,
    )
    outcome = simulate(NAME, trace, toy_costs(NAME), run, engine="reference")
    assert simulate(NAME, trace, toy_costs(NAME), run, engine="fast").same_as(outcome)
    return outcome


def test_m23_each_call_on_a_connection_has_a_packet() -> None:
    steps, outcome = timeline(NAME, ONE, WHILE)
    assert steps == [
        (11_430, 11_930, "WAKE"),  # it has waited for a packet since before the run
        (11_930, 11_960, "WAIT"),  # the packet of an accept
        (11_960, 12_160, "ACCEPT"),  # the rest of 300, of which 100 were up to the look
        (12_160, 12_260, "ACCEPT"),  # the next one issued
        (12_260, 12_370, "WATCH"),  # bound to the port
        (12_370, 12_460, "READ"),  # a receive issued: the request is there already
        (12_460, 12_530, "WAIT"),
        (12_530, 12_560, "WAIT"),  # the packet of the receive, without a sleep
        (12_560, 12_670, "READ"),  # the rest of 200
        (12_670, 12_820, "USER"),
        (12_820, 13_220, "WRITE"),
        (13_220, 13_450, "WAIT"),  # 70, and the reset's 160
        (13_450, 13_480, "WAIT"),  # the packet of the send
        (13_480, 13_730, "CLOSE"),
        (13_730, 13_800, "WAIT"),
        (13_800, 13_840, "SLEEP"),
    ]
    counts = outcome.counts[[Count.WAITS, Count.EVENTS, Count.READ_AGAIN, Count.ACCEPT_AGAIN]]
    assert counts.tolist() == [3, 3, 0, 0]
    assert outcome.done_ns.tolist() == [13_220]


def test_m23_the_thread_that_came_last_is_the_first_to_go() -> None:
    trace = arrivals(*range(10_000, 200_000, 20_000))
    outcome = outcome_with(trace, workers=3)
    assert outcome.worker_accepts.tolist() == [0, 0, len(trace)]
    # In a pool that blocks in accept they take turns.
    run = RunSettings(
        **on_server(workers=3, wakes=int(Wakes.ONE)), duration_ns=400_000, sample_every_ns=0
    )
    pool = simulate("blocking", trace, toy_costs("blocking"), run)
    assert np.ptp(pool.worker_accepts) <= 1


def test_m23_packets_come_first_in_first_out() -> None:
    outcome = outcome_with(arrivals(*[10_000] * 6))
    assert outcome.reply_ns.tolist() == sorted(outcome.reply_ns.tolist())


def test_m23_no_more_run_at_once_than_may() -> None:
    # Six connections at once on one CPU. Where one may run it goes on from packet to packet, and
    # there is no switch; where three may, others are woken for packets that it would come to.
    six = arrivals(*[10_000] * 6)
    n_wakes, awake_ns = {}, {}
    for concurrent in (0, 1, 3):
        run = WHILE._replace(
            duration_ns=100_000,
            **on_server(workers=8, concurrent_threads=concurrent, wake_preemption=False),
        )
        steps, outcome = timeline(NAME, six, run)
        assert outcome.counts[Count.REPLIES] == 6
        n_wakes[concurrent] = [name for *_, name in steps].count("WAKE")
        assert outcome.counts[Count.SLEEPS] == 8 + n_wakes[concurrent]  # 8 at the beginning
        awake_ns[concurrent] = 100_000 - outcome.ledger_ns[Activity.IDLE]
    assert n_wakes[0] == n_wakes[1] == 1  # 0: as many as there are CPUs
    assert n_wakes[3] >= 3
    assert awake_ns[3] - awake_ns[1] >= 500 * (n_wakes[3] - 1)


def test_m23_on_two_cpus_two_threads_share_the_work() -> None:
    trace = arrivals(*range(10_000, 60_000, 600))
    one = outcome_with(trace, workers=4, cpus=2, concurrent_threads=1)
    both = outcome_with(trace, workers=4, cpus=2)
    assert one.counts[Count.REPLIES] == both.counts[Count.REPLIES] == len(trace)
    assert max(both.done_ns) < max(one.done_ns)
    busy_ns = both.cpu_ledger_ns[:, Activity.USER]
    assert busy_ns.min() > busy_ns.max() / 3


def test_m23_a_thread_that_blocks_lets_another_one_run() -> None:
    # One may run. The first sleeps in a send from 13825 on: another takes the second connection.
    server = on_server(
        workers=2,
        cpus=3,
        interrupt_cpu=2,
        concurrent_threads=1,
        sends_block=True,
        send_buffer_bytes=1_000,
    )
    trace = arrivals(10_000, 10_500, reply_bytes=1_500)
    steps, outcome = timelines(trace, server, 60_000, NAME)
    assert outcome.counts[Count.REPLIES] == 2
    sleeps = [(begin, end) for begin, end, name in steps[1] if name == "SLEEP"]
    wakes = [begin for begin, _, name in steps[0] if name == "WAKE"]
    assert steps[1][0][2] == "WAKE"
    assert steps[1][: steps[1].index((*sleeps[0], "SLEEP"))][-1][2] == "WRITE"
    # Handed over when the first decides to sleep; its CPU, asleep, is awake 1000 later.
    assert wakes[0] == sleeps[0][0] + 1_000
    overlapped = server.but(sends_block=False)
    steps, outcome = timelines(trace, overlapped, 60_000, NAME)
    assert outcome.counts[Count.REPLIES] == 2
    assert steps[0] == []  # nobody blocks: one thread goes on with all


def test_a_send_that_does_not_fit_completes_when_there_is_room() -> None:
    outcome = outcome_with(arrivals(10_000, reply_bytes=2_500), send_buffer_bytes=1_000)
    counts = outcome.counts[[Count.REPLIES, Count.WRITES, Count.WRITE_SHORT, Count.EVENTS]]
    assert counts.tolist() == [1, 3, 2, 5]  # accepted, received, room, room, sent


def test_idle_connections_hold_no_thread_and_cost_nothing() -> None:
    few, many = (outcome_with(ONE, idle=idle) for idle in (0, 1_000))
    assert few.counts[Count.REPLIES] == many.counts[Count.REPLIES] == 1
    assert few.ledger_ns.tolist() == many.ledger_ns.tolist()


@pytest.mark.parametrize("sends_block", [False, True])
def test_who_goes_away_is_heard_of_and_closed(sends_block: bool) -> None:
    trace = arrivals(*range(10_000, 60_000, 5_000), requests=2, think_ns=300_000, reply_bytes=3_000)
    outcome = outcome_with(
        trace, timeout_ns=50_000, workers=3, sends_block=sends_block, send_buffer_bytes=1_000
    )
    assert outcome.counts[Count.CLOSES] == outcome.counts[Count.ACCEPTS] == len(trace)
    assert len(outcome.stranded) == 0


def test_at_the_limit_of_descriptors_an_accept_is_tried_again() -> None:
    outcome = outcome_with(arrivals(*[10_000] * 8), workers=2, fd_limit=8)
    assert outcome.counts[Count.ACCEPT_NO_FD] > 0
    assert outcome.counts[Count.REPLIES] == 8
    assert summarise(outcome).verdict is Verdict.STABLE


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({"busy": True}, "busy must be false with completion_port, whose threads block in their"),
        ({"accept_limit": 2}, "accept_limit must be 0 with completion_port, whose program has no"),
        ({"sharing": int(Sharing.NOTHING), "workers": 2}, "sharing must be 1 with completion_port"),
        ({"threads": 1, "workers": 2}, "threads must be 0 with completion_port, whose workers all"),
        ({"limiter_gain_permille": 5}, "limiter_gain_permille must be 0 with completion_port"),
        ({"concurrent_threads": -1}, "concurrent_threads must be at least 0, got -1"),
    ],
)
def test_settings_that_do_not_go_with_a_port_are_refused(
    server: dict[str, Any], message: str
) -> None:
    run = WHILE._replace(**on_server(**server))
    with pytest.raises(ValueError, match=message):
        simulate(NAME, ONE, toy_costs(NAME), run)
