"""How reports write values: errors with a sign, + where the forecast is above the measurement.

A missing value, None or NaN, is a dash.
"""

from __future__ import annotations

import math

from ...scenario.formats import share_text
from ...sim.files.tables import DASH
from ..points.measured_points import Spread

STYLES = {
    "reached": "green", "missed": "bold red", "no": "red", "not measured": "yellow",
    "better": "green", "worse": "red",
}  # fmt: skip
"""How a terminal shows what a verdict says."""


def number(value: float | None) -> str:
    """Return *value* with about three digits and a letter for thousands.

    >>> [number(v) for v in (87.4, 2557.0, 25002.0, 1_390_000.0)]
    ['87', '2557', '25.0k', '1.39M']
    """
    if value is None or math.isnan(value):
        return DASH
    if value < 9_999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 999_950 else f"{value / 1_000_000:.2f}M"


def microseconds(value_ns: float) -> str:
    """Return a time in µs, without its unit."""
    return number(value_ns / 1000)


def interval(ends: tuple[float, float]) -> str:
    """Return the text of an interval."""
    return DASH if math.isnan(ends[0]) else f"{number(ends[0])}{DASH}{number(ends[1])}"


def scatter(spread: Spread, median: float) -> str:
    """Return half the interval of the median, relative to it."""
    if math.isnan(spread.low) or not median:
        return DASH
    return signed((spread.high - spread.low) / 2 / median).lstrip("+")


def signed(value: float | None) -> str:
    """Return a relative error with its sign."""
    if value is None:
        return DASH
    return f"{value:+.1%}" if abs(value) < 0.0995 else f"{value:+.0%}"


def points(value: float | None) -> str:
    """Return a difference of shares in percentage points."""
    return DASH if value is None else f"{100 * value:+.1f}"


def percent(value: float | None) -> str:
    """Return a share in whole percents."""
    return DASH if value is None or math.isnan(value) else f"{value:.0%}"


def tenths(value: float | None) -> str:
    """Return a share to a tenth of a percent, as all tables have it.

    >>> tenths(0.1234), tenths(0.0004), tenths(0.0)
    ('12.3%', 'under 0.1%', '0.0%')
    """
    return DASH if value is None or math.isnan(value) else share_text(value)


def yes_no(value: bool | None) -> str:
    """Return whether, in one word."""
    return DASH if value is None else "yes" if value else "no"


def error_text(error: float | None, limit: float | None = None) -> str:
    """Return a relative error with its sign, and a mark where it is beyond *limit*.

    >>> [error_text(0.0012), error_text(-0.234), error_text(0.021, limit=0.02)]
    ['+0.12%', '-23%', '+2.1%!']
    """
    if error is None:
        return DASH
    digits = 2 if abs(error) < 0.00995 else 1 if abs(error) < 0.0995 else 0
    text = f"{error:+.{digits}%}"
    return text + ("!" if limit is not None and abs(error) > limit else "")


def size_text(value: float | None) -> str:
    """Return an absolute error."""
    return DASH if value is None else error_text(value).lstrip("+")


def count_text(value: float | None) -> str:
    """Return a count per request with three digits.

    >>> [count_text(value) for value in (0.0123, 1.8349, 12.34, 1234.5)]
    ['0.012', '1.835', '12.3', '1234']
    """
    if value is None or math.isnan(value):
        return DASH
    digits = 3 if value < 9.9995 else 1 if value < 999.95 else 0
    return f"{value:.{digits}f}"
