"""Which thread epoll wakes of several that wait on one set, from Linux fs/eventpoll.c.

ep_poll() puts a thread at the head of the wait queue, __add_wait_queue_exclusive(): the last that
came is woken first. ep_poll_callback() wakes one, ep_done_scan() another one if a scan leaves items
on the list. A connection of a shared set is one-shot, a listener is level-triggered.
"""

from __future__ import annotations

from tests.oracles.machine import IN


class SharedList:
    """A set with its list, and threads that wait, or are awake."""

    def __init__(self, n_fds: int, n_threads: int, max_events: int) -> None:
        self.state = [0] * n_fds
        self.interest = [IN] * n_fds
        self.list: list[int] = []
        self.queue: list[int] = []  # of threads, the last that came is the last
        self.woken: set[int] = set()
        self.returned: dict[int, list[int]] = {number: [] for number in range(n_threads)}
        self.max_events = max_events

    def wake_one(self) -> None:
        """Wake the thread that came last."""
        if self.queue:
            self.woken.add(self.queue.pop())

    def link(self, fd: int) -> None:
        """ep_poll_callback(), or ep_modify() of what is ready."""
        if fd not in self.list:
            self.list.append(fd)
        self.wake_one()

    def arrives(self, fd: int) -> None:
        """Let *fd* become readable, or have more to read."""
        self.state[fd] |= IN
        if self.interest[fd]:
            self.link(fd)

    def used_up(self, fd: int) -> None:
        """Let a read take all."""
        self.state[fd] = 0

    def arms(self, fd: int) -> None:
        """EPOLL_CTL_MOD."""
        self.interest[fd] = IN
        if self.state[fd]:
            self.link(fd)

    def looks(self, thread: int) -> None:
        """Let *thread* wait, or go on in its wait: it returns events, or is on the queue."""
        self.woken.discard(thread)
        taken = self.list
        again: list[int] = []
        events: list[int] = []
        while taken and len(events) < self.max_events:
            fd = taken.pop(0)
            if self.state[fd] & self.interest[fd]:
                events.append(fd)
                if fd == 0:
                    again.append(fd)
                else:
                    self.interest[fd] = 0
        self.list = taken + again
        if self.list:
            self.wake_one()
        if not events:
            self.queue.append(thread)
        self.returned[thread] = events
