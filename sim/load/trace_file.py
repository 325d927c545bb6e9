"""The text format of traces; it is described in calibration/README.md.

The load generator in calibration/c/load replays the same file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..files.whole_files import write_whole

COLUMNS = ("at_ns", "requests", "request_bytes", "reply_bytes", "think_ns")
"""One entry a connection; see `workload.Trace`."""

Loop = Literal["open", "closed"]

_MAGIC = "# dispatchsim trace 1"


class TraceError(ValueError):
    """A trace that breaks a rule; the message names file, line, rule and value."""


def write_table(path: Path, loop: Loop, users: int, table: NDArray[np.int64]) -> None:
    """Write *table*, shape (connections, len(COLUMNS)), as text, whole or not at all."""
    write_whole(path, table_text(loop, users, table))


def table_text(loop: Loop, users: int, table: NDArray[np.int64]) -> str:
    """Return the text of a trace file."""
    text = io.StringIO()
    text.write(
        f"{_MAGIC}\nloop {loop}\nusers {users}\nconnections {len(table)}\n# {' '.join(COLUMNS)}\n"
    )
    np.savetxt(text, table, fmt="%d")
    return text.getvalue()


def read_table(path: Path) -> tuple[Loop, int, NDArray[np.int64]]:
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
