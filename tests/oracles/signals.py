"""What queued signals do, from signal(7), sigwaitinfo(2), fcntl(2) and the kernel's sources.

send_sigio_to_task() (fs/fcntl.c) queues one entry an event; __send_signal_locked()
(kernel/signal.c) loses it at RLIMIT_SIGPENDING and sends SIGIO, which legacy_queue() keeps once.
next_signal() takes the lowest number first, and SIGIO is lower than all real-time signals; one
number is first in, first out. Entries outlive the descriptor that they report. signal-per-fd keeps
one entry a descriptor (Chandra and Mosberger 2001, §5).
"""

from __future__ import annotations

from tests.oracles.machine import IN, OUT
from tests.oracles.remembering import Remembering

NOTHING, POLL, POLL_UNTIL_CALM, POLL_FOR_EVER = range(4)
"""What follows a loss (Chandra and Mosberger 2001, §4.1; Provos and Lever 2000, §5)."""


class RtSignals(Remembering):
    """sigwaitinfo: one signal a call."""

    counted = Remembering.counted | {
        *("overflows", "scanned", "signals_lost", "signals_merged"),
        *("signals_queued", "signal_queue_max"),
    }
    at_once = 1
    per_descriptor = False
    own_fds = 0  # between the listener and the connections

    def start(self) -> None:
        """Begin with the listener armed, and nothing reported: it may be ready."""
        super().start()
        self.option = self.story.options
        self.queue: list[tuple[int, int]] = []
        self.sigio = self.polls = False
        self.known[0] = IN | OUT
        self.keep(0)

    def number_of(self, fd: int) -> int:
        """Return which of the signal numbers reports *fd*."""
        return (3 + fd + (self.own_fds if fd else 0)) % self.option.get("signal_numbers", 1)

    def arrives(self, fd: int, bits: int) -> int:
        """Queue a signal, unless *fd* is not armed."""
        if fd not in self.interest:
            return 0
        if self.polls:
            self.wake()
        if self.per_descriptor and any(queued == fd for queued, _ in self.queue):
            self.counts["signals_merged"] += 1
            return self.cost["merged_ns"]
        n_queued = len(self.queue) + self.option.get("signals_elsewhere", 0)
        if n_queued >= self.option.get("signal_queue", 1024):
            self.counts["signals_lost"] += 1
            self.sigio = True
            self.wake()
            return self.cost["lost_ns"]
        self.queue.append((fd, IN | OUT if self.per_descriptor else bits))
        self.counts["signal_queue_max"] = max(self.counts["signal_queue_max"], len(self.queue))
        self.counts["signals_queued"] += 1
        self.wake()
        return self.cost["queue_ns"]

    def dequeue(self) -> tuple[int, int]:
        """Take the first of the lowest number."""
        lowest = min(self.number_of(fd) for fd, _ in self.queue)
        place = next(i for i, (fd, _) in enumerate(self.queue) if self.number_of(fd) == lowest)
        self.counts["signals_queued"] -= 1
        return self.queue.pop(place)

    def keeping_ns(self) -> int:
        """Return what a change of the array for poll takes."""
        return self.cost["keep_ns"] if self.option.get("recovery_array_kept") else 0

    def add(self, fd: int, bits: int) -> None:
        """F_SETSIG, F_SETOWN, O_ASYNC: what came before is not reported, so it may be ready."""
        self.spend(self.cost["arm_ns"] + self.keeping_ns())
        self.interest[fd] = bits
        self.known[fd] = IN | OUT
        self.keep(fd)

    def change(self, fd: int, bits: int) -> None:
        """Want something else: no call."""
        self.interest[fd] = bits
        self.keep(fd)

    def remove(self, fd: int) -> None:
        """Leave it to close(); queued signals stay."""
        self.spend(self.keeping_ns())
        del self.interest[fd]
        self.known[fd] = 0

    def ask(self) -> None:
        """Take signals, or poll."""
        self.counts["asks"] += 1
        blocks = self.nothing_pends()
        if self.polls:
            self.ask_by_poll(blocks)
            return
        self.spend(self.cost["call_ns"])
        while blocks and not self.queue and not self.sigio:
            self.sleep()
        if 0 < self.option.get("poll_above", 0) <= len(self.queue):
            self.polls = True
        lost = self.sigio and not (self.queue and self.option.get("overflow_told_last"))
        n_taken = 0
        if lost:
            self.counts["overflows"] += 1
            self.sigio = False
            n_taken = 1
        room = min(self.at_once, self.story.max_events) if self.at_once > 1 else 1
        while self.queue and n_taken < room:
            self.note(*self.dequeue())
            n_taken += 1
        self.spend(n_taken * self.cost["signal_ns"])
        if lost and self.option.get("recovery", POLL) != NOTHING:
            self.recover()

    def recover(self) -> None:
        """Flush the queue, and poll all."""
        self.spend(self.cost["flush_ns"] + len(self.queue) * self.cost["discard_ns"])
        self.queue.clear()
        self.counts["signals_queued"] = 0
        self.sigio = False
        if self.option.get("recovery", POLL) == POLL:
            self.poll_all()
        else:
            self.polls = True

    def poll_all(self) -> int:
        """poll(2) of all that is watched; return how many are ready."""
        n = len(self.interest)
        self.counts["scanned"] += n
        kept_ns = self.cost["rebuild"] * n if self.option.get("recovery_array_kept") else 0
        self.spend(max(0, self.cost["poll"] * n - kept_ns))
        ready = [fd for fd in sorted(self.interest) if self.state[fd] & self.interest[fd]]
        for fd in ready:
            self.known[fd] = self.known.get(fd, 0) | self.state[fd]
            self.keep(fd)
        return len(ready)

    def ask_by_poll(self, blocks: bool) -> None:
        """Poll until it is calm."""
        n_ready = self.poll_all()
        is_calm = n_ready < self.option.get("calm_below", 1)
        if is_calm and self.option.get("recovery", POLL) != POLL_FOR_EVER:
            self.polls = False
            return
        while blocks and n_ready == 0:
            self.sleep()
            n_ready = self.poll_all()


class SignalPerFd(RtSignals):
    """At most one entry a descriptor, which stands for all that happened to it."""

    per_descriptor = True


class Sigtimedwait4(RtSignals):
    """Many signals a call (Provos, Lever and Tweedie 2000, §3)."""

    at_once = 500
    own_fds = 1


class Signalfd(Sigtimedwait4):
    """signalfd(2): the same by read, of two descriptors."""

    own_fds = 2
