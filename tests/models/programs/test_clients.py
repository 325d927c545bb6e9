"""Clients, computed by hand, exact to the nanosecond; and laws of all of them, on both engines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.served import on_server
from tests.toy import CALL, Steps, toy_costs

from dispatchsim.models.catalogue import CLIENTS, client_with
from dispatchsim.models.simulate import simulate, simulate_stream
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.load.workload import ClosedLoopBlocks, Load, Trace, closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.costs import Costs
from dispatchsim.sim.state.kernel_settings import EVERY_CPU
from dispatchsim.sim.state.kinds import NONE, Activity, Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import SECOND_NS
from dispatchsim.sim.state.world import World

LONG_NS = 60 * SECOND_NS
"""Enough for all that may be drawn to be asked and answered."""
FAR = NetworkSettings(delay_ns=1_000, service_ns=5_000)
Step = tuple[int, int, str]


def costs_of(mechanism: str) -> Costs:
    return toy_costs(mechanism, call=CALL._replace(connect_ns=350))


def run_of(duration_ns: int, *, idle: int = 0, **server: Any) -> RunSettings:
    return RunSettings(
        **on_server(**server),
        network=FAR,
        client=ClientSettings(idle=idle),
        duration_ns=duration_ns,
        sample_every_ns=0,
    )


def client_steps(mechanism: str, trace: Trace, run: RunSettings) -> tuple[list[Step], Outcome]:
    """Return the steps of the client's CPU, and the outcome, which both engines agree on."""
    seen = Steps()
    program, costs = client_with(mechanism), costs_of(mechanism)
    outcome = simulate(program, trace, costs, run, engine="reference", observe=seen)
    assert simulate(program, trace, costs, run, engine="fast").same_as(outcome)
    return seen.steps, outcome


def test_a_loop_connects_asks_twice_and_connects_anew() -> None:
    trace = closed_loop(users=1, connections=2, requests=2)
    steps, outcome = client_steps("epoll_level", trace, run_of(26_000))
    assert steps == [
        (0, 350, "CONNECT"),  # the SYN leaves; its answer is there at 2350
        (350, 460, "WATCH"),
        (460, 530, "WAIT"),
        (530, 570, "SLEEP"),
        (3_500, 4_000, "WAKE"),  # 1000 out of idleness, an interrupt of 150
        (4_000, 4_030, "WAIT"),
        (4_030, 4_430, "WRITE"),  # 1000 there, 5000 for the reply, 1000 back: 11430
        (4_430, 4_470, "REWATCH"),
        (4_470, 4_540, "WAIT"),
        (4_540, 4_560, "WAIT"),  # the entry is on the list still: looked at in vain (20)
        (4_560, 4_600, "SLEEP"),
        (12_610, 13_110, "WAKE"),  # 1000 out of idleness, an interrupt of 180
        (13_110, 13_140, "WAIT"),
        (13_140, 13_340, "READ"),
        (13_340, 13_490, "USER"),
        (13_490, 13_890, "WRITE"),  # its reply is there at 20890
        (13_890, 13_960, "WAIT"),
        (13_960, 13_980, "WAIT"),
        (13_980, 14_020, "SLEEP"),
        (22_070, 22_570, "WAKE"),
        (22_570, 22_600, "WAIT"),
        (22_600, 22_800, "READ"),
        (22_800, 22_950, "USER"),
        (22_950, 23_010, "UNWATCH"),
        (23_010, 23_260, "CLOSE"),
        (23_260, 23_610, "CONNECT"),
        (23_610, 23_720, "WATCH"),
        (23_720, 23_790, "WAIT"),
        (23_790, 23_830, "SLEEP"),
        # the FIN of the far end comes at 25260; the answer to the second SYN at 25610
    ]
    assert outcome.intended_ns.tolist() == [0, 23_260]
    assert outcome.due_ns.tolist() == [0, 13_340, 23_260]
    assert outcome.reply_ns.tolist() == [13_340, 22_800, NONE]
    assert outcome.connected_ns.tolist() == [2_350, 25_610]
    assert outcome.status.tolist() == [Status.REPLIED, Status.OPEN]
    counted = [Count.CONNECTS, Count.WRITES, Count.READS, Count.REPLIES, Count.CLOSES]
    assert outcome.counts[counted].tolist() == [2, 2, 2, 2, 1]
    assert outcome.counts[[Count.WATCHES, Count.REWATCHES, Count.UNWATCHES]].tolist() == [2, 1, 1]


