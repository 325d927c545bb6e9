"""Connections and requests of SimPy processes: events, their values, and their failures.

    connection = yield server.connect()        ─► Connection, or RequestError
    reply = yield connection.request(size=64)  ─► Reply, or RequestError
    reply = yield server.request(size=64)      connects, sends a request and closes

An event that fails throws its exception into the process that waits for it. As with all SimPy
events, a failure without a waiting process ends the simulation, except after `cancel` or `close`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import simpy

from ..scenario.errors import UserError
from ..sim.engine.led_client import LedClient
from ..sim.state.kinds import NONE, status
from .terms import Terms


class RequestError(Exception):
    """A connection or a request has failed; the subclass is the cause."""


class RequestTimeoutError(RequestError, TimeoutError):
    """The client gave up: its timeout expired, or no connection request had a reply."""


class RequestRefusedError(RequestError, ConnectionRefusedError):
    """The server's kernel refused the connection request with a reset."""


class RequestResetError(RequestError, ConnectionResetError):
    """The server closed or reset the connection before the whole reply arrived."""


class ClientExhaustedError(RequestError):
    """The scenario's clients have no descriptor, or no port, for another connection."""


_FAILURES: dict[int, tuple[type[RequestError], str]] = {
    status.TIMEOUT: (RequestTimeoutError, "the client gave up"),
    status.DROPPED: (RequestTimeoutError, "no connection request had a reply"),
    status.REFUSED: (RequestRefusedError, "the server refused the connection"),
    status.RESET: (RequestResetError, "the server closed or reset the connection"),
    status.DESCRIPTORS: (ClientExhaustedError, "the clients have no descriptor (load.descriptors)"),
    status.PORTS: (ClientExhaustedError, "the clients have no port (load.ports)"),
}


class Reply(NamedTuple):
    """A whole reply at its client.

    Attributes
    ----------
    size:
        Its bytes.
    data:
        The value that the server's `work` left in `Request.reply_data`.
    asked, received:
        The time at which the client wanted to send the request (to connect, for `Server.request`),
        and that of the whole reply; in the unit of the environment.
    latency_ns:
        The time between the two.
    """

    size: int
    data: Any
    asked: float
    received: float
    latency_ns: int


class Request:
    """A request at the server, as its `work` sees it.

    Attributes
    ----------
    size:
        Its bytes.
    data:
        The sender's data; None for the scenario's own clients.
    reply_size, reply_data:
        The reply: its bytes, as the client requested unless `work` sets another number, and any
        data.
    """

    __slots__ = ("data", "reply_data", "reply_size", "size")

    def __init__(self, size: int, reply_size: int, data: Any) -> None:
        self.size = size
        self.data = data
        self.reply_size = reply_size
        self.reply_data: Any = None


class Pending(simpy.Event):
    """The event of a future connection or reply."""

    def __init__(self, env: simpy.Environment, connection: Connection) -> None:
        super().__init__(env)
        self.connection = connection

    def cancel(self) -> None:
        """Give up: the client closes the connection, and the event never succeeds.

        A process that still waits for it gets `RequestTimeoutError`.
        """
        self.connection.close()


