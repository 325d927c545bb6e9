"""What an engine receives: a mechanism, and the server program that uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .interest_set import InterestSet
from .processor import Worker
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
        (world, interests, fd[, interest]) -> None: their effect, when the time has been spent.
    watch_idle:
        (world, interests, first_fd, end_fd) -> None: idle connections are being watched already.
    notify:
        (world, fd) -> whether a worker was woken: the kernel's callback, in interrupt context.
    wait:
        (world, worker) -> iterator of CPU times in ns and SLEEP; leaves its events to the worker.
    """

    name: str
    open: Callable[[World], None]
    watch_ns: Callable[[World], int]
    watch: Callable[[World, InterestSet, int, int], None]
    rewatch_ns: Callable[[World], int]
    rewatch: Callable[[World, InterestSet, int, int], None]
    unwatch_ns: Callable[[World], int]
    unwatch: Callable[[World, InterestSet, int], None]
    watch_idle: Callable[[World, InterestSet, int, int], None]
    notify: Callable[[World, int], bool]
    wait: Callable[[World, Worker], Iterator[int]]


class Program(NamedTuple):
    """A server program on a mechanism: what an engine runs.

    Attributes
    ----------
    serve:
        (world, worker) -> iterator of the CPU time, in ns, of each step; SLEEP blocks it.
    mechanism:
        What it waits with.
    """

    serve: Callable[[World, Worker], Iterator[int]]
    mechanism: Mechanism
