"""Tables of runs, one a row, with columns named as their owner named them.

    rate_per_s=offered  replied=ok  p99=lat99:ms  idle=parked   FIELD=COLUMN[:UNIT]

What a column may stand for is in FIELDS. Times need a unit, as a spreadsheet has none.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...scenario.errors import unknown_key
from ..records.measured_runs import DataError
from .observed_run import CLIENT_ERRORS, SERVER_ERRORS, ObservedRun, observed_run
from .printed import number_of, share_name

UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIMES = ("window", "mean", "max", "timeout", "process", "think")
_WHOLE = ("users", "idle", "requests", "workers", "offered", "replied", "concurrent")
_TEXTS = ("server", "mechanism")
_QUANTILE = re.compile(r"p([0-9]{1,2})([0-9]*)")
FIELDS = (
    *_TEXTS, *_WHOLE, *_TIMES, "rate_per_s", "throughput_per_s", "request_bytes", "reply_bytes",
    "busy_share", *(f"error_{name}" for name in (*CLIENT_ERRORS, *SERVER_ERRORS)),
)  # fmt: skip
"""What a column may stand for; quantiles besides, as p50, p99, p999."""


class Column(NamedTuple):
    """What a column of a table stands for; `unit_ns` is 1 where it has no time."""

    field: str
    name: str
    unit_ns: float


def parse_columns(texts: Sequence[str]) -> list[Column]:
    """Return what FIELD=COLUMN[:UNIT] texts say.

    Raises
    ------
    DataError
        If a field is unknown or named twice, or a time has no unit.
    """
    found: dict[str, Column] = {}
    for text in texts:
        field, equals, rest = text.partition("=")
        if not equals or not rest:
            raise DataError(f'a column must be FIELD=COLUMN[:UNIT], got "{text}"')
        is_time = field in _TIMES or _QUANTILE.fullmatch(field) is not None
        if field not in FIELDS and not is_time:
            raise DataError(f'column "{text}": {unknown_key(field, [*FIELDS, "p50", "p99"])}')
        if field in found:
            raise DataError(f"column {field}: must be named once")
        name, _, unit = rest.rpartition(":") if is_time else (rest, "", "")
        if is_time and (not name or unit not in UNITS_NS):
            raise DataError(
                f'column "{text}": a time needs its unit, {field}=COLUMN:UNIT with UNIT one of '
                f"{', '.join(UNITS_NS)}"
            )
        found[field] = Column(field, name, UNITS_NS.get(unit, 1.0))
    return list(found.values())


def read_table(text: str, where: str, columns: Sequence[Column]) -> list[ObservedRun]:
    """Return the runs of a CSV text, one a row; *where* begins the message of an error.

    Raises
    ------
    DataError
        If a column is missing, a row is short, or a value is no number or breaks a rule.
    """
    try:
        return _runs(csv.DictReader(io.StringIO(text)), where, columns)
    except csv.Error as error:
        raise DataError(f"{where}: is no table: {error}") from None


def _runs(reader: csv.DictReader[str], where: str, columns: Sequence[Column]) -> list[ObservedRun]:
    names = reader.fieldnames or []
    for column in columns:
        if column.name not in names:
            raise DataError(f"{where}: {column.field}: {unknown_key(column.name, names)}")
    runs = []
    for row in reader:
        place = f"{where} line {reader.line_num}"
        if None in row.values():
            raise DataError(f"{place}: the row is shorter than the head: the file was cut")
        runs.append(_run(row, place, columns))
    if not runs:
        raise DataError(f"{where}: the table has no row")
    return runs


def _run(row: Mapping[str, str], where: str, columns: Sequence[Column]) -> ObservedRun:
    values: dict[str, Any] = {}
    for column in columns:
        text = row[column.name].strip()
        if text:
            values[column.field] = _value(text, where, column)
    window_ns = values.get("window")
    if not window_ns:
        raise DataError(f"{where}: the length of the run is missing: window=COLUMN:UNIT")
    if "replied" not in values and "throughput_per_s" in values:
        values["replied"] = round(values["throughput_per_s"] * window_ns / 1e9)
    if "replied" not in values:
        raise DataError(f"{where}: neither replied nor throughput_per_s is there")
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
