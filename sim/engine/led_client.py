"""A client that a process leads: it decides when to connect, ask and close; the laws do the rest.

    connect ─► CONNECTED ─► ask ─► REPLY ─► ask ... ─► close
       │                     │
       └─ refused, dropped   └─ reset, closed by the server, time over

It is one of the run's clients: it takes its turn on their CPU, one of their ports and paths, and
closes as they do. It never tries again by itself. A connection makes one request at a time.
"""

from __future__ import annotations

from typing import Protocol

from ..clients.asking import new_request
from ..clients.clients import connected, give_up, leave, open_connection
from ..state.client_settings import Closing
from ..state.event_calendar import schedule
from ..state.kinds import NONE, occurrence, status
from ..wire.network import send_up
from .happenings import happen
from .hosted import HostedRun


class Notified(Protocol):
    """What a led client notifies, of each event at the time when its process may know."""

    def on_connected(self) -> None:
        """Take that the connection is there."""

    def on_reply(self, read_ns: int) -> None:
        """Take that the client has its whole reply at *read_ns*, now or soon."""

    def on_failed(self, why: int) -> None:
        """Take that the connection has ended, as in `Status`, without what was asked for."""


class LedClient:
    """One connection of *run*, which notifies *notified*."""

    def __init__(self, run: HostedRun, notified: Notified) -> None:
        self.run = run
        self.c = run.new_row()
        self.is_connected = False
        self.awaits_reply = False
        self._n_asked = 0
        self._notified = notified
        self._deadline_ns = NONE
        run.led[self.c] = self

    @property
    def status(self) -> int:
        """How the connection has ended, or `Status.OPEN`."""
        return self.run.world.status[self.c]

    def connect(self, deadline_ns: int) -> None:
        """Call connect() now, and give up at *deadline_ns* (NONE: never)."""
        world = self.run.enter()
        world.intended_ns[self.c] = world.now_ns
        open_connection(world, self.c, world.now_ns)
        if self.status != status.OPEN:
            self._notified.on_failed(self.status)
        self._expect(deadline_ns)

    def ask(
        self, n_bytes: int, reply_bytes: int, *, due_ns: int, deadline_ns: int, is_last: bool
    ) -> None:
        """Send a request of *n_bytes* now; if it *is_last* the connection ends with its reply.

        It was due at *due_ns*, from when its response time counts.
        """
        world, c = self.run.enter(), self.c
        new_request(world, c, due_ns)
        self._n_asked += 1
        world.request_bytes[c], world.reply_bytes[c] = n_bytes, reply_bytes
        world.left[c] = 1 if is_last else 2
        world.requests[c] = self._n_asked - 1 + world.left[c]
        self.awaits_reply = True
        connected(world, c)
        self._expect(deadline_ns)

    def close(self) -> None:
        """Close the connection now; a reply that is still to come is of no use."""
        world, c = self.run.enter(), self.c
        if self.status != status.OPEN:
            return
        if self.awaits_reply or not self.is_connected:
            give_up(world, c, status.TIMEOUT)
        else:
            world.status[c] = status.REPLIED
            world.done_ns[c] = world.now_ns
            if world.client.closing == Closing.HALF_CLOSE:
                schedule(world, send_up(world, c, world.now_ns, 0), occurrence.FIN, c)
            else:
                leave(world, c, world.now_ns)
        self.run.set_alarm()

    def _expect(self, deadline_ns: int) -> None:
        """Have what was begun be over at *deadline_ns*, and set the alarm."""
        self._deadline_ns = deadline_ns
        if deadline_ns != NONE and self.status == status.OPEN:
            schedule(self.run.world, deadline_ns, occurrence.TIMEOUT, self.c)
        self.run.set_alarm()

    def befalls(self, kind: int) -> None:
        """Take that the occurrence *kind* befalls the client now."""
        world, c = self.run.world, self.c
        was_open = self.status == status.OPEN
        if kind == occurrence.TIMEOUT:
            if was_open and self._deadline_ns == world.now_ns:
                give_up(world, c, status.TIMEOUT)
        elif kind == occurrence.CONNECTED and not self.is_connected:
            if was_open:
                self.is_connected = True
                self._deadline_ns = NONE
                self._notified.on_connected()
        else:
            happen(world, kind, c)
        if self.awaits_reply:
            read_ns = world.reply_ns[world.request_of[c]]
            if read_ns != NONE:
                self.awaits_reply = False
                self._deadline_ns = NONE
                self._notified.on_reply(read_ns)
                return
        if was_open and self.status not in (status.OPEN, status.REPLIED):
            self.awaits_reply = False
            self._notified.on_failed(self.status)
