"""One cost in a profile (a curve over a count, with intervals), and the list of all costs.

Cost ──► cost_problems       the rules for one cost
TABLES   all costs by table and field, as a run reads them (`CostSource`)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Strict

from ...models.catalogue import CATALOGUE
from ...sim.state.costs import (
    ApplicationCosts,
    CallCosts,
    ClientCosts,
    ColdCosts,
    Costs,
    Curve,
    InterruptCosts,
    curve,
    flat,
)
from ...sim.state.units import SECOND_NS, round_ns

KNOTS_MAX = 8
_NORMAL_95 = 1.959964  # 95% of a normal distribution is within this many standard deviations
_Count = Annotated[int, Strict()]
_Number = Annotated[float, Strict()]
_Text = Annotated[str, Strict()]


class Frozen(BaseModel):
    """A part of a profile: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cost(Frozen):
    """One cost as a curve over a count, with 95% intervals and its source.

    `residual` is the root mean square of the relative errors of the fit.
    """

    unit: _Text = "ns"
    at: tuple[_Count, ...]
    value: tuple[_Number, ...]
    low: tuple[_Number, ...]
    high: tuple[_Number, ...]
    residual: _Number
    source: _Text

    def curve(self, factor: float = 1.0) -> Curve:
        """Return the curve with each value multiplied by *factor*, in whole nanoseconds."""
        points = zip(self.at, self.value, strict=True)
        return curve({n: round_ns(ns * factor) for n, ns in points})

    def nothing(self) -> Cost:
        """Return the cost that is 0 everywhere."""
        none = (0.0,) * len(self.at)
        return self.model_copy(update={"value": none, "low": none, "high": none})

    def factor(self, normal: float) -> float:
        """Return a lognormal factor from a standard normal number.

        95% of these factors lie between `low / value` and `high / value`, both as geometric means
        over the knots. A value of 0 stays 0. An interval that reaches 0 counts as equally wide
        below and above the value.
        """
        logs = [
            (math.log(low / value) if low > 0 else -math.log(high / value), math.log(high / value))
            for value, low, high in zip(self.value, self.low, self.high, strict=True)
            if value > 0
        ]
        if not logs:
            return 1.0
        low, high = np.mean(logs, axis=0)
        return math.exp((low + high) / 2 + normal * (high - low) / (2 * _NORMAL_95))


def cost_problems(key: str, cost: Cost, unit: str) -> Iterator[str]:
    """Yield the rules that one cost breaks."""
    if cost.unit != unit:
        yield f'{key}.unit: must be "{unit}", got {short(cost.unit)}'
    if not 1 <= len(cost.at) <= KNOTS_MAX:
        yield f"{key}.at: must have 1 to {KNOTS_MAX} entries, got {len(cost.at)}"
    for before, after in zip((-1, *cost.at), cost.at, strict=False):
        if after <= before:
            yield f"{key}.at: must be at least 0 and ascending, got {short(cost.at)}"
    for column in ("value", "low", "high"):
        numbers = getattr(cost, column)
        if len(numbers) != len(cost.at):
            yield f"{key}.{column}: must have {len(cost.at)} entries as `at`, got {len(numbers)}"
        for number in numbers:
            if not 0 <= number <= SECOND_NS:
                yield f"{key}.{column}: must be from 0 to {SECOND_NS} (1 s), got {number}"
    for low, value, high in zip(cost.low, cost.value, cost.high, strict=False):
        if not low <= value <= high:
            yield f"{key}.value: must lie between low {low} and high {high}, got {value}"
    if not 0 <= cost.residual < math.inf:
        yield f"{key}.residual: must be a number of at least 0, got {cost.residual}"


def short(value: object) -> str:
    """Return *value* as written in a file, cut to fit a message."""
    text = "none" if value is None else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


class NetworkCosts(NamedTuple):
    """The link between the load generator and the server."""

    delay_ns: int


class SharingCosts(NamedTuple):
    """The cost of returning to a CPU that other programs have used meanwhile, as in `Costs`."""

    refill: Curve = flat(0)


SHARED_TABLES: dict[str, Any] = {
    "interrupt": InterruptCosts,
    "call": CallCosts,
    "cold": ColdCosts,
    "application": ApplicationCosts,
    "client": ClientCosts,
    "network": NetworkCosts,
    "sharing": SharingCosts,
}
"""Costs that every mechanism uses."""
MECHANISM_TABLES: dict[str, Any] = {name: entry.costs for name, entry in CATALOGUE.items()}
"""Costs of one mechanism each. A profile may lack a whole table."""
REQUEST = "request_ns"
"""A mechanism's table may have this cost, too: it then replaces application.request_ns."""
CONNECTION = "connection_ns"
"""The application's cost of a connection, independent of the number of its requests."""
DISPLACED = "displaced_ns"
"""In the table "interrupt": CONNECTION of a machine whose clients are packets."""

TABLES = SHARED_TABLES | MECHANISM_TABLES
"""All tables, in the order of a profile."""
_UNITS = {"call.write_kib_ns": "ns/KiB"}  # all other costs: ns


def unit_of(table: str, name: str) -> str:
    """Return the unit of a cost."""
    return _UNITS.get(f"{table}.{name}", "ns")


def required_costs(kind: Any) -> tuple[str, ...]:
    """Return the names of the costs in a table that have no default value."""
    return tuple(name for name in kind._fields if name not in kind._field_defaults)


class CostSource(Protocol):
    """What a run reads from a profile."""

    @property
    def name(self) -> str:
        """The name that people read."""

    @property
    def network_delay_ns(self) -> int:
        """The one-way delay of the testbed in which the costs were measured."""

    @property
    def noise_file(self) -> str:
        """The file with recordings of the machine's gaps; empty if there is no recording."""

    @property
    def machine_id(self) -> str:
        """The id of the measured machine; empty if unknown."""

    @property
    def kernel(self) -> str:
        """The version of the measured kernel; empty if unknown."""

    def costs(
        self,
        mechanism: str,
        *,
        open_connections: int,
        sample: int | None = None,
        free_clients: bool = False,
    ) -> Costs:
        """Return the central costs, or those of cost sample number *sample*."""

    def outside_range(self, open_connections: int) -> str | None:
        """Return a warning if *open_connections* are more than were measured, else None."""

    def not_measured(self, mechanism: str, uses: Sequence[str] = ()) -> str | None:
        """Return a warning if costs of *mechanism* are borrowed from other mechanisms, else None.

        *uses* names costs that only some runs have, this one included: they are checked, too.
        """
