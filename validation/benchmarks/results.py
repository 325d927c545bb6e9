"""What was measured: every repetition under the name of its metric, with median and best."""

from __future__ import annotations

import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

UNITS = {
    "speed": "/s",
    "workers": "/s",
    "queue": "/s",
    "call": "/s",
    "memory": "B",
    "compile": "s",
    "start": "s",
    "study": "s",
}
"""The groups of metrics in the order in which they are measured, with their units."""


class Metric(NamedTuple):
    """The name of a metric: a row of a table."""

    group: str
    case: str
    subject: str

    @property
    def unit(self) -> str:
        """The unit of its values; a rate is better the higher, all else the lower."""
        return UNITS[self.group]


class Results(dict[Metric, list[float]]):
    """The values of each metric, in the order of their repetitions."""

    def add(self, metric: Metric, value: float) -> None:
        """Record one repetition."""
        self.setdefault(metric, []).append(value)

    def median(self, metric: Metric) -> float:
        """Return the median of the repetitions.

        Raises
        ------
        KeyError
            If the metric was not measured.
        """
        return statistics.median(self[metric])

    def best(self, metric: Metric) -> float:
        """Return the best repetition: the highest rate, the lowest of anything else."""
        values = self[metric]
        return max(values) if metric.unit == "/s" else min(values)


Timer = Callable[[Callable[[], Any]], float]
"""Calls a function and returns what the call took."""


def cpu_seconds(function: Callable[[], Any]) -> float:
    """Return the CPU time of this thread that *function* takes, the garbage collector aside."""
    with no_collection():
        began_s = time.thread_time()
        function()
        return time.thread_time() - began_s


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from what is timed, after it has done its work."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
