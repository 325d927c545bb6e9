"""What a run needs of a profile, so that costs may come from elsewhere, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ...sim.state.costs import Costs


class CostSource(Protocol):
    """What a run needs of a profile."""

    @property
    def name(self) -> str:
        """Name for people."""

    @property
    def network_delay_ns(self) -> int:
        """One-way delay of the testbed in which the costs were measured."""

    @property
    def kernel(self) -> str:
        """Version of the kernel in which they were measured; empty if nobody knows."""

    def costs(
        self,
        mechanism: str,
        *,
        open_connections: int,
        rng: np.random.Generator | None = None,
        free_clients: bool = False,
    ) -> Costs:
        """Return the central costs, or with *rng* a draw of them."""

    def outside_range(self, open_connections: int) -> str | None:
        """Return a warning where there are more connections than were ever measured."""

    def not_measured(self, mechanism: str, uses: Sequence[str] = ()) -> str | None:
        """Return a warning where the prices of *mechanism* are those of others.

        So are those of costs of it that not every run has: *uses* says which this one has.
        """
