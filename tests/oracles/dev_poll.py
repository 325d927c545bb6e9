"""What /dev/poll does, from Provos and Lever 2000, §3, and poll(7D) of Solaris 8.

A write() replaces the interests that the kernel holds, on Solaris it adds to them. ioctl(DP_POLL)
walks through all items in the order in which they were added, and asks the driver of those that it
was hinted at or that were ready last time. dp_nfds bounds the results; a scan that reached the
bound goes on behind its last result the next time.

A hint that comes when the scan has passed its item is for the next scan. Left out: that the scan
had asked about the item then, if it was ready the last time.
"""

from __future__ import annotations

from tests.oracles.machine import IN, Oracle
from tests.oracles.remembering import Changes


class DevPoll(Oracle):
    """With hints by all drivers."""

    counted = Oracle.counted | {"updates", "scanned", "rechecked", "notices_unwanted"}
    hinted = True

    def start(self) -> None:
        """Begin with a listener that is yet to be written."""
        super().start()
        self.changes = Changes()
        self.changes.note(0)
        self.held = {0: IN}
        self.items = [0]
        self.to_ask: set[int] = set()
        self.passed: set[int] = set()
        self.late: set[int] = set()
        self.has_hint = False

    def arrives(self, fd: int, bits: int) -> int:
        """Take a hint of a driver."""
        if fd in self.changes.told and bits & self.held.get(fd, 0):
            self.has_hint = True
            self.to_ask.add(fd)
            if fd in self.passed and not self.before & self.held[fd]:
                self.late.add(fd)
            self.wake()
        return 0

    def add(self, fd: int, bits: int) -> None:
        """Note a change; the item will be the last."""
        self.interest[fd] = self.held[fd] = bits
        self.items.append(fd)
        self.changes.note(fd)

    def change(self, fd: int, bits: int) -> None:
        """Note a change: no call."""
        self.interest[fd] = self.held[fd] = bits
        self.changes.note(fd)

    def remove(self, fd: int) -> None:
        """write(POLLREMOVE) of what the kernel knows."""
        if fd in self.changes.told:
            self.counts["updates"] += 1
            self.spend(self.cost["delete_ns"])
        self.changes.forget(fd)
        self.items.remove(fd)
        self.to_ask.discard(fd)
        self.late.discard(fd)
        del self.interest[fd], self.held[fd]

    def write(self) -> None:
        """write() of all changes; each item is asked about in the next scan."""
        if self.changes.list:
            self.counts["updates"] += 1
            n_known = sum(fd in self.changes.told for fd in self.changes.list)
            n_new = len(self.changes.list) - n_known
            new_ns, known_ns = n_new * self.cost["add_ns"], n_known * self.cost["modify_ns"]
            self.spend(self.cost["entry_ns"] + new_ns + known_ns)
            self.to_ask.update(self.changes.take())

    def scan(self) -> None:
        """Walk through all items; what is hinted at behind is late."""
        self.counts["scanned"] += len(self.items)
        for fd in list(self.items):
            self.passed.add(fd)
            self.spend(self.cost["scan"])
        self.passed.clear()

    def ask(self) -> tuple[list[int], int]:
        """Return the results, and how many drivers were asked."""
        results: list[int] = []
        n_asked = 0
        for fd in self.items:
            if fd not in self.to_ask:
                continue
            if fd in self.late or len(results) == self.story.max_events:
                self.late.discard(fd)
                continue
            n_asked += 1
            if self.state[fd] & self.held[fd]:
                results.append(fd)
            else:
                self.to_ask.remove(fd)
        if len(results) == self.story.max_events:
            behind = self.items.index(results[-1]) + 1
            self.items = self.items[behind:] + self.items[:behind]
        if not self.hinted:
            n_asked = len(self.items)
        self.counts["rechecked"] += n_asked - len(results)
        return results, n_asked

    def wait(self) -> list[int]:
        """Write the changes, and call DP_POLL."""
        self.write()
        self.has_hint = False
        self.spend(self.cost["call_ns"])
        self.scan()
        results, n_asked = self.ask()
        while not results:
            self.spend(n_asked * self.cost["ask_ns"])
            if not self.has_hint:
                self.sleep()
            self.has_hint = False
            self.scan()
            results, n_asked = self.ask()
        events = [fd for fd in results if self.flags(fd)]
        self.counts["notices_unwanted"] += len(results) - len(events)
        results_ns = n_asked * self.cost["ask_ns"] + len(results) * self.cost["event_ns"]
        self.spend(results_ns if events else max(1, results_ns))
        return events


class DevPollUnhinted(DevPoll):
    """Where drivers give no hints each is asked."""

    hinted = False
