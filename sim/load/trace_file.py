"""A trace: the connections of a run, made before it, in memory and as a file.

One row a connection: its start, the number of its requests, the sizes of requests and replies, and
the client's pauses. calibration/README.md describes the text format of the file; the load generator
in calibration/c/load replays it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..files.whole_files import write_whole

COLUMNS = ("at_ns", "requests", "request_bytes", "reply_bytes", "think_ns")
"""One entry a connection; see `Trace`."""

REQUEST_COLUMNS = ("due_ns", "user")
"""One entry a request of kept connections: `Trace.arrival_ns` and `Trace.arrival_user`."""

Loop = Literal["open", "closed", "kept"]

CONNECTIONS_MAX = 50_000_000
REQUESTS_MAX = 2**31 - 1
"""Largest number of requests on a connection: such a connection is never closed."""
REPLY_BYTES_MIN = 64
"""The header of the smallest reply of the micro web server."""
_MAGIC = "# dispatchsim trace 1"


class TraceError(ValueError):
    """A trace that breaks a rule; the message names file, line, rule and value."""


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Trace:
    """The connections of a run, in order of their start.

    Attributes
    ----------
    loop:
        "open" (starts are given), "closed" (a user's next connection follows the last one; the
        starts of as many as there are users are given) or "kept" (each user keeps a connection, and
        opens the next one where it was lost; requests are due at given times).
    users:
        Concurrent users of a closed loop, or of kept connections; 0 in an open one.
    at_ns, requests, request_bytes, reply_bytes, think_ns:
        int64 arrays of one shape, one entry a connection.
    arrival_ns, arrival_user:
        For kept connections: due time of each request, ascending, and its user; int64 arrays of
        one shape, one entry a request.
    client_class:
        The class of each connection of an open loop; int64, of no entry where there is one class.
    user_class:
        The class of each user, in a closed loop in order of their start; int64, empty with one
        class. The class then determines the sizes and numbers of requests, not the columns of the
        connections.
    """

    loop: Loop
    users: int
    at_ns: NDArray[np.int64]
    requests: NDArray[np.int64]
    request_bytes: NDArray[np.int64]
    reply_bytes: NDArray[np.int64]
    think_ns: NDArray[np.int64]
    arrival_ns: NDArray[np.int64] = field(default_factory=_none)
    arrival_user: NDArray[np.int64] = field(default_factory=_none)
    client_class: NDArray[np.int64] = field(default_factory=_none)
    user_class: NDArray[np.int64] = field(default_factory=_none)

    def __post_init__(self) -> None:
        """Check every rule of the format, so that an engine can trust its input."""
        n = self.at_ns.size
        for name in COLUMNS:
            column = getattr(self, name)
            if column.shape != (n,) or column.dtype != np.int64:
                raise TraceError(f"{name} must be an int64 array of shape ({n},)")
        if not 1 <= n <= CONNECTIONS_MAX:
            raise TraceError(f"a trace needs 1 to {CONNECTIONS_MAX} connections, got {n}")
        if (self.loop != "open") != (self.users > 0):
            raise TraceError(
                f"users must be 0 in an open loop and at least 1 in a closed one, "
                f"got {self.users} in a {self.loop} loop"
            )
        for name, least in zip(COLUMNS, (0, 1, 1, REPLY_BYTES_MIN, 0), strict=True):
            column = getattr(self, name)
            if column.min() < least:
                row = int(np.argmax(column < least))
                raise TraceError(f"{name} must be at least {least}, got {column[row]} in row {row}")
        back = self.at_ns[1:] < self.at_ns[:-1]
        if back.any():
            i = int(np.argmax(back))
            raise TraceError(
                f"the trace is not sorted: arrival {i + 1} ({self.at_ns[i + 1]} ns) "
                f"precedes arrival {i} ({self.at_ns[i]} ns)"
            )
        self._check_arrivals()
        for name, n_rows in (("client_class", n), ("user_class", self.users)):
            column = getattr(self, name)
            if column.size and (column.shape != (n_rows,) or column.dtype != np.int64):
                raise TraceError(f"{name} must be an int64 array of shape ({n_rows},)")

    def _check_arrivals(self) -> None:
        at_ns, user = self.arrival_ns, self.arrival_user
        if self.loop != "kept":
            if at_ns.size or user.size:
                raise TraceError(f"arrivals must be of kept connections, got them {self.loop}")
            return
        if at_ns.shape != user.shape or at_ns.dtype != np.int64 or user.dtype != np.int64:
            raise TraceError("arrival_ns and arrival_user must be int64 arrays of one shape")
        if not 1 <= at_ns.size <= CONNECTIONS_MAX:
            raise TraceError(
                f"kept connections need 1 to {CONNECTIONS_MAX} requests, got {at_ns.size}"
            )
        if len(self) < self.users:
            raise TraceError(f"{self.users} users need as many connections, got {len(self)}")
        if at_ns[0] < 0 or (at_ns[1:] < at_ns[:-1]).any():
            raise TraceError("arrival_ns must ascend, and not be negative")
        if user.min() < 0 or user.max() >= self.users:
            raise TraceError(
                f"arrival_user must be 0 to {self.users - 1}, got {user.min()} to {user.max()}"
            )

    def __len__(self) -> int:
        """Return the number of connections."""
        return int(self.at_ns.size)

    def write(self, path: Path | str) -> None:
        """Write the trace as text, whole or not at all."""
        write_whole(Path(path), self.text())

    def text(self) -> str:
        """Return the trace as `write` writes it; that of kept connections ends with its requests.

        The load generator replays either. `read` takes no requests.

        Raises
        ------
        TraceError
            If users are of several classes, which the format does not have.
        """
        if self.user_class.size:
            raise TraceError("a trace file has no classes of users")
        text = io.StringIO()
        text.write(
            f"{_MAGIC}\nloop {self.loop}\nusers {self.users}\nconnections {len(self)}\n"
            f"# {' '.join(COLUMNS)}\n"
        )
        np.savetxt(text, np.column_stack([getattr(self, name) for name in COLUMNS]), fmt="%d")
        if self.loop == "kept":
            text.write(f"requests {self.arrival_ns.size}\n# {' '.join(REQUEST_COLUMNS)}\n")
            np.savetxt(text, np.column_stack([self.arrival_ns, self.arrival_user]), fmt="%d")
        return text.getvalue()

    @classmethod
    def read(cls, path: Path | str) -> Trace:
        """Read a trace file.

        Raises
        ------
        TraceError
            With file, line, rule and value, when the file breaks the format.
        """
        loop, users, table = _read(Path(path))
        try:
            return cls(loop, users, *(np.ascontiguousarray(column) for column in table.T))
        except TraceError as error:
            raise TraceError(f"{path}: {error}") from None


def _read(path: Path) -> tuple[Loop, int, NDArray[np.int64]]:
    """Return loop, users and the table, shape (connections, len(COLUMNS)), of a trace file.

    Raises
    ------
    TraceError
        With file, line, rule and value, when the file is not of the format.
    """
    lines = _lines(path)
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
    loop: Loop = "open" if header["loop"] == "open" else "closed"
    return loop, users, np.array(rows, dtype=np.int64).reshape(n, len(COLUMNS))


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
    if len(words) != len(COLUMNS):
        raise TraceError(f'{where}: expected {len(COLUMNS)} numbers, got "{text}"')
    return [_whole(word, f"{where}: {name}") for word, name in zip(words, COLUMNS, strict=True)]
