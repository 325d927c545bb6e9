"""A vectored epoll_ctl: one call before the wait declares all changes of a loop.

    ADD, MOD ──► changes ──epoll_ctlv──► kernel ──epoll_wait──► events
    DEL ─────────────────────epoll_ctl─► kernel

It saves the crossing into the kernel, entry_ns, but not the work on each descriptor. A deletion
needs its own call, as the descriptor is closed before the next loop.
Never merged into Linux. Source: Gammo et al. 2004, §3.4; calibration/c/servers/epoll_ctlv.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ...sim.state.columns import fill
from ...sim.state.mechanism import Mechanism, Trait, kept
from ...sim.state.world import InterestSet, Worker, World
from ..entry import CSupport, entry
from ..remembering.changes import (
    Changes,
    declaring,
    is_told,
    rewatch,
    tells,
    unwatch,
    watch,
)
from .epoll_level import notify as notify_of_state
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
    """The changes that the kernel does not have yet."""

    changes: Changes


def watch_idle(world: World, interests: InterestSet, first_fd: int, end_fd: int) -> None:
    """Have a range of descriptors in the tree since before the run."""
    fill(interests.own.changes.told, first_fd, end_fd, 1)


def notify(world: World, fd: int) -> bool:
    """Put *fd* on the ready list and wake the server, if *fd* is in the kernel's set."""
    return is_told(world, fd) and notify_of_state(world, fd)


declare_changes = declaring(lists_all=False)


def wait(world: World, worker: Worker) -> Iterator[int]:
    """Call epoll_ctlv, if there is a change to declare, and epoll_wait."""
    yield from declare_changes(world, worker)
    yield from wait_for_states(world, worker)


EPOLL_CTLV = Mechanism(
    "epoll_ctlv",
    fds=1,
    watch=watch,
    rewatch=rewatch,
    unwatch=unwatch,
    watch_idle=watch_idle,
    notify=notify,
    wait=wait,
    memory=kept(CtlvMemory),
    tells=tells,
    traits=frozenset({Trait.IN_EPOLL, Trait.WAKES_ONE}),
    watch_memory="epoll_bytes",
)

ENTRIES = (
    entry(
        __name__,
        EPOLL_CTLV,
        EpollCtlvCosts,
        "Gammo et al. 2004, §3.4",
        wait_call="epoll_wait",
        c_support=CSupport.INSERTED,
        words={
            "add_ns": "one descriptor added, in a vector",
            "modify_ns": "one change of what is wanted, in a vector",
        },
    ),
)
