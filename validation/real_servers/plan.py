"""Servers of somebody else, and which runs are made of each: for a fit, or to be forecast.

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


def read_servers(path: Path) -> dict[str, RealServer]:
    """Return the servers that *path* describes, by name."""
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
    """Return a variant of the server in *row*, with its own words where their names stand."""

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
"""By their names on the command line and in the report."""
USERS = 64
IDLE_COUNTS = (0, 250, 1000, 6000)
REQUESTS = (1, 1000)
"""Of a connection: what a connection costs, and what a request does."""
SELECT_IDLE_MAX = 900
"""libevent's select aborts where a descriptor does not fit an fd_set of 1024."""


@dataclass(frozen=True)
class Case:
    """A variant of a server under one load."""

    server: RealServer
    variant: Variant
    requests: int
    idle: int = 0

    @property
    def is_fitted(self) -> bool:
        """Whether the fit may see it."""
        return self.variant is self.server.fitted and self.idle == 0

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.server.name} {self.variant.name}, idle {self.idle}, requests {self.requests}"

    @property
    def load(self) -> Point:
        """What the load generator does; of its mechanism the load generator knows nothing."""
        return point_at(
            mechanism=self.variant.habits.mechanism,
            users=USERS,
            idle=self.idle,
            requests=self.requests,
        )

    @property
    def said(self) -> ObservedServer:
        """What a run's record says of the server."""
        return ObservedServer(
            name=self.server.name,
            command=self.variant.shown,
            protocol=self.server.asking.protocol,
            **asdict(self.variant.habits),
        )

    @property
    def asked(self) -> ObservedRun:
        """The run as it is planned: what is asked of whom, and nothing that was seen."""
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
        """Return whether *run* is one of this case."""
        return (run.server.name, run.server.command) == (self.said.name, self.said.command) and (
            run.load.requests,
            run.load.idle,
            run.load.users,
        ) == (self.requests, self.idle, USERS)


def cases_of(server: RealServer, *, quick: bool = False) -> list[Case]:
    """Return all cases of *server*, those to fit first; *quick* keeps the ends of the ranges.

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
    """Return how many idle connections *variant* is measured with."""
    if variant.habits.mechanism == "select":
        return tuple(idle for idle in idle_counts if idle <= SELECT_IDLE_MAX)
    is_other_back_end = variant.habits.mechanism != server.fitted.habits.mechanism
    return idle_counts if is_other_back_end or variant is server.fitted else (0,)