class Connection:
    """A connection of a process to a server, with one request at a time."""

    def __init__(self, terms: Terms, timeout_ns: int) -> None:
        self._terms = terms
        self._client = LedClient(terms.run, self)
        self._only: tuple[int, int] | None = None  # sizes of the only request, from `request`
        self._size = 0
        self._asked_ns = terms.clock.now_ns()
        self._deadline_ns = self._asked_ns + timeout_ns if timeout_ns else NONE
        self._why = "connect"
        self.data: Any = None
        self.reply_data: Any = None
        self._pending: Pending | None = Pending(terms.env, self)

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent, after the reply to the one before."""
        return self._client.is_connected and self._client.status == status.OPEN

    @property
    def row(self) -> int:
        """Its number in the world: that of a connection at the server."""
        return self._client.c

    def take(self, request: Request) -> None:
        """Take the reply that `work` made from the request."""
        self._size, self.reply_data = request.reply_size, request.reply_data

    def open(self, only: tuple[int, int] | None = None, data: Any = None) -> Pending:
        """Connect, for *only* one request of these sizes or for many; `Server` calls it."""
        pending = self._pending
        assert pending is not None
        self._only, self.data = only, data
        if only is not None:
            self._why = "request"
        self._client.connect(self._deadline_ns)
        return pending

    def request(
        self,
        size: int | None = None,
        reply_size: int | None = None,
        *,
        data: Any = None,
        timeout: float | None = None,
        last: bool = False,
    ) -> Pending:
        """Send a request; its event yields a `Reply`.

        Parameters
        ----------
        size, reply_size:
            Bytes of the request and of the reply; None: the scenario's load.request_size and
            load.reply_size.
        data:
            Anything, for the server's `work`.
        timeout:
            Time after which the client gives up and closes, in the unit of the
            environment; None: the scenario's load.timeout.
        last:
            Whether it is the last one: the connection ends with its reply, as in the scenario
            (load.close).

        Raises
        ------
        UserError
            If a size or a time is out of bounds, the connection is closed by this process, the
            last request has no reply yet, or the server's run has ended.
        """
        terms = self._terms
        terms.check_runs("request")
        sizes = terms.sizes(size, reply_size)
        timeout_ns = terms.timeout_ns(timeout)
        if self._pending is not None:
            raise UserError(
                "request: must wait for the reply to the one before on its connection: connect() "
                "once more to have two at a time"
            )
        if self._client.status in (status.REPLIED, status.TIMEOUT):
            raise UserError("request: must not be on a connection that its process has closed")
        pending = self._pending = Pending(terms.env, self)
        if self._client.status != status.OPEN:  # closed by the server, meanwhile
            self._fail(self._client.status)
            return pending
        self.data, self._why = data, "request"
        self._asked_ns = terms.clock.now_ns()
        self._deadline_ns = self._asked_ns + timeout_ns if timeout_ns else NONE
        self._ask(sizes, is_last=last)
        return pending

    def close(self) -> None:
        """Close the connection as the scenario's clients do, without waiting for a reply."""
        if self._terms.run.has_ended or self._client.status != status.OPEN:
            return
        self._client.close()
        if self._pending is not None:
            self._pending.defused = True
            self._fail(status.TIMEOUT)

    def _ask(self, sizes: tuple[int, int], *, is_last: bool) -> None:
        self.reply_data = None
        self._size = sizes[1]
        self._client.ask(
            *sizes, due_ns=self._asked_ns, deadline_ns=self._deadline_ns, is_last=is_last
        )

    def on_connected(self) -> None:
        """Send the only request, or give the connection to its process."""
        if self._only is not None:
            self._ask(self._only, is_last=True)
        else:
            pending, self._pending = self._pending, None
            assert pending is not None
            pending.succeed(self)

    def on_reply(self, read_ns: int) -> None:
        """Deliver the whole reply, which the client has at *read_ns*: now or soon."""
        clock, env = self._terms.clock, self._terms.env
        delay = clock.delay(read_ns)
        if delay > 0:  # the client's CPU is busy
            env.timeout(delay).callbacks.append(lambda _: self._deliver(read_ns))
        else:
            self._deliver(read_ns)

    def _deliver(self, read_ns: int) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return  # given up meanwhile
        clock = self._terms.clock
        pending.succeed(
            Reply(
                self._size,
                self.reply_data,
                clock.time_of(self._asked_ns),
                clock.time_of(read_ns),
                read_ns - self._asked_ns,
            )
        )

    def on_failed(self, why: int) -> None:
        """Fail the pending event: the connection has ended with `Status` *why*."""
        if self._pending is not None:
            self._fail(why)

    def _fail(self, why: int) -> None:
        pending, self._pending = self._pending, None
        assert pending is not None
        kind, words = _FAILURES[why]
        now_ns = self._terms.clock.now_ns()
        took = self._terms.clock.words(now_ns - self._asked_ns)
        pending.fail(kind(f"{self._why}: {words}, {took} after it began"))
