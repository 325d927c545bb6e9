"""Time is an integer number of nanoseconds everywhere between the workload and the metrics."""

import math

MICROSECOND_NS = 1_000
MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
PERMILLE = 1_000
"""Shares are whole thousandths."""
MILLIONTHS = 1_000_000
KIB = 1024


def round_ns(value_ns: float) -> int:
    """Return *value_ns* as whole nanoseconds: the one door through which floats enter the clock.

    Raises
    ------
    ValueError
        If the value is not finite.

    >>> round_ns(1_500.4)
    1500
    """
    if not math.isfinite(value_ns):
        raise ValueError(f"a time must be a finite number of nanoseconds, got {value_ns}")
    return round(value_ns)
