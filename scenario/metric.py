"""What a metric of a run is: its name, its unit, its words, and how it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from ..sim.figures.summary import Summary
from .formats import number_text, share_text, size_text, time_text


class Kind(StrEnum):
    """The unit of a metric, by which its values are read and printed."""

    TIME = "ns"
    RATE = "1/s"
    SHARE = "share"
    NUMBER = ""
    SIZE = "bytes"


class Metric(NamedTuple):
    """One number of a run.

    Attributes
    ----------
    name:
        In JSON, in the store, and in options such as --metric.
    kind:
        Its unit.
    label, heading:
        The row of a table of results, and the column of a table of studies.
    about:
        The definition.
    of:
        The value in a summary.
    unit:
        In words, where *kind* does not have it.
    short:
        The name in an objective and in running text; empty if it has none.
    """

    name: str
    kind: Kind
    label: str
    heading: str
    about: str
    of: Callable[[Summary], float]
    unit: str = ""
    short: str = ""

    def text(self, value: float) -> str:
        """Return a value for people, with its unit.

        >>> from dispatchsim.scenario.metrics import METRICS
        >>> METRICS["p99_ns"].text(1_234_567.0), METRICS["cpu_busy"].text(0.5)
        ('1.23 ms', '50.0%')
        """
        if self.kind is Kind.TIME:
            return time_text(value)
        if self.kind is Kind.SIZE:
            return size_text(value)
        return share_text(value) if self.kind is Kind.SHARE else number_text(value)

    def exact(self, value: float, digits: int = 6) -> str:
        """Return a value as it is written in an objective, without trailing zeros.

        >>> from dispatchsim.scenario.metrics import METRICS
        >>> METRICS["p99_ns"].exact(50e6), METRICS["failed_share"].exact(0.001)
        ('50 ms', '0.1%')
        """
        if self.kind is Kind.TIME or math.isnan(value):
            return time_text(value, digits, trim=True)
        if self.kind is Kind.SHARE:
            return f"{number_text(100 * value, digits, trim=True)}%"
        if self.kind is Kind.SIZE:
            return size_text(value, digits, trim=True)
        return number_text(value, digits, trim=True) + ("/s" if self.kind is Kind.RATE else "")
