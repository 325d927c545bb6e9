"""Descriptor table, rank tree and ready list against the naive way to do each."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.served import on_server
from tests.toy import arrivals, toy_costs

from dispatchsim.models.scans.select_fdset import rank_add, rank_below, rank_fill
from dispatchsim.models.simulate import program_of
from dispatchsim.sim.assembly.build import build_world
from dispatchsim.sim.kernel.descriptors import FIRST_FD, close_fd, open_fd
from dispatchsim.sim.kernel.interest_set import (
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    list_ready,
    take_ready,
)
from dispatchsim.sim.state.kinds import NONE, READABLE, WRITABLE
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import World

N_FDS = 20


def empty_world() -> World:
    run = RunSettings(**on_server(fd_limit=N_FDS))
    world = build_world(
        program_of("epoll_level"), arrivals(*range(30)), toy_costs("epoll_level"), run
    )
    world.next_fd = FIRST_FD
    return world


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=80))
def test_the_lowest_free_descriptor_is_taken_first(actions: list[tuple[bool, int]]) -> None:
    world = empty_world()
    taken: set[int] = set()
    for opens, choice in actions:
        if opens:
            fd = open_fd(world)
            free = set(range(FIRST_FD, N_FDS)) - taken
            assert fd == (min(free) if free else NONE)
            taken |= {fd} - {NONE}
        elif taken:
            fd = sorted(taken)[choice % len(taken)]
            close_fd(world, fd)
            taken.remove(fd)


@given(
    st.lists(st.integers(3, N_FDS - 1), unique=True),
    st.integers(0, N_FDS - 1),
    st.integers(3, 10),
    st.integers(0, 9),
)
def test_the_rank_tree_counts_what_lies_below(
    single: list[int], fd: int, first: int, length: int
) -> None:
    watched = set(range(first, first + length))
    tree = [0] * (N_FDS + 1)
    rank_fill(tree, first, first + length)
    for other in set(single) - watched:
        rank_add(tree, other, 1)
    for other in watched & set(single):
        rank_add(tree, other, -1)
    watched ^= set(single)
    assert rank_below(tree, fd) == sum(other < fd for other in watched)


class NaiveReadyList:
    """A Python list that is searched: the order and content that the ring must have."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def take(self, world: World, n_max: int) -> tuple[list[int], int]:
        events: list[int] = []
        vain = 0
        for _ in range(len(self.fds)):
            if len(events) == n_max:
                break
            fd = self.fds.pop(0)
            if is_ready(world, fd):
                events.append(fd)
                self.fds.append(fd)
            else:
                vain += 1
        return events, vain


ACTIONS = st.tuples(
    st.sampled_from(["add", "drop", "change", "ready", "calm", "take"]),
    st.integers(0, 6),
    st.integers(1, 4),
)


@settings(max_examples=300)
@given(st.lists(ACTIONS, max_size=120))
def test_the_ready_list_is_a_queue_with_reinsertion(actions: list[tuple[str, int, int]]) -> None:
    world = empty_world()
    naive = NaiveReadyList()
    for action, fd, n_max in actions:
        watched = world.interest[fd] != 0
        if action == "add" and not watched:
            add_interest(world, world.sets[0], fd, READABLE)
        elif action == "drop" and watched:
            drop_interest(world, world.sets[0], fd)
            naive.fds = [other for other in naive.fds if other != fd]
        elif action == "change" and watched:
            change_interest(world, world.sets[0], fd, READABLE + WRITABLE - world.interest[fd])
        elif action == "ready":
            world.state[fd] = READABLE
            if is_ready(world, fd):
                list_ready(world, world.sets[0], fd)
        elif action == "calm":
            world.state[fd] = 0
        elif action == "take":
            vain = take_ready(world, world.workers[0], n_max)
            events, expected_vain = naive.take(world, n_max)
            assert world.workers[0].event_fd[: world.workers[0].n_events] == events
            assert vain == expected_vain
            continue
        if is_ready(world, fd) and fd not in naive.fds and action != "calm":
            naive.fds.append(fd)
