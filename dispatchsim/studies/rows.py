"""The rows of answers: estimates, points, searches, options, intervals, indices, series of runs.

A study computes them, a picture plots them, an answer holds them beside its question.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..scenario.percentiles import ends_in_order
from ..scenario.scenario import Scenario
from ..sim.figures.summary import Verdict, middle_verdict
from ..sim.output_analysis.interval import mean_interval, prediction_interval
from ..store.records import Record
from .factors import Levels, words_of
from .objective import Clause

_NAN = float("nan")
_Run = TypeVar("_Run")


@dataclass(frozen=True)
class Estimate:
    """One metric: its mean over replications, and its uncertainty.

    `half_width` is that of the 95% t interval over replications (NaN for one replication); `low`
    and `high` bound 95% of the runs at cost samples (NaN without any).
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

    *least* is a lower limit of the metric, and so of the range. If some run has no value (latency
    without a reply), there is no mean.

    >>> estimate([9.0, 10.0, 11.0]).mean
    10.0
    """
    values = np.array(central, dtype=float)
    half_width = _NAN
    if values.size > 1 and np.isfinite(values).all():  # infinite waits have no spread
        half_width = mean_interval(values).half_width
    low, high = prediction_interval(drawn)  # NaN without samples, and max keeps a NaN
    # Differences of runs may be infinite in both directions: these have no mean.
    mean = _NAN if {math.inf, -math.inf} <= set(values.tolist()) else float(values.mean())
    return Estimate(mean, half_width, max(low, least), high)


def in_order(estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return *estimates* by metric, with the ends of ranges of percentiles in order of rank."""
    ends = ends_in_order({name: (known.low, known.high) for name, known in estimates.items()})
    return {
        name: replace(estimates[name], low=low, high=high) for name, (low, high) in ends.items()
    }


def estimates_of(
    values: Mapping[str, Callable[[_Run], float]], central: Sequence[_Run], drawn: Sequence[_Run]
) -> dict[str, Estimate]:
    """Return the `estimate` of each metric, ranges `in_order`.

    Parameters
    ----------
    values:
        Name of a metric -> its value in a run.
    central, drawn:
        Runs at central costs, and at cost samples.
    """
    return in_order(
        {
            name: estimate([of(run) for run in central], [of(run) for run in drawn], least=0)
            for name, of in values.items()
        }
    )


@dataclass(frozen=True)
class Swept:
    """One point: its levels, its runs and their results."""

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

    @functools.cached_property
    def estimates(self) -> dict[str, Estimate]:
        """The estimate of each metric from its runs."""
        drawn = [r.figures for r in self.records if r.draw is not None]
        values = {name: operator.itemgetter(name) for name in self.records[0].figures}
        return estimates_of(values, [r.figures for r in self.central], drawn)

    def estimate(self, figure: str) -> Estimate:
        """Return the estimate of a metric from its runs."""
        return self.estimates[figure]


class Found(StrEnum):
    """How a search ended."""

    BETWEEN = "between"  # the objective is first violated between low and high
    ALWAYS_BROKEN = "always broken"  # even at the lowest load tried, high
    NEVER_BROKEN = "never broken"  # not even at the highest load tried, low
    OUT_OF_BUDGET = "out of budget"  # between low and high, further apart than required


class Tried(NamedTuple):
    """A simulated load: the metrics of the objective, and the bound that it violates."""

    figures: dict[str, float]
    broken: str | None


class Search(NamedTuple):
    """The answer of one replication, and the loads that it tried."""

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
    """One metric: its forecast, and the interval of a further run at the confidence level.

    `simulated` is the mean at central costs, `calibration` the interval of cost samples alone, as
    simulated. `missed` is the interval of past forecast errors alone (None if too few are known).
    `mean` is `simulated` moved by the median error; `low` and `high` enclose the cost samples,
    moved as much, and the past errors. Each is in order of rank over the percentiles of a forecast.
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
    """One setting: its runs, the bound that it violates, whether it may be the best.

    `beyond` is the ratio of the metric to the bound that it violates, 1 if it violates none.
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
    """Sobol indices of one cost or setting, each with its 95% interval."""

    name: str
    first: float
    first_low: float
    first_high: float
    total: float
    total_low: float
    total_high: float


class RunSeries(NamedTuple):
    """One run: due times and latencies of requests with a reply, and the number waiting over time.

    Attributes
    ----------
    intended_ns, latency_ns:
        Of requests with a reply, in the order of their due times, shape (n,).
    in_system:
        Requests due without a reply yet, at equal distances in time, shape (500,).
    failed_share:
        Share of all requests due.
    """

    intended_ns: NDArray[np.int64]
    latency_ns: NDArray[np.int64]
    in_system: NDArray[np.int64]
    failed_share: float
