"""Which costs there are: the tables of a profile and the simulator's own, field by field."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...models.catalogue import CATALOGUE
from ...sim.state.costs import ApplicationCosts, CallCosts, ClientCosts, Curve, InterruptCosts, flat


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
