"""What is to be measured of somebody else's server: how it starts, what it is asked, how often.

command or pid, port ──┐
protocol, keys ────────┼──► ServerPlan ──► measuring_server
loads, repeats ────────┘
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..measure.macro import Timing
from ..points.points import Point
from .observed_run import ObservedServer
from .observing import Asking

OWN = "own"
"""The driver that is our load generator."""
NO_TRACER = "none"
KEYED = ("memcached", "resp")
"""Protocols of which clients ask for keys."""


@dataclass(frozen=True)
class ServerPlan:
    """What is to be measured.

    Attributes
    ----------
    command, pid:
        How the server is started, `{address}` standing for where it shall listen; or the process
        that it is.
    port, address:
        Where it listens; the address only of one that is there already.
    asking, value_bytes:
        What clients say, and how long the values are that they ask for.
    loads, repeats:
        Each load so many times.
    driver:
        OWN, or one of `tool_load.TOOLS`.
    tracer:
        One of `tracers.TRACERS`, NO_TRACER, or empty: whichever is there.
    environment:
        Of the server, beside that of this process.
    timing:
        How long the parts of a run last.
    said:
        What its owner says of its habits; it goes before what is recognised.
    """

    port: int
    command: str = ""
    pid: int = 0
    address: str = "127.0.0.1"
    asking: Asking = field(default_factory=Asking)
    value_bytes: int = 100
    loads: tuple[Point, ...] = ()
    repeats: int = 3
    driver: str = OWN
    tracer: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    timing: Timing = field(default_factory=Timing)
    said: ObservedServer = field(default_factory=ObservedServer)

    @property
    def asked(self) -> str:
        """What clients ask for, in words; what a request takes depends on it."""
        asking = self.asking
        if asking.protocol in KEYED:
            return f"GET of {asking.keys} keys of {self.value_bytes} bytes"
        return f"GET {asking.path} of {asking.host}"

    def command_text(self) -> str:
        """Return how the server was started, for the record."""
        if self.pid:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{self.pid}/cmdline").read_text(errors="replace").split("\0")
                return " ".join(words).strip()
            return ""
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*settings, self.command])
