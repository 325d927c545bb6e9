"""What an engine receives: a mechanism, the program that uses it, and the steps of both.

A program is a generator of steps: how much CPU time, and what for. `yield from spend(worker,
activity.READ, cost_ns)` is the step of one system call, or of a piece of user code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import FrameType
from typing import Any, NamedTuple, get_type_hints

from .columns import DeclaredColumn, MakeColumn, n_entries
from .settings import RunSettings
from .world import InterestSet, Worker, World

MakeMemory = Callable[[RunSettings, int, MakeColumn], Any]
"""(settings, descriptors, how columns are made) -> dataclass of integers, columns and the like."""


@dataclass(slots=True, eq=False)
class NoMemory:
    """The memory of a mechanism that keeps nothing besides the interest set."""


def no_memory(settings: RunSettings, n_fds: int, column: MakeColumn) -> NoMemory:
    """Return nothing to keep."""
    del settings, n_fds, column
    return NoMemory()


def kept(record: Any) -> MakeMemory:
    """Return what makes *record*, whose columns are declared: an entry a descriptor, or a ring.

    A field that is a record is made likewise; others have their first values.
    """

    def memory(settings: RunSettings, n_fds: int, column: MakeColumn) -> Any:
        values: dict[str, Any] = {}
        kinds = get_type_hints(record)
        for each in fields(record):
            declared: DeclaredColumn | None = each.metadata.get("column")
            if declared is not None:
                n = n_entries(declared.per, n_fds)
                values[each.name] = column(n, declared.first, declared.dtype)
            elif is_dataclass(kinds[each.name]):
                values[each.name] = kept(kinds[each.name])(settings, n_fds, column)
        return record(**values)

    return memory


def no_more_ns(world: World, fd: int) -> int:
    """Return 0: nothing is done besides."""
    return 0


def not_noted(world: World, interests: InterestSet, fd: int, interest: int) -> None:
    """Ignore that a call would have blocked: the kernel reports states, not changes."""


def is_listed(world: World, fd: int) -> bool:
    """Return whether *fd* is on the ready list."""
    return world.listed[fd] != 0


class Trait(Enum):
    """What sets a mechanism apart, besides its functions."""

    IN_EPOLL = "its sets are epoll's, which bounds all of them together"
    IN_KERNEL = "the server is part of the kernel: no call crosses, and it sees its queues"
    IN_CALLS = """threads sleep in the calls on their descriptors: they have one listener and one
        set in common, and at most one descriptor each in hand, `Worker.event_fd`"""
    BY_PORT = """threads take what is ready from one queue, one at a time: they have one listener
        and one set in common, too"""
    BY_SIGNALS = "queued signals report its events; the listener can be handed on, to their owner"
    ONE_SHOT = "a connection that was returned is watched no longer until the server rewatches it"
    SHARES_READY_LIST = """threads may wait on one set, as the kernel keeps its ready list between
        calls"""
    WAKES_ONE = "a new connection may wake one waiting worker only (EPOLLEXCLUSIVE; accept)"


class Mechanism(NamedTuple):
    """How a server learns which of its descriptors are ready: the same functions for each.

    A function that takes CPU time is a generator of steps. It spends the time of its system call,
    and then has the effect of that call: `yield from spend(worker, activity.WATCH, cost_ns)`.

    Attributes
    ----------
    name:
        As on the command line and in profiles.
    fds:
        How many descriptors the mechanism itself takes, for each interest set.
    watch:
        (world, worker, fd, interest) -> steps: declare an interest in *fd*. A kernel that has no
        room (ENOSPC) leaves *fd* unwatched. It is also called before time 0, for listeners and
        timers, when its steps cost nothing.
    rewatch:
        (world, worker, fd, interest) -> steps: change the interest, or declare it again.
    unwatch:
        (world, worker, fd) -> steps: withdraw the interest.
    watch_idle:
        (world, interests, first_fd, end_fd) -> None: idle connections are being watched already.
    notify:
        (world, fd) -> whether a worker was woken: the kernel's callback, in interrupt context.
        `world.news[fd]` is what happened to *fd*, which may have been in that state before.
    wait:
        (world, worker) -> steps, SLEEP among them; leaves its events in `worker.event_fd`.
    memory:
        Makes what the mechanism keeps for an interest set besides that: `interests.own`.
    blocked:
        (world, interests, fd, interest) -> None: a call on *fd* would have blocked. A server that
        is notified of changes must remember that, one that is notified of states need not.
    close_ns:
        (world, fd) -> CPU time that close() takes longer, for queued reports of *fd* before the
        interest is withdrawn.
    tells:
        (world, fd) -> whether the server will be notified of *fd*, which is ready. A ready
        descriptor of which it will not be notified is stranded.
    pass_ns:
        (world, fd) -> CPU time of handing the listener to another worker.
    traits:
        What sets it apart besides these functions.
    watch_memory:
        The field of `MemorySettings` that a watched descriptor takes; empty: nothing is known.
    """

    name: str
    fds: int
    watch: Callable[[World, Worker, int, int], Iterator[int]]
    rewatch: Callable[[World, Worker, int, int], Iterator[int]]
    unwatch: Callable[[World, Worker, int], Iterator[int]]
    watch_idle: Callable[[World, InterestSet, int, int], None]
    notify: Callable[[World, int], bool]
    wait: Callable[[World, Worker], Iterator[int]]
    memory: MakeMemory = no_memory
    blocked: Callable[[World, InterestSet, int, int], None] = not_noted
    close_ns: Callable[[World, int], int] = no_more_ns
    tells: Callable[[World, int], bool] = is_listed
    pass_ns: Callable[[World, int], int] = no_more_ns
    traits: frozenset[Trait] = frozenset()
    watch_memory: str = ""

    @property
    def one_at_a_time(self) -> bool:
        """Whether its workers are threads with at most one descriptor each in hand."""
        return not self.traits.isdisjoint((Trait.IN_CALLS, Trait.BY_PORT))


class Program(NamedTuple):
    """A server program, or a client, on a mechanism: what an engine runs.

    Attributes
    ----------
    serve:
        (world, worker) -> iterator of the CPU time, in ns, of each step; SLEEP blocks it.
    mechanism:
        What it waits with.
    memory:
        Makes what the program keeps for a worker: `worker.own`.
    calls:
        Whether it opens the connections of the trace itself (sim/kernel/calling.py): a client,
        which has no listener.
    asks_backend:
        Whether its requests may wait for a backend (sim/kernel/backend_connections.py).
    """

    serve: Callable[[World, Worker], Iterator[int]]
    mechanism: Mechanism
    memory: MakeMemory = no_memory
    calls: bool = False
    asks_backend: bool = False


def spend(worker: Worker, activity: int, cost_ns: int) -> Iterable[int]:
    """Spend *cost_ns* of CPU time on *activity*: one step, or none if it costs nothing."""
    if cost_ns <= 0:
        if cost_ns < 0:
            raise _error(sys._getframe(1), cost_ns)
        return ()
    worker.activity = activity
    # A tuple, not a generator: Python walks through it in half the time.
    return (cost_ns,)


def step(worker: Worker, activity: int, cost_ns: int) -> Iterable[int]:
    """Spend *cost_ns* of CPU time on *activity* in a step, even if it is 0.

    What is due at this nanosecond then happens before the next line: a wait that costs nothing
    still finds it.
    """
    worker.activity = activity
    return (cost_ns,)


def step_error(program: Any, step_ns: object) -> ValueError:
    """Return what is wrong with a step that the generator *program*, or one in it, has yielded."""
    while hasattr(inner := program.gi_yieldfrom, "gi_yieldfrom"):
        program = inner
    return _error(program.gi_frame, step_ns)


def _error(frame: FrameType, step_ns: object) -> ValueError:
    code = frame.f_code
    cures = {int: "take max(0, ...) of it", float: "divide with //, or round() it"}
    cure = cures.get(type(step_ns), "convert it by int()")
    return ValueError(
        f"{code.co_qualname} ({code.co_filename}, line {frame.f_lineno}): a step must be a whole "
        f"number (int) of nanoseconds, at least 0, got {step_ns!r}: {cure}"
    )
