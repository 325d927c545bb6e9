"""Several workers that are told by signals: whose they are, and a listener that is handed round.

As in test_worker_timelines packets go to CPU 2; a signal adds 15 to their interrupt.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.served import Served, on_server
from tests.steps import timelines
from tests.toy import SIGNALLED, arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings

PASSES = on_server(workers=2, cpus=3, interrupt_cpu=2, passes_listener=True)
BEGINS = [(0, 4, "WAIT"), (4, 104, "ACCEPT"), (104, 174, "WAIT"), (174, 214, "SLEEP")]


def test_pt00_26_who_has_accepted_hands_the_listener_to_the_next() -> None:
    trace = arrivals(10_000, 40_000, 70_000)
    steps, outcome = timelines(trace, PASSES, 100_000, "rt_signals")
    for number, begin_ns in ((0, 12_350), (1, 42_350)):
        assert steps[number][:15] == [
            *BEGINS,
            (begin_ns, begin_ns + 500, "WAKE"),
            (begin_ns + 500, begin_ns + 530, "WAIT"),  # one signal
            (begin_ns + 530, begin_ns + 534, "WAIT"),  # one event
            (begin_ns + 534, begin_ns + 834, "ACCEPT"),
            (begin_ns + 834, begin_ns + 874, "REWATCH"),  # F_SETOWN: a third of 120
            (begin_ns + 874, begin_ns + 994, "WATCH"),
            (begin_ns + 994, begin_ns + 1_094, "ACCEPT"),  # EAGAIN
            (begin_ns + 1_094, begin_ns + 1_164, "WAIT"),
            (begin_ns + 1_164, begin_ns + 1_168, "WAIT"),
            (begin_ns + 1_168, begin_ns + 1_368, "READ"),
            (begin_ns + 1_368, begin_ns + 1_518, "USER"),
        ]
    assert outcome.worker_accepts.tolist() == [2, 1]
    assert outcome.counts[Count.NOTICES] == 3  # one a connection; told to both it would be six
    all_told, outcome = timelines(trace, PASSES.but(passes_listener=False), 100_000, "rt_signals")
    assert outcome.counts[Count.NOTICES] == 6
    assert "REWATCH" not in {name for *_, name in all_told[0]}


def test_pt00_25_signals_of_a_connection_go_to_the_thread_that_owns_it() -> None:
    trace = arrivals(10_000, 40_000, requests=2, think_ns=5_000)
    steps, outcome = timelines(trace, PASSES, 100_000, "rt_signals")
    # Each is woken by its own connection: when it is queued, and when the second request comes.
    # That is sent at 14268 + 5000, and told 1000 + 100 + 80 later to a CPU 1000 away.
    for number, begin_ns in ((0, 12_350), (1, 42_350)):
        wakes = [begin for begin, _, name in steps[number] if name == "WAKE"]
        assert wakes == [begin_ns, begin_ns + 9_098]
        assert [name for *_, name in steps[number]].count("USER") == 2
    assert outcome.counts[Count.REPLIES] == 4


@pytest.mark.parametrize("mechanism", SIGNALLED)
@pytest.mark.parametrize(
    "server", [{}, {"signal_queue": 3}, {"accept_limit": 1}, {"read_after_accept": True}]
)
def test_nobody_is_lost_where_the_listener_goes_round(
    mechanism: str, server: dict[str, Any]
) -> None:
    run = RunSettings(
        **PASSES.but(workers=3, **server),
        client=ClientSettings(idle=5),
        duration_ns=3_000_000,
        sample_every_ns=0,
    )
    trace = arrivals(*range(10_000, 50_000, 500), requests=2, think_ns=20_000)
    costs = toy_costs(mechanism)
    outcome = simulate(mechanism, trace, costs, run, engine="reference")
    assert outcome.counts[Count.REPLIES] == 160
    assert len(outcome.stranded) == 0
    assert outcome.worker_accepts.min() > 0
    assert simulate(mechanism, trace, costs, run, engine="fast").same_as(outcome)


def test_one_worker_has_nobody_to_hand_its_listener_to() -> None:
    run = RunSettings(duration_ns=1_000_000)
    alone = [
        simulate(
            "rt_signals",
            arrivals(10_000, 20_000),
            toy_costs("rt_signals"),
            run._replace(**on_server(passes_listener=passes)),
        )
        for passes in (False, True)
    ]
    assert alone[0].same_as(alone[1])


@pytest.mark.parametrize(
    ("mechanism", "server", "message"),
    [
        ("epoll_level", PASSES, "passes_listener must be false with epoll_level"),
        (
            "rt_signals",
            PASSES.but(sharing=int(Sharing.NOTHING)),
            r"sharing must be .*ACCEPT_QUEUE.* where passes_listener is true: .* got .*NOTHING",
        ),
    ],
)
def test_a_listener_that_cannot_be_handed_on_is_refused(
    mechanism: str, server: Served, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(mechanism, arrivals(10_000), toy_costs(mechanism), RunSettings(**server))
