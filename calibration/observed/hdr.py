"""HdrHistogram's files: a log of intervals, or the spectrum of percentiles that tools print.

A log holds histograms and nothing of the load: that has to be told. Its values have no unit
either; Java programs count in nanoseconds mostly, wrk2 in microseconds.

Source: HdrHistogram, HistogramLogWriter ("Tag=", start, length, highest, payload a line) and
outputPercentileDistribution.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from typing import Any, NamedTuple

from ...sim.state.units import SECOND_NS
from ..records.measured_runs import DataError
from .printed import NUMBER, Printed, share_name

SHARES = (0.0, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1.0)
_HIGHEST = 1 << 62
_DIGITS = 3
_UNPACKED_MAX = 8 << 20
_INTERVAL = re.compile(r"(?:Tag=[^,\s]*,)?([0-9.]+),([0-9.]+),([0-9.]+),([A-Za-z0-9+/=]+)\s*")


class Recorded(NamedTuple):
    """What a histogram's file says: how many values, over how long (0: it does not tell).

    `latency_ns` has the fields of an `ObservedLatency`, but since when: no histogram tells.
    """

    n_values: int
    window_ns: int
    latency_ns: dict[str, Any]


def is_log(text: str) -> bool:
    """Return whether *text* looks like a log of intervals."""
    return "#[Histogram log format" in text or any(map(_INTERVAL.fullmatch, text.splitlines()))


def is_spectrum(text: str) -> bool:
    """Return whether *text* looks like a spectrum of percentiles."""
    return re.search(r"^ *Value +Percentile +TotalCount", text, re.MULTILINE) is not None


def read_log(text: str, where: str, unit_ns: float) -> Recorded:
    """Return what all intervals of a log hold together; *unit_ns* is one of its units.

    Raises
    ------
    DataError
        If a line is neither comment nor legend nor interval, or an interval cannot be decoded.
    """
    from hdrh.histogram import HdrHistogram

    total = HdrHistogram(1, _HIGHEST, _DIGITS)
    begin_s, end_s = math.inf, 0.0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(("#", '"')):
            continue
        place = f"{where} line {number}"
        match = _INTERVAL.fullmatch(line)
        if match is None:
            raise DataError(f"{place}: no interval of an HdrHistogram log: cut, or another format")
        try:
            begin, length = float(match[1]), float(match[2])
            _check_size(match[4])
            total.add(HdrHistogram.decode(match[4]))
        except Exception as error:  # the library raises whatever zlib, base64 and ctypes do
            raise DataError(f"{place}: the interval cannot be decoded ({error})") from error
        begin_s, end_s = min(begin_s, begin), max(end_s, begin + length)
    count = total.get_total_count()
    if count == 0:
        raise DataError(f"{where}: the log holds no value")
    values = {
        share_name(100 * share): unit_ns * total.get_value_at_percentile(100 * share)
        for share in SHARES
    }
    return Recorded(
        count,
        round((end_s - begin_s) * SECOND_NS),
        {
            "quantiles": values,
            "mean": unit_ns * total.get_mean_value(),
            "max": unit_ns * total.get_max_value(),
        },
    )


def _check_size(payload: str) -> None:
    """Refuse what would unpack to more than any histogram: a small file could fill the memory."""
    unpacked = zlib.decompressobj().decompress(base64.b64decode(payload)[8:], _UNPACKED_MAX + 1)
    if len(unpacked) > _UNPACKED_MAX:
        raise ValueError(f"it unpacks to more than {_UNPACKED_MAX >> 20} MiB")


def read_spectrum(text: str, where: str, unit_ns: float) -> Recorded:
    """Return what a spectrum of percentiles says; *where* begins the message of an error.

    Raises
    ------
    DataError
        If it has no row, or its foot is missing: then it was cut.
    """
    told = Printed(text, where, "HdrHistogram")
    rows = re.findall(rf"^ *{NUMBER} +{NUMBER} +[0-9]+(?: +{NUMBER})? *$", text, re.MULTILINE)
    foot = told.find(
        rf"^#\[Max +=? +{NUMBER}, Total count += +{NUMBER}\]", "foot with Max and Total count"
    )
    middle = told.find(rf"^#\[Mean +=? +{NUMBER}", "foot with the mean")
    if not rows:
        raise DataError(f"{where}: the spectrum of percentiles has no row")
    known = [
        (told.number(share, "Percentile"), told.number(value, "Value")) for value, share, *_ in rows
    ]
    values = {}
    for share in SHARES:
        # Rows are steps: the first at or above a share has its value.
        at_least = [value for row_share, value in known if row_share >= share - 1e-12]
        if at_least:
            values[share_name(100 * share)] = unit_ns * at_least[0]
    return Recorded(
        int(told.number(foot[2], "Total count")),
        0,
        {
            "quantiles": values,
            "mean": unit_ns * told.number(middle[1], "Mean"),
            "max": unit_ns * told.number(foot[1], "Max"),
        },
    )
