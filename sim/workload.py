"""What clients ask of a server: a trace, drawn before the run, for simulator and testbed alike.

One row a connection: when it should start, how many requests it makes, how large they and their
replies are, and how long the client thinks. The text format is described in
calibration/README.md; the load generator in calibration/load replays the same file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .streams import generator
from .units import SECOND_NS
from .whole_files import write_whole

_MAGIC = "# dispatchsim trace 1"
_COLUMNS = ("at_ns", "requests", "request_bytes", "reply_bytes", "think_ns")
_CONNECTIONS_MAX = 50_000_000
REPLY_BYTES_MIN = 64
"""The header of the smallest reply of the micro web server."""


class TraceError(ValueError):
    """A trace that breaks a rule; the message names file, line, rule and value."""


@dataclass(frozen=True)
class Trace:
    """The connections of a run, in order of their start.

    Attributes
    ----------
    loop:
        "open" (starts are given) or "closed" (a user's next connection follows the last one).
    users:
        Concurrent users of a closed loop; 0 in an open one.
    at_ns, requests, request_bytes, reply_bytes, think_ns:
        int64 arrays of one shape, one entry a connection.
    """

    loop: Literal["open", "closed"]
    users: int
    at_ns: NDArray[np.int64]
    requests: NDArray[np.int64]
    request_bytes: NDArray[np.int64]
    reply_bytes: NDArray[np.int64]
    think_ns: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Check every rule of the format, so that an engine can trust its input."""
        n = self.at_ns.size
        for name in _COLUMNS:
            column = getattr(self, name)
            if column.shape != (n,) or column.dtype != np.int64:
                raise TraceError(f"{name} must be an int64 array of shape ({n},)")
        if not 1 <= n <= _CONNECTIONS_MAX:
            raise TraceError(f"a trace needs 1 to {_CONNECTIONS_MAX} connections, got {n}")
        if (self.loop == "closed") != (self.users > 0):
            raise TraceError(
                f"users must be 0 in an open loop and at least 1 in a closed one, "
                f"got {self.users} in a {self.loop} loop"
            )
        for name, least in zip(_COLUMNS, (0, 1, 1, REPLY_BYTES_MIN, 0), strict=True):
            column = getattr(self, name)
            wrong = np.flatnonzero(column < least)
            if wrong.size:
                raise TraceError(
                    f"{name} must be at least {least}, got {column[wrong[0]]} in row {wrong[0]}"
                )
        back = np.flatnonzero(np.diff(self.at_ns) < 0)
        if back.size:
            i = int(back[0])
            raise TraceError(
                f"the trace is not sorted: arrival {i + 1} ({self.at_ns[i + 1]} ns) "
                f"precedes arrival {i} ({self.at_ns[i]} ns)"
            )

    def __len__(self) -> int:
        """Return the number of connections."""
        return int(self.at_ns.size)

    def write(self, path: Path | str) -> None:
        """Write the trace as text, whole or not at all."""
        table = np.column_stack([getattr(self, name) for name in _COLUMNS])
        text = io.StringIO()
        text.write(
            f"{_MAGIC}\nloop {self.loop}\nusers {self.users}\n"
            f"connections {len(self)}\n# {' '.join(_COLUMNS)}\n"
        )
        np.savetxt(text, table, fmt="%d")
        write_whole(Path(path), text.getvalue())

    @classmethod
    def read(cls, path: Path | str) -> Trace:
        """Read a trace file.

        Raises
        ------
        TraceError
            With file, line, rule and value, when the file breaks the format.
        """
        lines = _lines(Path(path))
        header = {}
        for key in ("loop", "users", "connections"):
            number, text = next(lines, (0, ""))
            words = text.split()
            if len(words) != 2 or words[0] != key:
                raise TraceError(f'{path} line {number}: expected "{key} VALUE", got "{text}"')
            header[key] = words[1]
        if header["loop"] not in ("open", "closed"):
            raise TraceError(f'{path}: loop must be open or closed, got "{header["loop"]}"')
        users = _whole(header["users"], f"{path}: users")
        n = _whole(header["connections"], f"{path}: connections")
        rows = [_row(text, f"{path} line {number}") for number, text in lines]
        if len(rows) != n:
            raise TraceError(f"{path}: connections is {n}, but {len(rows)} rows follow")
        table = np.array(rows, dtype=np.int64).reshape(n, len(_COLUMNS))
        columns = (np.ascontiguousarray(table[:, i]) for i in range(len(_COLUMNS)))
        try:
            loop: Literal["open", "closed"] = "open" if header["loop"] == "open" else "closed"
            return cls(loop, users, *columns)
        except TraceError as error:
            raise TraceError(f"{path}: {error}") from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines that are neither empty nor comments."""
    try:
        with path.open(errors="strict") as file:
            first = file.readline().rstrip("\n")
            if first != _MAGIC:
                raise TraceError(f'{path} line 1: expected "{_MAGIC}", got "{first[:60]}"')
            for number, line in enumerate(file, start=2):
                text = line.split("#", 1)[0].strip()
                if text:
                    yield number, text
    except UnicodeDecodeError:
        raise TraceError(f"{path}: not a text file") from None


def _whole(text: str, what: str) -> int:
    """Return *text* as a whole number of at most 63 bits."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise TraceError(f'{what} must be a whole number from 0, got "{text}"')
    return int(text)


def _row(text: str, where: str) -> list[int]:
    words = text.split()
    if len(words) != len(_COLUMNS):
        raise TraceError(f'{where}: expected {len(_COLUMNS)} numbers, got "{text}"')
    return [_whole(word, f"{where}: {name}") for word, name in zip(words, _COLUMNS, strict=True)]


def open_loop(
    *,
    rate_per_s: float,
    seconds: float,
    seed: int,
    process: Literal["poisson", "constant"] = "poisson",
    requests: int = 1,
    request_bytes: int = 64,
    reply_bytes: int = 128,
    think_ns: int = 0,
) -> Trace:
    """Return connections that arrive at *rate_per_s* for *seconds*, whatever the server does.

    Raises
    ------
    TraceError
        If rate or duration are not positive, or the trace would be empty or absurdly long.
    """
    if not rate_per_s > 0 or not seconds > 0:
        raise TraceError(f"rate and duration must be positive, got {rate_per_s}/s for {seconds} s")
    if rate_per_s * seconds > _CONNECTIONS_MAX:
        raise TraceError(f"{rate_per_s}/s for {seconds} s is over {_CONNECTIONS_MAX} connections")
    if process == "constant":
        at_ns = np.rint(np.arange(int(rate_per_s * seconds)) * (SECOND_NS / rate_per_s))
    else:
        # Drawn in one block that is long enough in all but absurd cases, then cut at the horizon.
        mean = rate_per_s * seconds
        n = int(mean + 10 * mean**0.5 + 10)
        gaps_ns = generator(seed, "arrivals").exponential(SECOND_NS / rate_per_s, n)
        at_ns = np.rint(np.cumsum(gaps_ns))
        at_ns = at_ns[at_ns < seconds * SECOND_NS]
    per_connection = (requests, request_bytes, reply_bytes, think_ns)
    return _uniform("open", 0, at_ns.astype(np.int64), per_connection)


def closed_loop(
    *,
    users: int,
    connections: int,
    seed: int = 0,
    requests: int = 1,
    request_bytes: int = 64,
    reply_bytes: int = 128,
    think_ns: int = 0,
) -> Trace:
    """Return *connections* opened by *users*, each of whom starts the next when the last ended.

    Think times are exponential with mean *think_ns* (0: none), one draw a connection.
    """
    per_connection = (requests, request_bytes, reply_bytes, think_ns)
    trace = _uniform("closed", users, np.zeros(connections, np.int64), per_connection)
    if think_ns:
        drawn = generator(seed, "think").exponential(think_ns, connections)
        trace.think_ns[:] = np.rint(drawn).astype(np.int64)
    return trace


def _uniform(
    loop: Literal["open", "closed"],
    users: int,
    at_ns: NDArray[np.int64],
    per_connection: tuple[int, int, int, int],
) -> Trace:
    columns = (np.full(at_ns.size, value, np.int64) for value in per_connection)
    return Trace(loop, users, at_ns, *columns)
