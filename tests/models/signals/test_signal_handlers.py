"""Signals that handlers take: when they are let in, and between which steps; by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.served import on_server
from tests.toy import HANDLERS, arrivals, timeline, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.fates import Missing
from dispatchsim.sim.figures.summary import Verdict, summarise
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.family_settings import Recovery
from dispatchsim.sim.state.kinds import Activity, Count
from dispatchsim.sim.state.settings import RunSettings

NAME = "rt_signals_handler"
ONE = arrivals(10_000)
WHILE = RunSettings(duration_ns=20_000, sample_every_ns=0)
FRAME_NS = HANDLERS.deliver_ns + HANDLERS.return_ns  # 50


def test_m28_a_signal_is_let_in_when_the_server_is_back_in_user_mode() -> None:
    steps, outcome = timeline(NAME, ONE, WHILE)
    assert steps == [
        (0, 4, "WAIT"),  # the listener may have been ready before it was armed
        (4, 104, "ACCEPT"),
        (104, 186, "WAIT"),  # signals blocked (12), sigsuspend (70)
        (186, 226, "SLEEP"),
        (11_445, 11_945, "WAKE"),  # 11430, and 15 for the signal of the listener
        (11_945, 11_957, "WAIT"),  # signals let in again
        (11_957, 12_007, "WAIT"),  # its handler, and sigreturn
        (12_007, 12_011, "WAIT"),
        (12_011, 12_311, "ACCEPT"),
        (12_311, 12_431, "WATCH"),
        (12_431, 12_531, "ACCEPT"),
        (12_531, 12_535, "WAIT"),  # the connection is noted: nothing is asked
        (12_535, 12_735, "READ"),
        (12_735, 12_885, "USER"),
        (12_885, 13_285, "WRITE"),
        (13_285, 13_695, "CLOSE"),  # 250, and the reset's 160
        (13_695, 13_777, "WAIT"),
        (13_777, 13_817, "SLEEP"),
    ]
    assert outcome.counts[[Count.ASKS, Count.NOTICES]].tolist() == [2, 1]


def test_m28_a_handler_runs_between_two_steps_of_somebody_else() -> None:
    # The second connection comes during the read of the first: 430, and 15 for its signal.
    steps, _ = timeline(NAME, arrivals(10_000, 12_600), WHILE)
    read = steps.index((12_535, 13_180, "READ"))
    assert steps[read : read + 5] == [
        (12_535, 13_180, "READ"),
        (13_180, 13_230, "WAIT"),  # the handler notes that the listener is ready
        (13_230, 13_380, "USER"),
        (13_380, 13_780, "WRITE"),
        (13_780, 14_190, "CLOSE"),
    ]
    fetched, _ = timeline("rt_signals", arrivals(10_000, 12_600), WHILE)
    names = [name for *_, name in fetched]
    assert names[names.index("READ") + 1] == "USER"


def test_m28_each_signal_costs_a_frame_where_a_call_would_fetch_it() -> None:
    # Four connections in one softirq: four signals of the listener, four frames, no call for any.
    four = arrivals(*[10_000] * 4)
    steps, outcome = timeline(NAME, four, WHILE._replace(duration_ns=60_000))
    assert outcome.counts[[Count.REPLIES, Count.NOTICES]].tolist() == [4, 4]
    awake = next(i for i, step in enumerate(steps) if step[2] == "WAKE")
    assert [end - begin for begin, end, _ in steps[awake + 1 : awake + 7]] == [
        HANDLERS.mask_ns,
        *[FRAME_NS] * 4,
        HANDLERS.event_ns,
    ]
    _, fetched = timeline("rt_signals", four, WHILE._replace(duration_ns=60_000))
    assert outcome.counts[Count.ASKS] < fetched.counts[Count.ASKS]


def test_m28_a_signal_before_the_sleep_is_not_slept_over() -> None:
    # It comes while signals are blocked, on the way into sigsuspend: 104 to 186.
    steps, outcome = timeline(NAME, arrivals(150), WHILE)
    assert steps[:5] == [
        (0, 4, "WAIT"),
        (4, 104, "ACCEPT"),
        (104, 631, "WAIT"),  # 82, and 445
        (631, 643, "WAIT"),
        (643, 693, "WAIT"),
    ]
    assert outcome.counts[[Count.REPLIES, Count.SLEEPS]].tolist() == [1, 1]


def test_sigio_is_let_in_first_and_the_server_recovers_when_it_comes_to_wait() -> None:
    run = WHILE._replace(duration_ns=300_000, **on_server(signal_queue=3))
    steps, outcome = timeline(NAME, arrivals(*[10_000] * 12), run)
    assert outcome.counts[[Count.OVERFLOWS, Count.REPLIES]].tolist() == [1, 12]
    awake = next(i for i, step in enumerate(steps) if step[2] == "WAKE")
    lengths = [end - begin for begin, end, _ in steps[awake + 1 : awake + 7]]
    assert lengths == [HANDLERS.mask_ns, *[FRAME_NS] * 4, HANDLERS.event_ns]
    # All twelve are accepted first; then the flush finds nothing, and the poll 13 descriptors.
    waits = [end - begin for begin, end, name in steps[awake + 7 :] if name == "WAIT"]
    assert waits[:2] == [HANDLERS.flush_ns, 13 * 10]


OVERFLOWS = arrivals(*[10_000] * 12)


def after_overflow(recovery: Recovery, **server: Any) -> Any:
    """Return the outcome of twelve connections at once, for a queue of three, on both engines."""
    run = RunSettings(
        **on_server(signal_queue=3, recovery=int(recovery), **server),
        client=ClientSettings(idle=20),
        duration_ns=3_000_000,
        sample_every_ns=0,
    )
    outcome = simulate(NAME, OVERFLOWS, toy_costs(NAME), run, engine="reference")
    assert simulate(NAME, OVERFLOWS, toy_costs(NAME), run, engine="fast").same_as(outcome)
    return outcome


@pytest.mark.parametrize("recovery", [r for r in Recovery if r is not Recovery.NOTHING])
@pytest.mark.parametrize("accept_limit", [0, 1])
def test_every_recovery_finds_what_was_lost(recovery: Recovery, accept_limit: int) -> None:
    outcome = after_overflow(recovery, accept_limit=accept_limit)
    assert outcome.counts[Count.REPLIES] == 12
    assert outcome.counts[Count.OVERFLOWS] >= 1
    assert len(outcome.stranded) == 0


def test_without_recovery_who_was_lost_is_stranded_and_named() -> None:
    lost = after_overflow(Recovery.NOTHING, accept_limit=1, remembers=False)
    assert 0 < lost.counts[Count.REPLIES] < 12
    assert set(lost.stranded[:, 1].tolist()) == {Missing.ACCEPT}
    assert summarise(lost).verdict is Verdict.STRANDED


def test_a_hybrid_blocks_signals_while_it_polls() -> None:
    run = RunSettings(**on_server(poll_above=2), duration_ns=300_000, sample_every_ns=0)
    steps, outcome = timeline(NAME, arrivals(*[10_000] * 6), run)
    awake = next(i for i, step in enumerate(steps) if step[2] == "WAKE")
    assert [end - begin for begin, end, _ in steps[awake + 1 : awake + 4]] == [
        HANDLERS.mask_ns,
        HANDLERS.deliver_ns + HANDLERS.return_ns,
        HANDLERS.event_ns,  # what the first handler noted; five more signals stay blocked
    ]
    assert outcome.counts[Count.REPLIES] == 6
    assert len(outcome.stranded) == 0
    assert outcome.ledger_ns[Activity.IDLE] > 270_000  # it is over, and sleeps


def test_the_limiter_counts_the_signals_since_the_last_wait() -> None:
    server = on_server(limiter_gain_permille=1_000, limiter_threshold=2)
    run = WHILE._replace(duration_ns=300_000, **server)
    _, outcome = timeline(NAME, arrivals(*[10_000] * 3), run)
    assert outcome.counts[[Count.SHED, Count.REPLIES]].tolist() == [3, 0]
    _, outcome = timeline(NAME, arrivals(*[10_000] * 2), run)
    assert outcome.counts[[Count.SHED, Count.REPLIES]].tolist() == [0, 2]


def test_a_server_that_spins_is_interrupted_and_makes_no_call() -> None:
    run = WHILE._replace(**on_server(busy=True))
    steps, outcome = timeline(NAME, ONE, run)
    assert outcome.counts[Count.REPLIES] == 1
    assert outcome.ledger_ns[Activity.SLEEP] == outcome.ledger_ns[Activity.WAKE] == 0
    assert "IDLE" not in {name for *_, name in steps}


def test_m27_its_signals_go_to_the_worker_that_owns_the_descriptor() -> None:
    server = on_server(workers=3, cpus=3, interrupt_cpu=2, passes_listener=True)
    run = RunSettings(**server, duration_ns=3_000_000, sample_every_ns=0)
    trace = arrivals(*range(10_000, 50_000, 500), requests=2, think_ns=20_000)
    outcome = simulate(NAME, trace, toy_costs(NAME), run, engine="reference")
    assert outcome.counts[Count.REPLIES] == 160
    assert outcome.worker_accepts.min() > 0
    assert simulate(NAME, trace, toy_costs(NAME), run, engine="fast").same_as(outcome)
