"""What polls through the AIO ring do, from io_submit(2) and Linux fs/aio.c.

aio_poll() asks the file and completes at once what is ready; else aio_poll_wake() completes it, if
it is asked for, `mask & req->events`. A poll is over with its event. The ring is first in, first
out, and read without a call; io_getevents() sleeps while it is empty, read_events().
"""

from __future__ import annotations

from hypothesis import reject
from tests.oracles.machine import IN, Oracle
from tests.oracles.remembering import Changes


class AioPoll(Oracle):
    """One io_submit before each wait, of all that is wanted anew."""

    counted = Oracle.counted | {"updates", "asks"}

    def start(self) -> None:
        """Begin with a poll of the listener that is yet to be submitted."""
        super().start()
        self.changes = Changes()
        self.changes.note(0)
        self.ring: list[int] = []

    def arrives(self, fd: int, bits: int) -> int:
        """aio_poll_wake(): complete the poll of *fd*, which is taken down."""
        if fd not in self.changes.told or not bits & self.interest.get(fd, 0) or fd in self.ring:
            return 0
        self.ring.append(fd)
        self.wake()
        return self.cost["post_ns"]

    def add(self, fd: int, bits: int) -> None:
        """Have a poll of *fd* submitted before the next wait."""
        self.interest[fd] = bits
        self.changes.note(fd)

    def change(self, fd: int, bits: int) -> None:
        """Do the same. A server changes its interest only once the last poll is over.

        A poll that is under way keeps its events: it would have to be cancelled.
        """
        if fd in self.changes.told:
            reject()
        self.add(fd, bits)

    def remove(self, fd: int) -> None:
        """Leave it to close()."""
        del self.interest[fd]
        self.changes.forget(fd)
        if fd in self.ring:
            self.ring.remove(fd)

    def wait(self) -> list[int]:
        """io_submit(), and io_getevents() if the ring is empty."""
        if not self.interest[0]:
            self.add(0, IN)
        wanted = self.changes.list
        if wanted:
            self.counts["updates"] += 1
            n_ready = sum(self.flags(fd) != 0 for fd in wanted)
            polls_ns = len(wanted) * self.cost["add_ns"] + n_ready * self.cost["ready_ns"]
            self.spend(self.cost["entry_ns"] + polls_ns)
            for fd in self.changes.take():
                if self.flags(fd) and fd not in self.ring:
                    self.ring.append(fd)
        if not self.ring:
            self.counts["asks"] += 1
            self.spend(self.cost["call_ns"])
            while not self.ring:
                self.sleep()
                self.spend(self.cost["woken_ns"])
        events, self.ring = self.ring[: self.story.max_events], self.ring[self.story.max_events :]
        for fd in events:
            self.interest[fd] = 0
            self.changes.told.discard(fd)
        self.spend(len(events) * self.cost["event_ns"])
        return events
