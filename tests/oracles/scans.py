"""What select and poll do, from select(2), poll(2) and Linux fs/select.c.

do_select() and do_poll() look at one descriptor after the other, those of select by number, those
of poll by place in the array. The first round enters the wait queue of each, __pollwait(), up to
the first descriptor that is ready (`pt->_qproc = NULL`). An entry that is woken sets `triggered`:
poll_schedule_timeout() then does not sleep. Later rounds enter nothing. At the end poll_freewait()
leaves all queues.

Left out, as the model prices a round when it begins: what becomes ready before its look in the
first round would end the entering there, too.
"""

from __future__ import annotations

from tests.oracles.machine import Oracle


class Select(Oracle):
    """select: in order of the descriptors."""

    counted = Oracle.counted | {"registered", "scanned"}

    def start(self) -> None:
        """Begin with the listener alone."""
        super().start()
        self.array = [0]
        self.looked: set[int] = set()  # in this round
        self.triggered = False

    def add(self, fd: int, bits: int) -> None:
        """Set the bit: no call."""
        self.interest[fd] = bits
        self.array.append(fd)

    def change(self, fd: int, bits: int) -> None:
        """Set the bit in the other set: no call."""
        self.interest[fd] = bits

    def remove(self, fd: int) -> None:
        """Clear the bit; of an array the last entry fills the place."""
        del self.interest[fd]
        place = self.array.index(fd)
        self.array[place] = self.array[-1]
        self.array.pop()

    def order(self) -> list[int]:
        """Return all that is watched as it is looked at."""
        return sorted(self.array)

    def entering_ns(self) -> int:
        """Return what the call takes before its first look: bitmaps up to the highest number."""
        n_open = self.first_fd + len(self.state)
        return self.cost["call_ns"] + self.cost["bitmap"] * n_open

    first_fd = 3  # of the listener: three are open before

    def arrives(self, fd: int, bits: int) -> int:
        """Wake what is on the wait queue of *fd*, if it waits for that."""
        if bits & self.interest.get(fd, 0):
            if fd in self.looked:
                self.triggered = True
            self.wake()
        return 0

    def wait(self) -> list[int]:
        """Look at all, and sleep and look again until one is ready."""
        order = self.order()
        if self.story.options.get("array_rebuilt"):
            self.spend(self.cost["rebuild"] * len(order))
        ready = [self.flags(fd) != 0 for fd in order]
        n_entered = ready.index(True) if any(ready) else len(order)
        self.counts["registered"] += n_entered
        self.spend(self.entering_ns())
        found = self.look_at(order, n_entered)
        while not found:
            if not self.triggered:
                self.sleep()
            found = self.look_at(order, 0)
        n_read = order.index(found[-1])
        leaves_ns = self.cost["release"] * n_entered + self.cost["event_ns"] * len(found)
        self.spend(leaves_ns + self.cost["read_back"] * n_read)
        return found

    def look_at(self, order: list[int], n_entered: int) -> list[int]:
        """Look at each of *order*, entering the queues of so many; return those that are ready."""
        found = []
        self.triggered = False
        self.counts["scanned"] += len(order)
        for place, fd in enumerate(order):
            if self.flags(fd):
                found.append(fd)
            self.looked.add(fd)
            enters_ns = self.cost["register"] if place < n_entered else 0
            self.spend(self.cost["scan"] + enters_ns)
        self.looked.clear()
        return found


class Poll(Select):
    """poll: in order of the array."""

    def order(self) -> list[int]:
        """Return all that is watched as it is looked at."""
        return list(self.array)

    def entering_ns(self) -> int:
        """Return what the call takes before its first look: the copy is part of the scan."""
        return self.cost["call_ns"]
