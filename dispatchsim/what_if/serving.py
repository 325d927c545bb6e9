"""Serve the page: by default to this machine only, and to at most `VIEWERS_MAX` viewers.

    browser ── GET ?rate=... ──► a page of its own (Bokeh session) ──► Session
            ◄─ websocket ──────►

From a browser only the settings in its address and the two values of `controls` are read: no code
and no path. Bokeh also lets a browser change its own page in other ways. Such changes are invisible
to others and end with the page. A message has at most `MESSAGE_MAX_BYTES`, but their number is not
limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import panel as pn
from bokeh.protocol.exceptions import ProtocolError
from bokeh.util.token import get_session_id
from panel.io.resources import LOCAL_DIST
from panel.io.server import get_server
from tornado.httputil import HTTPServerRequest
from tornado.ioloop import IOLoop
from tornado.routing import Matcher, Rule
from tornado.web import RequestHandler
from tornado.websocket import WebSocketClosedError

from ..scenario.errors import UserError
from .choices import DEFAULT_MECHANISMS, machines
from .page import Page, charts_spec
from .session import read_query
from .simulating import Simulations

VIEWERS_MAX = 40
"""Pages at a time, of some ten megabytes each; an unused page counts for some seconds."""
MESSAGE_MAX_BYTES = 65_536
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that mean all of this machine, and the one for a browser on it."""
_MAKES_A_PAGE = ("", "/", "/autoload.js", "/ws")
_UNUSED_MS = 4_000
_LOOK_MS = 1_000
_FULL = (
    '<!DOCTYPE html><html lang="en"><title>dispatchsim: too many viewers</title>'
    f"<h1>Too many viewers</h1><p>This server has at most {VIEWERS_MAX} viewers at a time. "
    "Try again in a minute, or start your own: <code>dispatchsim explore</code>.</p>"
)


class Served:
    """A running server of the page.

    Attributes
    ----------
    address:
        Address for a browser.
    simulations:
        The simulations of all viewers.
    """

    def __init__(self, server: Any, address: str, simulations: Simulations) -> None:
        self._server = server
        self.address = address
        self.simulations = simulations

    def run(self) -> None:
        """Serve until Ctrl-C, or until `stop` is called elsewhere."""
        self._server.start()  # from now on unused pages are dropped
        self._server.io_loop.start()

    def stop(self) -> None:
        """Make `run` return; from any thread."""
        self._server.io_loop.add_callback(self._server.io_loop.stop)


@contextlib.contextmanager
def serving(
    port: int = 0, address: str = "127.0.0.1", *, workers: int = 2, compiles: bool = True
) -> Iterator[Served]:
    """Yield the server, ready to `run` in this thread; it ends with the block.

    Parameters
    ----------
    port:
        Port; 0: any free one.
    address:
        Address of this machine; all hosts that reach it can see the page.
    workers, compiles:
        As for `Simulations`.

    Raises
    ------
    UserError
        If the port is in use, or the address is not one of this machine.
    """
    check_place(port, address)
    with _interrupts_as_before():
        yield from _serving(port, address, workers, compiles)


@contextlib.contextmanager
def _interrupts_as_before() -> Iterator[None]:
    """Restore the handler of Ctrl-C after the block: Panel replaces it for good."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _serving(port: int, address: str, workers: int, compiles: bool) -> Iterator[Served]:
    simulations = Simulations(workers, compiles=compiles)
    loop = IOLoop(make_current=False)
    loop.asyncio_loop.set_exception_handler(_who_left_hears_nothing)
    try:
        simulations.prepare(machines().default, DEFAULT_MECHANISMS)
        charts_spec()  # the charts are the same for all, so make them once, before the first viewer
        server = _server(simulations, loop, port, address)
        try:
            host = _ANY.get(address, address)
            host = f"[{host}]" if ":" in host else host
            yield Served(server, f"http://{host}:{server.port}/", simulations)
        finally:
            server.stop(wait=False)
    finally:
        simulations.close()
        loop.close(all_fds=True)


def _who_left_hears_nothing(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report all errors except that of a page closed while a message was on its way."""
    if not isinstance(context.get("exception"), WebSocketClosedError):
        loop.default_exception_handler(context)


