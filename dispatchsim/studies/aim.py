"""What is made small, or large, and how a run without it counts."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..scenario.scenario import Scenario
from ..store.records import Record
from .objective import FigureSaid


class Aim(NamedTuple):
    """What is made small or large; a run that has no such figure has the *worst*."""

    figure: str
    largest: bool
    worst: float

    @classmethod
    def of(cls, said: FigureSaid, *, largest: bool, scenario: Scenario) -> Aim:
        """Return the aim at a figure: no time is worse than the whole run's, no share than 1."""
        if largest:
            return cls(said.figure, True, 0.0)
        worst = {"time": float(scenario.run.duration), "share": 1.0}
        return cls(said.figure, False, worst.get(said.kind, math.inf))

    def value(self, record: Record) -> float:
        """Return the figure of a run, no worse than the worst: who waits for ever has no mean."""
        value = record.figures[self.figure]
        if math.isnan(value):
            return self.worst
        return value if self.largest else min(value, self.worst)
