"""The contract of all runs can be broken: in each way, and each is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests import contract
from tests.contract import (
    BrokenContractError,
    broken_clauses,
    check_run,
    check_stream,
)
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.fates import Fate
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import Summary, summarise
from dispatchsim.sim.figures.tally import Tally
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import NONE, Activity, Count, Stage, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import World

TRACE = arrivals(10_000, 20_000, 30_000, 30_001, 30_002, 70_000, requests=2, think_ns=3_000)
REPLIED, TIMEOUT, REFUSED, OPEN = 0, 3, 4, 5
"""Rows of the trace by what becomes of them."""


def run() -> tuple[Outcome, World]:
    """Return a run in which clients are answered, give up, are refused and are still open."""
    worlds: list[World] = []
    outcome = simulate(
        "epoll_level",
        TRACE,
        toy_costs("epoll_level", application=ApplicationCosts(9_000)),
        RunSettings(
            **on_server(backlog=1, refuse=True, accept_limit=1),
            client=ClientSettings(timeout_ns=30_000),
            duration_ns=80_000,
            warm_up_ns=12_345,
        ),
        engine="reference",
        extend=lambda _, world: worlds.append(world),
    )
    return outcome, worlds[0]


def test_each_connection_and_request_has_one_fate() -> None:
    outcome, _ = run()
    assert outcome.fates()[[REPLIED, TIMEOUT, REFUSED, OPEN]].tolist() == [
        Fate.REPLIED,
        Fate.TIMEOUT,
        Fate.REFUSED,
        Fate.OPEN,
    ]
    _, found = outcome.request_ends()
    assert found[outcome.asked_on == REPLIED].tolist() == [Fate.REPLIED, Fate.REPLIED]
    assert found[outcome.asked_on == REFUSED].tolist() == [Fate.REFUSED]
    assert not broken_clauses(outcome, TRACE.requests)


def test_who_waits_for_ever_is_stranded_unless_he_gave_up() -> None:
    outcome, _ = run()
    lost = np.array([[-1, 1], [TIMEOUT, 1], [OPEN, 1]], np.int64)
    stranded = replace(outcome, stranded=lost)
    assert (stranded.fates() != outcome.fates()).nonzero()[0].tolist() == [OPEN]
    assert stranded.fates()[OPEN] == Fate.STRANDED
    summary = summarise(replace(stranded, mark_ns=0))
    assert (summary.fates["open"], summary.fates["stranded"]) == (0, 1)
    assert sum(summary.fates.values()) == summary.offered == outcome.due_ns.size
    assert summary.connections.offered == len(TRACE)


def changed(name: str, index: Any, by: int) -> Callable[[Outcome], Outcome]:
    """Return a change of one entry of an outcome."""

    def change(outcome: Outcome) -> Outcome:
        column = getattr(outcome, name).copy()
        column[index] += by
        return replace(outcome, **{name: column})

    return change


BREAKS: dict[str, Callable[[Outcome], Outcome]] = {
    "there is one entry a connection": lambda o: replace(o, done_ns=o.done_ns[1:]),
    "each met one fate": changed("status", OPEN, 4),
    "each came within the run": changed("intended_ns", -1, 20_000),
    "they came in order": changed("intended_ns", 1, 20_000),
    "who has ended has an end, and nobody else": changed("status", OPEN, -OPEN),
    "who ended did so within the run": changed("done_ns", TIMEOUT, 20_000),
    "nobody ended before it came": changed("done_ns", TIMEOUT, -60_000),
    "nobody started before it came": changed("started_ns", 2, -1),
    "nobody connected before it started": changed("connected_ns", 0, -10_000),
    "who was answered was connected before": changed("connected_ns", 0, 60_000),
    "who was turned away never connected": changed("connected_ns", REFUSED, 60_000),
    "there is one entry a request": lambda o: replace(o, due_ns=o.due_ns[1:]),
    "a reply is the end of its request": changed("reply_ns", 0, 1),
    "who has a reply is replied": changed("ended_as", 0, Status.TIMEOUT),
    "a request ends after it was due": changed("ended_ns", 0, -20_000),
    "requests end within the run": changed("ended_ns", 0, 80_000),
    "a request is of a connection that came": changed("asked_on", -1, 90),
    "requests were due within the run": changed("due_ns", -1, 90_000),
    "requests stand in order of their connections": changed("asked_on", 0, 1),
    "nobody asked for more than the trace has": changed("asked_on", 2, -1),
    "the first request of each was due as it came": changed("due_ns", 2, 1),
    "a request follows the reply before it": changed("due_ns", 1, -10_000),
    "who was answered has all its replies, and nobody else": changed("reply_ns", 1, 0),
    "the last reply is the end": changed("reply_ns", 1, 1),
    "each CPU's ledger adds up": changed("cpu_ledger_ns", (0, Activity.READ), 1),
    "so it does at the mark": changed("cpu_ledger_mark_ns", (0, Activity.READ), 1),
    "no activity takes time back": changed("cpu_ledger_mark_ns", (0, Activity.USER), 90_000),
    "counters only grow": changed("counts_mark", Count.WAITS, 1_000),
    "who has tried again has several attempts": changed("counts", Count.RETRIES, 1),
    "nobody has replies that were not sent": changed("counts", Count.REPLIES, -4),
    "replies follow reads": changed("counts", Count.READS, -20),
    "who was answered was accepted": changed("counts", Count.ACCEPTS, -9),
    "workers accepted what was accepted": changed("worker_accepts", 0, 1),
    "who was refused or dropped had its SYNs dropped": changed("counts", Count.SYN_DROPS, -1),
    "each SYN was dropped for one cause": changed("counts", Count.NO_MEMORY, 1),
    "no queue of signals was shorter at its longest": changed("counts", Count.SIGNALS_QUEUED, 1),
    "only a close resets": lambda o: replace(o, status=np.full_like(o.status, Status.RESET)),
    "overload control resets no more than are closed": changed("counts", Count.SHED, 100),
}


@pytest.mark.parametrize("clause", BREAKS)
def test_an_outcome_that_breaks_a_clause_is_told_so(clause: str) -> None:
    outcome, world = run()
    broken = BREAKS[clause](outcome)
    if clause.startswith("who was answered has all its replies"):
        broken.reply_ns[1] = NONE
    with pytest.raises(BrokenContractError, match=clause):
        check_run(broken, world)


@pytest.mark.parametrize("at", [0, -1], ids=["answered", "open"])
def test_a_tally_that_loses_a_request_breaks_littles_law(
    monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    add = Tally.add

    def add_fewer(tally: Tally, due_ns: Any, ended_ns: Any, fates: Any) -> None:
        kept = np.delete(np.arange(due_ns.size), at)
        add(tally, due_ns[kept], ended_ns[kept], fates[kept])

    outcome, world = run()
    assert outcome.request_ends()[1][at] == (Fate.REPLIED, Fate.OPEN)[at]
    monkeypatch.setattr(Tally, "add", add_fewer)
    with pytest.raises(BrokenContractError, match=r"^Little's law holds by request$"):
        check_run(outcome, world)


def break_stage(world: World) -> None:
    world.stage[REPLIED] = int(Stage.QUEUED)


def break_half(world: World) -> None:
    world.listeners[0].n_half += 1


def break_answered(world: World) -> None:
    world.answered[REPLIED] += 1


@pytest.mark.parametrize(
    ("breaks", "clause"),
    [
        (break_stage, "what is queued is counted at its listener"),
        (break_half, "what is half open is counted at its listener"),
        (break_answered, "no request is answered twice; each reply is counted"),
    ],
)
def test_a_world_that_breaks_a_clause_is_told_so(
    breaks: Callable[[World], None], clause: str
) -> None:
    outcome, world = run()
    breaks(world)
    with pytest.raises(BrokenContractError, match=clause):
        check_run(outcome, world)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_descriptor_too_few_or_many_is_noticed(by: int) -> None:
    outcome, world = run()
    with pytest.raises(BrokenContractError, match="is closed or open; what is open is held"):
        check_run(changed("counts", Count.CONNECTIONS_OPEN, by)(outcome), world)


def figures() -> tuple[Summary, Tally]:
    outcome, _ = run()
    tally = Tally(outcome.mark_ns, outcome.duration_ns, exact=True)
    tally.add(outcome.due_ns, *outcome.request_ends())
    return summarise(outcome), tally


def test_figures_of_a_window_add_up() -> None:
    check_stream(*figures())


@pytest.mark.parametrize(
    ("name", "by", "clause"),
    [
        ("n_offered", 1, "the fates add up to what was offered"),
        ("n_stranded", 9, "none is negative"),
        ("n_open_end", 9, "what came has ended or is open"),
        ("n_replied", -1, "intervals hold no more than was replied"),
        ("n_open_long", 9, "who has waited longer waits"),
        ("n_open_through", 9, "longer is rarer"),
        ("n_replied_late", 99, "replies of a half are of the whole"),
    ],
)
def test_a_tally_that_breaks_a_clause_is_told_so(name: str, by: Any, clause: str) -> None:
    summary, tally = figures()
    setattr(tally, name, getattr(tally, name) + by)
    with pytest.raises(BrokenContractError, match=clause):
        check_stream(summary, tally)


@pytest.mark.parametrize(
    ("changes", "clause"),
    [
        ({"fates": {"replied": 6}}, "the summary has them"),
        ({"errors": {"timeout": 6}}, "errors are fates"),
        ({"window_ns": 67_000}, "busy and idle are the window of each CPU"),
    ],
)
def test_a_summary_that_breaks_a_clause_is_told_so(changes: dict[str, Any], clause: str) -> None:
    summary, tally = figures()
    if "fates" in changes:
        changes = {"fates": summary.fates | changes["fates"]}
    with pytest.raises(BrokenContractError, match=clause):
        check_stream(replace(summary, **changes), tally)


def test_every_run_is_checked_as_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "broken_clauses", lambda *_, **__: ["nobody is content"])
    with pytest.raises(BrokenContractError, match="nobody is content"):
        run()
