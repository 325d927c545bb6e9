"""The rows of answers: estimates, points, searches, options, intervals, indices, series of runs.

A study computes them, a picture draws them, an answer holds them beside what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..scenario.scenario import Scenario
from ..sim.figures.summary import Verdict, middle_verdict
from ..sim.output_analysis.interval import mean_interval, prediction_interval
from ..store.records import Record
from .factors import Levels, words_of
from .objective import Clause

_NAN = float("nan")


@dataclass(frozen=True)
class Estimate:
    """One figure: its mean over replications, and how well it is known.

    `half_width` is that of the 95% t interval over replications (NaN for one replication); `low`
    and `high` bound 95% of the runs at drawn costs (NaN without draws).
    """

    mean: float
    half_width: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values."""
        return {
            "mean": self.mean,
            "half_width_95": self.half_width,
            "calibration_95": [self.low, self.high],
        }


def estimate(
    central: Sequence[float], drawn: Sequence[float] = (), *, least: float = -math.inf
) -> Estimate:
    """Return mean and 95% t interval of *central*, and the 95% range of *drawn*.

    No figure is below *least*, and nor is the range of drawn ones. A figure that some run does not
    have (the latency of no reply) has no mean either.

    >>> estimate([9.0, 10.0, 11.0]).mean
    10.0
    """
    values = np.array(central, dtype=float)
    half_width = _NAN
    if values.size > 1 and np.isfinite(values).all():  # who waits for ever has no spread
        half_width = mean_interval(values).half_width
    low, high = prediction_interval(drawn)  # NaN without draws, and NaN is no less than anything
    # Differences of runs may be infinite in both directions: these have no mean.
    mean = _NAN if {math.inf, -math.inf} <= set(values.tolist()) else float(values.mean())
    return Estimate(mean, half_width, max(low, least), high)


@dataclass(frozen=True)
class Swept:
    """One point: what is its own, its runs and what they say."""

    levels: Levels
    scenario: Scenario
    records: tuple[Record, ...]
    is_precise: bool

    @property
    def central(self) -> list[Record]:
        """Its runs at central costs, by seed."""
        return [r for r in self.records if r.draw is None]

    @property
    def verdict(self) -> Verdict:
        """The middle one of the verdicts of its runs."""
        return middle_verdict(Verdict(r.verdict) for r in self.central)

    def estimate(self, figure: str) -> Estimate:
        """Return what its runs say of a figure."""
        return estimate(
            [r.figures[figure] for r in self.central],
            [r.figures[figure] for r in self.records if r.draw is not None],
            least=0,
        )


class Found(StrEnum):
    """How a search ended."""

    BETWEEN = "between"  # the objective is first broken between low and high
    ALWAYS_BROKEN = "always broken"  # at the lowest load tried, high, too
    NEVER_BROKEN = "never broken"  # not even at the highest load tried, low
    OUT_OF_BUDGET = "out of budget"  # between low and high, which are further apart than asked


class Tried(NamedTuple):
    """A load that was simulated: which figures the objective is of, and which bound broke."""

    figures: dict[str, float]
    broken: str | None


class Search(NamedTuple):
    """One replication's answer, and what was tried, by load."""

    seed: int
    draw: int | None
    found: Found
    low: float
    high: float
    tried: dict[float, Tried]

    @property
    def middle(self) -> float:
        """The geometric mean of low and high."""
        return math.sqrt(self.low * self.high) if self.low > 0 else self.high / 2


class Expected(NamedTuple):
    """One figure: its forecast, and between what a further run lies with the level.

    `simulated` is the mean at central costs, `calibration` the interval of draws alone, as they
    were simulated. `missed` is the interval of past misses alone (None where there are too few).
    `mean` is what was simulated, moved by the median miss; low and high hold the draws, moved as
    much, and the misses.
    """

    figure: str
    mean: float
    low: float
    high: float
    simulated: float
    calibration: tuple[float, float]
    missed: tuple[float, float] | None


@dataclass(frozen=True)
class Option:
    """One setting: its runs, which bound it breaks and where it is, whether it may be the best.

    `beyond` is how many times the bound the figure is that breaks it, 1 where none does.
    """

    swept: Swept
    broken: Clause | None
    beyond: float
    stays: bool

    @property
    def words(self) -> str:
        """Its levels in words."""
        return words_of(self.swept.levels)


class Index(NamedTuple):
    """Of one cost or setting: indices, each with its 95% interval."""

    name: str
    first: float
    first_low: float
    first_high: float
    total: float
    total_low: float
    total_high: float


class RunSeries(NamedTuple):
    """One run: when each request that was answered was due, how long it took, how many waited.

    Attributes
    ----------
    intended_ns, latency_ns:
        Of who was answered, in the order in which they were due, shape (n,).
    in_system:
        Requests that were due and not answered, at equal distances in time, shape (500,).
    failed_share:
        Of all that were due.
    """

    intended_ns: NDArray[np.int64]
    latency_ns: NDArray[np.int64]
    in_system: NDArray[np.int64]
    failed_share: float
