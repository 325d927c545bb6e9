"""Which thread a completion port hands a packet to, from Microsoft's "I/O completion ports".

Packets are first in, first out, threads last in, first out. A thread has a packet while fewer run
than the port's concurrency; a thread that blocks elsewhere does not run, and may make one too many
when it goes on. Threads stay on their CPUs here: of those that wait the last goes on whose CPU runs
no other thread of the port, or else the last.
"""

from __future__ import annotations


class NaivePort:
    """A queue of packets, a stack of threads."""

    def __init__(self, n_threads: int, n_cpus: int, concurrency: int) -> None:
        self.concurrency = concurrency
        self.n_cpus = n_cpus
        self.packets: list[int] = []
        self.waiting = list(range(n_threads))
        self.running: list[int] = []
        self.hand: dict[int, int] = {}  # thread -> the packet that it is at

    def posts(self, packet: int) -> None:
        """Queue a packet."""
        self.packets.append(packet)
        self.releases()

    def releases(self) -> None:
        """Let a thread that waits have the first packet, if it may run."""
        if self.packets and self.waiting and len(self.running) < self.concurrency:
            busy = {thread % self.n_cpus for thread in self.running}
            free = [thread for thread in self.waiting if thread % self.n_cpus not in busy]
            thread = (free or self.waiting)[-1]
            self.waiting.remove(thread)
            self.takes(thread)

    def takes(self, thread: int) -> None:
        """Hand the first packet to *thread*."""
        self.hand[thread] = self.packets.pop(0)
        self.running.append(thread)

    def comes_back(self, thread: int) -> None:
        """GetQueuedCompletionStatus() of a thread that is done with its packet."""
        self.running.remove(thread)
        del self.hand[thread]
        if self.packets and len(self.running) < self.concurrency:
            self.takes(thread)
        else:
            self.waiting.append(thread)

    def blocks(self, thread: int) -> None:
        """Let *thread* sleep in another call."""
        self.running.remove(thread)
        self.releases()

    def goes_on(self, thread: int) -> None:
        """Let *thread* go on after that call."""
        self.running.append(thread)
