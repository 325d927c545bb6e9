"""Recordings of the host's gaps for a simulated run, from a file of `lab gaps`.

Each row is a recording (calibration/records/gap_records.py): its machine, its CPU, the work on
the other CPU, its length, and its gaps. If several have the same name, the last one counts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...sim.state.host_gaps import HostGaps, gaps_problem
from .cost_profile import ProfileError


class Recording(NamedTuple):
    """The gaps of one CPU, and the id of its machine."""

    machine: str
    gaps: HostGaps


def recording_name(cpu: str, beside: str) -> str:
    """Return the name of a recording.

    >>> recording_name("server", "nothing"), recording_name("client", "packets")
    ('server', 'client beside packets')
    """
    return cpu if beside == "nothing" else f"{cpu} beside {beside}"


def recordings(source: str) -> dict[str, Recording]:
    """Return the recordings in the file *source*, by name.

    Raises
    ------
    ProfileError
        If the file cannot be read or holds something else; with file, line, rule and value.
    """
    try:
        changed_ns = Path(source).stat().st_mtime_ns
    except OSError as error:
        raise ProfileError(f"{source}: the file: must be readable, got {error.strerror}") from error
    return _read(source, changed_ns)


def in_order(
    at_ns: Sequence[int], length_ns: Sequence[int], period_ns: int, *, is_drawn: bool
) -> HostGaps:
    """Return measured gaps in whole ns without the overlaps of 1 ns that rounding may cause."""
    begins, lengths, end_ns = [], [], 0
    for begin_ns, length in zip(at_ns, length_ns, strict=True):
        from_ns, until_ns = max(begin_ns, end_ns), begin_ns + length
        if until_ns > from_ns:
            begins.append(from_ns)
            lengths.append(until_ns - from_ns)
            end_ns = until_ns
    return HostGaps(tuple(begins), tuple(lengths), max(period_ns, end_ns + 1), is_drawn)


@functools.lru_cache(maxsize=8)
def _read(source: str, changed_ns: int) -> dict[str, Recording]:
    del changed_ns  # only a key of the cache
    found = {}
    lines = Path(source).read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            name = recording_name(row["cpu"], row["beside"])
            gaps = in_order(
                row["gaps"]["at_ns"], row["gaps"]["length_ns"], row["elapsed_ns"], is_drawn=True
            )
            found[name] = Recording(row["machine"], gaps)
        except (ValueError, TypeError, KeyError) as error:
            raise ProfileError(
                f"{source} line {number}: must be a recording of `dispatchsim lab gaps`, "
                f"got {line:.40} ({type(error).__name__}: {error})"
            ) from error
        if problem := gaps_problem(gaps):
            raise ProfileError(f"{source} line {number}: gaps.{problem}")
    return found