def check_place(port: int, address: str) -> None:
    """Refuse a port or an address that cannot be listened on, before anything starts.

    Raises
    ------
    UserError
        If the port is in use, or the address is not one of this machine.
    """
    if not 0 <= port <= 65_535:
        raise UserError(f"--port: must be from 0 to 65,535, got {port}")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UserError(
                f"--port: must be free, got {port} (another program listens there); "
                "--port 0 takes a free one"
            ) from None
        if error.errno == errno.EACCES:
            raise UserError(
                f"--port: must be at least 1,024 unless you are root, got {port}"
            ) from None
        raise UserError(
            f"--address: must be an address of this machine, such as 127.0.0.1, got {address}"
        ) from None


def _server(simulations: Simulations, loop: IOLoop, port: int, address: str) -> Any:
    """Return the server, already listening."""
    for name in ("panel.io.document", "bokeh.server.views.ws"):
        # A page closed while a message is on its way is no cause for a warning.
        logging.getLogger(name).setLevel(logging.ERROR)

    def page() -> Any:
        return _new_page(simulations)

    server = get_server(
        page,
        port=port,
        address=address,
        loop=loop,
        title="dispatchsim: what if?",
        location=False,
        websocket_origin=["*"] if address in _ANY else None,
        websocket_max_message_size=MESSAGE_MAX_BYTES,
        unused_session_lifetime_milliseconds=_UNUSED_MS,
        check_unused_sessions_milliseconds=_LOOK_MS,
    )
    _let_in_so_many(server)
    return server


def _let_in_so_many(server: Any) -> None:
    """Limit *server* to `VIEWERS_MAX` pages: a page takes memory from its creation."""
    (context,) = server._tornado.applications.values()
    make = context.create_session_if_needed

    def has_room(session_id: object) -> bool:
        known = context._sessions.keys() | context._pending_sessions.keys()
        return session_id in known or len(known) < VIEWERS_MAX

    def make_if_room(session_id: Any, *arguments: Any) -> Awaitable[Any]:
        if not has_room(session_id):  # several arrived at the same moment
            raise ProtocolError("too many viewers")
        made: Awaitable[Any] = make(session_id, *arguments)
        return made

    context.create_session_if_needed = make_if_room
    server._tornado.add_handlers(".*", [Rule(_WhenFull(has_room), _TooMany)])


class _WhenFull(Matcher):
    """Matches requests that would create a page while there is no room."""

    def __init__(self, has_room: Callable[[object], bool]) -> None:
        self._has_room = has_room

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        if request.path not in _MAKES_A_PAGE:
            return None
        session_id = None
        if request.path == "/ws":
            # It creates a page, too, if the one that it names does not exist.
            with contextlib.suppress(Exception):
                token = request.headers["Sec-WebSocket-Protocol"].split(",")[1]
                session_id = get_session_id(token.strip())
        return None if self._has_room(session_id) else {}


class _TooMany(RequestHandler):
    """The reply to a viewer beyond the limit."""

    def get(self) -> None:
        self.set_status(503)
        self.set_header("Retry-After", "60")
        self.finish(_FULL)


def _new_page(simulations: Simulations) -> Any:
    """Return a new page for a new viewer."""
    document: Any = pn.state.curdoc
    context = document.session_context
    # Panel sets this while it renders the page. A page that was unused for too long is made again
    # for its websocket alone, and would then load style sheets from Panel's own server.
    document.template_variables["dist_url"] = LOCAL_DIST
    query = context.request.uri.partition("?")[2] if context and context.request else ""
    view, notices = read_query(query)

    def on_loop(change: Callable[[], None]) -> None:
        # Runs where Bokeh holds the document's lock and sends the changes.
        document.add_next_tick_callback(change)

    shown = Page(simulations, view, notices, on_loop)
    document.on_session_destroyed(lambda _: shown.leave())
    return shown.template()
