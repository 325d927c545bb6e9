"""The mechanisms by name, with their descriptions and the programs that use them.

Each mechanism is described in its own file (models/entry.py); the files are listed here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from types import ModuleType

from ..sim.state.mechanism import Mechanism, Program
from .completions import aio_poll, completion_port, io_uring
from .entry import CSupport, Entry
from .epoll import epoll_ctlv, epoll_edge, epoll_level, epoll_once, other_kernels
from .programs.clients import client_loop, client_threads
from .programs.completions import completion_loop, port_pool
from .programs.event_loop import event_loop
from .programs.thread_per_connection import thread_per_connection
from .scans import dev_poll, poll_pollfd, select_fdset
from .signals import signal_handlers, signalled
from .signals.signal_handlers import interrupted_loop
from .threads import blocking

__all__ = ["CSupport", "Entry"]  # handed on

_FILES = (
    *(select_fdset, poll_pollfd, dev_poll),
    *(signalled, signal_handlers),
    *(epoll_level, epoll_edge, epoll_once, epoll_ctlv, blocking),
    *(other_kernels, aio_poll, io_uring, completion_port),
)
"""The files of built-in mechanisms: the one place to add a mechanism, besides its file."""

_PROGRAMS: dict[str, Callable[[Mechanism], Program]] = {
    make.__name__: make
    for make in (
        *(event_loop, interrupted_loop, completion_loop, port_pool, thread_per_connection),
        *(client_loop, client_threads),
    )
}
"""Functions that make the server programs and clients of a mechanism, by name."""


def catalogue_of(files: Iterable[ModuleType]) -> dict[str, Entry]:
    """Return the mechanisms that *files* declare as their ENTRIES, by name."""
    return {each.mechanism.name: each for file in files for each in file.ENTRIES}


CATALOGUE: dict[str, Entry] = catalogue_of(_FILES)
"""Every built-in mechanism."""

MECHANISMS: dict[str, Mechanism] = {name: entry.mechanism for name, entry in CATALOGUE.items()}
"""The mechanisms themselves."""

ALIASES: dict[str, str] = {
    alias: name for name, entry in CATALOGUE.items() for alias in entry.aliases
}
"""Other names of mechanisms -> their names."""

CLIENTS: tuple[str, ...] = tuple(name for name, entry in CATALOGUE.items() if entry.client)
"""Mechanisms that a client can use, too."""

making_programs = threading.Lock()
"""Held while a program is made; otherwise each thread would make and compile its own."""


def named(name: str) -> str:
    """Return the mechanism's name for the alias *name*; unknown names are returned unchanged.

    >>> named("epoll"), named("IO-uring"), named("poll"), named("carrier pigeon")
    ('epoll_level', 'io_uring', 'poll', 'carrier pigeon')
    """
    plain = "_".join(re.split(r"[-_ ]+", name.strip().lower()))
    if name in CATALOGUE or plain not in {*CATALOGUE, *ALIASES}:
        return name
    return ALIASES.get(plain, plain)


def server_of(entry: Entry) -> Program:
    """Return the server program that uses the mechanism of *entry*."""
    with making_programs:
        return _PROGRAMS[entry.program](entry.mechanism)


def client_of(entry: Entry) -> Program | None:
    """Return the client that uses the mechanism of *entry*, if there is one."""
    with making_programs:
        return _PROGRAMS[entry.client](entry.mechanism) if entry.client else None


def client_with(name: str) -> Program:
    """Return the client that waits with the mechanism *name*.

    Raises
    ------
    ValueError
        If there is none.
    """
    entry = CATALOGUE.get(named(name))
    client = client_of(entry) if entry else None
    if client is None:
        raise ValueError(f'a client\'s mechanism must be one of {", ".join(CLIENTS)}, got "{name}"')
    return client
