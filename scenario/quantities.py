"""Quantities with their unit: "50 ms", "6 KiB", "2000/s", "1 Gbit/s".

A bare number is an error wherever a unit exists: 50 could be milliseconds or seconds, and the
reader of a scenario file should not have to know which.

Arithmetic is exact (fractions), so that "0.1 s" is 100,000,000 ns and nothing near it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .errors import UserError


class QuantityError(UserError):
    """A text that is not a quantity of the kind that is expected."""


@dataclass(frozen=True, eq=False)
class Unit:
    """A kind of quantity: its name, an example, and its units in the base unit, largest last."""

    name: str
    example: str
    units: dict[str, Fraction]
    base: str

    def parse(self, text: object) -> Fraction:
        """Return *text* in the base unit.

        Raises
        ------
        QuantityError
            If it is not a number and one of the units, or is negative.
        """
        written = read_number(text)
        if written is None or written.unit not in self.units:
            raise QuantityError(f"must be {self.expected}, got {shown(text)}")
        if written.digits.startswith("-"):
            raise QuantityError(f"must not be negative, got {shown(text)}")
        return Fraction(written.digits) * self.units[written.unit]

    def format(self, value: Fraction | float) -> str:
        """Return *value* of the base unit in the largest unit that keeps it exact and short."""
        exact = Fraction(value)
        for unit, size in reversed(self.units.items()):
            number = exact / size
            if number.denominator == 1 and number >= 1:
                return with_unit(str(number.numerator), unit)
        # The shortest decimal that reads back as the same float, without an exponent.
        return with_unit(f"{Decimal(repr(float(value))):f}", self.base)

    @property
    def expected(self) -> str:
        """What a text should be, for an error."""
        return f'a {self.name} such as "{self.example}" (units: {", ".join(self.units)})'


class Written(NamedTuple):
    """A number as it is written: its digits, and its unit, which is "" of a bare number."""

    digits: str
    unit: str

    @property
    def is_whole(self) -> bool:
        """Whether it is written without a fraction and without a unit."""
        return not self.unit and "." not in self.digits


# Thirty digits are more than any quantity needs, and bound the work on hostile input.
_WRITTEN = re.compile(r"(-?[0-9][0-9_]{0,30}(?:\.[0-9]{1,30})?) ?(/?[A-Za-zµμ]*(?:/[a-z]+)?)", re.A)
_SHARE = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?) ?(%?)", re.A)


def read_number(text: object) -> Written | None:
    """Return the number and the unit of *text*, None if it is something else.

    The micro sign and the Greek letter are the same unit as the "us" of scenario files.

    >>> read_number("2_000/s"), read_number("50 µs"), read_number("poll")
    (Written(digits='2000', unit='/s'), Written(digits='50', unit='us'), None)
    """
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    return Written(match[1].replace("_", ""), match[2].replace("µ", "u").replace("μ", "u"))


def parse_share(text: str) -> float:
    """Return a share of 0 to 1.

    Raises
    ------
    QuantityError
        If it is no share.

    >>> parse_share("0.1%"), parse_share("0.25")
    (0.001, 0.25)
    """
    match = _SHARE.fullmatch(text)
    if match is None:
        raise QuantityError(f"must be a share such as 0.1% or 0.001, got {shown(text)}")
    value = float(match[1]) / (100 if match[2] else 1)
    if value > 1:
        raise QuantityError(f"must be a share of at most 1 (100%), got {shown(text)}")
    return value


def with_unit(number: str, unit: str) -> str:
    """Return *number* with its unit as a scenario file has it: "2000/s", but "50 ms".

    >>> with_unit("2000", "/s"), with_unit("50", "ms"), with_unit("3", "")
    ('2000/s', '50 ms', '3')
    """
    return number + ("" if not unit or unit.startswith("/") else " ") + unit


_SECOND = Fraction(1_000_000_000)
DURATION = Unit(
    "duration",
    "50 ms",
    {
        "ns": Fraction(1),
        "us": Fraction(1_000),
        "ms": Fraction(1_000_000),
        "s": _SECOND,
        "min": 60 * _SECOND,
        "h": 3600 * _SECOND,
    },
    "ns",
)
SIZE = Unit(
    "size",
    "6 KiB",
    {
        "B": Fraction(1),
        "kB": Fraction(1_000),
        "KiB": Fraction(2**10),
        "MB": Fraction(1_000_000),
        "MiB": Fraction(2**20),
        "GB": Fraction(1_000_000_000),
        "GiB": Fraction(2**30),
    },
    "B",
)
RATE = Unit(
    "rate", "2000/s", {"/h": Fraction(1, 3600), "/min": Fraction(1, 60), "/s": Fraction(1)}, "/s"
)
BANDWIDTH = Unit(
    "bandwidth",
    "1 Gbit/s",
    {
        "bit/s": Fraction(1),
        "kbit/s": Fraction(1_000),
        "Mbit/s": Fraction(1_000_000),
        "Gbit/s": Fraction(1_000_000_000),
    },
    "bit/s",
)


def kind_of_unit(unit: str) -> Unit | None:
    """Return the kind of quantity that has *unit*, None if none has.

    >>> kind_of_unit("ms").name
    'duration'
    """
    return next((k for k in (DURATION, SIZE, RATE, BANDWIDTH) if unit in k.units), None)


def parse_duration_ns(text: object) -> int:
    """Return a duration in whole nanoseconds.

    >>> parse_duration_ns("1.5 s")
    1500000000
    """
    return _whole(DURATION, text)


def parse_size_bytes(text: object) -> int:
    """Return a size in whole bytes.

    >>> parse_size_bytes("6 KiB")
    6144
    """
    return _whole(SIZE, text)


def parse_rate_per_s(text: object) -> float:
    """Return a rate per second.

    >>> parse_rate_per_s("90/min")
    1.5
    """
    return float(RATE.parse(text))


def parse_bandwidth_bits_per_s(text: object) -> int:
    """Return a bandwidth in whole bits per second.

    >>> parse_bandwidth_bits_per_s("1 Gbit/s")
    1000000000
    """
    return _whole(BANDWIDTH, text)


def _whole(unit: Unit, text: object) -> int:
    value = unit.parse(text)
    if value.denominator != 1:
        raise QuantityError(f"must be a whole number of {unit.base}, got {shown(text)}")
    return value.numerator


def shown(value: object) -> str:
    """Return *value* as it would stand in a scenario file, cut to what fits a sentence.

    >>> shown(True), shown("50"), shown(50)
    ('true', '"50"', '50')
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True)
class Bounded:
    """The type of a scenario's field: a quantity of *unit* from *least* to *most*."""

    unit: Unit
    least: str
    most: str
    whole: bool = True

    def parse(self, text: object) -> int | float:
        """Return *text* in the base unit, within the bounds."""
        value = _whole(self.unit, text) if self.whole else float(self.unit.parse(text))
        if value < self.unit.parse(self.least):
            raise QuantityError(f"must be at least {self.least}, got {shown(text)}")
        if value > self.unit.parse(self.most):
            raise QuantityError(f"must be at most {self.most}, got {shown(text)}")
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read by `parse`, write by the unit's `format`: a dumped model can be read again."""
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
        units = "|".join(re.escape(unit) for unit in self.unit.units)
        units = units.replace("us|", "us|µs|μs|")  # as `read_number` takes them
        return {
            "type": "string",
            "pattern": rf"^[0-9][0-9_]*(\.[0-9]+)? ?({units})$",
            "description": f"{self.unit.name} from {self.least} to {self.most}",
            "examples": [self.unit.example],
        }
