"""A mechanism added as the README says: its state, its callback, its wait; on both engines.

"Newest first": the kernel keeps a stack of descriptors that became ready, and a wait takes the
last. (Who serves the newest first gives most clients a short wait, and a few a very long one.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from tests.toy import INTERRUPT, arrivals, toy_costs

from dispatchsim.models.simulate import simulate
from dispatchsim.sim.figures.stranded import NOBODY
from dispatchsim.sim.kernel.interest_set import (
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    set_of,
    wake_one,
)
from dispatchsim.sim.kernel.sleeping import sleep
from dispatchsim.sim.state import activity, count
from dispatchsim.sim.state.columns import MakeColumn
from dispatchsim.sim.state.costs import Costs
from dispatchsim.sim.state.interests import InterestSet
from dispatchsim.sim.state.kinds import NONE, Count
from dispatchsim.sim.state.mechanism import Mechanism
from dispatchsim.sim.state.settings import ClientSettings, RunSettings, ServerSettings
from dispatchsim.sim.state.spending import spend
from dispatchsim.sim.state.threads import Worker
from dispatchsim.sim.state.world import World


class NewestCosts(NamedTuple):
    """CPU time of a wait, and of watching a descriptor."""

    call_ns: int
    add_ns: int = 0


@dataclass(slots=True, eq=False)
class Stack:
    """Descriptors that became ready; `on_stack` says which."""

    fds: list[int]
    on_stack: list[int]
    n: int = 0


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> Stack:
    """Return an empty stack."""
    return Stack(column(n_fds, NONE, np.int32), column(n_fds, 0, np.int8))


def push(world: World, interests: InterestSet, fd: int) -> bool:
    """Put *fd* on the stack if it is ready and not there; return whether a worker was woken."""
    stack: Stack = interests.own
    if not is_ready(world, fd) or stack.on_stack[fd]:
        return False
    stack.on_stack[fd] = 1
    stack.fds[stack.n] = fd
    stack.n += 1
    return wake_one(world, interests)


def watch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Watch *fd*: a system call."""
    yield from spend(worker, activity.WATCH, world.costs.mechanism.add_ns)
    add_interest(world, worker.interests, fd, interest)
    push(world, worker.interests, fd)


def rewatch(world: World, worker: Worker, fd: int, interest: int) -> Iterator[int]:
    """Watch *fd* for something else: no call is made, so it costs nothing."""
    yield from spend(worker, activity.REWATCH, 0)
    change_interest(world, worker.interests, fd, interest)
    push(world, worker.interests, fd)


def unwatch(world: World, worker: Worker, fd: int) -> Iterator[int]:
    """Watch *fd* no longer: no call is made, so it costs nothing."""
    yield from spend(worker, activity.UNWATCH, 0)
    drop_interest(world, worker.interests, fd)
    stack: Stack = worker.interests.own
    kept = 0
    for i in range(stack.n):
        if stack.fds[i] != fd:
            stack.fds[kept] = stack.fds[i]
            kept += 1
    stack.n = kept
    stack.on_stack[fd] = 0


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Know nothing of idle connections."""


def notify(world: World, fd: int) -> bool:
    """Put *fd* on the stack."""
    return world.watched_by[fd] != NONE and push(world, set_of(world, fd), fd)


def tells(world: World, fd: int) -> bool:
    """Return whether *fd* is on the stack."""
    stack: Stack = set_of(world, fd).own
    return stack.on_stack[fd] != 0


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Wait once: it returns the newest descriptor that is still ready."""
    stack: Stack = worker.interests.own
    worker.n_events = 0
    world.counts[count.WAITS] += 1
    yield from spend(worker, activity.WAIT, world.costs.mechanism.call_ns)
    while worker.n_events == 0:
        if stack.n == 0:
            yield from sleep(world, worker)
        stack.n -= 1
        fd = stack.fds[stack.n]
        stack.on_stack[fd] = 0
        if is_ready(world, fd):
            worker.event_fd[0] = fd
            worker.n_events = 1
            world.counts[count.EVENTS] += 1


NEWEST_FIRST = Mechanism(
    "newest_first",
    fds=0,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait,
    memory=memory,
    tells=tells,
)


def newest_costs() -> Costs:
    return toy_costs("poll")._replace(mechanism=NewestCosts(70))


@pytest.mark.parametrize("workers", [1, 2])
def test_it_runs_on_both_engines_alike(workers: int) -> None:
    trace = arrivals(*range(10_000, 200_000, 1_700))
    run = RunSettings(
        server=ServerSettings(workers=workers, cpus=2),
        client=ClientSettings(idle=20),
        duration_ns=1_000_000,
        sample_every_ns=50_000,
    )
    reference = simulate(NEWEST_FIRST, trace, newest_costs(), run, engine="reference")
    fast = simulate(NEWEST_FIRST, trace, newest_costs(), run, engine="fast")
    assert reference.counts[Count.REPLIES] == len(trace)
    assert (reference.stranded == NOBODY).all()
    assert reference.same_as(fast)


def test_the_newest_is_served_first() -> None:
    # All four are accepted in one go; their requests came in order, and are answered backwards.
    four = arrivals(*[10_000] * 4)
    run = RunSettings(duration_ns=60_000, sample_every_ns=0)
    outcome = simulate(NEWEST_FIRST, four, newest_costs(), run, engine="reference")
    assert outcome.reply_ns.tolist() == sorted(outcome.reply_ns.tolist(), reverse=True)
    assert outcome.reply_ns.min() > 10_000 + INTERRUPT.idle_exit_ns
