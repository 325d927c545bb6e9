"""Bounds of requests from processes: sizes, timeouts, and the end of the run."""

from __future__ import annotations

from typing import Any

import simpy

from ..scenario.errors import UserError
from ..scenario.quantities import shown
from ..scenario.scenario import Scenario
from ..sim.engine.hosted import HostedRun
from ..sim.load.workload import REPLY_BYTES_MIN
from .clock import HostClock

REQUEST_MIN, REPLY_MIN = 1, REPLY_BYTES_MIN
"""Bytes of the smallest request, and of the smallest reply: its header."""
REQUEST_MAX = 65_536
"""Bytes of the largest request, as in load.request_size."""
BYTES_MAX = 1 << 40
"""Bytes of the largest reply: 1 TiB."""


class Terms:
    """Bounds and defaults of requests to the server of *scenario*, whose *run* is in *env*."""

    def __init__(
        self, env: simpy.Environment, clock: HostClock, run: HostedRun, scenario: Scenario
    ) -> None:
        self.env = env
        self.clock = clock
        self.run = run
        self._load = scenario.load.workload

    def check_runs(self, what: str) -> None:
        """Refuse the call *what* of a process after the end of the run.

        Raises
        ------
        UserError
            After the end, with *what*, the end and the current time.
        """
        now_ns, end_ns = self.clock.now_ns(), self.run.duration_ns
        if self.run.has_ended or now_ns > end_ns:
            raise UserError(
                f"{what}: must come before the end of the server's run (run.duration, "
                f"{self.clock.words(end_ns)}), got {self.clock.words(now_ns)}"
            )

    def sizes(self, size: int | None, reply_size: int | None) -> tuple[int, int]:
        """Return the bytes of a request and its reply, the scenario's for None.

        Raises
        ------
        UserError
            If one is out of bounds.
        """
        if size is None:
            size = self._load.request_bytes
        if reply_size is None:
            reply_size = self._load.reply_bytes
        return (
            check_bytes("size", size, REQUEST_MIN, REQUEST_MAX),
            check_bytes("reply_size", reply_size, REPLY_MIN),
        )

    def timeout_ns(self, timeout: float | None) -> int:
        """Return the timeout of a client, the scenario's load.timeout for None; 0: for ever.

        Raises
        ------
        UserError
            If it is no duration.
        """
        if timeout is None:
            return self.run.world.client.timeout_ns
        return self.clock.duration_ns("timeout", timeout)


def check_bytes(name: str, value: Any, least: int, most: int = BYTES_MAX) -> int:
    """Return *value*, a number of bytes.

    Raises
    ------
    UserError
        With *name*, rule and value, unless it is whole and within bounds.
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not (is_whole and least <= value <= most):
        raise UserError(
            f"{name}: must be a whole number of bytes from {least} to {most}, got {shown(value)}"
        )
    return int(value)
