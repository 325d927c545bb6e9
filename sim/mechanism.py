"""What an engine receives: a mechanism, and the server program that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .world import World


class Mechanism(NamedTuple):
    """How a server learns which of its descriptors are ready: the same functions for each.

    Attributes
    ----------
    name:
        As on the command line and in profiles.
    open:
        Take the descriptors that the mechanism itself needs.
    watch_ns, rewatch_ns, unwatch_ns:
        (world) -> CPU time of declaring, changing and withdrawing an interest; 0: no system call.
    watch, rewatch, unwatch:
        (world, fd[, interest]) -> None: their effect, when the time has been spent.
    watch_idle:
        (world, first_fd, end_fd) -> None: the idle population is being watched already.
    notify:
        (world, fd) -> None: the kernel's wake-up callback, in interrupt context.
    wait:
        (world) -> iterator of CPU times in ns and SLEEP; leaves the events in the world.
    """

    name: str
    open: Callable[[World], None]
    watch_ns: Callable[[World], int]
    watch: Callable[[World, int, int], None]
    rewatch_ns: Callable[[World], int]
    rewatch: Callable[[World, int, int], None]
    unwatch_ns: Callable[[World], int]
    unwatch: Callable[[World, int], None]
    watch_idle: Callable[[World, int, int], None]
    notify: Callable[[World, int], None]
    wait: Callable[[World], Iterator[int]]


class Program(NamedTuple):
    """A server program on a mechanism: what an engine runs.

    Attributes
    ----------
    serve:
        (world) -> iterator of the CPU time, in ns, of each step; SLEEP blocks the server.
    mechanism:
        What it waits with.
    """

    serve: Callable[[World], Iterator[int]]
    mechanism: Mechanism
