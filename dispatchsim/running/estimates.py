"""Figures over replications: a mean, its interval, and what drawn costs make of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..scenario.metrics import OF_CONNECTIONS
from ..sim.figures.metrics import Summary
from ..sim.output_analysis.interval import prediction_interval
from ..sim.output_analysis.means import mean_interval

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


def path_estimates(
    names: Sequence[str], central: Sequence[Summary], drawn: Sequence[Summary]
) -> dict[str, dict[str, Estimate]]:
    """Return what is said of the clients of each path, by the path's name.

    Parameters
    ----------
    names:
        Of the paths, in the order of `Summary.paths`.
    central, drawn:
        Of runs at central costs, and at drawn ones.
    """
    return {
        name: {
            figure: estimate(
                [value(summary.paths[i]) for summary in central],
                [value(summary.paths[i]) for summary in drawn],
                least=0,
            )
            for figure, value in OF_CONNECTIONS.items()
        }
        for i, name in enumerate(names)
    }
