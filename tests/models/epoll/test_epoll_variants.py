"""Edge-triggered, register-once and vectored epoll, /dev/poll: timelines by hand, rows by name."""

from __future__ import annotations

import pytest
from tests.served import on_server
from tests.toy import arrivals, timeline

from dispatchsim.sim.figures.fates import Missing
from dispatchsim.sim.figures.summary import Verdict, summarise
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings

ONE = arrivals(10_000)
WHILE = RunSettings(duration_ns=20_000, sample_every_ns=0)
FORGETFUL = on_server(remembers=False)


def test_a_connection_on_edge_triggered_epoll() -> None:
    steps, outcome = timeline("epoll_edge", ONE, WHILE)
    assert steps == [
        (0, 70, "WAIT"),
        (70, 110, "SLEEP"),
        (11_430, 11_930, "WAKE"),
        (11_930, 11_960, "WAIT"),  # one notice
        (11_960, 11_964, "WAIT"),  # one event
        (11_964, 12_264, "ACCEPT"),
        (12_264, 12_374, "WATCH"),  # readable and writable already: listed
        (12_374, 12_474, "ACCEPT"),  # EAGAIN: the listener is not pending any more
        (12_474, 12_544, "WAIT"),
        (12_544, 12_574, "WAIT"),
        (12_574, 12_578, "WAIT"),
        (12_578, 12_778, "READ"),
        (12_778, 12_928, "USER"),
        (12_928, 13_328, "WRITE"),
        (13_328, 13_548, "UNWATCH"),  # 60, and the reset's 160
        (13_548, 13_798, "CLOSE"),
        (13_798, 13_868, "WAIT"),
        (13_868, 13_908, "SLEEP"),
    ]
    assert outcome.counts[[Count.ASKS, Count.NOTICES, Count.RECHECKED]].tolist() == [3, 2, 0]


def test_a_connection_on_epoll_with_vectored_changes() -> None:
    steps, outcome = timeline("epoll_ctlv", ONE, WHILE)
    assert steps == [
        (0, 110, "WATCH"),  # the listener: a call of 35, and 75 for adding
        (110, 180, "WAIT"),
        (180, 220, "SLEEP"),
        (11_430, 11_930, "WAKE"),
        (11_930, 11_960, "WAIT"),
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_360, "ACCEPT"),
        (12_360, 12_470, "WATCH"),  # all connections of the loop: 35 + 1 x 75
        (12_470, 12_540, "WAIT"),
        (12_540, 12_590, "WAIT"),  # one event, the listener looked at in vain
        (12_590, 12_790, "READ"),
        (12_790, 12_940, "USER"),
        (12_940, 13_340, "WRITE"),
        (13_340, 13_560, "UNWATCH"),  # a call of its own
        (13_560, 13_810, "CLOSE"),
        (13_810, 13_880, "WAIT"),
        (13_880, 13_920, "SLEEP"),
    ]
    assert outcome.counts[Count.UPDATES] == 3


def test_a_connection_on_dev_poll_with_two_idle() -> None:
    steps, outcome = timeline("dev_poll", ONE, WHILE._replace(client=ClientSettings(idle=2)))
    assert steps == [
        (0, 110, "WATCH"),
        (110, 186, "WAIT"),  # 70, and 3 items x 2
        (186, 206, "WAIT"),  # a new item counts as hinted at: asked, in vain
        (206, 246, "SLEEP"),
        (11_430, 11_930, "WAKE"),
        (11_930, 11_936, "WAIT"),  # scanned again
        (11_936, 11_962, "WAIT"),  # one asked (20), one event (6)
        (11_962, 12_262, "ACCEPT"),
        (12_262, 12_362, "ACCEPT"),
        (12_362, 12_472, "WATCH"),
        (12_472, 12_550, "WAIT"),  # 70, and 4 items
        (12_550, 12_596, "WAIT"),  # two asked: the listener was ready last time
        (12_596, 12_796, "READ"),
        (12_796, 12_946, "USER"),
        (12_946, 13_346, "WRITE"),
        (13_346, 13_566, "UNWATCH"),
        (13_566, 13_816, "CLOSE"),
        (13_816, 13_892, "WAIT"),  # nothing is asked: the listener was not ready last time
        (13_892, 13_932, "SLEEP"),
    ]
    assert outcome.counts[Count.SCANNED] == 3 + 3 + 4 + 3
    assert outcome.counts[Count.RECHECKED] == 2


def test_m5_a_cached_result_holds_until_a_hint() -> None:
    # Idle connections are touched in each scan, and asked in none.
    few, many = (
        timeline("dev_poll", ONE, WHILE._replace(client=ClientSettings(idle=idle)))[1].counts
        for idle in (0, 100)
    )
    assert many[Count.SCANNED] > few[Count.SCANNED]
    assert many[Count.RECHECKED] == few[Count.RECHECKED]


def test_m5_without_hints_every_descriptor_is_asked_in_each_scan() -> None:
    idle = WHILE._replace(client=ClientSettings(idle=2))
    hinted, _ = timeline("dev_poll", ONE, idle)
    steps, outcome = timeline("dev_poll_unhinted", ONE, idle)
    begin = steps.index((11_430, 11_930, "WAKE"))
    assert steps[: begin + 3] == [
        (0, 110, "WATCH"),
        (110, 186, "WAIT"),
        (186, 246, "WAIT"),  # all three asked, in vain: 3 x 20
        (246, 286, "SLEEP"),
        (11_430, 11_930, "WAKE"),
        (11_930, 11_936, "WAIT"),
        (11_936, 12_002, "WAIT"),  # all three asked, one event: 60 + 6
    ]
    assert len(steps) == len(hinted) + 1  # the last scan, too, asks in vain before it sleeps
    assert outcome.counts[Count.REPLIES] == 1


