"""Limits that are reached exactly: one below, the limit itself, one above."""

from __future__ import annotations

from itertools import groupby

import pytest
from tests.served import on_server
from tests.toy import CALL, arrivals, timeline, toy_costs

from dispatchsim.models.remembering.overload import is_unwanted, note_batch
from dispatchsim.models.simulate import prepare_world, simulate
from dispatchsim.sim.kernel.request_timeouts import is_late
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.costs import ApplicationCosts, ClientCosts
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings


@pytest.mark.parametrize(
    ("limit", "per_wait"),
    # The last accept of a batch with room left finds the queue empty (EAGAIN).
    [(1, [1] * 5), (2, [2, 2, 2]), (4, [4, 2]), (5, [5]), (6, [6]), (0, [6])],
)
def test_a_notification_allows_so_many_accepts(limit: int, per_wait: list[int]) -> None:
    """accept(2) until it fails or the limit is reached (Brecht, Pariag and Gammo 2004, §3)."""
    settings = RunSettings(**on_server(accept_limit=limit), duration_ns=60_000, sample_every_ns=0)
    steps, outcome = timeline("epoll_level", arrivals(*[10_000] * 5), settings)
    # Connections are served in between; a batch with the listener begins with its accepts.
    names = [name for *_, name in steps if name in ("WAIT", "ACCEPT")]
    batches = [len(list(group)) for name, group in groupby(names) if name == "ACCEPT"]
    assert batches == per_wait
    assert outcome.counts[Count.ACCEPTS] == 5
    assert outcome.counts[Count.ACCEPT_AGAIN] == sum(per_wait) - 5


@pytest.mark.parametrize(("n_events", "is_reset"), [(3, False), (4, True)])
def test_the_limiter_resets_above_its_threshold(n_events: int, is_reset: bool) -> None:
    settings = RunSettings(**on_server(limiter_gain_permille=1_000, limiter_threshold=3))
    world = prepare_world("epoll_level", arrivals(1), toy_costs("epoll_level"), settings)
    note_batch(world, world.workers[0], n_events)
    assert is_unwanted(world, world.workers[0], 5) == is_reset


@pytest.mark.parametrize(("now_ns", "expected"), [(1_099, False), (1_100, True), (1_101, True)])
def test_a_request_is_late_when_its_time_is_over(now_ns: int, expected: bool) -> None:
    settings = RunSettings(**on_server(request_timeout_ns=1_000))
    world = prepare_world("epoll_level", arrivals(1), toy_costs("epoll_level"), settings)
    world.connection_of[5], world.watched_by[5], world.since_ns[5] = 0, 0, 100
    world.now_ns = now_ns
    assert is_late(world, world.sets[0], 5) == expected


def test_a_call_of_the_ring_does_not_cross_into_the_kernel() -> None:
    settings = RunSettings(duration_ns=20_000, sample_every_ns=0)
    costs = toy_costs("io_uring", call=CALL._replace(crossing_ns=50))

    def spent(name: str, steps: list[tuple[int, int, str]]) -> list[int]:
        return [end - begin for begin, end, step in steps if step == name]

    one, _ = timeline("io_uring", arrivals(10_000), settings)
    other, _ = timeline("io_uring", arrivals(10_000), settings, costs)
    assert spent("ACCEPT", one) == [300, 10]  # the call, and its completion
    assert spent("ACCEPT", other) == [250, 10]
    assert (spent("READ", one), spent("READ", other)) == ([210], [160])
    assert (spent("WRITE", one), spent("WRITE", other)) == ([400], [350])
    assert (spent("CLOSE", one), spent("CLOSE", other)) == ([160], [110])


@pytest.mark.parametrize("cpus", [1, 2])
def test_a_cpu_that_has_handled_a_packet_is_out_of_idleness(cpus: int) -> None:
    """On two CPUs the effect of a packet is an occurrence of its own, at its interrupt's end."""
    settings = RunSettings(**on_server(cpus=cpus), duration_ns=100_000, sample_every_ns=0)
    trace = arrivals(10_000, requests=2, think_ns=50_000)
    steps, outcome = timeline("epoll_level", trace, settings)
    first_ns, second_ns = (begin for begin, _, name in steps if name == "WAKE")
    # The way out takes 1,000; entry, SYN, acknowledgement and request 100 + 200 + 50 + 80.
    assert first_ns == 11_430
    # The second request comes alone: 1,000 once more, 100 and 80.
    assert second_ns == outcome.reply_ns[0] + 50_000 + 1_180


def test_each_request_costs_its_user_time() -> None:
    settings = RunSettings(duration_ns=200_000, sample_every_ns=0)
    trace = arrivals(10_000, requests=3, think_ns=20_000)
    steps, _ = timeline("epoll_level", trace, settings)
    assert [end - begin for begin, end, name in steps if name == "USER"] == [150, 150, 150]


def test_patience_begins_when_a_connection_is_due() -> None:
    """Also of clients whose own CPU is late to call connect()."""
    settings = RunSettings(
        client=ClientSettings(timeout_ns=50_000), duration_ns=200_000, sample_every_ns=0
    )
    application = ApplicationCosts(10**9)
    costs = toy_costs("epoll_level", ClientCosts(9_000, 0, 0, 0), application=application)
    trace = arrivals(10_000, 10_000, 10_000)
    outcome = simulate("epoll_level", trace, costs, settings, engine="reference")
    assert outcome.status.tolist() == [Status.TIMEOUT] * 3
    assert outcome.done_ns.tolist() == [60_000] * 3
