"""A thread that accepts and hands connections over to event loops, by hand and by its laws."""

from __future__ import annotations

from typing import Any

import pytest
from tests.served import on_server
from tests.steps import timelines
from tests.toy import arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.kinds import Count
from dispatchsim.sim.state.program_settings import Sharing
from dispatchsim.sim.state.settings import RunSettings

SERVER = on_server(workers=2, sharing=int(Sharing.HANDED_OVER))


def test_who_accepts_tells_the_next_and_serves_nobody() -> None:
    server = SERVER.but(wake_preemption=False)
    steps, outcome = timelines(arrivals(10_000), server, 30_000)
    assert steps[0] == [
        (0, 70, "WAIT"),
        (70, 110, "SLEEP"),
        (11_430, 11_930, "WAKE"),  # out of idleness at 11000, then 430 of packets
        (11_930, 11_960, "WAIT"),
        (11_960, 12_260, "ACCEPT"),
        (12_260, 12_350, "WRITE"),  # the eventfd, which has the other one runnable
        (12_350, 12_450, "ACCEPT"),  # EAGAIN
        (12_450, 12_520, "WAIT"),
        (12_520, 12_540, "WAIT"),  # the listener in vain
        (12_540, 12_580, "SLEEP"),
    ]
    assert steps[1] == [
        (110, 180, "WAIT"),
        (180, 220, "SLEEP"),
        (12_580, 13_080, "WAKE"),
        (13_080, 13_110, "WAIT"),  # one event: the eventfd
        (13_110, 13_200, "READ"),
        (13_200, 13_310, "WATCH"),  # the request is there: listed at once
        (13_310, 13_380, "WAIT"),
        (13_380, 13_430, "WAIT"),  # the request (30), the eventfd in vain (20)
        (13_430, 13_630, "READ"),
        (13_630, 13_780, "USER"),
        (13_780, 14_180, "WRITE"),
        (14_180, 14_400, "UNWATCH"),  # 60, and the reset: 100 + 60
        (14_400, 14_650, "CLOSE"),
        (14_650, 14_720, "WAIT"),
        (14_720, 14_760, "SLEEP"),
    ]
    assert outcome.worker_accepts.tolist() == [1, 0]


def test_connections_go_to_the_others_in_turn() -> None:
    server = SERVER.but(workers=4, cpus=4)
    steps, outcome = timelines(arrivals(*range(10_000, 100_000, 15_000)), server, 200_000)
    reads = [sum(name == "USER" for *_, name in steps[number]) for number in range(4)]
    assert reads == [0, 2, 2, 2]
    assert outcome.worker_accepts.tolist() == [6, 0, 0, 0]
    served_ns = [[begin for begin, _, name in steps[n] if name == "USER"] for n in (1, 2, 3)]
    # The first is for the first behind the listening thread, and so on, twice.
    in_turn_ns = [served_ns[i][turn] for turn in range(2) for i in range(3)]
    assert in_turn_ns == sorted(in_turn_ns)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_nobody_is_forgotten_on_the_way(limit: int) -> None:
    # Bursts: several are in a queue when its worker is told, and come while it is at them.
    at_ns = [10_000 + 400 * i for i in range(60)]
    server = SERVER.but(workers=3, accept_limit=limit, slice_ns=1, tick_ns=700)
    _, outcome = timelines(
        arrivals(*at_ns, requests=2), server, 1_000_000, client=ClientSettings(idle=9)
    )
    counts = outcome.counts
    assert counts[[Count.ACCEPTS, Count.WATCHES, Count.REPLIES]].tolist() == [60, 60, 120]
    assert (outcome.done_ns > 0).all()


@pytest.mark.parametrize(
    ("mechanism", "changes", "message"),
    [
        ("epoll_level", {"workers": 1}, r"workers must be at least 2 .*, got 1"),
        ("epoll_level", {"read_after_accept": True}, r"read_after_accept must be false .*HANDED"),
        ("rt_signals", {}, r"sharing must not be 3 with rt_signals, whose workers cannot take"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    mechanism: str, changes: dict[str, Any], message: str
) -> None:
    settings = RunSettings(**SERVER.but(**changes))
    with pytest.raises(ValueError, match=message):
        simulate(mechanism, arrivals(10_000), toy_costs(mechanism), settings)
