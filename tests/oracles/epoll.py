"""What epoll does, from epoll(7) and Linux fs/eventpoll.c.

    rdllist   what may be ready, in the order of ep_poll_callback() and ep_insert()
    ovflist   not here: a scan of the list takes no time

ep_poll_callback() ignores what was not asked for, `pollflags & epi->event.events`. ep_insert() and
ep_modify() ask the file and link the item if it is ready. ep_send_events() takes the list as it is,
asks each file again, and stops at maxevents; items that are left go before those that it links
again, ep_done_scan(). It links a level-triggered item again, an edge-triggered one not, and clears
the events of a one-shot one. ep_poll() looks again before it sleeps.
"""

from __future__ import annotations

from tests.oracles.machine import IN, OUT, Oracle
from tests.oracles.remembering import Changes, Remembering


class EpollLevel(Oracle):
    """Level-triggered; close() takes a descriptor out in `EpollClose`."""

    counted = Oracle.counted | {"rechecked"}
    one_shot = False
    removes_by_call = True

    def start(self) -> None:
        """Begin with the listener alone."""
        super().start()
        self.rdllist: list[int] = []

    def asked_for(self, fd: int) -> int:
        """Return the events that the kernel is to report of *fd*."""
        return self.interest.get(fd, 0)

    def link(self, fd: int) -> None:
        """Put *fd* at the end of the list of what may be ready."""
        if fd not in self.rdllist:
            self.rdllist.append(fd)

    def arrives(self, fd: int, bits: int) -> int:
        """ep_poll_callback()."""
        if bits & self.asked_for(fd):
            self.link(fd)
            self.wake()
        return 0

    def add(self, fd: int, bits: int) -> None:
        """EPOLL_CTL_ADD: ep_insert()."""
        self.spend(self.cost["add_ns"])
        self.interest[fd] = bits
        if self.state[fd] & self.asked_for(fd):
            self.link(fd)

    def change(self, fd: int, bits: int) -> None:
        """EPOLL_CTL_MOD: ep_modify()."""
        self.spend(self.cost["modify_ns"])
        self.interest[fd] = bits
        if self.state[fd] & bits:
            self.link(fd)

    def remove(self, fd: int) -> None:
        """EPOLL_CTL_DEL, ep_remove(); or eventpoll_release_file() in close()."""
        if self.removes_by_call:
            self.spend(self.cost["delete_ns"])
        self.forget(fd)
        if not self.removes_by_call:
            self.spend(self.cost["forget_ns"])

    def forget(self, fd: int) -> None:
        """Unlink *fd*."""
        del self.interest[fd]
        if fd in self.rdllist:
            self.rdllist.remove(fd)

    def send_events(self) -> tuple[list[int], int]:
        """ep_send_events(): return the events, and how many items were no longer ready."""
        taken, self.rdllist = self.rdllist, []
        events: list[int] = []
        again: list[int] = []
        n_not_ready = 0
        while taken and len(events) < self.story.max_events:
            fd = taken.pop(0)
            if not self.state[fd] & self.asked_for(fd):
                n_not_ready += 1
                continue
            events.append(fd)
            again += self.after_event(fd)
        self.rdllist = taken + again
        self.counts["rechecked"] += n_not_ready
        return events, n_not_ready

    def after_event(self, fd: int) -> list[int]:
        """Return what is linked again after an event of *fd*."""
        if self.one_shot and fd != 0:
            self.interest[fd] = 0
            return []
        return [fd]

    def poll(self, *, blocks: bool = True) -> tuple[list[int], int]:
        """ep_poll(): return the events, and how many items were not ready in the last look."""
        self.spend(self.cost["call_ns"])
        events, n_not_ready = self.send_events()
        while blocks and not events:
            self.spend(n_not_ready * self.cost["recheck_ns"])
            if not self.rdllist:
                self.sleep()
            events, n_not_ready = self.send_events()
        return events, n_not_ready

    def wait(self) -> list[int]:
        """epoll_wait()."""
        events, n_not_ready = self.poll()
        self.spend(len(events) * self.cost["event_ns"] + n_not_ready * self.cost["recheck_ns"])
        return events


class EpollOneshot(EpollLevel):
    """EPOLLONESHOT for connections, not for the listener."""

    one_shot = True


class EpollClose(EpollLevel):
    """Without EPOLL_CTL_DEL."""

    removes_by_call = False


class InKernel(EpollLevel):
    """A thread of the kernel: callbacks in place of calls."""

    removes_by_call = False

    def add(self, fd: int, bits: int) -> None:
        """Have a callback."""
        self.interest[fd] = bits
        if self.state[fd] & bits:
            self.link(fd)

    change = add

    def remove(self, fd: int) -> None:
        """Leave it to close."""
        self.forget(fd)


