"""Numbers, times, rates and shares as people read them: in tables, on pages, in pictures.

    number_text   12,300        three digits that count, no exponent
    time_text     1.23 ms       in a suitable unit; or "infinite"
    rate_text     16,000/s
    size_text     1.50 KiB
    share_text    12.3%

Unknown values (NaN) are "none" everywhere. Files and JSON hold plain numbers in base units.
`quantities.Unit.format` writes values that a scenario file can read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MICROSECONDS = "µs"
"""Printed unit; scenario files and JSON have "us", which is ASCII."""
_TIMES = (("s", 1e9), ("ms", 1e6), (MICROSECONDS, 1e3), ("ns", 1.0))
_SIZES = (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0))
_LEAST_SHARE = 0.001


def number_text(value: float, digits: int = 3, *, trim: bool = False) -> str:
    """Return *value* rounded to *digits* significant digits, without an exponent.

    With *trim* zeros at the end of a fraction are left out.

    >>> number_text(12345.6), number_text(0.01234), number_text(0.0), number_text(9.999)
    ('12,300', '0.0123', '0', '10.0')
    >>> number_text(1.5), number_text(1.5, trim=True)
    ('1.50', '1.5')
    """
    if math.isnan(value):
        return "none"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if trim and "." in text else text


def time_text(ns: float, digits: int = 3, *, trim: bool = False) -> str:
    """Return a time of *ns* nanoseconds in a suitable unit.

    >>> time_text(1_234_567.0), time_text(-900.0), time_text(99_999.0, trim=True)
    ('1.23 ms', '-900 ns', '100 µs')
    >>> time_text(float("nan")), time_text(float("inf"))
    ('none', 'infinite')
    """
    if math.isnan(ns):
        return "none"
    if math.isinf(ns):
        return "infinite" if ns > 0 else "-infinite"
    # A value that rounds up to the next unit is written in that unit: 1.00 ms, not 1,000 µs.
    least = 1 - 0.5 * 10.0**-digits
    unit, size = next((t for t in _TIMES if abs(ns) >= least * t[1]), _TIMES[-1])
    return f"{number_text(ns / size, digits, trim=trim)} {unit}"


def size_text(n_bytes: float, digits: int = 3, *, trim: bool = False) -> str:
    """Return a size of *n_bytes* in a suitable unit.

    >>> size_text(1536.0), size_text(99.0), size_text(3.0 * 2**30, trim=True)
    ('1.50 KiB', '99.0 B', '3 GiB')
    """
    if not math.isfinite(n_bytes):
        return number_text(n_bytes)
    least = 1 - 0.5 * 10.0**-digits
    unit, size = next((s for s in _SIZES if abs(n_bytes) >= least * s[1]), _SIZES[-1])
    return f"{number_text(n_bytes / size, digits, trim=trim)} {unit}"


def duration_text(seconds: float) -> str:
    """Return a duration in hours, minutes and seconds.

    >>> duration_text(3700), duration_text(95), duration_text(8)
    ('1 h 01 min', '1 min 35 s', '8 s')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"


def rate_text(per_s: float) -> str:
    """Return a rate per second, in whole numbers.

    >>> rate_text(16000.2)
    '16,000/s'
    """
    return "none" if math.isnan(per_s) else f"{per_s:,.0f}/s"


def share_text(share: float) -> str:
    """Return a share in per cent; a share above 0 and below 0.1% is "under 0.1%".

    >>> share_text(0.1234), share_text(0.99999), share_text(0.00001), share_text(0.0)
    ('12.3%', '100.0%', 'under 0.1%', '0.0%')
    """
    if math.isnan(share):
        return "none"
    return "under 0.1%" if 0 < share < _LEAST_SHARE else f"{100 * share:.1f}%"


def listed(names: Sequence[str]) -> str:
    """Return names as a sentence has them.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
