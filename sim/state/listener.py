"""A listening socket."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Listener:
    """One listening socket: its queues, and the descriptors that workers have of it."""

    number: int
    queue: list[int]  # ring of at least backlog + 2 connections, a power of two
    fds: list[int]  # one a worker that listens, shape (workers,)
    n_fds: int = 0
    owner: int = 0  # which of them is told of connections, where the listener is handed on
    first_queued: int = 0
    n_queued: int = 0
    n_half: int = 0
    empty_ns: int = 0  # when nobody waited to be accepted, the last time
