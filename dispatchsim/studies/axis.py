"""The field of a scenario along which a search runs: its unit, its first value, its limits.

value in the scenario ─► begin        a legal value ◄─ highest() ─► an illegal one, and why
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from ..scenario.errors import ScenarioError, UserError
from ..scenario.formats import number_text
from ..scenario.quantities import (
    BANDWIDTH,
    DURATION,
    RATE,
    SIZE,
    read_number,
    shown,
    with_unit,
)
from ..scenario.scenario import CONNECTIONS_MAX, Scenario
from ..sim.state.units import SECOND_NS
from .factors import Value, check_field

CONNECTIONS_MIN = 100
"""Fewest connections in a window: with fewer, the 99% quantile is the maximum."""
RATE_MAX_PER_S = 2_000_000.0
_BEGIN_WHOLE = 1_000
RATE_FIELD = "load.rate"


class Axis(NamedTuple):
    """A numeric field.

    Attributes
    ----------
    field:
        Such as load.rate or idle.connections.
    unit:
        As in the scenario; "" for plain numbers.
    is_whole:
        Whether values are whole numbers.
    begin, floor, ceiling:
        Where a search begins, and the least and highest value that the scenario may have.
    """

    field: str
    unit: str
    is_whole: bool
    begin: float
    floor: float
    ceiling: float

    def value(self, x: float) -> Value:
        """Return *x* as a scenario file has it."""
        if self.is_whole:
            return round(x)
        if self.field == RATE_FIELD:
            return RATE.format(x)
        number = float(f"{x:.9g}")
        if not self.unit:
            return number
        digits = f"{number:.9f}".rstrip("0").rstrip(".")
        for quantity in (DURATION, SIZE, BANDWIDTH):
            # A run counts whole nanoseconds, bytes, and bits a second.
            exact = Fraction(digits) * quantity.units.get(self.unit, 0)
            if exact.denominator != 1:
                return quantity.format(round(exact))
        return with_unit(digits, self.unit)

    def at(self, scenario: Scenario, x: float) -> Scenario:
        """Return *scenario* with the field at *x*."""
        return at_value(scenario, self.field, self.value(x))

    def above(self, x: float, growth: float) -> float:
        """Return *growth* times *x*, or the ceiling if that is less."""
        more = max(math.floor(x * growth), x + 1) if self.is_whole else x * growth
        return min(more, self.ceiling)

    def below(self, x: float, growth: float) -> float:
        """Return *x* over *growth*, or the floor if that is more."""
        less = min(math.floor(x / growth), x - 1) if self.is_whole else x / growth
        return max(less, self.floor)

    def between(self, low: float, high: float) -> float:
        """Return the middle of two values, rounded on a whole axis."""
        middle = (low + high) / 2
        return float(round(middle)) if self.is_whole else float(f"{middle:.9g}")

    def text(self, x: float) -> str:
        """Return *x* with three digits, the precision of a search, and its unit.

        >>> Axis("load.rate", "/s", False, 1.0, 1.0, 1.0).text(12345.6)
        '12,300/s'
        """
        number = number_text(x, trim=self.is_whole)
        if self.field == "idle.connections":
            return f"{number} idle connections"
        return with_unit(number, self.unit)


def at_value(scenario: Scenario, field: str, value: Value) -> Scenario:
    """Return *scenario* with *field* at *value*, checked."""
    section, key = field.split(".")
    return scenario.with_values(**{section: {key: value}})


def axis_of(scenario: Scenario, field: str = RATE_FIELD) -> Axis:
    """Return the axis of *field* in *scenario*.

    Raises
    ------
    UserError
        If it is no field, or its value is no number.
    ScenarioError
        If the scenario has no rate and the field is load.rate.
    """
    check_field(field, "of")
    if field == RATE_FIELD:
        return _rate_axis(scenario)
    section, key = field.split(".")
    said = scenario.model_dump()[section][key]  # defaults included, with their units
    written = read_number(said)
    if said is None:
        raise UserError(
            f"of {field}: the scenario must give it a value, at which the search begins"
        )
    if isinstance(said, bool) or not (isinstance(said, int | float) or written):
        raise UserError(f"of {field}: must be a number in the scenario, got {shown(said)}")
    if written:
        number, unit, is_whole = float(written.digits), written.unit, False
    else:
        number, unit, is_whole = float(said), "", isinstance(said, int)
    begin = number or float(_BEGIN_WHOLE if is_whole else 1)
    axis = Axis(field, unit, is_whole, begin, begin, begin)
    axis.at(scenario, begin)  # a default may be illegal in this scenario
    return axis._replace(floor=_lowest(scenario, axis), ceiling=_highest(scenario, axis))


def _rate_axis(scenario: Scenario) -> Axis:
    length, rate = scenario.run, scenario.load.rate
    if rate is None:
        raise ScenarioError(
            "load.rate: is missing: a capacity is the rate of an open loop. For a closed loop use "
            "--of load.users"
        )
    most = 0.99 * CONNECTIONS_MAX * SECOND_NS / length.duration
    ceiling = min(RATE_MAX_PER_S, most, scenario.rate_max_per_s)
    floor = min(CONNECTIONS_MIN * SECOND_NS / (length.duration - length.warm_up), ceiling)
    return Axis(RATE_FIELD, "/s", False, min(max(rate, floor), ceiling), floor, ceiling)


def _is_legal(scenario: Scenario, axis: Axis, x: float) -> bool:
    try:
        axis.at(scenario, x)
    except ScenarioError:
        return False
    return True


def _lowest(scenario: Scenario, axis: Axis) -> float:
    """Return about the lowest legal value: at least a thousandth of the first, or 0 if whole."""
    low, high = (0.0 if axis.is_whole else axis.begin / 1024), axis.begin
    if _is_legal(scenario, axis, low):
        return low
    while high - low > _least_step(axis, high):
        middle = (low + high) / 2
        low, high = (low, middle) if _is_legal(scenario, axis, middle) else (middle, high)
    return float(math.ceil(high)) if axis.is_whole else high


def _highest(scenario: Scenario, axis: Axis) -> float:
    """Return about the highest legal value, found by trial because rules span several keys."""
    low, high = axis.begin, 2 * axis.begin
    while _is_legal(scenario, axis, high):
        low, high = high, 2 * high
        if high > 2**50:
            return low
    while high - low > _least_step(axis, high):
        middle = (low + high) / 2
        low, high = (middle, high) if _is_legal(scenario, axis, middle) else (low, middle)
    return float(math.floor(low)) if axis.is_whole else low


def _least_step(axis: Axis, x: float) -> float:
    return 0.5 if axis.is_whole else 1e-4 * x
