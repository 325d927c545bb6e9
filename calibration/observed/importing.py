"""Result files of other tools as observed runs; the text of a file shows which tool wrote it.

    output of httperf, wrk, wrk2 ──► printed.py
    HdrHistogram's log of intervals, spectrum of percentiles
    CSV table: rate_per_s=offered  replied=ok  p99=lat99:ms  idle=parked   FIELD=COLUMN[:UNIT]

A histogram's file holds no description of the load: options give it. Its values have no unit
either; Java programs mostly count in nanoseconds, wrk2 in microseconds. FIELDS lists what a
column of a table may stand for. Times need a unit, as a spreadsheet has none.

Source: HdrHistogram, HistogramLogWriter ("Tag=", start, length, highest, payload a line) and
outputPercentileDistribution.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...scenario.errors import nearest, unknown_key
from ...sim.state.units import SECOND_NS
from ..records.measured_runs import DataError
from .observed_run import CLIENT_ERRORS, SERVER_ERRORS, ObservedRun, observed_run
from .printed import (
    NUMBER,
    Printed,
    is_httperf,
    is_wrk,
    number_of,
    read_httperf,
    read_wrk,
    share_name,
)

SHARES = (0.0, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1.0)
_HIGHEST = 1 << 62
_DIGITS = 3
_UNPACKED_MAX = 8 << 20
_INTERVAL = re.compile(r"(?:Tag=[^,\s]*,)?([0-9.]+),([0-9.]+),([0-9.]+),([A-Za-z0-9+/=]+)\s*")
_COOKIE = "HIST"
"""A payload begins with it, which a row of a CSV table with four columns does not."""


class Recorded(NamedTuple):
    """The content of a histogram's file: how many values, over how long (0: not recorded).

    `latency_ns` has the fields of an `ObservedLatency` except `since`: histograms do not record it.
    """

    n_values: int
    window_ns: int
    latency_ns: dict[str, Any]


def is_log(text: str) -> bool:
    """Return whether *text* looks like a log of intervals."""
    if "#[Histogram log format" in text:
        return True
    matches = map(_INTERVAL.fullmatch, text.splitlines())
    return any(match is not None and match[4].startswith(_COOKIE) for match in matches)


def is_spectrum(text: str) -> bool:
    """Return whether *text* looks like a spectrum of percentiles."""
    return re.search(r"^ *Value +Percentile +TotalCount", text, re.MULTILINE) is not None


def read_log(text: str, where: str, unit_ns: float) -> Recorded:
    """Return the sum of all intervals of a log; *unit_ns* is the length of its unit.

    Raises
    ------
    DataError
        If a line is no comment, legend or interval, or an interval cannot be decoded.
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
            raise DataError(f"{place}: is no interval of an HdrHistogram log; the file may be cut")
        try:
            begin, length = float(match[1]), float(match[2])
            _check_size(match[4])
            total.add(HdrHistogram.decode(match[4]))
        except Exception as error:  # the library raises the errors of zlib, base64 and ctypes
            raise DataError(f"{place}: the interval cannot be decoded ({error})") from error
        begin_s, end_s = min(begin_s, begin), max(end_s, begin + length)
    count = total.get_total_count()
    if count == 0:
        raise DataError(f"{where}: the log holds no values")
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
    """Refuse a payload that unpacks to more than any histogram and could fill the memory."""
    unpacked = zlib.decompressobj().decompress(base64.b64decode(payload)[8:], _UNPACKED_MAX + 1)
    if len(unpacked) > _UNPACKED_MAX:
        raise ValueError(f"it unpacks to more than {_UNPACKED_MAX >> 20} MiB")


def read_spectrum(text: str, where: str, unit_ns: float) -> Recorded:
    """Return the content of a spectrum of percentiles; *where* begins the message of an error.

    Raises
    ------
    DataError
        If it has no rows, or its foot is missing because it was cut.
    """
    told = Printed(text, where, "HdrHistogram")
    rows = re.findall(rf"^ *{NUMBER} +{NUMBER} +[0-9]+(?: +{NUMBER})? *$", text, re.MULTILINE)
    foot = told.find(
        rf"^#\[Max +=? +{NUMBER}, Total count += +{NUMBER}\]", "foot with Max and Total count"
    )
    middle = told.find(rf"^#\[Mean +=? +{NUMBER}", "foot with the mean")
    if not rows:
        raise DataError(f"{where}: the spectrum of percentiles has no rows")
    known = [
        (told.number(share, "Percentile"), told.number(value, "Value")) for value, share, *_ in rows
    ]
    values = {}
    for share in SHARES:
        # Rows are steps: the value of a share is in the first row at or above it.
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


UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIMES = ("window", "mean", "max", "timeout", "process", "think")
_WHOLE = ("users", "idle", "requests", "workers", "offered", "replied", "concurrent")
_TEXTS = ("server", "mechanism")
_QUANTILE = re.compile(r"p([0-9]{1,2})([0-9]*)")
FIELDS = (
    *_TEXTS, *_WHOLE, *_TIMES, "rate_per_s", "throughput_per_s", "request_bytes", "reply_bytes",
    "busy_share", *(f"error_{name}" for name in (*CLIENT_ERRORS, *SERVER_ERRORS)),
)  # fmt: skip
"""What a column may stand for, besides quantiles such as p50, p99 and p999."""


class Column(NamedTuple):
    """The meaning of a table's column; `unit_ns` is 1 for a column that is no time."""

    field: str
    name: str
    unit_ns: float


def parse_columns(texts: Sequence[str]) -> list[Column]:
    """Return the columns that FIELD=COLUMN[:UNIT] texts describe.

    Raises
    ------
    DataError
        If a field is unknown or occurs twice, or a time has no unit.
    """
    found: dict[str, Column] = {}
    for text in texts:
        field, equals, rest = text.partition("=")
        if not equals or not rest:
            raise DataError(f'--column: must be FIELD=COLUMN[:UNIT], got "{text}"')
        is_time = field in _TIMES or _QUANTILE.fullmatch(field) is not None
        if field not in FIELDS and not is_time:
            raise DataError(f"--column {text}: {unknown_key(field, [*FIELDS, 'p50', 'p99'])}")
        if field in found:
            raise DataError(f"--column {field}: must be named once")
        name, _, unit = rest.rpartition(":") if is_time else (rest, "", "")
        if is_time and (not name or unit not in UNITS_NS):
            raise DataError(
                f"--column {text}: a time needs its unit, {field}=COLUMN:UNIT with UNIT one of "
                f"{', '.join(UNITS_NS)}"
            )
        found[field] = Column(field, name, UNITS_NS.get(unit, 1.0))
    return list(found.values())


def read_table(text: str, where: str, columns: Sequence[Column]) -> list[ObservedRun]:
    """Return the runs of a CSV text, one a row; *where* begins the message of an error.

    Raises
    ------
    DataError
        If a column is missing, a row is short, or a value is not a number or breaks a rule.
    """
    try:
        return _runs(csv.DictReader(io.StringIO(text)), where, columns)
    except csv.Error as error:
        raise DataError(f"{where}: is not a CSV table: {error}") from None


def _runs(reader: csv.DictReader[str], where: str, columns: Sequence[Column]) -> list[ObservedRun]:
    names = reader.fieldnames or []
    for column in columns:
        if column.name not in names:
            near = nearest(column.name, names) or f" (columns: {', '.join(names)})"
            lacks = f'has no column "{column.name}"{near}'
            raise DataError(f"{where}: {lacks}, as --column {column.field} asks")
    runs = []
    for row in reader:
        place = f"{where} line {reader.line_num}"
        if None in row.values():
            raise DataError(f"{place}: the row is shorter than the head: the file may be cut")
        runs.append(_run(row, place, columns))
    if not runs:
        raise DataError(f"{where}: the table has no rows")
    return runs


def _run(row: Mapping[str, str], where: str, columns: Sequence[Column]) -> ObservedRun:
    values: dict[str, Any] = {}
    for column in columns:
        text = row[column.name].strip()
        if text:
            values[column.field] = _value(text, where, column)
    window_ns = values.get("window")
    if not window_ns:
        raise DataError(
            f"{where}: the length of the run is missing: add --column window=COLUMN:UNIT"
        )
    if "replied" not in values and "throughput_per_s" in values:
        values["replied"] = round(values["throughput_per_s"] * window_ns / 1e9)
    if "replied" not in values:
        raise DataError(
            f"{where}: the number of replies is missing: add --column replied=COLUMN or --column "
            "throughput_per_s=COLUMN"
        )
    is_open = "rate_per_s" in values
    failed = {name[6:]: round(n) for name, n in values.items() if name.startswith("error_")}
    requests = values.get("requests", 1)
    done = math.ceil(values["replied"] / max(1, requests)) + sum(failed.values())
    due = round(values["rate_per_s"] * window_ns / 1e9) if is_open else done
    quantiles = {
        share_name(float(f"{match[1]}.{match[2] or 0}")): values[name]
        for name in values
        if (match := _QUANTILE.fullmatch(name))
    }
    latency = {"since": "intended" if is_open else "sent", "quantiles": quantiles} | {
        name: values[name] for name in ("mean", "max") if name in values
    }
    load = {
        "loop": "open" if is_open else "closed",
        "requests": requests,
        "timeout_ns": round(values["timeout"]) if "timeout" in values else None,
        "think_ns": round(values["think"]) if "think" in values else None,
    } | {
        name: values[name]
        for name in ("rate_per_s", "users", "idle", "request_bytes", "reply_bytes")
        if name in values
    }
    content = {
        "source": {"tool": "csv", "file": where},
        "server": {
            "name": values.get("server", ""),
            "mechanism": values.get("mechanism"),
            "workers": values.get("workers"),
        },
        "load": load,
        "window_ns": round(window_ns),
        "offered": values.get("offered", max(due, done)),
        "replied": values["replied"],
        "errors": failed,
        "latency_ns": latency if quantiles or len(latency) > 2 else None,
        "process_ns": values.get("process"),
        "busy_share": values.get("busy_share"),
        "concurrent": values.get("concurrent"),
    }
    return observed_run(where, content)


