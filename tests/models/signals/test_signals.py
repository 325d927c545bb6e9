"""Queued signals: order, bound, coalescing, staleness, loss; the rows of the literature by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.served import on_server
from tests.toy import SIGNALLED, SIGNALS, arrivals, timeline, toy_costs

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.models.remembering.readiness import would_block
from dispatchsim.models.signals.signal_queue import SignalQueue, dequeue, flush, queue_of, send
from dispatchsim.models.signals.signalled import arm
from dispatchsim.models.simulate import prepare_world, simulate
from dispatchsim.sim.figures.fates import Missing
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import ClientCosts, per_item
from dispatchsim.sim.state.family_settings import Recovery
from dispatchsim.sim.state.kinds import NONE, READABLE, WRITABLE, Activity, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import World

ONE = arrivals(10_000)
WHILE = RunSettings(duration_ns=20_000, sample_every_ns=0)
WHILE_LONGER = WHILE._replace(duration_ns=200_000)


def world_of(mechanism: str, **server: Any) -> World:
    settings = RunSettings(**on_server(**server))
    return prepare_world(mechanism, arrivals(*range(30)), toy_costs(mechanism), settings)


def send_all(world: World, *fds: int, what: int = READABLE) -> SignalQueue:
    """Queue a signal of each of *fds*, as the interrupt of CPU 0 would; return the queue."""
    world.waker = 0
    for fd in fds:
        send(world, world.sets[0], fd, what)
    return queue_of(world.sets[0])


def taken(queue: SignalQueue) -> list[int]:
    """Take all signals; return their descriptors."""
    fds = []
    while (entry := dequeue(queue)) != NONE:
        fds.append(queue.fds[entry])
    return fds


# -- the queue


def test_pt00_17_within_a_number_signals_come_in_order_of_arrival() -> None:
    assert taken(send_all(world_of("rt_signals"), 9, 4, 9, 12)) == [9, 4, 9, 12]


def test_pt00_17_pl00_25_the_lowest_number_comes_first_and_delays_the_others() -> None:
    # Numbers are given by descriptor modulo 4: 9 -> 1, 4 and 12 -> 0, 7 -> 3.
    world = world_of("rt_signals", signal_numbers=4)
    assert taken(send_all(world, 9, 7, 4, 9, 12, 4)) == [4, 12, 4, 9, 9, 7]


@given(st.lists(st.integers(3, 20), max_size=60), st.integers(1, 12), st.integers(1, 5))
def test_pl00_26_the_queue_is_bounded_and_what_does_not_fit_is_lost(
    fds: list[int], bound: int, numbers: int
) -> None:
    world = world_of("rt_signals", signal_queue=bound, signal_numbers=numbers)
    queue = send_all(world, *fds)
    kept = fds[:bound]
    assert queue.n == len(kept)
    assert queue.sigio == (len(fds) > bound)
    assert taken(queue) == sorted(kept, key=lambda fd: fd % numbers)
    assert sum(queue.queued) == 0


@given(st.lists(st.integers(3, 20), max_size=60), st.integers(0, 60))
def test_cm01_38_with_a_bit_a_descriptor_a_queue_of_as_many_never_overflows(
    fds: list[int], n_taken: int
) -> None:
    world = world_of("signal_per_fd", signal_queue=18)
    queue = send_all(world, *fds[:n_taken])
    assert taken(queue) == list(dict.fromkeys(fds[:n_taken]))
    send_all(world, *fds[n_taken:])  # the bits were cleared when the signals were taken
    assert taken(queue) == list(dict.fromkeys(fds[n_taken:]))
    assert not queue.sigio


def test_cm01_39_a_few_descriptors_can_fill_the_queue_but_not_the_one_with_bits() -> None:
    busy, other = [5] * 20, 6
    unfair = send_all(world_of("rt_signals", signal_queue=16), *busy, other)
    fair = send_all(world_of("signal_per_fd", signal_queue=16), *busy, other)
    assert taken(unfair) == [5] * 16
    assert taken(fair) == [5, 6]


def test_pt00_20_at_most_one_sigio_is_pending_and_flushing_takes_it_along() -> None:
    queue = send_all(world_of("rt_signals", signal_queue=2), 5, 6, 7, 8)
    assert queue.sigio
    flush(queue)
    assert (queue.n, queue.sigio, taken(queue)) == (0, False, [])


def test_pt00_21_another_process_can_fill_a_queue_that_is_common_to_all() -> None:
    queue = send_all(world_of("rt_signals", signal_queue=10, signals_elsewhere=10), 5)
    assert (queue.n, queue.sigio) == (0, True)


def test_the_bound_is_that_of_all_workers_together() -> None:
    world = world_of("rt_signals", signal_queue=3, workers=2)
    world.waker = 0
    woken = [send(world, world.sets[i % 2], 5 + i, READABLE) for i in range(4)]
    assert [queue_of(each).n for each in world.sets] == [2, 1]
    assert [queue_of(each).sigio for each in world.sets] == [False, True]
    assert not any(woken)  # nobody waited


@pytest.mark.parametrize("mechanism", SIGNALLED)
def test_room_of_entries_that_were_taken_is_used_again(mechanism: str) -> None:
    world = world_of(mechanism, signal_queue=4)
    for _ in range(10):
        assert taken(send_all(world, 5, 6, 7)) == [5, 6, 7]
    assert queue_of(world.sets[0]).n_used == 3


# -- the server


def test_a_connection_on_rt_signals() -> None:
    steps, outcome = timeline("rt_signals", ONE, WHILE)
    assert steps == [
        (0, 4, "WAIT"),  # the listener may have been ready before it was armed: nobody is asked
        (4, 104, "ACCEPT"),  # EAGAIN
        (104, 174, "WAIT"),  # nothing queued
        (174, 214, "SLEEP"),
        (11_445, 11_945, "WAKE"),  # 11430, and 15 for the signal of the listener
        (11_945, 11_975, "WAIT"),  # one signal
        (11_975, 11_979, "WAIT"),  # one event
        (11_979, 12_279, "ACCEPT"),
        (12_279, 12_399, "WATCH"),  # three calls of fcntl: the request, before them, was not told
        (12_399, 12_499, "ACCEPT"),  # EAGAIN
        (12_499, 12_569, "WAIT"),  # asked first, without blocking: no signal
        (12_569, 12_573, "WAIT"),  # the connection, taken to be ready
        (12_573, 12_773, "READ"),
        (12_773, 12_923, "USER"),
        (12_923, 13_323, "WRITE"),
        (13_323, 13_733, "CLOSE"),  # 250 and the reset's 160
        (13_733, 13_803, "WAIT"),
        (13_803, 13_843, "SLEEP"),
    ]
    assert outcome.done_ns.tolist() == [13_323]
    assert outcome.counts[Count.ASKS] == 3
    assert outcome.counts[Count.NOTICES] == 1
    assert outcome.ledger_ns[Activity.INTERRUPT_IDLE] == 430 + 15


def test_cm01_40_a_call_takes_one_signal_and_sigtimedwait4_many() -> None:
    # Four connections in one softirq: four signals of the listener, which one accept loop serves.
    four = arrivals(10_000, 10_000, 10_000, 10_000)
    counts = {}
    for mechanism in SIGNALLED:
        _, outcome = timeline(mechanism, four, WHILE._replace(duration_ns=60_000))
        counts[mechanism] = outcome.counts
        assert outcome.counts[Count.REPLIES] == 4
    n_notices = {name: int(c[Count.NOTICES]) for name, c in counts.items()}
    assert n_notices == {"rt_signals": 4, "signal_per_fd": 1, "sigtimedwait4": 4, "signalfd": 4}
    assert (counts["rt_signals"][Count.NOTICES] <= counts["rt_signals"][Count.ASKS]).all()
    assert counts["sigtimedwait4"][Count.ASKS] < counts["rt_signals"][Count.ASKS]
    assert (counts["sigtimedwait4"] == counts["signalfd"]).all()  # they differ in prices alone


def test_pt00_23_sigtimedwait4_takes_no_more_than_it_has_room_for() -> None:
    four = arrivals(10_000, 10_000, 10_000, 10_000)
    batch = WHILE._replace(duration_ns=60_000, **on_server(max_events=1))
    _, one = timeline("rt_signals", four, batch)
    _, single = timeline("sigtimedwait4", four, batch)
    assert (one.counts == single.counts).all()  # with room for one it is sigtimedwait


def test_pt00_23_one_call_takes_the_lowest_numbers_first_and_does_not_wait_for_more() -> None:
    world = world_of("sigtimedwait4", signal_numbers=4, max_events=3)
    wait, interests = MECHANISMS["sigtimedwait4"].wait, world.sets[0]
    for fd in (4, 7, 9, 12):
        for _ in arm(world, world.workers[0], fd, READABLE):
            pass
        would_block(world, interests, fd, READABLE | WRITABLE)
    queue = send_all(world, 9, 7, 4, 12)  # of the numbers 1, 3, 0 and 0
    worker = world.workers[0]
    steps = list(wait(world, worker))
    assert steps == [SIGNALS.call_ns, 3 * SIGNALS.signal_ns, 3 * SIGNALS.event_ns]
    assert worker.event_fd[: worker.n_events] == [4, 12, 9]
    assert (queue.n, worker.n_notices) == (1, 3)  # how many it took is what it knows of its load
    # Now connections are pending, so it may not block: what is there, and then nothing (EAGAIN).
    assert list(wait(world, worker))[:2] == [SIGNALS.call_ns, SIGNALS.signal_ns]
    assert list(wait(world, worker)) == [SIGNALS.call_ns, 3 * SIGNALS.event_ns]
    assert (worker.n_notices, world.counts[Count.SLEEPS]) == (0, 0)


def test_pt00_18_a_signal_may_be_older_than_the_connection_of_its_descriptor() -> None:
    # The first client closes before its only signal was taken; its descriptor is used again.
    stale = arrivals(10_000, 10_100, requests=2, think_ns=100_000_000)
    run = RunSettings(
        duration_ns=1_000_000_000,
        sample_every_ns=0,
        client=ClientSettings(timeout_ns=50_000),
        **on_server(signal_numbers=2),
    )
    _, outcome = timeline("rt_signals", stale, run)
    assert outcome.counts[Count.READ_AGAIN] > 0
    assert outcome.counts[Count.CLOSES] == 2
    assert len(outcome.stranded) == 0


def test_pt00_19_a_hang_up_is_told_and_read_as_the_end() -> None:
    # The client gives up before the second piece of its request, and the server closes.
    client = ClientSettings(timeout_ns=100_000, request_pieces=2, piece_pause_ns=1_000_000)
    run = RunSettings(duration_ns=2_000_000, sample_every_ns=0, client=client)
    _, outcome = timeline("rt_signals", arrivals(10_000), run)
    assert outcome.counts[[Count.REPLIES, Count.CLOSES]].tolist() == [0, 1]
    assert outcome.counts[Count.NOTICES] >= 2


def test_overflow_is_recovered_from_by_a_flush_and_a_poll_of_all() -> None:
    many = arrivals(*[10_000] * 12)
    run = WHILE._replace(duration_ns=200_000, **on_server(signal_queue=3))
    steps, outcome = timeline("rt_signals", many, run)
    assert outcome.counts[Count.OVERFLOWS] == 1
    assert outcome.counts[Count.REPLIES] == 12
    # SIGIO overtakes what is queued: 30, a flush of 55 with 3 entries at 2, a poll of 1 at 10.
    first = next(i for i, step in enumerate(steps) if step[2] == "WAKE")
    woken_ns = steps[first][1]
    assert steps[first + 1 : first + 4] == [
        (woken_ns, woken_ns + 30, "WAIT"),
        (woken_ns + 30, woken_ns + 91, "WAIT"),
        (woken_ns + 91, woken_ns + 101, "WAIT"),
    ]


def test_pl00_27_several_changes_may_precede_the_first_that_is_heard() -> None:
    # The request comes when its connection is armed, and is read before its signal was taken: a
    # hint of the past, which costs one call that would block.
    client = ClientCosts(connect_ns=100, send_ns=2_500, receive_ns=100, close_ns=100)
    costs = toy_costs("rt_signals", client)
    _, outcome = timeline(
        "rt_signals", arrivals(10_000, requests=2, think_ns=50_000), WHILE_LONGER, costs
    )
    assert outcome.counts[Count.REPLIES] == 2
    assert outcome.counts[Count.READ_AGAIN] >= 1
    assert outcome.counts[Count.NOTICES_UNWANTED] == 0


def test_writing_is_told_by_signals_too() -> None:
    server = on_server(send_buffer_bytes=1_000)
    for mechanism in SIGNALLED:
        _, outcome = timeline(
            mechanism, arrivals(10_000, reply_bytes=2_500), WHILE._replace(**server)
        )
        assert outcome.counts[[Count.WRITES, Count.REPLIES]].tolist() == [3, 1]


def test_a_signal_says_what_happened_unless_it_stands_for_several() -> None:
    assert MECHANISMS["rt_signals"].wait is not MECHANISMS["signal_per_fd"].wait
    queue = send_all(world_of("rt_signals"), 5, what=WRITABLE)
    assert queue.what[dequeue(queue)] == WRITABLE
    assert SIGNALS.merged_ns < SIGNALS.queue_ns


def test_every_price_of_the_queue_is_paid_by_the_interrupt() -> None:
    for mechanism, bound, expected_ns in (
        ("rt_signals", 8, 3 * SIGNALS.queue_ns),
        ("rt_signals", 1, SIGNALS.queue_ns + 2 * SIGNALS.lost_ns),
        ("signal_per_fd", 8, SIGNALS.queue_ns + 2 * SIGNALS.merged_ns),
    ):
        world = world_of(mechanism, signal_queue=bound)
        world.cpus[0].idle = False
        send_all(world, 5, 5, 5)
        assert world.cpus[0].ledger_ns[Activity.INTERRUPT] == expected_ns
        assert np.sum(world.cpus[0].stolen_ns) == expected_ns


# -- recovery

OVERFLOWS = arrivals(*[10_000] * 12)


def after_overflow(recovery: Recovery, **server: Any) -> Outcome:
    """Return the outcome of twelve connections at once, for a queue of three, with 50 idle."""
    run = RunSettings(
        **on_server(signal_queue=3, recovery=int(recovery), **server),
        client=ClientSettings(idle=50),
        duration_ns=10_000_000,
        sample_every_ns=0,
    )
    prices = SIGNALS._replace(rebuild=per_item(4))
    costs = toy_costs("rt_signals")._replace(mechanism=prices)
    return timeline("rt_signals", OVERFLOWS, run, costs)[1]


def test_cm01_36_without_recovery_what_was_lost_is_never_told_again() -> None:
    # One accept a signal, three signals for twelve connections: nine wait for ever.
    lost = after_overflow(Recovery.NOTHING, accept_limit=1, remembers=False)
    assert lost.counts[[Count.OVERFLOWS, Count.SIGNALS_LOST]].tolist() == [1, 9]
    assert lost.counts[Count.REPLIES] < 12
    assert len(lost.stranded) == 12 - lost.counts[Count.REPLIES]
    assert set(lost.stranded[:, 1].tolist()) == {Missing.ACCEPT}


def test_cm01_37_recovery_that_takes_one_connection_strands_the_others() -> None:
    forgets = after_overflow(Recovery.POLL, accept_limit=1, remembers=False)
    drains = after_overflow(Recovery.POLL, remembers=False)
    assert forgets.counts[Count.OVERFLOWS] == drains.counts[Count.OVERFLOWS] == 1
    assert len(forgets.stranded) > 0
    assert drains.counts[Count.REPLIES] == 12
    assert len(drains.stranded) == 0


@pytest.mark.parametrize("recovery", [Recovery.POLL, Recovery.POLL_UNTIL_CALM])
def test_recovery_strands_nobody_where_one_is_accepted_for_each_signal(
    recovery: Recovery,
) -> None:
    drains = after_overflow(recovery, accept_each_signal=True, remembers=False)
    assert drains.counts[[Count.OVERFLOWS, Count.REPLIES]].tolist() == [1, 12]
    assert len(drains.stranded) == 0


def test_an_overflow_that_is_told_last_lets_queued_signals_go_first() -> None:
    first = after_overflow(Recovery.POLL)
    last = after_overflow(Recovery.POLL, overflow_told_last=True)
    assert first.counts[Count.OVERFLOWS] == last.counts[Count.OVERFLOWS] == 1
    assert first.counts[Count.REPLIES] == last.counts[Count.REPLIES] == 12
    # Three signals were queued: each takes a call of its own before SIGIO is heard of.
    assert last.counts[Count.NOTICES] >= 3 > first.counts[Count.NOTICES]


@pytest.mark.parametrize("recovery", [r for r in Recovery if r is not Recovery.NOTHING])
def test_every_recovery_finds_what_was_lost(recovery: Recovery) -> None:
    outcome = after_overflow(recovery)
    assert outcome.counts[[Count.OVERFLOWS, Count.REPLIES]].tolist() == [1, 12]
    assert len(outcome.stranded) == 0


def test_polling_goes_on_until_calm_or_for_ever() -> None:
    scanned = {
        recovery: int(after_overflow(recovery).counts[Count.SCANNED])
        for recovery in (Recovery.POLL, Recovery.POLL_UNTIL_CALM, Recovery.POLL_FOR_EVER)
    }
    once, until_calm, for_ever = scanned.values()
    assert once == 51  # the listener, and 50 idle
    assert once < until_calm <= for_ever


def test_pt00_13_an_array_that_is_kept_spares_building_it() -> None:
    rebuilt, kept = (
        after_overflow(Recovery.POLL, recovery_array_kept=is_kept).ledger_ns[Activity.WAIT]
        for is_kept in (False, True)
    )
    assert rebuilt - kept == 51 * 4


@pytest.mark.parametrize("mechanism", [*SIGNALLED, "rt_signals_handler"])
def test_an_array_that_is_kept_costs_a_change_for_each_connection_that_comes_and_goes(
    mechanism: str,
) -> None:
    costs = toy_costs(mechanism)
    costs = costs._replace(mechanism=costs.mechanism._replace(keep_ns=7))
    spent = []
    for is_kept in (False, True):
        run = WHILE._replace(**on_server(recovery_array_kept=is_kept))
        _, outcome = timeline(mechanism, ONE, run, costs)
        assert outcome.counts[Count.REPLIES] == 1
        spent.append(outcome.ledger_ns[[Activity.WATCH, Activity.UNWATCH]].tolist())
    # Three calls of fcntl take 120; the array changes when the connection comes and when it goes.
    assert spent == [[120, 0], [127, 7]]


def test_m13_a_hybrid_polls_while_many_signals_wait_and_comes_back() -> None:
    hybrid = after_overflow(Recovery.POLL, poll_above=2)
    assert hybrid.counts[Count.REPLIES] == 12
    assert hybrid.counts[Count.SCANNED] > 0
    later = RunSettings(
        **on_server(poll_above=2, signal_queue=64), duration_ns=9_000_000,
        sample_every_ns=0,
    )  # fmt: skip
    trace = arrivals(*[10_000] * 6, *range(1_000_000, 9_000_000, 1_000_000))
    _, calm = timeline("rt_signals", trace, later)
    # Six at once are met by polls; those that come one by one by a signal each.
    assert calm.counts[Count.REPLIES] == 14
    assert calm.counts[Count.OVERFLOWS] == 0
    assert 0 < calm.counts[Count.SCANNED] < 40
    assert calm.counts[Count.NOTICES] > 8


def test_pt00_25_the_signals_of_a_descriptor_go_to_the_thread_that_owns_it() -> None:
    run = RunSettings(**on_server(workers=2, cpus=2), duration_ns=400_000, sample_every_ns=0)
    trace = arrivals(*range(10_000, 30_000, 2_000), requests=3, think_ns=4_000)
    outcome = simulate("rt_signals", trace, toy_costs("rt_signals"), run, engine="reference")
    # Both hear of every new connection, as each has a descriptor of the listener; of a request
    # only the one that accepted its connection does.
    assert outcome.worker_accepts.min() > 0
    assert outcome.counts[Count.REPLIES] == 30
    n_listener = 2 * len(trace)
    n_requests = 30
    assert outcome.counts[Count.NOTICES] <= n_listener + n_requests
    assert outcome.counts[Count.NOTICES_UNWANTED] == 0
