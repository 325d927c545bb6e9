"""Overload control: exact arithmetic, and whom it resets or never lets in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenes import Scene, comes_at, on_fast, on_reference
from tests.served import on_server
from tests.toy import arrivals, timeline, toy_costs

from dispatchsim.models.remembering.overload import learn, note_batch
from dispatchsim.models.simulate import prepare_world
from dispatchsim.sim.state.kinds import Count, Status
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import World

PAPER = {"limiter_gain_permille": 300, "limiter_threshold": 18, "max_events": 23}
"""Provos, Lever and Tweedie 2000, §5."""


def limited(**server: Any) -> World:
    settings = RunSettings(**on_server(**{**PAPER, **server}))
    return prepare_world("sigtimedwait4", arrivals(1), toy_costs("sigtimedwait4"), settings)


def calls_until(world: World, n_told: int, *, above: bool) -> int:
    """Return after how many calls that tell of *n_told* the mean is above the threshold, or not."""
    threshold = world.overload.limiter_threshold * 1_000_000
    for n_calls in range(1, 1_000):
        note_batch(world, world.workers[0], n_told)
        if (world.workers[0].own.mean_told > threshold) == above:
            return n_calls
    raise AssertionError("never")


@pytest.mark.parametrize(
    ("gain", "n_calls"), [(1000, 1), (500, 3), (300, 5), (200, 7), (100, 15), (50, 30), (10, 152)]
)
def test_m11_so_many_full_calls_are_noticed(gain: int, n_calls: int) -> None:
    # 23 (1 - (1 - gain)^n) > 18
    assert calls_until(limited(limiter_gain_permille=gain), 23, above=True) == n_calls


def test_m11_one_short_call_ends_it() -> None:
    world = limited()
    world.workers[0].own.mean_told = 23_000_000
    assert calls_until(world, 6, above=False) == 1


@given(st.lists(st.integers(0, 23), max_size=40), st.integers(1, 1000))
def test_the_mean_lies_between_what_was_told(told: list[int], gain: int) -> None:
    world = limited(limiter_gain_permille=gain)
    for n in told:
        note_batch(world, world.workers[0], n)
    mean = world.workers[0].own.mean_told
    assert 0 <= mean <= max(told, default=0) * 1_000_000


def offered(mechanism: str, **server: Any) -> tuple[Any, Scene]:
    # 60 connections in 60 us, and a server that needs some 2 us for each.
    trace = comes_at(*range(10_000, 70_000, 1_000))
    run = RunSettings(**on_server(**server), duration_ns=3_000_000, sample_every_ns=0)
    scene = Scene(mechanism, trace, run)
    return on_reference(scene)[0], scene


def classes(outcome: Any) -> dict[str, int]:
    return {s.name: int((outcome.status == s).sum()) for s in Status if (outcome.status == s).any()}


def test_the_limiter_resets_and_serves_the_others_sooner() -> None:
    free, _ = offered("epoll_level", max_events=8)
    kept, scene = offered(
        "epoll_level", max_events=8, limiter_gain_permille=500, limiter_threshold=3
    )
    assert classes(free) == {"REPLIED": 60}
    assert set(classes(kept)) == {"REPLIED", "RESET"}
    assert kept.counts[Count.SHED] == (kept.status == Status.RESET).sum() > 0
    waits = [o.done_ns - o.intended_ns for o in (free, kept)]
    answered = [w[o.status == Status.REPLIED] for w, o in zip(waits, (free, kept), strict=True)]
    assert np.mean(answered[1]) < np.mean(answered[0])
    assert kept.same_as(on_fast(scene))


def test_a_deadline_resets_who_has_waited_too_long_in_a_standing_queue() -> None:
    kept, scene = offered(
        "epoll_level", accept_limit=1, queue_deadline_ns=10_000, queue_interval_ns=20_000
    )
    assert set(classes(kept)) == {"REPLIED", "RESET"}
    assert kept.counts[Count.SHED] == (kept.status == Status.RESET).sum()
    patient, _ = offered(
        "epoll_level", accept_limit=1, queue_deadline_ns=10_000, queue_interval_ns=10**9
    )
    assert classes(patient) == {"REPLIED": 60}  # the queue has not been standing for so long
    assert kept.same_as(on_fast(scene))


def test_a_bound_on_open_connections_costs_an_interrupt_each_and_no_more() -> None:
    kept, scene = offered("poll", drop_above=5, read_after_accept=True)
    dropped = int(kept.counts[Count.SYN_DROPS])
    assert dropped > 0
    assert kept.counts[Count.ACCEPTS] + (kept.status == Status.OPEN).sum() == 60
    assert kept.same_as(on_fast(scene))


def test_without_a_setting_nobody_is_reset() -> None:
    _, outcome = timeline(
        "epoll_level", arrivals(*[10_000] * 30), RunSettings(duration_ns=2_000_000)
    )
    assert outcome.counts[Count.SHED] == 0


def test_a_concurrency_limit_moves_a_fifth_of_the_way() -> None:
    world = limited(concurrency_tolerance_permille=2_000)
    limit = world.workers[0].own.concurrency
    assert limit.limit == 20_000_000
    learn(world, limit, 1_000, 20)  # the least: towards 20 and its root, 24
    assert (limit.least_ns, limit.limit) == (1_000, 20_800_000)
    learn(world, limit, 4_000, 20)  # twice what is tolerated: towards 10.4 + 4
    assert limit.limit == 19_520_000
    learn(world, limit, 40_000, 20)  # never less than half at once: towards 9.76 + 4
    assert limit.limit == 18_368_000
    learn(world, limit, 40_000, 9)  # less than half of it was in use
    assert limit.limit == 18_368_000


@given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(0, 10**5)), max_size=60))
def test_a_concurrency_limit_leaves_room_for_one(seen: list[tuple[int, int]]) -> None:
    world = limited(concurrency_tolerance_permille=1_000)
    limit = world.workers[0].own.concurrency
    for latency_ns, n_open in seen:
        learn(world, limit, latency_ns, n_open)
        assert limit.limit >= 1_000_000


def test_a_concurrency_limit_keeps_the_latency_of_whom_it_serves() -> None:
    # A third more than the server can do, for 5 ms: all are accepted, so they queue as open ones.
    trace = comes_at(*range(10_000, 5_010_000, 1_600))
    p99_ns = []
    for tolerance in (0, 2_000):
        server = on_server(concurrency_tolerance_permille=tolerance)
        run = RunSettings(**server, duration_ns=30_000_000, sample_every_ns=0)
        scene = Scene("epoll_level", trace, run)
        outcome, _ = on_reference(scene)
        assert outcome.same_as(on_fast(scene))
        assert (outcome.counts[Count.SHED] > 0) == (tolerance > 0)
        replied = outcome.status == Status.REPLIED
        assert replied.sum() > 500
        p99_ns.append(np.percentile((outcome.done_ns - outcome.intended_ns)[replied], 99))
    assert p99_ns[1] < p99_ns[0] / 5