def test_a_thread_sleeps_in_connect_and_in_read() -> None:
    trace = closed_loop(users=1, connections=1, requests=1)
    steps, outcome = client_steps("blocking", trace, run_of(20_000))
    assert steps == [
        (0, 350, "CONNECT"),
        (350, 390, "SLEEP"),
        (3_500, 4_000, "WAKE"),
        (4_000, 4_025, "CONNECT"),  # off the wait queue, a second look (25)
        (4_025, 4_425, "WRITE"),  # the reply is there at 11425
        (4_425, 4_515, "READ"),  # nothing there yet (90)
        (4_515, 4_555, "SLEEP"),
        (12_605, 13_105, "WAKE"),
        (13_105, 13_130, "READ"),
        (13_130, 13_240, "READ"),  # the rest of 200
        (13_240, 13_390, "USER"),
        (13_390, 13_640, "CLOSE"),
    ]
    assert outcome.reply_ns.tolist() == [13_130]
    assert outcome.counts[[Count.WAITS, Count.EVENTS, Count.WATCHES]].tolist() == [0, 0, 0]


def test_who_spins_is_never_off_the_cpu_and_sees_its_reply_earlier() -> None:
    trace = closed_loop(users=1, connections=1, requests=3)
    blocking, _ = client_steps("poll", trace, run_of(60_000))
    spinning, outcome = client_steps("poll", trace, run_of(60_000, busy=True))
    assert {"SLEEP", "WAKE"} <= {activity for _, _, activity in blocking}
    assert {"SLEEP", "WAKE"}.isdisjoint(activity for _, _, activity in spinning)
    first = next(end for _, end, activity in blocking if activity == "READ")
    assert outcome.reply_ns[0] < first
    assert outcome.ledger_ns[Activity.IDLE] == 0


def test_a_scan_costs_a_client_by_what_it_watches_and_a_ready_list_does_not() -> None:
    def wait_ns(mechanism: str, idle: int) -> int:
        trace = closed_loop(users=1, connections=40, requests=5)
        run = run_of(500_000, idle=idle)
        _, outcome = client_steps(mechanism, trace, run)
        replies = int(outcome.counts[Count.REPLIES])
        assert replies > 10
        return int(outcome.ledger_ns[Activity.WAIT]) // replies

    assert wait_ns("poll", 100) > wait_ns("poll", 0) + 100 * 10
    assert wait_ns("epoll_level", 100) == wait_ns("epoll_level", 0)


@st.composite
def conversations(draw: st.DrawFn, mechanism: str) -> tuple[Trace, RunSettings]:
    users = draw(st.integers(1, 12))
    trace = closed_loop(
        users=users,
        connections=draw(st.integers(1, 60)),
        requests=draw(st.integers(1, 4)),
        reply_bytes=draw(st.sampled_from([64, 20_000])),
    )
    blocks = mechanism == "blocking"
    cpus = draw(st.integers(1, 3))
    bits = draw(st.sampled_from([0, 10_000_000]))
    run = RunSettings(
        **on_server(
            workers=users if blocks else 1,
            cpus=cpus,
            interrupt_cpu=draw(st.integers(EVERY_CPU, cpus - 1)),
            slice_ns=1,
            tick_ns=draw(st.sampled_from([400, 3_000, 4_000_000])),
            busy=not blocks and draw(st.booleans()),
            max_events=draw(st.sampled_from([1, 4, 1024])),
        ),
        network=NetworkSettings(
            draw(st.sampled_from([0, 50, 20_000])),
            bits,
            bits,
            service_ns=draw(st.sampled_from([0, 700, 100_000])),
        ),
        client=ClientSettings(idle=0 if blocks else draw(st.sampled_from([0, 1, 40]))),
        duration_ns=draw(st.sampled_from([50_000, 3_000_000, LONG_NS])),
        warm_up_ns=draw(st.sampled_from([0, 12_345])),
        sample_every_ns=0,
    )
    return trace, run


