"""Which costs there are, field by field, and how a run asks a profile for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...models.catalogue import CATALOGUE
from ...sim.state.costs import (
    ApplicationCosts,
    CallCosts,
    ClientCosts,
    Costs,
    Curve,
    InterruptCosts,
    flat,
)


class NetworkCosts(NamedTuple):
    """The link between the load generator and the server."""

    delay_ns: int


class SharingCosts(NamedTuple):
    """What a CPU costs that others have had meanwhile, as in `Costs`."""

    refill: Curve = flat(0)


SHARED_TABLES: dict[str, Any] = {
    "interrupt": InterruptCosts,
    "call": CallCosts,
    "application": ApplicationCosts,
    "client": ClientCosts,
    "network": NetworkCosts,
    "sharing": SharingCosts,
}
"""Costs that every mechanism needs."""
MECHANISM_TABLES: dict[str, Any] = {name: entry.costs for name, entry in CATALOGUE.items()}
"""Costs of one mechanism each; a profile may lack a whole table."""
REQUEST = "request_ns"
"""A mechanism's table may have it, too: then it is meant instead of application.request_ns."""
CONNECTION = "connection_ns"
"""Of the application: what a connection takes, however many requests it is kept for."""

TABLES = SHARED_TABLES | MECHANISM_TABLES
"""All of them, in the order of a profile."""
_UNITS = {"call.write_kib_ns": "ns/KiB"}  # of all others: ns


def unit_of(table: str, name: str) -> str:
    """Return the unit in which a cost is given."""
    return _UNITS.get(f"{table}.{name}", "ns")


def required_costs(kind: Any) -> tuple[str, ...]:
    """Return the names of the costs in a table that have no value of their own."""
    return tuple(name for name in kind._fields if name not in kind._field_defaults)


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
