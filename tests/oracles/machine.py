"""A naive machine for oracles: one CPU, one thread, descriptors with states, what is to arrive.

    acts      the program: add, change, remove, renew, drain, compute, wait; one after the other
    arrivals  (when, which descriptor, which bits): an interrupt sets the bits, and calls the kernel

The oracles share this file with each other and nothing with `sim/` and `models/`: every list is a
plain Python list, and each call walks through all of it. At one nanosecond arrivals come first.
Descriptor 0 is the listener: it is watched for reading from the beginning to the end.

Sources: the man pages and kernel functions that each oracle names; wake-ups: Linux
kernel/sched/wait.c autoremove_wake_function(). The time of an interrupt is taken from the thread
that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

IN, OUT = 1, 2
"""Bits of a state and of an interest, as POLLIN and POLLOUT."""


class Act(NamedTuple):
    """What the program does next: *bits* are an interest, or what a call uses up of a state."""

    what: str
    fd: int = 0
    bits: int = 0
    ns: int = 0


class Arrival(NamedTuple):
    """What an interrupt brings."""

    at_ns: int
    fd: int
    bits: int


class Story(NamedTuple):
    """A program, what arrives meanwhile, and what the descriptors are like at first."""

    states: tuple[int, ...]
    acts: tuple[Act, ...]
    arrivals: tuple[Arrival, ...]
    max_events: int
    costs: Mapping[str, int]  # of the mechanism; a curve is a cost an item
    sleep_ns: int
    wake_ns: int
    options: Mapping[str, int] = {}
    end_ns: int = 1_000_000


class Done(NamedTuple):
    """What an act has come to: when it ended, of a wait its events in order, and counts so far."""

    what: str
    at_ns: int
    events: tuple[tuple[int, int], ...]
    counts: Mapping[str, int]


class NeverWokenError(Exception):
    """The thread sleeps, and nothing is left to arrive."""


class Machine:
    """Time, states and the thread; `arrives` of a kernel returns what an arrival costs, and wakes.

    *counted* are the names of all that it counts, so that what never happened is 0.
    """

    counted = frozenset({"waits", "events", "sleeps"})

    def __init__(self, story: Story) -> None:
        self.story = story
        self.now_ns = 0
        self.state = list(story.states)
        self.to_come = sorted(story.arrivals, key=lambda arrival: arrival.at_ns)
        self.counts = Counter(dict.fromkeys(self.counted, 0))
        self.may_be_woken = self.woken = False
        self.irq_free_ns = -1
        self.before = 0  # the state of a descriptor before the last arrival

    def arrives(self, fd: int, bits: int) -> int:
        """Notify a kernel of *bits* of *fd*, which are in its state; return the time it takes."""
        raise NotImplementedError

    def wake(self) -> None:
        """Wake the thread if it is on the wait queue, and take it off."""
        if self.may_be_woken:
            self.may_be_woken, self.woken = False, True

    def spend(self, ns: int) -> None:
        """Run for *ns*, and as much longer as interrupts take meanwhile."""
        end_ns = self.now_ns + ns
        while self.to_come and self.to_come[0].at_ns <= end_ns:
            end_ns += self._interrupt()
        self.now_ns = end_ns

    def sleep(self) -> None:
        """Block in a wait until an arrival wakes the thread, and run again."""
        self.may_be_woken, self.woken = True, False
        self.spend(self.story.sleep_ns)
        if not self.woken:
            self.counts["sleeps"] += 1
            while not self.woken:
                if not self.to_come:
                    raise NeverWokenError
                self.now_ns = self.to_come[0].at_ns
                self._interrupt()
            # It runs when the interrupt is over, and with it all that come in before.
            # Mypy misses that an interrupt sets `woken`.
            runs_ns = max(self.now_ns, self.irq_free_ns)
            while self.to_come and self.to_come[0].at_ns <= runs_ns:
                self._interrupt()
                runs_ns = max(runs_ns, self.irq_free_ns)
            self.now_ns = runs_ns
        self.spend(self.story.wake_ns)

    def next_ns(self) -> int:
        """Return when something happens next."""
        return min([self.story.end_ns, *(arrival.at_ns for arrival in self.to_come[:1])])

    def _interrupt(self) -> int:
        arrival = self.to_come.pop(0)
        self.before = self.state[arrival.fd]
        self.state[arrival.fd] |= arrival.bits
        ns = self.arrives(arrival.fd, arrival.bits)
        self.irq_free_ns = max(self.irq_free_ns, arrival.at_ns) + ns
        return ns


class Oracle(Machine):
    """A machine with a mechanism: `run` plays the story."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.interest: dict[int, int] = {}  # of each descriptor that is watched
        self.cost = story.costs
        self.start()

    def start(self) -> None:
        """Watch the listener, before time begins."""
        self.interest[0] = IN

    def add(self, fd: int, bits: int) -> None:
        """Watch *fd* for *bits*."""
        raise NotImplementedError

    def change(self, fd: int, bits: int) -> None:
        """Watch *fd*, which is watched, for *bits*."""
        raise NotImplementedError

    def remove(self, fd: int) -> None:
        """Watch *fd* no longer: it is about to be closed."""
        raise NotImplementedError

    def wait(self) -> list[int]:
        """Wait once; return the descriptors, in order."""
        raise NotImplementedError

    def would_block(self, fd: int, bits: int) -> None:
        """Notify the program that a call on *fd* found nothing (EAGAIN)."""

    def flags(self, fd: int) -> int:
        """Return what the program may do with *fd* when its wait has returned."""
        return self.state[fd] & self.interest.get(fd, 0)

    def run(self) -> list[Done]:
        """Play the story, until its end or until the thread sleeps for ever."""
        done = []
        try:
            for act in self.story.acts:
                done.append(self._play(act))
        except NeverWokenError:
            pass
        return [each for each in done if each.at_ns <= self.story.end_ns]

    def _play(self, act: Act) -> Done:
        events: list[int] = []
        if act.what == "wait":
            self.counts["waits"] += 1
            events = self.wait()
            self.counts["events"] += len(events)
        elif act.what == "compute":
            self.spend(act.ns)
        elif act.what == "drain":
            self.state[act.fd] &= ~act.bits
            self.would_block(act.fd, act.bits)
        elif act.what == "take":
            self.state[act.fd] &= ~act.bits
        elif act.what == "add":
            self.add(act.fd, act.bits)
        elif act.what == "change":
            self.change(act.fd, act.bits)
        else:
            self.remove(act.fd)
            self.state[act.fd] = act.bits  # the next file has that number
        flagged = tuple((fd, self.flags(fd)) for fd in events)
        return Done(act.what, self.now_ns, flagged, dict(self.counts))
