"""The best of several systems, with a probability: who falls behind is no longer run (KN).

    n_first of each ──► variances of all differences
          │
          ▼
    a sum of differences behind another by more than is allowed, which is less
    with every replication: out
          │
          ├──► one stays: it is the best
          └──► one more replication of each that stays

If the best is better than every other by at least the *zone*, it is selected with a probability of
at least *level*; what differs by less need not be told apart, and one of the good ones stays. Holds
for normal values, with common random numbers or without. Batches of customers, or whole
replications, are nearly normal; single waiting times are not.

Source: Kim and Nelson 2001, "A fully sequential procedure for indifference-zone selection in
simulation", ACM Transactions on Modeling and Computer Simulation 11(3), §3, with c = 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .interval import Floats, check_level, checked


class Selection:
    """One selection, fed replication by replication.

    Parameters
    ----------
    n_systems:
        To select from.
    zone:
        The smallest difference worth telling apart, in the unit of the figure.
    largest:
        Whether the greater figure is the better (throughput), or the smaller (latency).
    n_first:
        Replications of each system from which variances are estimated; none is out before.
    level:
        The probability of the correct selection, above 1 / n_systems.

    Raises
    ------
    ValueError
        If one of them is out of its range.
    """

    def __init__(
        self,
        n_systems: int,
        zone: float,
        *,
        largest: bool,
        n_first: int = 10,
        level: float = 0.95,
    ) -> None:
        check_level(level)
        if n_systems < 2:
            raise ValueError(f"n_systems: must be at least 2, got {n_systems}")
        if not 0 < zone < math.inf:
            raise ValueError(f"zone: must be above 0, got {zone}")
        if n_first < 2:
            raise ValueError(f"n_first: must be at least 2, got {n_first}")
        if level <= 1 / n_systems:
            raise ValueError(
                f"level: must be above that of a blind choice, {1 / n_systems:g}, got {level}"
            )
        self._zone = zone
        self._sign = 1.0 if largest else -1.0
        self._n_first = n_first
        exponent = -2 / (n_first - 1)
        eta = (math.pow(2 * (1 - level) / (n_systems - 1), exponent) - 1) / 2
        self._h_squared = 2 * eta * (n_first - 1)
        self._staying = np.arange(n_systems)
        self._sums = np.zeros(n_systems)
        self._first_stage: list[Floats] = []
        self._variances = np.zeros((n_systems, n_systems))
        self._n = 0

    @property
    def staying(self) -> tuple[int, ...]:
        """Return the systems that may be the best, in their original order."""
        return tuple(self._staying.tolist())

    @property
    def out(self) -> tuple[int, ...]:
        """Return the systems that are the best no more."""
        return tuple(i for i in range(self._sums.size) if i not in self._staying)

    @property
    def best(self) -> int | None:
        """Return the system selected, None before it is."""
        return int(self._staying[0]) if self._staying.size == 1 else None

    @property
    def n_replications(self) -> int:
        """Return how many replications of each system that stays were fed."""
        return self._n

    @property
    def n_replications_max(self) -> int | None:
        """Return after how many it ends at the latest; None before the variances are known."""
        if self._n < self._n_first:
            return None
        greatest = float(self._variances.max())
        longest = math.floor(self._h_squared * greatest / (self._zone * self._zone)) + 1
        return max(self._n_first, longest)

    def feed(self, values: ArrayLike) -> int | None:
        """Take one more replication of each system that stays; return `best`.

        Parameters
        ----------
        values:
            The figures of the systems in `staying`, in that order.

        Raises
        ------
        ValueError
            If they are not as many as systems stay, are not finite, or the best is known already.
        """
        if self.best is not None:
            raise ValueError(f"values: must be none once the best is known, {self.best}")
        row = checked("values", values, least=0)
        if row.size != self._staying.size:
            raise ValueError(
                f"values: must be one for each of the {self._staying.size} systems that stay, "
                f"got {row.size}"
            )
        self._sums[self._staying] += self._sign * row
        self._n += 1
        if self._n <= self._n_first:
            self._first_stage.append(row)
        if self._n == self._n_first:
            table = np.array(self._first_stage)
            self._variances = (table[:, :, None] - table[:, None, :]).var(axis=0, ddof=1)
        if self._n >= self._n_first:
            self._screen()
        return self.best

    def _screen(self) -> None:
        """Leave out whoever is behind another by more than the triangle is wide."""
        sums = self._sums[self._staying]
        variances = self._variances[np.ix_(self._staying, self._staying)]
        reach = self._h_squared * variances / self._zone - self._zone * self._n
        widths = np.maximum(0.0, reach / 2)
        behind = (sums[None, :] - sums[:, None] > widths).any(axis=1)
        if self._n == self.n_replications_max:
            # The triangle is closed: only exact ties are left, and any of them will do.
            behind = np.arange(sums.size) != int(np.argmax(sums))
        self._staying = self._staying[~behind]
