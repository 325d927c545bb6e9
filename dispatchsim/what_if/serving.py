"""Serve the page: to this machine alone unless told otherwise, to so many and no more.

    browser ── GET ?rate=... ──► a page of its own (Bokeh session) ──► Session
            ◄─ websocket ──────►

What a browser sends are values of the page's own settings. No code and no path is taken from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import panel as pn
from panel.io.server import get_server
from tornado.ioloop import IOLoop
from tornado.websocket import WebSocketClosedError

from ..errors import UserError
from .choices import DEFAULT_MECHANISMS, profiles
from .page import Page
from .panels import panels
from .session import read_query
from .simulating import Simulations

VIEWERS_MAX = 40
"""Pages at a time, of some ten megabytes each."""
MESSAGE_MAX_BYTES = 65_536
_ANY = ("", "0.0.0.0", "::")
_UNUSED_MS = 4_000
_LOOK_MS = 1_000
_FULL = (
    f"<h1>Too many viewers</h1><p>This page is shown to at most {VIEWERS_MAX} at a time. "
    "Try again in a minute, or start one of your own: <code>dispatchsim explore</code>.</p>"
)


class Served:
    """A page that is being served.

    Attributes
    ----------
    address:
        For a browser.
    simulations:
        What simulates for all viewers.
    """

    def __init__(self, server: Any, address: str, simulations: Simulations) -> None:
        self._server = server
        self.address = address
        self.simulations = simulations

    @property
    def n_sessions(self) -> int:
        """How many pages are open."""
        return len(self._server.get_sessions())

    def run(self) -> None:
        """Serve until Ctrl-C, or until `stop` is called elsewhere."""
        self._server.start()  # from now on pages that nobody looks at are dropped
        self._server.io_loop.start()

    def stop(self) -> None:
        """Have `run` return; from any thread."""
        self._server.io_loop.add_callback(self._server.io_loop.stop)


@contextlib.contextmanager
def serving(
    port: int = 0, address: str = "127.0.0.1", *, workers: int = 2, compiles: bool = True
) -> Iterator[Served]:
    """Yield the page, ready to `run` in the thread that entered; all ends with the block.

    Parameters
    ----------
    port:
        0: one that is free.
    address:
        Of this machine: who can reach it can look.
    workers, compiles:
        As for `Simulations`.

    Raises
    ------
    UserError
        If the port is taken, or the address not of this machine.
    """
    _check_place(port, address)
    simulations = Simulations(workers, compiles=compiles)
    loop = IOLoop(make_current=False)
    loop.asyncio_loop.set_exception_handler(_who_left_hears_nothing)
    try:
        simulations.prepare(next(iter(profiles())), DEFAULT_MECHANISMS)
        panels()  # the charts are the same for all: nobody should wait for them
        server = _server(simulations, loop, port, address)
        try:
            host = f"[{address}]" if ":" in address else address
            yield Served(server, f"http://{host}:{server.port}/", simulations)
        finally:
            server.stop(wait=False)
    finally:
        simulations.close()
        loop.close(all_fds=True)


def _who_left_hears_nothing(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Pass on all that goes wrong but a page that was closed while it was being told something."""
    if not isinstance(context.get("exception"), WebSocketClosedError):
        loop.default_exception_handler(context)


def _check_place(port: int, address: str) -> None:
    """Refuse a port or an address at which nobody could listen, before anything is begun."""
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
                "--port 0 takes one that is"
            ) from None
        if error.errno == errno.EACCES:
            raise UserError(
                f"--port: must be at least 1,024 unless you are root, got {port}"
            ) from None
        raise UserError(f"--address: must be one of this machine, got {address}") from None


def _server(simulations: Simulations, loop: IOLoop, port: int, address: str) -> Any:
    """Return the server, which listens already."""
    pages: list[Page] = []
    for name in ("panel.io.document", "bokeh.server.views.ws"):
        # A page that was closed while it was being told something is no warning.
        logging.getLogger(name).setLevel(logging.ERROR)

    def page() -> Any:
        return _new_page(simulations, pages)

    return get_server(
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


def _new_page(simulations: Simulations, pages: list[Page]) -> Any:
    """Return a page of its own for whoever has come."""
    document: Any = pn.state.curdoc
    if len(pages) >= VIEWERS_MAX:
        return pn.pane.HTML(_FULL)  # type: ignore[no-untyped-call]
    context = document.session_context
    query = context.request.uri.partition("?")[2] if context and context.request else ""
    view, notices = read_query(query)

    def on_loop(change: Callable[[], None]) -> None:
        # Where Bokeh holds the document's lock and sends what has changed.
        document.add_next_tick_callback(change)

    shown = Page(simulations, view, notices, on_loop)
    pages.append(shown)

    def left(_: Any) -> None:
        shown.leave()
        pages.remove(shown)

    document.on_session_destroyed(left)
    return shown.template()
