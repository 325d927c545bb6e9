"""Verdicts: what growth cannot show, replies and those that wait for them do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.served import on_server
from tests.toy import arrivals, toy_costs

import dispatchsim as ds
from dispatchsim.models.simulate import simulate
from dispatchsim.scenario.scenario import Scenario
from dispatchsim.sim.figures.summary import Summary, Verdict, summarise, verdict_of
from dispatchsim.sim.figures.tally import Progress
from dispatchsim.sim.load.workload import closed_loop
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings
from dispatchsim.sim.state.settings import Fault, FaultKind, RunSettings

COUNTS = st.one_of(st.integers(0, 40), st.integers(0, 200_000))
SEVERITY = [Verdict.STABLE, Verdict.BACKLOGGED, Verdict.OVERLOADED]


@st.composite
def progresses(draw: st.DrawFn) -> Progress:
    """Draw any progress: who has waited through the window has waited through its second half."""
    through, long, waiting = sorted(draw(st.tuples(COUNTS, COUNTS, COUNTS)))
    late, answered = sorted(draw(st.tuples(COUNTS, COUNTS)))
    return Progress(answered, late, waiting, long, through)


def judged(progress: Progress, n_gave_up: int = 0, **connections: float) -> Verdict:
    """Return the verdict on a window without growth or errors, unless *connections* say so."""
    known: dict[str, Any] = {"growth": 0, "n_open_begin": 0, "n_offered": 0, "n_errors": 0}
    return verdict_of(**(known | connections), progress=progress, n_gave_up=n_gave_up)


# -- laws


@given(progresses(), COUNTS, COUNTS)
def test_who_answers_nobody_while_somebody_waits_is_never_stable(
    progress: Progress, n_open_begin: int, n_offered: int
) -> None:
    silent = progress._replace(answered=0, answered_late=0, waiting=max(1, progress.waiting))
    found = judged(silent, n_open_begin=n_open_begin, n_offered=n_offered)
    assert found is not Verdict.STABLE
    if silent.waiting_through > 0:
        assert found is Verdict.OVERLOADED


@given(progresses(), st.sampled_from(Progress._fields), st.integers(1, 1_000), COUNTS)
def test_more_that_wait_or_fewer_that_are_answered_never_make_it_better(
    progress: Progress, name: str, more: int, n_offered: int
) -> None:
    worse = progress
    for each in Progress._fields[: Progress._fields.index(name) + 1]:
        # Who waits longer waits; who is answered late is answered.
        if name.startswith("waiting") and each.startswith("waiting"):
            worse = worse._replace(**{each: getattr(worse, each) + more})
    if name == "answered_late":
        worse = worse._replace(answered_late=max(0, worse.answered_late - more))
    if name == "answered":
        fewer = max(0, worse.answered - more)
        worse = worse._replace(answered=fewer, answered_late=min(worse.answered_late, fewer))
    # Up to four, those that wait may be there by chance: their noise grows faster than they do.
    if progress.waiting >= 4 or worse.answered_late == progress.answered_late == 0:
        before, after = judged(progress, n_offered=n_offered), judged(worse, n_offered=n_offered)
        assert SEVERITY.index(after) >= SEVERITY.index(before)


@given(progresses(), st.integers(1, 100_000))
def test_who_has_answered_all_is_stable(progress: Progress, n_offered: int) -> None:
    done = progress._replace(waiting=0, waiting_long=0, waiting_through=0)
    assert judged(done, n_offered=n_offered) is Verdict.STABLE


@given(st.integers(17, 100_000), st.integers(1, 40))
def test_as_many_as_wait_must_be_answered_in_the_window(n_waiting: int, times: int) -> None:
    # Little's law: they wait for n_waiting / answered windows.
    answered = n_waiting * times
    steady = Progress(answered, answered // 2, n_waiting)
    assert judged(steady) is Verdict.STABLE
    slow = Progress(max(1, n_waiting // (200 * times)), 0, n_waiting)
    assert judged(slow) is Verdict.OVERLOADED


@pytest.mark.parametrize(
    ("progress", "n_gave_up", "expected"),
    [
        (Progress(), 0, Verdict.STABLE),  # nobody asks
        (Progress(0, 0, 1), 0, Verdict.BACKLOGGED),  # one came just now: too short to tell
        (Progress(0, 0, 1, 1, 1), 0, Verdict.OVERLOADED),  # it has waited all the time
        (Progress(0, 0, 17), 0, Verdict.OVERLOADED),  # more than chance
        (Progress(), 1, Verdict.OVERLOADED),  # one gave up, and nobody was answered
        (Progress(9, 9), 1, Verdict.OVERLOADED),  # one of eleven gave up: above 5%
        (Progress(99, 99), 1, Verdict.STABLE),
        (Progress(9, 0, 3, 3), 0, Verdict.BACKLOGGED),  # nobody was answered in the second half
        (Progress(9, 1, 3, 3), 0, Verdict.STABLE),
        (Progress(9_000, 0, 64, 64), 0, Verdict.OVERLOADED),  # 32 beyond chance, in 20 half windows
        (Progress(9_000, 2, 64, 60), 0, Verdict.STABLE),
        (Progress(800, 400, 1_000), 0, Verdict.BACKLOGGED),  # 874 beyond chance
        (Progress(875, 437, 1_000), 0, Verdict.STABLE),
    ],
)
def test_progress_by_example(progress: Progress, n_gave_up: int, expected: Verdict) -> None:
    offered = 10 * n_gave_up if progress.answered < 20 else 100
    assert judged(progress, n_gave_up, n_offered=offered) is expected


# -- scenes


def closed(users: int, **sections: Any) -> Summary:
    """Return the figures of a closed loop of *users* on a machine whose handshakes take 20 us."""
    content = {
        "server": {"mechanism": "epoll_level"},
        "load": {"loop": "closed", "users": users, **sections.pop("load", {})},
        "machine": {"profile": "counted-linux-6.1-unmerged"},
        "run": {"duration": "150 ms", "warm_up": "50 ms"},
        **sections,
    }
    return ds.run(Scenario.of(**content)).replications[0].summary


def test_a_closed_loop_in_which_nobody_is_ever_answered_is_overloaded() -> None:
    # 20,000 handshakes take 400 ms: the CPU has no time for the server. All users came before the
    # window, so none was due in it, none failed, and their number cannot grow.
    machine = {"profile": "counted-linux-6.1-unmerged", "softirq_budget": 0}
    found = closed(20_000, machine=machine)
    assert (found.accepted, found.replied, found.offered) == (0, 0, 0)
    assert found.cpu_busy == 1
    assert found.verdict is Verdict.OVERLOADED


def test_a_closed_loop_that_is_busy_is_stable_and_so_is_one_in_which_nobody_asks() -> None:
    busy = closed(64)
    assert busy.cpu_busy == 1
    assert busy.verdict is Verdict.STABLE
    idle = closed(10, load={"think_time": "100 s", "think": "constant"})
    assert (idle.replied, idle.verdict) == (0, Verdict.STABLE)


@pytest.mark.parametrize(
    ("users", "expected"), [(64, Verdict.OVERLOADED), (10, Verdict.BACKLOGGED)]
)
def test_a_closed_loop_whose_server_falls_silent_is_not_stable(
    users: int, expected: Verdict
) -> None:
    stall = {"kind": "stall", "at": "90 ms", "length": "60 ms"}
    found = closed(users, fault=[stall])
    assert found.replied > 10 * users
    assert found.verdict is expected


KEPT = RunSettings(
    duration_ns=2_000_000, warm_up_ns=1_000_000, sample_every_ns=0, **on_server(backlog=100)
)


def verdict_of_toy(trace: Any, run: RunSettings) -> Verdict:
    """Return the verdict on *trace*, the same on both engines."""
    costs = toy_costs("epoll_level")
    found = [
        summarise(simulate("epoll_level", trace, costs, run, engine=engine)).verdict
        for engine in ("reference", "fast")
    ]
    assert found[0] is found[1]
    return found[0]


def test_connections_that_are_kept_are_judged_by_their_requests() -> None:
    # They are open all the time and none ends: 10 users with a request every 20 us or so.
    asking = closed_loop(users=10, connections=10, requests=1_000, think_ns=20_000)
    assert verdict_of_toy(asking, KEPT) is Verdict.STABLE
    # One request before the window, the next after it: they think.
    thinking = arrivals(*[10_000] * 10, requests=2, think_ns=5_000_000)
    assert verdict_of_toy(thinking, KEPT) is Verdict.STABLE
    # The server does not run in the window, and they wait.
    stall = Fault(int(FaultKind.STALL), 900_000, 2_000_000, 0)
    assert verdict_of_toy(asking, KEPT._replace(faults=(stall,))) is Verdict.OVERLOADED


def test_users_that_all_give_up_make_an_overload_however_early_they_came() -> None:
    # Ten come at 0.01 ms, the server stands still, and they give up at 1.51 ms.
    stall = Fault(int(FaultKind.STALL), 0, 3_000_000, 0)
    run = KEPT._replace(faults=(stall,), client=ClientSettings(timeout_ns=1_500_000))
    assert verdict_of_toy(arrivals(*[10_000] * 10), run) is Verdict.OVERLOADED


def test_a_run_that_ends_before_the_first_reply_can_be_there_is_not_called_stable() -> None:
    # The way takes 1 ms, the run 2 ms: SYN, SYN-ACK, and the request is on its way.
    far = KEPT._replace(warm_up_ns=0, network=NetworkSettings(delay_ns=1_000_000))
    assert verdict_of_toy(arrivals(10_000), far) is Verdict.BACKLOGGED
    longer = far._replace(duration_ns=5_000_000)
    assert verdict_of_toy(arrivals(10_000), longer) is Verdict.STABLE
