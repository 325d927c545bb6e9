"""Quantities with their unit: "50 ms", "6 KiB", "20k/s", "1 Gbit/s".

A bare number is an error wherever a unit exists: 50 could be milliseconds or seconds, and the
reader of a scenario file should not have to guess.

A unit has other spellings that people type (KB, Gb/s, usec). An ambiguous spelling is refused with
both readings: "5m" (minutes, milliseconds), "8K" (1000 bytes, 1024), "10 GBps" (bytes, bits).
k, K and M multiply counts and rates by a thousand and a million. Printed units have one spelling.

Arithmetic is exact (fractions), so that "0.1 s" is 100,000,000 ns and nothing near it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from .errors import UserError


class QuantityError(UserError):
    """A text that is not a quantity of the kind that is expected."""


class Reading(NamedTuple):
    """One reading of an ambiguous unit: its size in the base unit, and the word for it."""

    size: Fraction
    words: str


@dataclass(frozen=True, eq=False)
class Unit:
    """A kind of quantity.

    Attributes
    ----------
    name, example:
        For errors.
    units:
        The size of each in the base unit, largest last.
    base:
        The base unit.
    spellings:
        Other spelling -> the unit.
    ambiguous:
        Refused spelling -> its two readings.
    """

    name: str
    example: str
    units: dict[str, Fraction]
    base: str
    spellings: Mapping[str, str] = field(default_factory=dict)
    ambiguous: Mapping[str, tuple[Reading, Reading]] = field(default_factory=dict)

    def parse(self, text: object) -> Fraction:
        """Return *text* in the base unit.

        Raises
        ------
        QuantityError
            If it is not a number and one of the units, or is negative.
        """
        written = read_number(text)
        if written is None or written.unit not in self.units:
            raise QuantityError(f"must be {self._must_be(text)}, got {shown(text)}")
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
        if exact == 0:
            return with_unit("0", self.base)
        # The shortest decimal that reads back as the same float, without an exponent.
        return with_unit(f"{Decimal(repr(float(value))):f}", self.base)

    @property
    def expected(self) -> str:
        """What a text should be, for an error."""
        return f'a {self.name} such as "{self.example}" (units: {", ".join(self.units)})'

    def has_two_readings(self, text: str) -> bool:
        """Return whether *text* is a number with a unit that is refused for its two readings."""
        match = _WRITTEN.fullmatch(text)
        return match is not None and match[2] in self.ambiguous

    def _must_be(self, text: object) -> str:
        """Return what *text* should be: one of two readings, without a comma, or a quantity."""
        match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if match is not None and match[2] in self.ambiguous:
            number = Fraction(match[1].replace("_", ""))
            readings = (
                f'"{self.format(number * each.size)}" ({each.words})'
                for each in self.ambiguous[match[2]]
            )
            return f"either {' or '.join(readings)}"
        return _without_comma(text) or self.expected


class Written(NamedTuple):
    """A number as it is written: its digits, and its unit, which is "" of a bare number."""

    digits: str
    unit: str

    @property
    def is_whole(self) -> bool:
        """Whether it is written without a fraction and without a unit."""
        return not self.unit and "." not in self.digits


# Thirty digits are more than any quantity needs, and bound the work on hostile input.
_WRITTEN = re.compile(
    r"(-?[0-9][0-9_]{0,30}(?:\.[0-9]{1,30})?) ?(%|/?[A-Za-zµμ]*(?:/[a-z]+)?)", re.A
)
_GROUPED = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3}){1,9}(?:\.[0-9]{1,30})?(?![0-9,]).{0,10}", re.A)
_COMMA_FRACTION = re.compile(r"-?[0-9]{1,30},[0-9]{1,30}(?![0-9,.]).{0,10}", re.A)
_SHARE = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?) ?(%?)", re.A)


THOUSANDS = {"k": 3, "K": 3, "M": 6}
"""Multipliers of counts and rates, as powers of ten."""


def read_number(text: object) -> Written | None:
    """Return the number and the unit of *text*, None if it is something else.

    The unit has the spelling that is printed, and a multiplier of a count or a rate is in the
    number.

    >>> read_number("2_000/s"), read_number("50 µs"), read_number("poll")
    (Written(digits='2000', unit='/s'), Written(digits='50', unit='us'), None)
    >>> read_number("1.5k/s"), read_number("20k"), read_number("10 Gb/s")
    (Written(digits='1500', unit='/s'), Written(digits='20000', unit=''), \
Written(digits='10', unit='Gbit/s'))
    """
    match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    digits, unit = match[1].replace("_", ""), match[2].replace("µ", "u").replace("μ", "u")
    if unit in _SPELLINGS:
        return Written(digits, _SPELLINGS[unit])
    rest = _SPELLINGS.get(unit[1:], unit[1:])
    if unit[:1] in THOUSANDS and (not rest or rest in RATE.units):
        return Written(_shifted(digits, THOUSANDS[unit[0]]), rest)
    return Written(digits, unit)


def _shifted(digits: str, places: int) -> str:
    """Return a decimal number times 10 to the power of *places*, exactly.

    >>> _shifted("1.5", 3), _shifted("-0.25", 1), _shifted("20", 3)
    ('1500', '-2.5', '20000')
    """
    sign, number = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = number.partition(".")
    fraction = fraction.ljust(places, "0")
    whole = (whole + fraction[:places]).lstrip("0") or "0"
    rest = fraction[places:].rstrip("0")
    return sign + (f"{whole}.{rest}" if rest else whole)


def _without_comma(text: object) -> str:
    """Return the correct spelling of a number with a comma; "" for other texts.

    >>> _without_comma("61,000/s")
    'without a comma: "61_000/s" for thousands, "61.000/s" for a fraction'
    >>> _without_comma("5,5 ms")
    'without a comma, such as "5.5 ms"'
    """
    if not isinstance(text, str):
        return ""
    ways = []
    if _GROUPED.fullmatch(text):
        ways.append(shown(text.replace(",", "_")))
    if _COMMA_FRACTION.fullmatch(text):
        ways.append(shown(text.replace(",", ".")))
    if len(ways) > 1:
        return f"without a comma: {ways[0]} for thousands, {ways[1]} for a fraction"
    return f"without a comma, such as {ways[0]}" if ways else ""


def read_count(text: str) -> int:
    """Return a whole number with a multiplier.

    Raises
    ------
    QuantityError
        If it is none.

    >>> read_count("20k"), read_count("1.5M")
    (20000, 1500000)
    """
    written = read_number(text)
    if written is None or not written.is_whole or text[-1] not in THOUSANDS:
        rule = 'a whole number (4, 20000 or "20k")'
        if _GROUPED.fullmatch(text):
            rule = f"without a comma, such as {text.replace(',', '_')}"
        raise QuantityError(f"must be {rule}, got {shown(text)}")
    return int(written.digits)


def read_percentage(text: str) -> float:
    """Return the share that a percentage is.

    Raises
    ------
    QuantityError
        If it is none.

    >>> read_percentage("12.5%")
    0.125
    """
    written = read_number(text)
    if written is None or written.unit != "%":
        raise QuantityError(f"must be a share such as 0.5 or 50%, got {shown(text)}")
    return float(Fraction(written.digits) / 100)


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

    >>> with_unit("2000", "/s"), with_unit("50", "ms"), with_unit("3", ""), with_unit("5", "%")
    ('2000/s', '50 ms', '3', '5%')
    """
    return number + ("" if not unit or unit[0] in "/%" else " ") + unit


