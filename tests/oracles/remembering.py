"""What a program remembers between its waits, from the C servers of calibration/c/servers.

readiness.c: a kernel that reports changes reports each once; the program keeps what was reported
until a call would block. changes.c: a program declares its changes together.
"""

from __future__ import annotations

from tests.oracles.machine import Oracle


class Remembering(Oracle):
    """A program that serves what is pending, and asks the kernel every second time at least."""

    counted = Oracle.counted | {"asks", "notices", "notices_unwanted"}

    def __init__(self, *story: object) -> None:
        self.known: dict[int, int] = {0: 0}
        self.pending: list[int] = []
        self.asks_first = False
        super().__init__(*story)  # type: ignore[arg-type]

    def flags(self, fd: int) -> int:
        """Return what of interest was reported of *fd*."""
        return self.known.get(fd, 0) & self.interest.get(fd, 0)

    def would_block(self, fd: int, bits: int) -> None:
        """Forget what was reported."""
        self.known[fd] = self.known.get(fd, 0) & ~bits

    def keep(self, fd: int) -> None:
        """Have *fd* pending if what was reported of it is of interest."""
        if self.flags(fd) and fd not in self.pending:
            self.pending.append(fd)

    def note(self, fd: int, bits: int) -> None:
        """Take a notice of the kernel."""
        self.counts["notices"] += 1
        if fd in self.interest:
            self.known[fd] = self.known.get(fd, 0) | bits
        if fd not in self.interest or not bits & self.interest[fd]:
            self.counts["notices_unwanted"] += 1
            return
        if fd not in self.pending:
            self.pending.append(fd)

    def nothing_pends(self) -> bool:
        """Return whether the program may block; drop from the front what is not wanted now."""
        while self.pending and not self.flags(self.pending[0]):
            self.pending.pop(0)
        return not self.pending

    def serve_pending(self) -> list[int]:
        """Return what is served now: each goes to the end, for its next turn."""
        events: list[int] = []
        for _ in range(len(self.pending)):
            if len(events) == self.story.max_events:
                break
            fd = self.pending.pop(0)
            if self.flags(fd):
                events.append(fd)
                if self.story.options.get("remembers", 1):
                    self.pending.append(fd)
        return events

    def ask(self) -> None:
        """Ask the kernel once."""
        raise NotImplementedError

    def wait(self) -> list[int]:
        """Wait for what can be served."""
        if self.asks_first:
            self.ask()
        events = self.serve_pending()
        while not events:
            self.ask()
            events = self.serve_pending()
        if not self.story.options.get("remembers", 1):
            for fd in events:
                self.known[fd] = 0
        self.asks_first = bool(self.story.options.get("remembers", 1))
        self.spend(len(events) * self.cost["event_ns"])
        return events


class Changes:
    """Changes that the kernel does not know; the last fills the place of one that is forgotten."""

    def __init__(self) -> None:
        self.list: list[int] = []
        self.told: set[int] = set()

    def note(self, fd: int) -> None:
        """Have *fd* declared with the next call."""
        if fd not in self.list:
            self.list.append(fd)

    def forget(self, fd: int) -> None:
        """Declare nothing of *fd*, which is about to be closed."""
        self.told.discard(fd)
        if fd in self.list:
            place, last = self.list.index(fd), self.list.pop()
            if last != fd:
                self.list[place] = last

    def take(self) -> list[int]:
        """Return all, which the kernel knows now."""
        taken, self.list = self.list, []
        self.told.update(taken)
        return taken
