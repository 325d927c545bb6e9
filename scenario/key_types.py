"""The types of keys of a scenario file whose values may be texts: quantities, counts, shares.

    Annotated[int, Bounded(DURATION, "0 s", "1 h")]    "50 ms"
    Annotated[int, Whole(1, 1_000_000)]                20000 or "20k"
    Annotated[float, Share(least=0, most=1)]           0.5 or "50%"

Pydantic reads, writes and describes them with the units of quantities.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .quantities import (
    RATE,
    THOUSANDS,
    QuantityError,
    Unit,
    read_count,
    read_percentage,
    shown,
    whole,
)

_NUMBER = r"[0-9][0-9_]*(\.[0-9]+)?"
"""A number in a pattern of JSON Schema."""


@dataclass(frozen=True)
class Bounded:
    """The type of a scenario's field: a quantity of *unit* from *least* to *most*."""

    unit: Unit
    least: str
    most: str
    whole: bool = True

    def parse(self, text: object) -> int | float:
        """Return *text* in the base unit, within the bounds."""
        value = whole(self.unit, text) if self.whole else float(self.unit.parse(text))
        if value < self.unit.parse(self.least):
            raise QuantityError(f"must be at least {self.least}, got {shown(text)}")
        if value > self.unit.parse(self.most):
            raise QuantityError(f"must be at most {self.most}, got {shown(text)}")
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read with `parse`, write with the unit's `format`: a dumped model can be read again."""
        return core_schema.no_info_plain_validator_function(
            self.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.unit.format, return_schema=core_schema.str_schema()
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the text, its units and its bounds."""
        units = "|".join(map(re.escape, (*self.unit.units, *self.unit.spellings)))
        units = units.replace("us|", "us|µs|μs|").replace("|usec", "|usec|µsec|μsec")
        thousands = f"[{''.join(THOUSANDS)}]?" if self.unit is RATE else ""
        return {
            "type": "string",
            "pattern": rf"^{_NUMBER} ?{thousands}({units})$",
            "description": f"{self.unit.name} from {self.least} to {self.most}",
            "examples": [self.unit.example],
        }


@dataclass(frozen=True)
class Whole:
    """The type of a field that is a whole number: 20000, or "20k"."""

    least: int | None = None
    most: int | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read a text with a multiplier, or a number; both have the bounds."""
        number = core_schema.int_schema(strict=True, ge=self.least, le=self.most)
        return core_schema.no_info_before_validator_function(_from_thousands, number)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the number, and the text that may stand for it."""
        return _or_text(handler(schema), f"[{''.join(THOUSANDS)}]")


@dataclass(frozen=True, kw_only=True)
class Share:
    """The type of a field that is a share: 0.5, or "50%"."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read a percentage, or a number; both have the bounds."""
        number = core_schema.float_schema(ge=self.least, le=self.most, gt=self.above, lt=self.below)
        return core_schema.no_info_before_validator_function(_from_percent, number)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the number, and the text that may stand for it."""
        return _or_text(handler(schema), "%")


def _from_thousands(value: object) -> object:
    return read_count(value) if isinstance(value, str) else value


def _from_percent(value: object) -> object:
    if isinstance(value, str) and value.endswith("%"):
        return read_percentage(value)
    try:
        is_number = not isinstance(value, str | float) or not math.isnan(float(value))
    except ValueError:
        is_number = False
    if not is_number:
        raise QuantityError(
            f'must be a number such as 0.5, or a percentage such as "50%", got {shown(value)}'
        )
    return value


def _or_text(number: dict[str, Any], unit: str) -> dict[str, Any]:
    """Return the schema of *number*, or of a text with a *unit*: bounds are those of numbers."""
    return {**number, "type": [number["type"], "string"], "pattern": rf"^{_NUMBER} ?{unit}$"}