class EpollCtlv(EpollLevel):
    """A vector of changes before the wait (Gammo et al. 2004, §3.4)."""

    counted = EpollLevel.counted | {"updates"}

    def start(self) -> None:
        """Begin with a listener that is yet to be declared."""
        super().start()
        self.changes = Changes()
        self.changes.note(0)

    def asked_for(self, fd: int) -> int:
        """Return the events of *fd*: none before its first declaration."""
        return self.interest.get(fd, 0) if fd in self.changes.told else 0

    def add(self, fd: int, bits: int) -> None:
        """Note a change: no call."""
        self.interest[fd] = bits
        self.changes.note(fd)

    change = add

    def remove(self, fd: int) -> None:
        """EPOLL_CTL_DEL of what the kernel knows; the descriptor is closed before the next wait."""
        if fd in self.changes.told:
            self.counts["updates"] += 1
            self.spend(self.cost["delete_ns"])
        self.forget(fd)
        self.changes.forget(fd)

    def vector_ns(self, n_new: int, n_known: int) -> int:
        """Return what a vector takes."""
        self.counts["updates"] += 1
        new_ns, known_ns = n_new * self.cost["add_ns"], n_known * self.cost["modify_ns"]
        return self.cost["entry_ns"] + new_ns + known_ns

    def declare(self) -> None:
        """Declare all changes: ep_insert() or ep_modify() for each."""
        if self.changes.list:
            n_known = sum(fd in self.changes.told for fd in self.changes.list)
            self.spend(self.vector_ns(len(self.changes.list) - n_known, n_known))
            for fd in self.changes.take():
                if self.state[fd] & self.interest[fd]:
                    self.link(fd)

    def wait(self) -> list[int]:
        """epoll_ctlv(), and epoll_wait()."""
        self.declare()
        return super().wait()


class Kqueue(EpollCtlv):
    """kevent(): the changes are part of the call, close() removes (kqueue(2); Lemon 2001, §4)."""

    def vector_ns(self, n_new: int, n_known: int) -> int:
        """Return what the changes take in a call that is counted with the wait."""
        return n_new * self.cost["add_ns"] + n_known * self.cost["modify_ns"]

    def remove(self, fd: int) -> None:
        """knote_fdclose(), if there are filters of *fd*."""
        was_told = fd in self.changes.told
        self.forget(fd)
        self.changes.forget(fd)
        if was_told:
            self.spend(self.cost["forget_ns"])


class EpollOnce(EpollLevel):
    """Level-triggered for both directions, registered once (Gammo et al. 2004, §3.3)."""

    counted = EpollLevel.counted | {"asks", "notices", "notices_unwanted"}

    def asked_for(self, fd: int) -> int:
        """Return the events of *fd*: either."""
        return IN | OUT if fd in self.interest else 0

    def change(self, fd: int, bits: int) -> None:
        """Want something else: the kernel need not know."""
        self.interest[fd] = bits

    def wait(self) -> list[int]:
        """epoll_wait(), and as many more as return the same and end before anything happens."""
        notices, n_not_ready = self.poll()
        events = self.take_notices(notices)
        notices_ns = len(notices) * self.cost["notice_ns"] + n_not_ready * self.cost["recheck_ns"]
        self.counts["asks"] += 1
        if not events and not n_not_ready:
            notices_ns = max(1, notices_ns)
            again_ns = self.cost["call_ns"] + notices_ns
            until_ns = self.next_ns()
            spun_ns = notices_ns
            returns_all = len(notices) == len(self.rdllist)
            while returns_all and self.now_ns + spun_ns + again_ns <= until_ns:
                spun_ns += again_ns
                self.counts["asks"] += 1
                self.counts["waits"] += 1
                self.take_notices(notices)
            notices_ns = spun_ns
        self.spend(notices_ns)
        return events

    def take_notices(self, notices: list[int]) -> list[int]:
        """Discard what the program does not want now."""
        events = [fd for fd in notices if self.flags(fd)]
        self.counts["notices"] += len(notices)
        self.counts["notices_unwanted"] += len(notices) - len(events)
        return events


class EpollEdge(Remembering, EpollLevel):
    """EPOLLET for both directions: each notice once, remembered by the program (§3.2)."""

    counted = Remembering.counted | EpollLevel.counted

    def asked_for(self, fd: int) -> int:
        """Return the events of *fd*: either."""
        return IN | OUT if fd in self.interest else 0

    def after_event(self, fd: int) -> list[int]:
        """Return nothing: an edge is reported once."""
        return []

    def add(self, fd: int, bits: int) -> None:
        """EPOLL_CTL_ADD: nothing has been reported."""
        EpollLevel.add(self, fd, bits)
        self.known[fd] = 0

    def change(self, fd: int, bits: int) -> None:
        """Want something else: the kernel need not know."""
        self.interest[fd] = bits
        self.keep(fd)

    def ask(self) -> None:
        """epoll_wait(), which returns at once if something is pending."""
        self.counts["asks"] += 1
        notices, n_not_ready = self.poll(blocks=self.nothing_pends())
        for fd in notices:
            self.note(fd, self.state[fd])
        noted_ns = len(notices) * self.cost["notice_ns"]
        self.spend(noted_ns + n_not_ready * self.cost["recheck_ns"])


class NextEvent(EpollEdge):
    """declare_interest() returns the state, get_next_event() changes (Banga et al. 1999, §3)."""

    removes_by_call = False

    def add(self, fd: int, bits: int) -> None:
        """declare_interest()."""
        self.spend(self.cost["add_ns"])
        self.interest[fd] = bits
        self.known[fd] = self.state[fd]
        self.keep(fd)
