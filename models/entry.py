"""The description of a mechanism: its file declares it, models/catalogue.py collects it.

MY_EPOLL = Mechanism("my_epoll", ...)
ENTRIES = (entry(__name__, MY_EPOLL, MyEpollCosts, "Me 2030, §1", wait_call="my_wait"),)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from ..sim.state.mechanism import Mechanism

Borrowed = Mapping[str, tuple[str, ...]]
"""For each cost, alternative sums of measured costs: "epoll_level.add_ns - call.crossing_ns".

The first sum whose costs the profile has is used.
"""


class CSupport(StrEnum):
    """Where the C server of the mechanism runs (calibration/c/servers)."""

    LINUX = "Linux"
    INSERTED = "Linux with our insertions"  # calibration/emulated/kernel_mechanisms
    NONE = "none"


class Entry(NamedTuple):
    """A mechanism and its description.

    Attributes
    ----------
    mechanism:
        The mechanism for the engines.
    costs:
        The named tuple of its costs: a table of a profile.
    module:
        The module that declares it.
    about:
        One line: its name, and what it does.
    source:
        The publication or manual page that describes it.
    c_support:
        Where a real server with it runs.
    c_server:
        The file of that server in calibration/c/servers, without its ending.
    wait_call:
        The name of the call in which it waits, or what it does instead.
    program:
        The server program that uses it, by the name of its function.
    client:
        The client that uses it; "" if none does.
    words:
        Descriptions of costs whose meaning differs from the usual one
        (docs/making/cost_words.py).
    aliases:
        Other names in lower case with underscores: "epoll" of epoll_level.
    borrowed:
        Costs to use where none are measured: those of operations that do the same work.
    """

    mechanism: Mechanism
    costs: Any
    module: str
    about: str
    source: str
    c_support: CSupport
    c_server: str
    wait_call: str
    program: str
    client: str
    words: Mapping[str, str]
    borrowed: Borrowed
    aliases: tuple[str, ...]

    @property
    def runs_event_loop(self) -> bool:
        """Whether its program is the event loop."""
        return self.program in ("event_loop", "interrupted_loop")

    @property
    def runs_pool(self) -> bool:
        """Whether its workers are threads of a pool, which block or share a completion port."""
        return self.program in ("thread_per_connection", "port_pool")


def entry(
    module: str,
    mechanism: Mechanism,
    costs: Any,
    source: str,
    *,
    wait_call: str,
    about: str = "",
    c_support: CSupport = CSupport.NONE,
    c_server: str = "",
    program: str = "event_loop",
    client: str = "",
    words: Mapping[str, str] | None = None,
    borrowed: Borrowed | None = None,
    aliases: tuple[str, ...] = (),
) -> Entry:
    """Return the entry of *mechanism*, which *module* holds (`__name__`).

    The first line of the module is its description, and its C server has the module's name, unless
    *about* and *c_server* are given.
    """
    first_line = (sys.modules[module].__doc__ or "").split("\n", 1)[0]
    file = module.rpartition(".")[2]
    return Entry(
        mechanism=mechanism,
        costs=costs,
        module=module,
        about=about or first_line,
        source=source,
        c_support=c_support,
        c_server=c_server or file,
        wait_call=wait_call,
        program=program,
        client=client,
        words=words or {},
        borrowed=borrowed or {},
        aliases=aliases,
    )