def test_dev_poll_goes_on_behind_the_last_that_it_had_room_for() -> None:
    # Eight requests at once, and room for three results: nobody is served twice before all are.
    eight = arrivals(*[10_000] * 8, requests=3)
    run = WHILE._replace(duration_ns=400_000, **on_server(max_events=3))
    _, outcome = timeline("dev_poll", eight, run)
    assert outcome.counts[Count.REPLIES] == 24
    order = [int(i) % 3 for i in outcome.reply_ns.argsort()]
    assert order == sorted(order)


def test_m16_registered_once_a_server_is_told_of_what_it_does_not_want() -> None:
    # The client thinks; its connection could be written to, so no wait blocks.
    thinks = arrivals(10_000, requests=2, think_ns=100_000)
    run = WHILE._replace(duration_ns=200_000)
    _, level = timeline("epoll_level", thinks, run)
    _, once = timeline("epoll_once", thinks, run)
    assert once.counts[Count.REPLIES] == level.counts[Count.REPLIES] == 2
    assert once.counts[Count.NOTICES_UNWANTED] > 100
    assert once.counts[Count.WAITS] > 10 * level.counts[Count.WAITS]
    spun_ns = level.ledger_ns[Activity.IDLE] - once.ledger_ns[Activity.IDLE]
    assert spun_ns > 90_000  # while the client thinks


def test_registered_once_needs_no_call_for_a_change_of_interest() -> None:
    server = on_server(send_buffer_bytes=1_000)
    for mechanism, n_calls in (
        ("epoll_level", 1),
        ("epoll_once", 0),
        ("epoll_edge", 0),
        ("rt_signals", 0),
    ):
        steps, outcome = timeline(
            mechanism, arrivals(10_000, reply_bytes=2_500), WHILE._replace(**server)
        )
        assert outcome.counts[[Count.REWATCHES, Count.REPLIES]].tolist() == [1, 1]
        assert [name for *_, name in steps].count("REWATCH") == n_calls


def test_g04_33_deleting_cannot_wait_for_the_next_vector() -> None:
    four = arrivals(*[10_000] * 4)
    steps, outcome = timeline("epoll_ctlv", four, WHILE._replace(duration_ns=60_000))
    names = [name for *_, name in steps]
    # One vector for the listener and one for the four, and a call for each that leaves.
    assert names.count("WATCH") == 2
    assert names.count("UNWATCH") == 4
    assert outcome.counts[Count.UPDATES] == 2 + 4


@pytest.mark.parametrize("mechanism", ["epoll_level", "epoll_edge", "epoll_ctlv", "rt_signals"])
def test_g04_34_idle_connections_cost_nothing_at_a_wait(mechanism: str) -> None:
    few, many = (
        timeline(mechanism, ONE, WHILE._replace(client=ClientSettings(idle=idle)))[1]
        for idle in (0, 1_000)
    )
    assert few.ledger_ns.tolist() == many.ledger_ns.tolist()


def test_b19_25_edges_without_draining_strand_what_is_left() -> None:
    # Three connections, one notice of the listener, one accept: nobody tells of the other two.
    three = arrivals(*[10_000] * 3)
    run = WHILE._replace(duration_ns=10_000_000)
    drains = run._replace(**on_server(accept_limit=1))
    loses = run._replace(**FORGETFUL.but(accept_limit=1))
    _, remembered = timeline("epoll_edge", three, drains)
    _, forgotten = timeline("epoll_edge", three, loses)
    assert remembered.counts[Count.REPLIES] == 3
    assert summarise(remembered).verdict is Verdict.STABLE
    assert forgotten.counts[Count.REPLIES] == 1
    assert forgotten.stranded.tolist() == [[1, Missing.ACCEPT], [2, Missing.ACCEPT]]
    summary = summarise(forgotten)
    assert summary.verdict is Verdict.STRANDED
    assert summary.stranded == {"accept": 2, "read": 0, "write": 0}


def test_edges_without_memory_suffice_for_a_server_that_drains() -> None:
    many = arrivals(*range(10_000, 30_000, 500), requests=2, think_ns=3_000)
    run = WHILE._replace(duration_ns=10_000_000, **FORGETFUL)
    _, outcome = timeline("epoll_edge", many, run)
    assert outcome.counts[Count.REPLIES] == 80
    assert len(outcome.stranded) == 0


def test_b19_22_select_has_no_room_beyond_its_bitmap() -> None:
    run = RunSettings(
        **on_server(fd_setsize=1_024),
        client=ClientSettings(idle=1_010),
        duration_ns=200_000,
        sample_every_ns=0,
    )
    _, outcome = timeline("select", arrivals(*[10_000] * 40), run)
    assert outcome.counts[Count.ACCEPT_NO_FD] > 0
    _, unbounded = timeline("poll", arrivals(*[10_000] * 40), run)
    assert unbounded.counts[Count.ACCEPT_NO_FD] == 0
