"""Third-party servers, and the runs of each: for the fit, or held out.

    servers.toml ──► RealServer ─┬─ fitted, others: Variant ─► command, environment, files, habits
                                 └─ asking, port, keys
    fit         fitted variant, no idle connections, 1 and 1000 requests a connection
    held out    fitted variant and other back ends at 250, 1000, 6000 idle connections;
                several workers and ways to accept without any

Sources: memcached(1); memcached's doc/threads.txt; event.h of libevent 2.1, event_base_new(). nginx
documentation, ngx_core_module and ngx_http_core_module (listen, reuseport). transmission-daemon(1);
its wiki, "Editing configuration files"; libevent 2.1 http.c. redis.conf of Redis 7.0; its
ae_epoll.c and networking.c, MAX_ACCEPTS_PER_CALL.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from ...calibration.observed.observed_run import (
    Habits,
    ObservedLoad,
    ObservedRun,
    ObservedServer,
    Source,
)
from ...calibration.observed.observing import Asking
from ...calibration.points.point import Point, point_at
from ...calibration.testbed.testbed import Testbed

ADDRESS, FOLDER = "{address}", "{folder}"
"""Placeholders in a command or configuration: the server's address, and its folder."""


@dataclass(frozen=True, eq=False)
class Variant:
    """One way to run a server.

    Attributes
    ----------
    name:
        The name in tables.
    habits:
        The behaviour by its configuration; a traced run checks it.
    command:
        The command, with ADDRESS and FOLDER as placeholders.
    environment:
        Variables added to the environment of this process.
    files:
        Configuration files to write into its folder, by name.
    """

    name: str
    habits: Habits
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The command as a shell takes it, with its environment: the name of a variant in records.

        >>> Variant("poll", Habits("poll"), ("memcached",), {"EVENT_NOEPOLL": "1"}).shown
        'env EVENT_NOEPOLL=1 memcached'
        """
        values = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*(["env", *values] if values else []), *map(_quoted, self.command)])

    def prepared(self, folder: Path, testbed: Testbed) -> list[str]:
        """Write the configuration into *folder* and return the command for *testbed*.

        Only the user who starts the server may change the folder: a server started by root loads
        the files that its configuration names. A server that drops root's rights makes its own
        sub-folders there first.
        """

        def filled(text: str) -> str:
            return text.replace(ADDRESS, testbed.address).replace(FOLDER, str(folder))

        for name, text in self.files.items():
            (folder / name).write_text(filled(text))
            (folder / name).chmod(0o644)
        # A server without root's rights may pass through it, not write to it.
        folder.chmod(0o711)
        return [filled(word) for word in self.command]


def _quoted(word: str) -> str:
    return word if ADDRESS in word or FOLDER in word else shlex.quote(word)


@dataclass(frozen=True, eq=False)
class RealServer:
    """A server, and the requests that it gets.

    Attributes
    ----------
    name:
        The name on the command line and in the report.
    package:
        The Debian package.
    port:
        The listening port.
    asking:
        The request of the clients.
    fitted:
        The variant that a fit may use.
    others:
        The held-out variants.
    value_bytes:
        Size of the value of each key, stored before a run; 0 for a server without keys.
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


def read_servers(path: Path) -> dict[str, RealServer]:
    """Return the servers described in *path*, by name."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: _server(name, row) for name, row in content.items()}


def _server(name: str, row: Mapping[str, Any]) -> RealServer:
    fitted, *others = (_variant(row, own) for own in row["variants"])
    return RealServer(
        name=name,
        package=row["package"],
        port=row["port"],
        asking=Asking(**row["asking"]),
        fitted=fitted,
        others=tuple(others),
        value_bytes=row.get("value_bytes", 0),
    )


def _variant(row: Mapping[str, Any], own: Mapping[str, Any]) -> Variant:
    """Return a variant of the server in *row*, with its words in place of their names."""

    def filled(text: str) -> str:
        for name, word in {"port": row["port"], **own.get("words", {})}.items():
            text = text.replace(f"{{{name}}}", str(word))
        return text

    return Variant(
        own["name"],
        Habits(**own["habits"]),
        tuple(map(filled, row["command"])),
        own.get("environment", {}),
        {filled(name): filled(text) for name, text in row.get("files", {}).items()},
    )


SERVERS = read_servers(Path(__file__).with_name("servers.toml"))
"""The servers, by their names on the command line and in the report."""
USERS = 64
IDLE_COUNTS = (0, 250, 1000, 6000)
REQUESTS = (1, 1000)
"""Requests of a connection: 1 shows the cost of a connection, 1000 that of a request."""
SELECT_IDLE_MAX = 900
"""libevent's select aborts if a descriptor does not fit into an fd_set of 1024."""


@dataclass(frozen=True)
class Case:
    """A variant of a server under one load."""

    server: RealServer
    variant: Variant
    requests: int
    idle: int = 0

    @property
    def is_fitted(self) -> bool:
        """Whether the fit may use it."""
        return self.variant is self.server.fitted and self.idle == 0

    @property
    def label(self) -> str:
        """The name of the case in messages."""
        return f"{self.server.name} {self.variant.name}, idle {self.idle}, requests {self.requests}"

    @property
    def load(self) -> Point:
        """The load of the case; its mechanism does not matter to the load generator."""
        return point_at(
            mechanism=self.variant.habits.mechanism,
            users=USERS,
            idle=self.idle,
            requests=self.requests,
        )

    @property
    def said(self) -> ObservedServer:
        """The description of the server in a run's record."""
        return ObservedServer(
            name=self.server.name,
            command=self.variant.shown,
            protocol=self.server.asking.protocol,
            **asdict(self.variant.habits),
        )

    @property
    def asked(self) -> ObservedRun:
        """The planned run: server and load, without results."""
        load = ObservedLoad(loop="closed", users=USERS, requests=self.requests, idle=self.idle)
        return ObservedRun(
            source=Source(tool="dispatchsim"),
            server=self.said,
            load=load,
            window_ns=1,
            offered=0,
            replied=0,
        )

    def is_of(self, run: ObservedRun) -> bool:
        """Return whether *run* belongs to this case."""
        return (run.server.name, run.server.command) == (self.said.name, self.said.command) and (
            run.load.requests,
            run.load.idle,
            run.load.users,
        ) == (self.requests, self.idle, USERS)


def cases_of(server: RealServer, *, quick: bool = False) -> list[Case]:
    """Return all cases of *server*, fitted ones first; *quick* keeps the ends of the ranges.

    >>> [case.label for case in cases_of(SERVERS["redis"], quick=True)][-1]
    'redis epoll, idle 1000, requests 1000'
    """
    idle_counts = (0, 1000) if quick else IDLE_COUNTS
    requests = REQUESTS[-1:] if quick else REQUESTS
    fit = [Case(server, server.fitted, n) for n in REQUESTS]
    held_out = [
        Case(server, variant, n, idle)
        for variant in (server.fitted, *server.others)
        for idle, n in product(_idle_counts(server, variant, idle_counts), requests)
    ]
    return [*fit, *(case for case in held_out if not case.is_fitted)]


def _idle_counts(
    server: RealServer, variant: Variant, idle_counts: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the numbers of idle connections that *variant* is measured with."""
    if variant.habits.mechanism == "select":
        return tuple(idle for idle in idle_counts if idle <= SELECT_IDLE_MAX)
    is_other_back_end = variant.habits.mechanism != server.fitted.habits.mechanism
    return idle_counts if is_other_back_end or variant is server.fitted else (0,)
