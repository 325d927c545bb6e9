"""The rows of a trace that exists, handed out block by block."""

from __future__ import annotations

import numpy as np

from .trace_file import COLUMNS, TraceError
from .workload import Columns, Trace, TraceBlocks


class TraceSlices(TraceBlocks):
    """The rows of *trace*, block by block; with *repeat*, the first follows the last again.

    Raises
    ------
    TraceError
        If a trace is repeated whose starts are given: time cannot run backwards.
    """

    def __init__(self, trace: Trace, *, repeat: bool = False) -> None:
        super().__init__(trace.loop, trace.users)
        if repeat and (trace.loop == "open" or trace.at_ns[0] != trace.at_ns[-1]):
            raise TraceError("only a closed loop that starts all at once can be repeated")
        self._trace = trace
        self._repeat = repeat
        self._next = 0

    def _draw(self, n: int) -> Columns:
        rows = np.arange(self._next, self._next + n)
        rows = rows % len(self._trace) if self._repeat else rows[rows < len(self._trace)]
        self._next += rows.size
        return tuple(getattr(self._trace, name)[rows] for name in COLUMNS)
