"""A mechanism of one's own, *newest first*: `python newest_first.py` runs it on both engines.

The kernel keeps a stack of descriptors that became ready, and a wait takes the last. Who serves
the newest first gives most clients a short wait, and a few a very long one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import dispatchsim as ds
from dispatchsim.models.entry import entry
from dispatchsim.sim.kernel.interest_set import (
    add_interest,
    change_interest,
    drop_interest,
    is_ready,
    set_of,
    wake_one,
)
from dispatchsim.sim.kernel.sleeping import sleep
from dispatchsim.sim.state.columns import MakeColumn
from dispatchsim.sim.state.kinds import NONE, activity, count
from dispatchsim.sim.state.mechanism import Mechanism, spend
from dispatchsim.sim.state.settings import RunSettings
from dispatchsim.sim.state.world import InterestSet, Worker, World


class NewestCosts(NamedTuple):
    """CPU time of a wait, and of watching a descriptor."""

    call_ns: int
    add_ns: int = 0


@dataclass(slots=True, eq=False)
class Stack:
    """Descriptors that became ready; `on_stack` marks them."""

    fds: list[int]
    on_stack: list[int]
    n: int = 0


def memory(settings: RunSettings, n_fds: int, column: MakeColumn) -> Stack:
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

ENTRIES = (
    entry(
        __name__,
        NEWEST_FIRST,
        NewestCosts,
        "docs/how-to/write-a-mechanism.md",
        wait_call="take_newest",
        about="Newest first: a wait returns the descriptor that became ready last.",
        words={"call_ns": "a wait, with the descriptor that it returns"},
        borrowed={"call_ns": ("epoll_level.call_ns",), "add_ns": ("epoll_level.add_ns",)},
    ),
)
"""What the catalogue wants to know, once this is a built-in mechanism."""


def main() -> None:
    """Serve 5,000 connections a second beside 100 idle ones, on both engines."""
    trace = ds.open_loop(rate_per_s=5_000, seconds=0.2, seed=1)
    # Interrupts, accepts and requests cost what they cost on a measured machine; only what this
    # mechanism's own calls take is not in its profile.
    measured = ds.example_profile().costs("epoll_level", open_connections=100)
    costs = measured._replace(mechanism=NewestCosts(call_ns=700, add_ns=400))
    settings = ds.RunSettings(
        client=ds.ClientSettings(idle=100), duration_ns=200_000_000, warm_up_ns=20_000_000
    )
    reference = ds.simulate(NEWEST_FIRST, trace, costs, settings, engine="reference")
    fast = ds.simulate(NEWEST_FIRST, trace, costs, settings, engine="fast")
    print("equal on both engines:", fast.same_as(reference))
    latency = ds.summarise(fast).latency_ns
    print(f"latency: median {latency.p50 / 1e3:.1f} us, p99 {latency.p99 / 1e3:.1f} us")


if __name__ == "__main__":
    main()
