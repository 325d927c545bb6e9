"""Signals lost, signals merged and the longest queue: counted where they happen, in each engine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.signals.signal_queue import count_queued, dequeue, queue_of, send
from dispatchsim.models.simulate import prepare_world, simulate
from dispatchsim.scenario.metrics import METRICS
from dispatchsim.sim.figures.outcome import Outcome
from dispatchsim.sim.figures.summary import summarise
from dispatchsim.sim.state.family_settings import Recovery
from dispatchsim.sim.state.kinds import READABLE, Count
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import World

TWELVE = arrivals(*[10_000] * 12)
SIGNALS = [Count.SIGNALS_LOST, Count.SIGNALS_MERGED, Count.SIGNALS_QUEUED, Count.SIGNAL_QUEUE_MAX]
FDS = st.lists(st.integers(3, 20), max_size=60)


def world_of(mechanism: str, signal_queue: int, workers: int = 1, elsewhere: int = 0) -> World:
    settings = RunSettings(
        **on_server(signal_queue=signal_queue, workers=workers, signals_elsewhere=elsewhere)
    )
    world = prepare_world(mechanism, arrivals(*range(30)), toy_costs(mechanism), settings)
    world.waker = 0
    return world


def counted(world: World) -> list[int]:
    return [world.counts[each] for each in SIGNALS]


@given(FDS, st.integers(1, 40), st.integers(0, 10))
def test_of_m_events_a_queue_with_room_for_n_loses_m_less_n(
    fds: list[int], bound: int, elsewhere: int
) -> None:
    world = world_of("rt_signals", bound, elsewhere=elsewhere)
    for fd in fds:
        send(world, world.sets[0], fd, READABLE)
    room = max(0, bound - elsewhere)
    kept = min(len(fds), room)
    assert counted(world) == [len(fds) - kept, 0, kept, kept]


@given(FDS)
def test_of_m_events_of_n_descriptors_a_queue_with_a_bit_for_each_merges_m_less_n(
    fds: list[int],
) -> None:
    world = world_of("signal_per_fd", 18)
    for fd in fds:
        send(world, world.sets[0], fd, READABLE)
    n = len(set(fds))
    assert counted(world) == [0, len(fds) - n, n, n]


def test_the_longest_queue_is_that_of_all_workers_together_and_stays_when_it_is_emptied() -> None:
    world = world_of("rt_signals", 10, workers=2)
    for i in range(5):
        send(world, world.sets[i % 2], 5, READABLE)
    assert counted(world) == [0, 0, 5, 5]
    for _ in range(2):
        dequeue(queue_of(world.sets[1]))
    count_queued(world)
    assert counted(world) == [0, 0, 3, 5]
    send(world, world.sets[0], 5, READABLE)
    assert counted(world) == [0, 0, 4, 5]


def run(mechanism: str, recovery: Recovery = Recovery.NOTHING, *, warm_up_ns: int = 0) -> Outcome:
    """Return the outcome of twelve connections at once, for a queue of three, of both engines."""
    settings = RunSettings(
        **on_server(signal_queue=3, recovery=int(recovery), accept_limit=1, remembers=False),
        duration_ns=400_000,
        warm_up_ns=warm_up_ns,
        sample_every_ns=0,
    )
    costs = toy_costs(mechanism)
    outcome = simulate(mechanism, TWELVE, costs, settings, engine="reference")
    assert simulate(mechanism, TWELVE, costs, settings, engine="fast").same_as(outcome)
    return outcome


@pytest.mark.parametrize("recovery", list(Recovery))
@pytest.mark.parametrize("mechanism", ["rt_signals", "rt_signals_handler", "signalfd"])
def test_twelve_connections_at_once_overflow_a_queue_of_three_whatever_follows(
    mechanism: str, recovery: Recovery
) -> None:
    # Twelve events of the listener at 10 us, before the server runs: three fit, nine are lost, and
    # SIGIO is delivered once. With RECOVERY_NOTHING that was 0 overflows.
    outcome = run(mechanism, recovery)
    assert outcome.counts[[*SIGNALS, Count.OVERFLOWS]].tolist() == [9, 0, 0, 3, 1]


def test_where_signals_are_merged_the_listener_has_one_for_all_twelve() -> None:
    outcome = run("signal_per_fd")
    assert outcome.counts[[*SIGNALS, Count.OVERFLOWS]].tolist() == [0, 11, 0, 1, 0]


def test_a_window_that_begins_after_the_overflow_has_no_part_of_it() -> None:
    whole, after = (summarise(run("rt_signals", warm_up_ns=ns)) for ns in (0, 300_000))
    names = ("signals_lost", "signals_merged", "signal_queue_max", "signals_lost_per_reply")
    assert [METRICS[name].of(whole) for name in names] == [9, 0, 3, 3.0]
    assert [METRICS[name].of(after) for name in names[:3]] == [0, 0, 0]
