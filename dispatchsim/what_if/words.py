"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

_NS_PER_US = 1e3
_NS_PER_MS = 1e6
_NS_PER_S = 1e9


def number(value: float) -> str:
    """Return *value* with three digits that count.

    >>> number(12345.6), number(0.12345), number(0)
    ('12,300', '0.123', '0')
    """
    if not math.isfinite(value):
        return "none"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rate(per_s: float) -> str:
    """Return a rate.

    >>> rate(16000)
    '16,000/s'
    """
    return f"{per_s:,.0f}/s"


def share(value: float) -> str:
    """Return a share in percent.

    >>> share(0.1234), share(0.99999), share(0.00001)
    ('12.3%', '100.0%', 'under 0.1%')
    """
    return "under 0.1%" if 0 < value < 0.001 else f"{value:.1%}"


def duration(ns: float) -> str:
    """Return a time in a unit that suits it.

    >>> duration(450_000), duration(99_999), duration(2.5e9)
    ('450 µs', '100 µs', '2.5 s')
    """
    for unit, size in (("s", _NS_PER_S), ("ms", _NS_PER_MS)):
        if ns >= 0.9995 * size:
            return f"{number(ns / size)} {unit}"
    return f"{number(ns / _NS_PER_US)} µs"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
