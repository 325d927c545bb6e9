"""A figure with its confidence interval.

low ├──────────── estimate ────────────┤ high
     ◄─ half_width ─►                     in a share `level` of all experiments
                                          the true value lies in between
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .intervals import two_sided_t
from .samples import check_level


@dataclass(frozen=True)
class Interval:
    """Where a figure of the system lies, in the unit of the figure.

    Parameters
    ----------
    estimate, low, high:
        The figure as estimated, and the bounds of its interval; NaN where they are not known.
    level:
        The nominal share of experiments whose interval holds the true value, as 0.95.
    how:
        The procedure, in words.
    """

    estimate: float
    low: float
    high: float
    level: float
    how: str

    @property
    def half_width(self) -> float:
        """Return half of the interval's length, also where the estimate is not its middle."""
        return (self.high - self.low) / 2

    @property
    def relative_half_width(self) -> float:
        """Return the half-width as a share of the estimate; infinite where that is 0.

        >>> Interval(10.0, 9.5, 10.5, 0.95, "by hand").relative_half_width
        0.05
        """
        if self.estimate == 0:
            return math.inf if self.half_width > 0 else 0.0
        return self.half_width / abs(self.estimate)

    def holds(self, value: float) -> bool:
        """Return whether *value* is in the interval, its bounds included."""
        return self.low <= value <= self.high


def t_interval(
    estimate: float, standard_error: float, *, degrees: float, level: float, how: str
) -> Interval:
    """Return the interval of Student's t about *estimate*.

    Parameters
    ----------
    estimate, standard_error:
        In the unit of the figure.
    degrees:
        Of freedom, of *standard_error*; they need not be whole.
    level, how:
        See `Interval`.

    Raises
    ------
    ValueError
        If *level* is no confidence.
    """
    check_level(level)
    reach = two_sided_t(level, degrees) * standard_error
    return Interval(estimate, estimate - reach, estimate + reach, level, how)
