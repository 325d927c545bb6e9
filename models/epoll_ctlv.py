"""A vectored epoll_ctl: the kernel is told of all changes of a loop by one call before the wait.

    ADD, MOD ──► changes ──epoll_ctlv──► kernel ──epoll_wait──► events
    DEL ─────────────────────epoll_ctl─► kernel

What is saved is the way into the kernel, entry_ns, not the work on each descriptor. Deleting takes
a call of its own, as the descriptor is closed before the next loop.
Never merged into Linux. Source: Gammo et al. 2004, §3.4; calibration/servers/epoll_ctlv.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..sim.columns import MakeColumn
from ..sim.containers import fill
from ..sim.interest_set import (
    InterestSet,
    drop_interest,
    is_ready,
    list_ready,
    set_of,
    wake_one,
)
from ..sim.jitable import inlined, jitable
from ..sim.mechanism import Mechanism, no_call_ns
from ..sim.processor import Worker
from ..sim.settings import ServerSettings
from ..sim.world import World
from .changes import Changes, change, is_told, no_changes, telling, tells, withdraw, withdraw_ns
from .epoll_level import wait as wait_for_states


class EpollCtlvCosts(NamedTuple):
    """CPU time of epoll with a vectored epoll_ctl: entry_ns a vector, add_ns, modify_ns in it."""

    call_ns: int
    event_ns: int
    recheck_ns: int
    entry_ns: int
    add_ns: int
    modify_ns: int
    delete_ns: int


@dataclass(slots=True, eq=False)
class CtlvMemory:
    """What the kernel has not been told yet."""

    changes: Changes


def memory(server: ServerSettings, n_fds: int, column: MakeColumn) -> CtlvMemory:
    """Return an empty list of changes."""
    del server
    return CtlvMemory(no_changes(n_fds, column))


@inlined
def unwatch(world: World, interests: InterestSet, fd: int) -> None:
    """Take *fd* off the list of changes, out of the tree and off the ready list."""
    drop_interest(world, interests, fd)
    withdraw(world, interests, fd)


@jitable
def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree, as the kernel was told long ago."""
    fill(interests.own.changes.told, first_fd, end_fd, 1)


@inlined
def notify(world: World, fd: int) -> bool:
    """Put *fd* on the ready list and wake the server; nothing if the kernel was not told of it."""
    if not is_told(world, fd) or not is_ready(world, fd):
        return False
    interests = set_of(world, fd)
    list_ready(world, interests, fd)
    return wake_one(world, interests)


tell_changes = telling(lists_all=False)


@jitable
def wait(world: World, worker: Worker) -> Iterator[int]:
    """Yield the CPU time of one epoll_ctlv, if there is something to tell, and one epoll_wait."""
    for cost_ns in tell_changes(world, worker):
        yield cost_ns
    for cost_ns in wait_for_states(world, worker):
        yield cost_ns


EPOLL_CTLV = Mechanism(
    "epoll_ctlv",
    1,
    no_call_ns,
    change,
    no_call_ns,
    change,
    withdraw_ns,
    unwatch,
    watch_idle,
    notify,
    wait,
    memory,
    tells=tells,
    in_epoll=True,
)
