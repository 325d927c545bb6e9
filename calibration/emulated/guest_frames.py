"""What a guest's frames hold: the structs of guest/job_macro.c, and where two runs differ first.

All numbers are 64 bits wide and little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..records.run_result import Records
from ..testbed.processes import RunError

Frames = Mapping[str, bytes]

# struct wire_status of wire/wire.h
STATUS_FIELDS = (
    "now_ns", "idle_ns", "n_interrupts", "n_polls", "n_packets_to_server",
    "n_packets_from_server", "n_syn_retries", "n_request_retries", "n_lost", "n_manual",
    "n_connected", "n_manual_replies", "n_manual_gone", "playing", "n_started", "n_finished",
    "n_replied", "n_timeout", "n_refused", "n_reset", "n_replies", "n_open_max",
)  # fmt: skip
# struct usage of guest/job_macro.c
USAGE_FIELDS = ("run_ns", "n_switches_voluntary", "n_switches_involuntary")
TIMES_FIELDS = ("begin_ns", "window_begin_ns", "window_end_ns")
# struct wire_record of wire/wire.h
RECORD_FIELDS = ("intended_ns", "started_ns", "connected_ns", "done_ns", "status")


@dataclass(frozen=True)
class MacroFrames:
    """The frames of a macro job."""

    counters_before: dict[str, int]
    counters_after: dict[str, int]
    wire_before: dict[str, int]
    wire_after: dict[str, int]
    wire_end: dict[str, int]
    usage_before: dict[str, int]
    usage_after: dict[str, int]
    times: dict[str, int]
    records: Records


def macro_frames(frames: Frames, counters: Sequence[str]) -> MacroFrames:
    """Return the content of *frames*; *counters* are the names of the server's counters.

    Raises
    ------
    RunError
        If a frame is missing or of another size.
    """

    def numbers(name: str) -> dict[str, int]:
        fields = _fields(name, counters)
        values = _content(frames, name, len(fields))[0]
        return dict(zip(fields, values.tolist(), strict=True))

    table = _content(frames, "records", len(RECORD_FIELDS))
    return MacroFrames(
        counters_before=numbers("counters_before"),
        counters_after=numbers("counters_after"),
        wire_before=numbers("wire_before"),
        wire_after=numbers("wire_after"),
        wire_end=numbers("wire_end"),
        usage_before=numbers("usage_before"),
        usage_after=numbers("usage_after"),
        times=numbers("times"),
        records=Records(*table.T),
    )


def first_difference(one: Frames, two: Frames, counters: Sequence[str]) -> str:
    r"""Return the first field in which two runs differ, with both values; empty if in none.

    >>> frames = {"times": bytes(16) + b"\x07" + bytes(7)}
    >>> first_difference(frames, {"times": bytes(24)}, ())
    'times.window_end_ns: 7, then 0'
    """
    for name in dict.fromkeys([*one, *two]):
        first, second = one.get(name, b""), two.get(name, b"")
        if first == second:
            continue
        fields = _fields(name, counters)
        if len(first) != len(second) or not fields or len(first) % (8 * len(fields)):
            return f"{name}: {len(first)} bytes, then {len(second)}"
        a, b = (np.frombuffer(content, "<i8") for content in (first, second))
        at = int(np.flatnonzero(a != b)[0])
        row, column = divmod(at, len(fields))
        where = f"{name}[{row}]" if name == "records" else name
        return f"{where}.{fields[column]}: {a[at]}, then {b[at]}"
    return ""


def _fields(name: str, counters: Sequence[str]) -> Sequence[str]:
    """Return the names of the numbers in a row of the frame *name*."""
    rows = {"times": TIMES_FIELDS, "records": RECORD_FIELDS}
    starts = {"counters_": counters, "wire_": STATUS_FIELDS, "usage_": USAGE_FIELDS}
    by_start = [fields for start, fields in starts.items() if name.startswith(start)]
    return rows.get(name) or (by_start[0] if by_start else ())


def _content(frames: Frames, name: str, n_columns: int) -> NDArray[np.int64]:
    """Return the rows of a frame."""
    content = frames.get(name, b"")
    if name not in frames or len(content) % (8 * n_columns) or not (content or name == "records"):
        raise RunError(
            f"the guest's frame {name} must hold rows of {8 * n_columns} bytes, got {len(content)}"
        )
    return np.frombuffer(content, "<i8").reshape(-1, n_columns).astype(np.int64)