def _spelled(unit: str, spellings: str) -> dict[str, str]:
    return dict.fromkeys(spellings.split(), unit)


_KILO, _MEGA, _GIGA = Fraction(10**3), Fraction(10**6), Fraction(10**9)
_BITS = Fraction(1, 8)  # bytes in a bit


def _bytes_or_bits(prefixes: Iterable[tuple[str, Fraction]]) -> dict[str, tuple[Reading, Reading]]:
    """Return the sizes that may be bytes or bits: "8 Kb"."""
    return {
        f"{prefix}b": (Reading(size, "bytes"), Reading(size * _BITS, "bits"))
        for prefix, size in prefixes
    }


_SECOND = _GIGA
DURATION = Unit(
    "duration",
    "50 ms",
    {
        "ns": Fraction(1),
        "us": _KILO,
        "ms": _MEGA,
        "s": _SECOND,
        "min": 60 * _SECOND,
        "h": 3600 * _SECOND,
    },
    "ns",
    {
        **_spelled("ns", "nsec"),
        **_spelled("us", "usec"),
        **_spelled("ms", "msec"),
        **_spelled("s", "sec secs second seconds"),
        **_spelled("min", "mins minute minutes"),
        **_spelled("h", "hr hour hours"),
    },
    {"m": (Reading(60 * _SECOND, "minutes"), Reading(_MEGA, "milliseconds"))},
)
_PREFIXES = (
    *(("k", _KILO), ("K", _KILO), ("M", _MEGA), ("G", _GIGA)),
    *(("m", _MEGA), ("g", _GIGA)),
)
SIZE = Unit(
    "size",
    "6 KiB",
    {
        "B": Fraction(1),
        "kB": _KILO,
        "KiB": Fraction(2**10),
        "MB": _MEGA,
        "MiB": Fraction(2**20),
        "GB": _GIGA,
        "GiB": Fraction(2**30),
    },
    "B",
    {**_spelled("B", "byte bytes"), **_spelled("kB", "KB")},
    {
        **_bytes_or_bits(_PREFIXES),
        **{
            prefix: (Reading(size, "powers of 1000"), Reading(two, "powers of 1024"))
            for prefix, size, two in (
                ("k", _KILO, Fraction(2**10)),
                ("K", _KILO, Fraction(2**10)),
                ("M", _MEGA, Fraction(2**20)),
                ("G", _GIGA, Fraction(2**30)),
            )
        },
    },
)
RATE = Unit(
    "rate",
    "2000/s",
    {"/h": Fraction(1, 3600), "/min": Fraction(1, 60), "/s": Fraction(1)},
    "/s",
    {
        **_spelled("/s", "/sec /second"),
        **_spelled("/min", "/minute"),
        **_spelled("/h", "/hr /hour"),
    },
)
BANDWIDTH = Unit(
    "bandwidth",
    "1 Gbit/s",
    {"bit/s": Fraction(1), "kbit/s": _KILO, "Mbit/s": _MEGA, "Gbit/s": _GIGA},
    "bit/s",
    {
        **_spelled("bit/s", "b/s bps"),
        **_spelled("kbit/s", "kbit Kbit Kbit/s kb/s Kb/s kb Kb kbps Kbps"),
        **_spelled("Mbit/s", "Mbit mbit mbit/s Mb/s Mb Mbps mbps"),
        **_spelled("Gbit/s", "Gbit gbit gbit/s Gb/s Gb Gbps gbps"),
    },
    {
        f"{prefix}{end}": (Reading(8 * size, "bytes"), Reading(size, "bits"))
        for prefix, size in _PREFIXES
        for end in (("b/s", "b") if prefix in "mg" else ("B/s", "Bps"))
    },
)
SHARE = Unit("share", "50%", {"%": Fraction(1, 100)}, "%")
_KINDS = (DURATION, SIZE, RATE, BANDWIDTH, SHARE)
_SPELLINGS: dict[str, str] = {
    spelling: unit for kind in _KINDS for spelling, unit in kind.spellings.items()
}


def kind_of_unit(unit: str) -> Unit | None:
    """Return the kind of quantity that has *unit*, None if none has.

    >>> kind_of_unit("ms").name
    'duration'
    """
    return next((kind for kind in _KINDS if unit in kind.units), None)


def parse_duration_ns(text: object) -> int:
    """Return a duration in whole nanoseconds.

    >>> parse_duration_ns("1.5 s")
    1500000000
    """
    return whole(DURATION, text)


def parse_size_bytes(text: object) -> int:
    """Return a size in whole bytes.

    >>> parse_size_bytes("6 KiB")
    6144
    """
    return whole(SIZE, text)


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
    return whole(BANDWIDTH, text)


def whole(unit: Unit, text: object) -> int:
    """Return a quantity in whole base units.

    Raises
    ------
    QuantityError
        If it is none.
    """
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
