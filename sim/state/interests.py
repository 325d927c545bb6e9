"""A set of watched descriptors, and the list of those that may be ready."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .kinds import NONE


@dataclass(slots=True, eq=False)
class InterestSet:
    """One set of watched descriptors: epoll's instance, or what a program hands to select, poll."""

    number: int
    one_shot: bool
    ready: list[int]  # ring of at least D, a power of two
    waiters: list[int]  # stack of workers that block, or are about to
    own: Any  # what the mechanism itself keeps: `Mechanism.memory`
    n_watched: int = 0
    first_ready: int = 0
    n_ready: int = 0  # entries, stale ones among them
    n_stale: int = 0
    n_waiting: int = 0
    timer_fd: int = NONE  # of the timer that has the server look for late requests
