"""What io_uring_enter(2) does for a server, from its man page and Linux 6.18 io_uring/.

io_submit_sqes() issues each entry at once. What finds nothing, or no room, arms a poll,
io_arm_apoll(); its wake-up queues work once, io_poll_wake(). A multishot accept stays armed, and
sees by itself what comes while it is at work, io_poll_check_events(). What is linked to a send is
queued when a round is over and its completions are flushed, io_free_batch_list(). A round,
__io_run_local_work(), takes 20 pieces of work after submissions and before a sleep, one after it;
before 6.13 all that is there. Completions are first in, first out. accept() takes a descriptor
before it looks at its queue; the completion of the last connection reports that it was the last.
"""

from __future__ import annotations

from tests.oracles.machine import OUT, Done, Machine, NeverWokenError, Story

LISTENER, RESET = 0, 4
ACCEPTED, REQUEST, END, NO_FD = range(4)
"""What a completion reports."""
FOLLOWS = {ACCEPTED: "receive", REQUEST: "send", END: "close", NO_FD: "accept"}
COUNTED = ("waits", "events", "sleeps", "accepts", "accept_no_fd", "replies", "closes")


class Ring(Machine):
    """A ring, its connections, and the program that submits what follows each completion."""

    counted = frozenset(COUNTED)

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        n = len(story.states)
        self.cost, self.option = story.costs, story.options
        self.came = self.n_open = 0
        self.queue: list[int] = []  # to be accepted
        self.armed: dict[int, str] = {LISTENER: "accept"}
        self.work: list[tuple[int, str, bool]] = []  # whether it is linked
        self.linked: list[tuple[int, str]] = []  # queued with the next flush
        self.submitted: list[tuple[int, str]] = []
        self.completed: list[tuple[int, int]] = []
        self.asked, self.gone, self.closed = [False] * n, [False] * n, [False] * n
        self.full, self.unsent, self.answered = [False] * n, [0] * n, [0] * n

    def arrives(self, fd: int, bits: int) -> int:
        """Let a connection be queued, or *fd* have a request, room or a reset; queue work."""
        if fd == LISTENER and self.came < len(self.asked) - 1:
            self.came += 1
            self.queue.append(self.came)
            return self.notice(LISTENER, "accept")
        if fd == LISTENER or fd > self.came or self.closed[fd] or self.gone[fd]:
            return 0
        if bits == OUT:
            self.full[fd] = False
        elif bits == RESET:
            self.gone[fd] = True
        elif not self.unsent[fd] and self.answered[fd] < self.option["requests"]:
            self.asked[fd] = True
        woken = [what for what in ("receive", "send") if self.is_ready(fd, what)]
        return sum(self.notice(fd, what) for what in woken)

    def notice(self, fd: int, what: str) -> int:
        """io_poll_wake(): queue *what* if it is armed on *fd*, and return what that takes."""
        if self.armed.get(fd) != what:
            return 0
        del self.armed[fd]
        self.work.append((fd, what, False))
        self.wake()
        return self.cost["post_ns"]

    def call(self, ns: int) -> None:
        """Spend what a call takes that does not cross into the kernel."""
        self.spend(max(0, ns - self.cost["crossing_ns"]))

    def is_ready(self, fd: int, what: str) -> bool:
        """vfs_poll(): whether *what* would find something, or room."""
        if fd == LISTENER:
            return bool(self.queue)
        return self.gone[fd] or (not self.full[fd] if what == "send" else self.asked[fd])

    def arm(self, fd: int, what: str) -> None:
        """io_arm_apoll(): what is ready by then is queued at once."""
        self.spend(self.cost["add_ns"])
        self.watch(fd, what)

    def watch(self, fd: int, what: str) -> None:
        """Have *what* done when *fd* is ready."""
        if self.is_ready(fd, what):
            self.work.append((fd, what, False))
        else:
            self.armed[fd] = what

    def accept(self) -> bool:
        """io_accept(): accept all; return whether it goes on, with a descriptor left."""
        looks = True
        while looks or self.queue:
            finds = bool(self.queue) and self.n_open < self.option["open_max"]
            self.call(self.cost["accept_ns" if finds else "accept_again_ns"])
            if self.n_open == self.option["open_max"]:
                self.counts["accept_no_fd"] += 1
                self.completed.append((LISTENER, NO_FD))
                return False
            looks = False
            if self.queue:
                self.completed.append((self.queue.pop(0), ACCEPTED))
                self.n_open, looks = self.n_open + 1, bool(self.queue or self.option["looks_again"])
                self.counts["accepts"] += 1
                self.spend(0 if finds else self.rest_of_accept_ns())
                self.spend(self.cost["complete_ns"])
        return True

    def rest_of_accept_ns(self) -> int:
        """Return what an accept takes more than one that found nothing."""
        took_ns = max(0, self.cost["accept_again_ns"] - self.cost["crossing_ns"])
        return max(0, max(0, self.cost["accept_ns"] - self.cost["crossing_ns"]) - took_ns)

    def receive(self, fd: int) -> None:
        """io_recv(): a request, or the end of the connection."""
        if not self.is_ready(fd, "receive"):
            self.arm(fd, "receive")
            return
        self.call(self.cost["read_ns"])  # and what the completion takes
        self.spend(self.cost["complete_ns"])
        self.completed.append((fd, REQUEST if self.asked[fd] else END))
        if self.asked[fd]:
            self.asked[fd], self.unsent[fd] = False, self.option["reply_kib"]

    def send(self, fd: int) -> None:
        """io_send(), to whose last byte a receive or a close is linked."""
        n_kib = min(self.unsent[fd], self.option["buffer_kib"])
        copied_ns = self.cost["write_ns"] + n_kib * self.cost["write_kib_ns"]
        self.call(self.cost["read_again_ns"] if self.gone[fd] else copied_ns)
        if self.gone[fd]:  # ECONNRESET; what is linked is cancelled
            self.unsent[fd] = 0
            self.spend(self.cost["complete_ns"])
            self.completed.append((fd, END))
            return
        self.unsent[fd] -= n_kib
        if self.unsent[fd]:
            self.full[fd] = True
            self.arm(fd, "send")
            return
        self.counts["replies"] += 1
        self.answered[fd] += 1
        is_last = self.answered[fd] == self.option["requests"]
        self.linked.append((fd, "close" if is_last else "receive"))

    def close(self, fd: int) -> None:
        """io_close(): the reset of its client spares what the end would take."""
        self.call(self.cost["close_ns"] - (self.cost["ended_saved_ns"] if self.gone[fd] else 0))
        self.closed[fd], self.n_open = True, self.n_open - 1
        self.counts["closes"] += 1

    def do(self, fd: int, what: str) -> None:
        """io_issue_sqe() of an entry that was submitted, or is linked to one."""
        if what != "accept":
            {"receive": self.receive, "send": self.send, "close": self.close}[what](fd)
        elif self.accept():
            self.arm(LISTENER, "accept")

    def round(self, most: int) -> None:
        """Do at most *most* pieces of the work that is queued; with 0 all, until there is none."""
        n_left = min(most, len(self.work))
        while self.work and (n_left or not most):
            n_left -= 1
            fd, what, is_linked = self.work.pop(0)
            if is_linked:
                self.spend(self.cost["submit_ns"] + self.cost["link_ns"])
                self.do(fd, what)
            else:
                self.spend(self.cost["retry_ns"])
                if what != "accept":
                    self.do(fd, what)
                elif self.accept():
                    self.watch(LISTENER, "accept")
        self.flush()
        if self.work and not most:
            self.round(most)

    def flush(self) -> None:
        """Queue what is linked to all that has completed."""
        self.work += [(fd, what, True) for fd, what in self.linked]
        self.linked = []

    def enter(self) -> list[tuple[int, int]]:
        """Submit all; return completions when there is one."""
        submitted, self.submitted = self.submitted, []
        self.spend(self.cost["call_ns"] + len(submitted) * self.cost["submit_ns"])
        for fd, what in submitted:
            self.do(fd, what)
        self.flush()
        for _ in ("submitted", "before sleep") if submitted else ("before sleep",):
            self.round(self.option["due_at_once"])
        while not self.completed:
            if not self.work:
                self.sleep()
                self.spend(self.cost["woken_ns"])
            self.round(min(1, self.option["due_at_once"]))
        most = self.story.max_events
        events, self.completed = self.completed[:most], self.completed[most:]
        return events

    def run(self) -> list[Done]:
        """Play the acts, until the end or until the thread sleeps for ever."""
        done = []
        try:
            for act in self.story.acts:
                self.counts["waits"] += 1
                events = self.enter()
                self.counts["events"] += len(events)
                done.append(Done(act.what, self.now_ns, tuple(events), dict(self.counts)))
                for fd, reports in events:
                    self.spend(act.ns if reports == REQUEST else 0)
                    self.submitted.append((fd, FOLLOWS[reports]))
        except NeverWokenError:
            pass
        return [each for each in done if each.at_ns <= self.story.end_ns]
