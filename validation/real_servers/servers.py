"""Servers of somebody else, as data: how each is started, what it is asked, what it can be told.

    RealServer ─┬─ fitted, others: Variant ─► command, environment, configuration, habits
                └─ asking, port, keys

Sources: memcached(1); memcached's doc/threads.txt; event.h of libevent 2.1, event_base_new(). nginx
documentation, ngx_core_module and ngx_http_core_module (listen, reuseport). transmission-daemon(1);
its wiki, "Editing configuration files"; libevent 2.1 http.c. redis.conf of Redis 7.0; its
ae_epoll.c and networking.c, MAX_ACCEPTS_PER_CALL.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...calibration.observed.observed_run import Habits
from ...calibration.observed.observing import Asking
from ...calibration.testbed.testbed import Testbed

ADDRESS, FOLDER = "{address}", "{folder}"
"""What stands in a command or a configuration for the server's address, and for its own folder."""


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to run a server.

    Attributes
    ----------
    name:
        For tables.
    habits:
        What its configuration says that it does; a traced run is held against it.
    command:
        With ADDRESS and FOLDER where these come.
    environment:
        Besides that of this process.
    files:
        Configuration to be written into its folder, by name.
    """

    name: str
    habits: Habits
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The command as a shell takes it, with its environment: what names a variant in records.

        >>> Variant("poll", Habits("poll"), ("memcached",), {"EVENT_NOEPOLL": "1"}).shown
        'env EVENT_NOEPOLL=1 memcached'
        """
        values = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*(["env", *values] if values else []), *map(_quoted, self.command)])

    def prepared(self, folder: Path, testbed: Testbed) -> list[str]:
        """Write the configuration into *folder* and return the command for *testbed*.

        Only the starter may change the folder: a server that root starts loads what its
        configuration names. A server that gives up root's rights makes sub-folders of its own
        there before it does.
        """

        def filled(text: str) -> str:
            return text.replace(ADDRESS, testbed.address).replace(FOLDER, str(folder))

        for name, text in self.files.items():
            (folder / name).write_text(filled(text))
            (folder / name).chmod(0o644)
        # Passed through, not written to, by a server that has given up the rights of its starter.
        folder.chmod(0o711)
        return [filled(word) for word in self.command]


def _quoted(word: str) -> str:
    return word if ADDRESS in word or FOLDER in word else shlex.quote(word)


@dataclass(frozen=True, eq=False)
class RealServer:
    """A server, and what is asked of it.

    Attributes
    ----------
    name:
        On the command line and in the report.
    package:
        Of Debian, where it is from.
    port:
        Where it listens.
    asking:
        What clients say.
    fitted:
        The variant that a fit may see.
    others:
        Those that are forecast.
    value_bytes:
        Of the value under each key, which are stored before a run; 0 for a server without keys.
    """

    name: str
    package: str
    port: int
    asking: Asking
    fitted: Variant
    others: tuple[Variant, ...] = ()
    value_bytes: int = 0

    @property
    def program(self) -> str:
        """The program that is started."""
        return self.fitted.command[0]

    def variant(self, name: str) -> Variant:
        """Return the variant *name*."""
        return next(variant for variant in (self.fitted, *self.others) if variant.name == name)


NO_EPOLL = {"EVENT_NOEPOLL": "1"}
NO_POLL = NO_EPOLL | {"EVENT_NOPOLL": "1"}


def _memcached(
    name: str,
    *,
    mechanism: str = "epoll_level",
    threads: int = 1,
    environment: Mapping[str, str] | None = None,
) -> Variant:
    """Return memcached with so many threads that serve."""
    habits = Habits(mechanism, accept_limit=1, share="handed over", workers=threads)
    options = ("-p", "11311", "-U", "0", "-l", ADDRESS, "-u", "nobody", "-c", "20000")
    return Variant(name, habits, ("memcached", *options, "-t", str(threads)), environment or {})


MEMCACHED = RealServer(
    name="memcached",
    package="memcached",
    port=11311,
    asking=Asking(protocol="memcached", key_prefix="key:", keys=100),
    value_bytes=100,
    fitted=_memcached("epoll"),
    others=(
        _memcached("poll", mechanism="poll", environment=NO_EPOLL),
        _memcached("select", mechanism="select", environment=NO_POLL),
        _memcached("two threads", threads=2),
    ),
)
"""One thread accepts and hands connections over, others serve them, each with libevent.

An environment variable takes a back end out of libevent's choice, so the same program waits with
epoll, with poll, or with select, which aborts beyond 1024 descriptors.
"""


