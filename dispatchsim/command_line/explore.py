"""The command that serves the what-if page."""

from __future__ import annotations

import ipaddress
import os
import sys
import webbrowser
from typing import Annotated

import typer

from ..scenario.errors import UserError
from .door import notes, people

_PORT = 5006
_LOOPBACK = "127.0.0.1"


def explore(
    *,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Port; 0: any free port. Default: 5006, or another free port if it is taken.",
        ),
    ] = None,
    address: Annotated[
        str,
        typer.Option(
            help="Address to listen on. Anything but 127.0.0.1 exposes the page to the network."
        ),
    ] = _LOOPBACK,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = (True),
) -> None:
    """Serve a web page with sliders for what-if questions.

    dispatchsim explore

    The page is safe to share: visitors can send neither code nor files. Ctrl-C ends it.
    """
    from ..what_if import check_panel

    check_panel()
    from ..sim.engine.c.library import warn_if_no_engine
    from ..what_if.serving import check_place, serving

    warn_if_no_engine()

    if port is None:
        port = _PORT
        try:
            check_place(port, address)
        except UserError:
            port = 0  # if the address is wrong, `serving` raises
    with serving(port, address) as served:
        if not _is_loopback(address):
            notes().print(
                f"warning: everyone who reaches {address or 'this machine'} can open the page and "
                "use this machine's processors; it has no password and no encryption",
                markup=False,
                soft_wrap=True,
            )
        people().print(f"The page is at {served.address} (Ctrl-C ends it)", soft_wrap=True)
        sys.stdout.flush()
        if browser and _has_browser():
            webbrowser.open(served.address)
        served.run()
    people().print("ended")


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _has_browser() -> bool:
    """Return whether a browser can open a window: one in the terminal would take it over."""
    if sys.platform == "linux" and not ({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
