"""Transmission's daemon: HTTP by libevent's evhttp; what is not its own it answers with a 301.

Peers, their search and port mapping are off, so that its event loop has only the clients.
Sources: transmission-daemon(1); its wiki, "Editing configuration files"; libevent 2.1 http.c.
"""

from __future__ import annotations

import json
from dataclasses import replace

from ...calibration.observed.habits import Habits
from ...calibration.observed.observing import Asking
from .description import ADDRESS, FOLDER, RealServer, Variant
from .memcached_server import NO_EPOLL, NO_POLL

_PORT = 19091
_SETTINGS = {
    "rpc-enabled": True,
    "rpc-bind-address": ADDRESS,
    "rpc-port": _PORT,
    "rpc-whitelist-enabled": False,
    "rpc-host-whitelist-enabled": False,
    "rpc-authentication-required": False,
    "dht-enabled": False,
    "lpd-enabled": False,
    "pex-enabled": False,
    "utp-enabled": False,
    "port-forwarding-enabled": False,
    "bind-address-ipv4": "127.0.0.1",
    "bind-address-ipv6": "::1",
    "download-dir": FOLDER,
    "cache-size-mb": 0,
}
_FILES = {"settings.json": json.dumps(_SETTINGS, indent=4) + "\n"}
_COMMAND = ("transmission-daemon", "--foreground", "--config-dir", FOLDER)
_EPOLL = Habits("epoll_level", accept_limit=0)

TRANSMISSION = RealServer(
    name="transmission",
    package="transmission-daemon",
    port=_PORT,
    asking=Asking(protocol="http/1.1", path="/"),
    fitted=Variant("epoll", _EPOLL, _COMMAND, files=_FILES),
    others=(
        Variant("poll", replace(_EPOLL, mechanism="poll"), _COMMAND, NO_EPOLL, _FILES),
        Variant("select", replace(_EPOLL, mechanism="select"), _COMMAND, NO_POLL, _FILES),
    ),
)
