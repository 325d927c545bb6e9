"""Whom the kernel notifies of what was posted, one descriptor after the other."""

from __future__ import annotations

from tests.toy import arrivals, toy_costs

from dispatchsim.models.catalogue import MECHANISMS
from dispatchsim.models.signals.signal_queue import queue_of, reported_by
from dispatchsim.models.simulate import prepare_world, program_of, simulate
from dispatchsim.sim.engine.happenings import telling
from dispatchsim.sim.engine.reference import ReferenceRun
from dispatchsim.sim.state.client_settings import ClientSettings
from dispatchsim.sim.state.event_calendar import post
from dispatchsim.sim.state.kinds import READABLE, WRITABLE, Count
from dispatchsim.sim.state.mechanism import Program
from dispatchsim.sim.state.program_settings import Wakes
from dispatchsim.sim.state.settings import RunSettings, having
from dispatchsim.sim.state.world import World

IDLE = RunSettings(client=ClientSettings(idle=2), sample_every_ns=0)


def begun(mechanism: str, settings: RunSettings) -> World:
    """Return the world of a run that has begun, in which nothing has happened yet."""
    program = program_of(mechanism)
    world = prepare_world(program, arrivals(10_000), toy_costs(mechanism), settings)
    ReferenceRun(program, world, duration_ns=settings.duration_ns)
    return world


def notified(world: World, wakes: set[int]) -> list[int]:
    """Return which of the posted descriptors notify a mechanism; those in *wakes* wake a worker."""
    found = []

    def notify(world: World, fd: int) -> bool:
        found.append(fd)
        return fd in wakes

    mechanism = MECHANISMS["epoll_level"]._replace(notify=notify)
    telling(Program(program_of("epoll_level").serve, mechanism))(world)
    return found


def test_one_that_was_woken_spares_the_other_descriptors_of_its_listener_alone() -> None:
    world = begun("epoll_level", having(IDLE, workers=3, wakes=int(Wakes.ONE)))
    first, second, _ = world.listeners[0].fds
    connection = world.fd_of[0]
    for fd in (first, second, connection):
        post(world, fd, READABLE)
    assert notified(world, {first, second, connection}) == [first, connection]
    # Where the first has no worker that sleeps, the second wakes its own.
    assert notified(world, {second, connection}) == [first, second, connection]


def test_all_descriptors_of_a_listener_notify_unless_one_is_to_be_woken() -> None:
    world = begun("epoll_level", having(IDLE, workers=3))
    for fd in world.listeners[0].fds:
        post(world, fd, READABLE)
    assert notified(world, set(world.listeners[0].fds)) == list(world.listeners[0].fds)


def test_each_of_two_posted_descriptors_has_news_of_its_own() -> None:
    world = begun("rt_signals", having(IDLE, workers=2))
    first, second = world.fd_of[0], world.fd_of[1]
    world.state[second] = world.interest[second] = WRITABLE
    post(world, first, READABLE)
    post(world, second, WRITABLE)
    assert [world.fresh[fd] for fd in (first, second)] == [True, False]
    telling(program_of("rt_signals"))(world)
    reported = [reported_by(queue_of(interests), 0) for interests in world.sets]
    assert reported == [READABLE, WRITABLE]


def test_a_pool_that_sleeps_in_accept_is_no_herd_by_default() -> None:
    settings = having(RunSettings(duration_ns=100_000, sample_every_ns=0), workers=4)
    costs = toy_costs("blocking")
    one = simulate("blocking", arrivals(10_000), costs, settings)
    # All four at first, then the one that has served; the three others sleep on.
    assert one.counts[Count.SLEEPS] == 5
    herd = simulate("blocking", arrivals(10_000), costs, having(settings, wakes=int(Wakes.ALL)))
    assert herd.counts[Count.SLEEPS] == 8