def _value(text: str, where: str, column: Column) -> str | int | float:
    if column.field in _TEXTS:
        return text
    value = number_of(text.replace(",", "").replace("_", ""), f"{where}: {column.name}")
    if column.field in _WHOLE:
        return round(value)
    return value * column.unit_ns


_BYTES_MAX = 64 << 20


@dataclass(frozen=True)
class Told:
    """Facts about a run that its file does not hold; options give them.

    Attributes
    ----------
    rate_per_s:
        The rate of wrk2, or of the clients in a histogram.
    users:
        The clients of a closed loop in a histogram.
    unit:
        The unit of a histogram's values: one of UNITS_NS.
    window_ns:
        The time over which a spectrum was recorded.
    columns:
        The columns of a table.
    """

    rate_per_s: float | None = None
    users: int | None = None
    unit: str | None = None
    window_ns: int | None = None
    columns: Sequence[Column] = field(default_factory=tuple)


def read_any(path: Path, told: Told = Told()) -> list[ObservedRun]:
    """Return the runs in the file at *path*.

    Raises
    ------
    DataError
        If it is of no known tool, was cut, or needs a fact that *told* does not hold.
    OSError
        If it cannot be read.
    """
    if path.stat().st_size > _BYTES_MAX:
        raise DataError(f"{path.name}: must be at most {_BYTES_MAX >> 20} MiB")
    text = path.read_text(errors="replace")
    if is_httperf(text):
        if told.rate_per_s is not None:
            raise DataError(f"{path.name}: --rate must be absent: httperf prints its own rate")
        return [read_httperf(text, path.name)]
    if is_wrk(text):
        return [read_wrk(text, path.name, rate_per_s=told.rate_per_s)]
    if is_log(text):
        return [_of_histogram(path, told, read_log(text, path.name, _unit_ns(path, told)))]
    if is_spectrum(text):
        return [_of_histogram(path, told, read_spectrum(text, path.name, _unit_ns(path, told)))]
    if told.columns:
        return read_table(text, path.name, told.columns)
    raise DataError(
        f"{path.name}: must be the output of httperf, wrk or wrk2, or an HdrHistogram log or "
        "spectrum; a CSV table needs its columns (--column FIELD=COLUMN[:UNIT])"
    )


def _unit_ns(path: Path, told: Told) -> float:
    if told.unit is None:
        raise DataError(
            f"{path.name}: values of a histogram have no unit: give --unit, one of "
            f"{', '.join(UNITS_NS)}"
        )
    if told.unit not in UNITS_NS:
        raise DataError(f'--unit: must be one of {", ".join(UNITS_NS)}, got "{told.unit}"')
    return UNITS_NS[told.unit]


def _of_histogram(path: Path, told: Told, recorded: Recorded) -> ObservedRun:
    """Return the run with the recorded latencies."""
    window_ns = recorded.window_ns or told.window_ns
    if not window_ns:
        raise DataError(f"{path.name}: holds no recording time: give --window")
    if (told.rate_per_s is None) == (told.users is None):
        raise DataError(
            f"{path.name}: a histogram does not describe its clients: give either --rate (they "
            "arrived at a rate) or --users (each waited for its reply)"
        )
    is_closed = told.rate_per_s is None
    due = 0 if told.rate_per_s is None else round(told.rate_per_s * window_ns / SECOND_NS)
    doubts = ["a histogram does not record failures: errors are unknown"]
    if is_closed:
        doubts.append(
            "a closed loop: requests that open-loop clients would have sent during a stall are "
            "missing from the latencies"
        )
    else:
        doubts.append("latencies are assumed to begin when a request was due")
    content = {
        "source": {"tool": "HdrHistogram", "file": path.name},
        "load": {
            "loop": "closed" if is_closed else "open",
            "rate_per_s": told.rate_per_s,
            "users": told.users,
            "requests": 0,
        },
        "window_ns": window_ns,
        "offered": max(due, recorded.n_values),
        "replied": recorded.n_values,
        "latency_ns": {"since": "sent" if is_closed else "intended", **recorded.latency_ns},
        "doubts": tuple(doubts),
    }
    return observed_run(path.name, content)