_NGINX_PORT = 18080
_BODY = "dispatchsim " * 10 + "12345678"
_NGINX_ONE = Habits("epoll_edge", accept_limit=1)


def _nginx(
    name: str,
    habits: Habits,
    *,
    multi_accept: bool = False,
    accept_mutex: bool = False,
    reuseport: bool = False,
) -> Variant:
    """Return nginx with these directives; its answer has a body of 128 bytes."""
    # Made by the master, each for the user of the workers; the folder itself stays the master's.
    scratch = "\n".join(
        f"    {kind}_temp_path {FOLDER}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = f"""\
worker_processes {habits.workers};
worker_rlimit_nofile 20000;
daemon off;
pid {FOLDER}/nginx.pid;
error_log stderr;
events {{
    worker_connections 16000;
    multi_accept {"on" if multi_accept else "off"};
    accept_mutex {"on" if accept_mutex else "off"};
}}
http {{
    access_log off;
    keepalive_requests 1000000;
    keepalive_timeout 1h;
    client_header_timeout 1h;
{scratch}
    server {{
        listen {ADDRESS}:{_NGINX_PORT} backlog=4096{" reuseport" if reuseport else ""};
        location / {{ return 200 "{_BODY}"; }}
    }}
}}
"""
    file = f"{name.replace(' ', '_')}.conf"
    command = ("nginx", "-e", "stderr", "-p", FOLDER, "-c", f"{FOLDER}/{file}")
    return Variant(name, habits, command, files={file: text})


_NGINX_TWO = replace(_NGINX_ONE, workers=2)

NGINX = RealServer(
    name="nginx",
    package="nginx-light",
    port=_NGINX_PORT,
    asking=Asking(protocol="http/1.1"),
    fitted=_nginx("one worker", _NGINX_ONE),
    others=(
        _nginx("multi_accept", replace(_NGINX_ONE, accept_limit=0), multi_accept=True),
        _nginx("two workers", replace(_NGINX_TWO, wake="one")),
        _nginx("accept_mutex", replace(_NGINX_TWO, wake="one"), accept_mutex=True),
        _nginx("reuseport", replace(_NGINX_TWO, share="nothing"), reuseport=True),
    ),
)
"""One event loop a worker process, edge-triggered epoll, several ways to share a listener.

                    accept_mutex off    one queue; EPOLLEXCLUSIVE wakes one worker
    two workers     accept_mutex on     one queue; only who holds the lock watches it
                    reuseport           a queue for each
"""


_TRANSMISSION_PORT = 19091
_TRANSMISSION_SETTINGS = {
    "rpc-enabled": True,
    "rpc-bind-address": ADDRESS,
    "rpc-port": _TRANSMISSION_PORT,
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
_TRANSMISSION_FILES = {"settings.json": json.dumps(_TRANSMISSION_SETTINGS, indent=4) + "\n"}


def _transmission(
    name: str, mechanism: str, environment: Mapping[str, str] | None = None
) -> Variant:
    """Return Transmission's daemon, which waits with *mechanism* in that environment."""
    habits = Habits(mechanism, accept_limit=0)
    command = ("transmission-daemon", "--foreground", "--config-dir", FOLDER)
    return Variant(name, habits, command, environment or {}, _TRANSMISSION_FILES)


TRANSMISSION = RealServer(
    name="transmission",
    package="transmission-daemon",
    port=_TRANSMISSION_PORT,
    asking=Asking(protocol="http/1.1", path="/"),
    fitted=_transmission("epoll", "epoll_level"),
    others=(
        _transmission("poll", "poll", NO_EPOLL),
        _transmission("select", "select", NO_POLL),
    ),
)
"""HTTP by libevent's evhttp; what is not its own it answers with a 301.

Peers, their search and port mapping are off, so that its event loop has only the clients.
"""


REDIS = RealServer(
    name="redis",
    package="redis-server",
    port=6400,
    asking=Asking(protocol="resp", key_prefix="key:", keys=100),
    value_bytes=100,
    fitted=Variant(
        "epoll",
        Habits("epoll_level", accept_limit=0),
        (
            "redis-server", "--port", "6400", "--bind", ADDRESS, "--protected-mode", "no",
            "--save", "", "--appendonly", "no", "--maxclients", "19000",
        ),
    ),
)  # fmt: skip
"""One thread, an event loop of its own (ae) over epoll; it takes up to 1000 at a time."""
