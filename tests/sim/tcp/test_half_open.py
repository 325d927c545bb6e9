"""Half-open connections: how often they are answered, and when the server forgets them.

Linux 6.18 behind a TUN device gave the figures of the first test (calibration/rules, half_open_*).
"""

from __future__ import annotations

from collections.abc import Generator

import pytest
import simpy
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import prepare_world, program_of, simulate
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.state.client_settings import ClientSettings, NetworkSettings, PathSettings
from dispatchsim.sim.state.costs import ApplicationCosts
from dispatchsim.sim.state.kinds import Count, Occurrence, Stage, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.units import MILLISECOND_NS, SECOND_NS
from dispatchsim.sim.state.world import World
from dispatchsim.sim.tcp.arriving import request_handled

FOR_EVER = ApplicationCosts(10_000 * SECOND_NS)
_AWAY = NetworkSettings(delay_ns=MILLISECOND_NS)


def crowd(
    backlog: int,
    n: int = 8,
    *,
    ask_at_s: tuple[int, ...] = (),
    client: ClientSettings | None = None,
    seconds: int = 100,
    **server: bool,
) -> tuple[Outcome, list[int], World]:
    """Run a server that never comes back from its first request, and *n* clients at second 1.

    The queue takes two of them, as the first connections leave so much room. Return the outcome,
    how many are half open after each of the seconds *ask_at_s*, and the world at the end.
    """
    found: list[int] = []
    worlds: list[World] = []

    def look(env: simpy.Environment, world: World) -> None:
        worlds.append(world)

        def looks() -> Generator[simpy.Event, None, None]:
            for second in ask_at_s:
                yield env.timeout((1 + second) * SECOND_NS - env.now)
                found.append(world.listeners[0].n_half)

        env.process(looks())

    # One is being served for ever; backlog - 1 wait behind it.
    at_ns = [0] + [MILLISECOND_NS] * (backlog - 1) + [SECOND_NS] * n
    settings = RunSettings(
        **on_server(backlog=backlog, accept_limit=1, read_after_accept=True, **server),
        client=client or ClientSettings(),
        network=_AWAY,
        duration_ns=seconds * SECOND_NS,
        sample_every_ns=0,
    )
    outcome = simulate(
        "epoll_level",
        arrivals(*at_ns),
        toy_costs("epoll_level", application=FOR_EVER),
        settings,
        engine="reference",
        extend=look,
    )
    return outcome, found, worlds[0]


@pytest.mark.parametrize(
    ("backlog", "n_half"),
    [
        # More than half of the backlog are half open: old ones go after the second repetition.
        (7, [6, 4, 4, 0]),
        (40, [6, 6, 6, 0]),
    ],
)
def test_linux_forgets_those_that_are_half_open_for_long(backlog: int, n_half: list[int]) -> None:
    outcome, found, _ = crowd(backlog, ask_at_s=(2, 10, 40, 70))
    assert found == n_half
    assert outcome.counts[Count.HALF_OPEN_EXPIRED] == 6


def test_a_client_that_was_forgotten_is_reset_when_it_asks_again() -> None:
    # A request is repeated after 202, 404, 808 ms and so on: after 51.7 and 103.4 s.
    outcome, _, world = crowd(40, seconds=120)
    assert (outcome.status == Status.RESET).sum() == 6
    assert world.stage.count(Stage.EXPIRED) == 6
    assert ((outcome.done_ns[-6:] - SECOND_NS) // SECOND_NS).tolist() == [103] * 6


@pytest.mark.parametrize(("lost", "comes"), [(0, "RST"), (1, "REQUEST")])
def test_a_request_is_repeated_whose_reset_was_lost(lost: int, comes: str) -> None:
    path = PathSettings(1_000, MILLISECOND_NS, loss_millionths=1)
    run = RunSettings(network=NetworkSettings(paths=(path,)))
    world = prepare_world("epoll_level", arrivals(10), toy_costs("epoll_level"), run)
    ReferenceRun(program_of("epoll_level"), world, duration_ns=SECOND_NS)
    world.stage[0] = Stage.EXPIRED
    world.loss_draws[:] = [0 if lost else 999_999] * len(world.loss_draws)
    planned = len(world.calendar.entries)
    request_handled(world, 0)
    entries = world.calendar.entries
    kinds = [Occurrence(kind).name for *_, kind, subject in entries if type(subject) is int]
    assert (len(entries), kinds.count(comes)) == (planned + 1, 1)


def test_who_was_answered_by_a_cookie_is_not_remembered_and_queued_when_it_acknowledges() -> None:
    # Backlog 4: five are half open at once, three have cookies; the queue takes two of the eight.
    outcome, found, world = crowd(4, ask_at_s=(1,), seconds=30)
    assert found == [3]
    assert world.stage.count(Stage.BY_COOKIE) == 3
    assert outcome.counts[Count.SYN_DROPS] == 0
    outcome, _, world = crowd(4, seconds=30, syn_cookies=False)
    assert world.stage.count(Stage.BY_COOKIE) == 0
    assert outcome.counts[Count.SYN_DROPS] > 0


def test_a_client_that_leaves_takes_its_half_open_connection_along() -> None:
    patience = ClientSettings(timeout_ns=2 * SECOND_NS)
    outcome, found, world = crowd(40, ask_at_s=(1, 3), client=patience)
    assert found == [6, 0]
    assert outcome.counts[Count.HALF_OPEN_EXPIRED] == 0
    assert world.listeners[0].n_old == 0
