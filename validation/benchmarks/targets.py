"""What the speed is to be, and ratios of what was measured, judged by it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from .contestants import BY_HAND, FAST, FIRST_MODEL, REFERENCE, Row
from .scenarios import QUEUE, Case

IDLE_FEW, IDLE_MANY = 1_000, 1_000_000
IDLE_RATIO = "time a request"
"""Of the fast engine with 1,000,000 idle connections, over that with 1,000."""


class Target(NamedTuple):
    """A bound on a figure."""

    bound: float
    at_least: bool

    def reached(self, value: float) -> bool:
        """Return whether *value* keeps the bound; NaN never does."""
        return value >= self.bound if self.at_least else value <= self.bound


AT_LEAST = {BY_HAND: 0.5, REFERENCE: 40.0, FIRST_MODEL: 200.0, "Ciw": 50.0}
"""Against whom the fast engine is judged, and by how much it is to be faster."""
IDLE_TARGET = Target(1.1, at_least=False)
"""Idle connections may add a tenth to the wall time of a request."""


class Ratio(NamedTuple):
    """Two medians, one over the other, and what they were to be."""

    name: str
    case: Case
    value: float
    target: Target

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.target.reached(self.value)


def ratios(rates: Mapping[Row, float]) -> list[Ratio]:
    """Return every ratio that *rates*, connections or customers a second, let us compute."""
    found = [
        Ratio(f"{FAST} / {rival}", case, _over(rates[Row(FAST, case)], rate), target)
        for rival, target in ((name, Target(b, at_least=True)) for name, b in AT_LEAST.items())
        for (engine, case), rate in rates.items()
        if engine == rival and Row(FAST, case) in rates
    ]
    for (engine, case), rate in rates.items():
        few = Row(FAST, case._replace(idle=IDLE_FEW))
        if engine == FAST and case.idle == IDLE_MANY and few in rates and case.mechanism != QUEUE:
            # The time a request takes is one over the rate.
            found.append(Ratio(IDLE_RATIO, case, _over(rates[few], rate), IDLE_TARGET))
    return found


def _over(a: float, b: float) -> float:
    return a / b if b > 0 else math.nan