@pytest.mark.parametrize("mechanism", CLIENTS)
@given(data=st.data())
def test_engines_agree_and_nothing_is_lost(mechanism: str, data: st.DataObject) -> None:
    trace, run = data.draw(conversations(mechanism))
    worlds: list[World] = []
    program, costs = client_with(mechanism), costs_of(mechanism)
    outcome = simulate(
        program,
        trace,
        costs,
        run,
        engine="reference",
        extend=lambda _, world: worlds.append(world),
    )
    assert simulate(program, trace, costs, run, engine="fast").same_as(outcome)
    world, counts = worlds[0], outcome.counts
    assert (outcome.cpu_ledger_ns.sum(axis=1) == run.duration_ns).all()
    assert counts[Count.CONNECTS] == outcome.status.size
    n_open = counts[Count.CONNECTIONS_OPEN]
    assert n_open == run.client.idle + counts[Count.CONNECTS] - counts[Count.CLOSES]
    assert n_open <= run.client.idle + trace.users
    assert counts[Count.REPLIES] == (outcome.reply_ns != NONE).sum() <= counts[Count.WRITES]
    # Each user has one request on its way at most, so that many are without a reply.
    assert counts[Count.WRITES] - counts[Count.REPLIES] <= trace.users
    assert outcome.stranded.size == 0
    done = outcome.status == Status.REPLIED
    if run.duration_ns == LONG_NS:
        assert done.all()
        assert done.size == len(trace)
    of_done = done[outcome.asked_on]
    assert (outcome.reply_ns[of_done] >= outcome.due_ns[of_done]).all()
    assert world.n_idle + len(trace) == world.end_row


def test_all_is_asked_and_answered_in_the_end() -> None:
    for mechanism in CLIENTS:
        trace = closed_loop(users=3, connections=20, requests=2)
        workers = 3 if mechanism == "blocking" else 1
        _, outcome = client_steps(mechanism, trace, run_of(2_000_000, workers=workers))
        assert (outcome.status == Status.REPLIED).all()
        assert outcome.status.size == 20
        counted = [Count.CONNECTS, Count.WRITES, Count.READS, Count.REPLIES, Count.CLOSES]
        assert outcome.counts[counted].tolist() == [20, 40, 40, 40, 20]


@pytest.mark.parametrize(
    ("mechanism", "changes", "rule"),
    [
        ("select", {"fd_setsize": 1024, "users": 1_022}, "fd_limit must be at least 1025 for"),
        ("poll", {"accept_limit": 1}, "accept_limit must be 0 with a client"),
        ("poll", {"workers": 2}, "workers must be 1 with a client"),
        ("blocking", {"workers": 1}, "workers must be 2 with a client that has a thread for"),
        ("poll", {"think_ns": 5}, "think_ns must be 0 with a client"),
        ("poll", {"send_buffer_bytes": 63}, "request_bytes must be at most send_buffer_bytes"),
    ],
)
def test_what_does_not_go_with_a_client_is_named(
    mechanism: str, changes: dict[str, int], rule: str
) -> None:
    server = {name: value for name, value in changes.items() if name not in ("users", "think_ns")}
    users = changes.get("users", 2)
    trace = closed_loop(users=users, connections=users, think_ns=changes.get("think_ns", 0))
    with pytest.raises(ValueError, match=rule):
        simulate(client_with(mechanism), trace, costs_of(mechanism), run_of(1_000, **server))


def test_select_holds_the_last_user_that_fits_its_bitmap() -> None:
    trace = closed_loop(users=1_021, connections=1_021)
    _, outcome = client_steps("select", trace, run_of(3_000_000, fd_setsize=1_024))
    assert outcome.counts[Count.CONNECTS] == 1_021


def test_a_mechanism_without_a_client_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of select, poll, epoll_level, blocking, got"):
        client_with("rt_signals")


def test_a_client_cannot_be_streamed() -> None:
    with pytest.raises(ValueError, match="a client's run cannot be streamed"):
        simulate_stream(
            client_with("poll"),
            ClosedLoopBlocks(Load("closed", users=1), seed=1),
            costs_of("poll"),
            run_of(1_000),
        )
