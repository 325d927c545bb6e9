"""The backend: another service, such as a database, that the server's requests wait for."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from .setting import Kind, Setting
from .units import PERMILLE


class BackendSettings(NamedTuple):
    """How the backend works, and how many connections the server keeps open to it.

    Without connections there is no backend. They are opened before the run and never closed.
    With delay_drawn each delay is random, with the mean delay_ns.
    """

    connections: Annotated[
        int,
        Setting(
            least=0,
            file_least=1,
            most=100_000,
            absent_is_0=True,
            needs=Kind.ASKS_BACKENDS,
            left_alone=True,
        ),
    ] = 0
    """Connections that the whole server keeps open to the backend, each with one request at a time.
    Event loops share them evenly; a thread takes one from a common pool, or sleeps until one is
    free."""
    delay_ns: Annotated[int, Setting(least=0, most="1 h", key=None)] = 0
    delay_drawn: Annotated[bool, Setting(key=None)] = False
    limit: Annotated[int, Setting(least=0, file_least=1, most=1_000_000, absent_is_0=True)] = 0
    """Requests that the backend serves at once; others queue there, in order. Absent: no bound."""
    share_permille: Annotated[int, Setting(least=0, run_most=PERMILLE)] = PERMILLE
    """Share of the requests that need the backend, chosen at random."""
