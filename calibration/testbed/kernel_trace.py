"""Record events of the kernel on this machine, in a trace of one's own (tracefs; root).

Source: Linux Documentation/trace/events.rst, ftrace.rst ("Instances").
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .processes import RunError

TRACING = Path("/sys/kernel/tracing")
_BUFFER_KB = 16_384
_LINE = re.compile(r"\s*\S+\s+\[(\d+)\]\s+\S+\s+([\d.]+): (\w+)(.*)")


class Traced(NamedTuple):
    """One event on a CPU: its time in us, the name of the event, and its fields as text."""

    cpu: int
    at_us: float
    name: str
    fields: str


class KernelTrace:
    """A trace of some events, which `recorded` returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, text: str) -> None:
        """Write *text* to the file *name* of the trace."""
        (self._folder / name).write_text(text, encoding="ascii")

    def recorded(self, seconds: float, *, after_s: float = 0.0) -> list[Traced]:
        """Record for *seconds*, *after_s* from now; return the events in order of time."""
        time.sleep(after_s)
        self.write("trace", "\n")  # any text empties it
        self.write("tracing_on", "1")
        time.sleep(seconds)
        self.write("tracing_on", "0")
        return parsed((self._folder / "trace").read_text(encoding="utf-8", errors="replace"))


@contextlib.contextmanager
def kernel_trace(events: Sequence[str], tracing: Path = TRACING) -> Iterator[KernelTrace]:
    """Yield a trace of *events* ("irq/softirq_entry"), and remove it afterwards.

    Raises
    ------
    RunError
        If this user or kernel cannot trace these events.
    """
    folder = tracing / "instances" / f"dispatchsim-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        raise RunError(
            f"{folder}: the kernel cannot be traced: {error.strerror} (root is needed, and tracefs "
            f"at {tracing}: mount -t tracefs none {tracing})"
        ) from error
    trace = KernelTrace(folder)
    try:
        trace.write("tracing_on", "0")
        trace.write("buffer_size_kb", str(_BUFFER_KB))
        trace.write("trace_clock", "mono_raw")
        for event in events:
            trace.write(f"events/{event}/enable", "1")
        yield trace
    except OSError as error:
        raise RunError(f"{error.filename}: {error.strerror}") from error
    finally:
        folder.rmdir()


def parsed(text: str) -> list[Traced]:
    """Return the events in the *text* of a trace; other lines are left out.

    >>> parsed("  server-42  [000] ..s1.  773.459889: softirq_exit: vec=3 [action=NET_RX]")
    [Traced(cpu=0, at_us=773459889.0, name='softirq_exit', fields=': vec=3 [action=NET_RX]')]
    """
    found = (_LINE.match(line) for line in text.splitlines())
    return [Traced(int(m[1]), float(m[2]) * 1e6, m[3], m[4]) for m in found if m]
