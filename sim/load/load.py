"""What a load consists of, whoever asks for it: a scenario, or an operating point of a testbed.

    Load ─┬─ trace(seed, seconds, rows) ──► Trace          all rows, to be replayed or simulated
          └─ blocks(seed, seconds) ───────► TraceBlocks    the same rows, drawn as they are needed

In an open loop the rows of a longer run begin with those of a shorter one.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from .arrivals import Pattern
from .reply_sizes import ReplyMix
from .trace_file import Loop
from .workload import (
    ClosedLoopBlocks,
    OpenLoopBlocks,
    Think,
    Trace,
    TraceBlocks,
    closed_loop,
    open_loop,
)


class Load(NamedTuple):
    """Connections that arrive at *rate_per_s*, or *users* who open one after the other.

    `rate_per_s`, `process` and the `pattern` by which the rate changes are of an open loop, `users`
    of a closed one; the rest is what each connection asks for, with replies of one size or of a
    mixture, and think times of mean `think_ns`, which in a closed loop spread as `think` says.
    """

    loop: Loop
    users: int = 0
    rate_per_s: float = 0
    process: Literal["poisson", "constant"] = "poisson"
    pattern: Pattern | None = None
    requests: int = 1
    request_bytes: int = 64
    reply_bytes: int = 128
    reply_mix: ReplyMix | None = None
    think_ns: int = 0
    think: Think = "exponential"

    def trace(self, seed: int, seconds: float, rows: int) -> Trace:
        """Return the arrivals of *seconds* in an open loop, *rows* connections in a closed one.

        Raises
        ------
        TraceError
            If there would be none or absurdly many of them.
        """
        if self.loop == "open":
            return open_loop(**self._open(seed, seconds))
        return closed_loop(users=self.users, connections=rows, think=self.think, **self._each(seed))

    def blocks(self, seed: int, seconds: float) -> TraceBlocks:
        """Return the rows of `trace` block by block; in a closed loop they do not end."""
        if self.loop == "open":
            return OpenLoopBlocks(**self._open(seed, seconds))
        return ClosedLoopBlocks(
            users=self.users, connections=None, think=self.think, **self._each(seed)
        )

    def _open(self, seed: int, seconds: float) -> dict[str, Any]:
        arrivals = {
            "rate_per_s": self.rate_per_s,
            "seconds": seconds,
            "process": self.process,
            "pattern": self.pattern,
        }
        return arrivals | self._each(seed)

    def _each(self, seed: int) -> dict[str, Any]:
        return {
            "seed": seed,
            "requests": self.requests,
            "request_bytes": self.request_bytes,
            "reply_bytes": self.reply_bytes,
            "reply_mix": self.reply_mix,
            "think_ns": self.think_ns,
        }
