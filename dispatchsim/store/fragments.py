"""Records as Parquet, and for other programs as CSV or JSON: equal bytes for equal rows.

    records ─► sorted by address, once each ─► columns ─► Parquet ─► sha256 names the file

    address  seed  draw  mechanism  profile  scenario  verdict  code    throughput_per_s  ...
    string   int64 int64 string     string   string    string   string  float64 ...

A metric that a row lacks is null there; a metric without a value (latency without a reply) is NaN.
The file holds neither its date nor its author.

Source: Apache Parquet, "File Format", https://parquet.apache.org/docs/file-format/.

For other programs:

    records ─► without duplicates, sorted by address ─► FILE.parquet, FILE.csv or FILE.json

CSV leaves missing values empty and has `nan` and `inf`; JSON has null for all three. Numbers are
written with all their digits.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..scenario.errors import UserError
from ..scenario.metrics import MAIN, RENAMED
from ..sim.files.whole_files import to_json, write_whole
from .records import Record

SUFFIX = ".parquet"
_FIELDS: list[pa.Field[Any]] = [
    pa.field("address", pa.string(), nullable=False),
    pa.field("seed", pa.int64(), nullable=False),
    pa.field("draw", pa.int64()),
    pa.field("mechanism", pa.string(), nullable=False),
    pa.field("profile", pa.string(), nullable=False),
    pa.field("scenario", pa.string(), nullable=False),
    pa.field("verdict", pa.string(), nullable=False),
    pa.field("code", pa.string(), nullable=False),
]
_REPEATED = ["mechanism", "profile", "scenario", "verdict", "code"]
BASE = pa.schema(_FIELDS)
"""The columns that every row has; all others are metrics."""


class FragmentError(ValueError):
    """A file that is no valid fragment; the message gives the reason."""


def table_of(records: Iterable[Record]) -> pa.Table:
    """Return *records*, in any order, as a table: one row per address, sorted."""
    by_address = {record.address: record for record in records}
    rows = [by_address[address] for address in sorted(by_address)]
    names = sorted({name for row in rows for name in row.figures}, key=_place)
    columns = [[getattr(row, name) for row in rows] for name in BASE.names]
    columns += [[_plain(row.figures.get(name)) for row in rows] for name in names]
    figures = [pa.field(name, pa.float64()) for name in names]
    schema = pa.unify_schemas([BASE, pa.schema(figures)])
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def records_of(table: pa.Table) -> list[Record]:
    """Return the rows of *table*, in its order."""
    n = len(BASE)
    found = []
    for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        base = dict(zip(BASE.names, row[:n], strict=True))
        figures = zip(table.column_names[n:], row[n:], strict=True)
        known = {name: value for name, value in figures if value is not None}
        found.append(Record(**base, figures=known))
    return found


def parquet_of(table: pa.Table) -> bytes:
    """Return *table* as a Parquet file: equal bytes for equal tables."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.combine_chunks(),
        sink,
        version="2.6",
        compression="zstd",
        row_group_size=65_536,
        # With a hundred columns and few rows, these settings cut a file to a third.
        write_statistics=False,
        store_schema=False,
        use_dictionary=_REPEATED,  # type: ignore[arg-type]  # its stubs have only a bool
    )
    return sink.getvalue().to_pybytes()


def name_of(content: bytes) -> str:
    """Return the name of the fragment with this *content*."""
    return hashlib.sha256(content).hexdigest()[:32] + SUFFIX


def read_fragment(name: str, content: bytes) -> pa.Table:
    """Return the table in the fragment *name*.

    Raises
    ------
    FragmentError
        If it is not whole, does not match its name, or has another schema.
    """
    if name != name_of(content):
        raise FragmentError("its content does not match its name")
    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FragmentError(f"it is not Parquet: {error}") from None
    n = len(BASE)
    given, figures = table.schema.names[:n], table.schema.types[n:]
    if given != BASE.names or table.schema.types[:n] != BASE.types:
        raise FragmentError(f"its columns begin with {', '.join(given)}")
    if any(kind != pa.float64() for kind in figures):
        raise FragmentError("its metrics are not all numbers")
    if any(table.column(name).null_count for name in BASE.names if name != "draw"):
        raise FragmentError("one of its rows has no address, or lacks a required column")
    return table.rename_columns([RENAMED.get(name, name) for name in table.column_names])


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all *tables*, in any order: one row per address, sorted."""
    rows = pa.concat_tables([BASE.empty_table(), *tables], promote_options="default")
    names = BASE.names + sorted(rows.column_names[len(BASE) :], key=_place)
    # Among rows with one address the one with most metrics comes first: more were asked of its run.
    n_figures = np.zeros(len(rows), np.int64)
    for column in rows.columns[len(BASE) :]:
        n_figures += np.asarray(column.is_valid())
    rows = rows.append_column("n_figures", pa.array(n_figures))
    order = pc.sort_indices(rows, [("address", "ascending"), ("n_figures", "descending")])
    rows = rows.select(names).take(order)
    addresses = rows.column("address").to_numpy()
    is_first = np.ones(len(addresses), dtype=bool)
    is_first[1:] = addresses[1:] != addresses[:-1]
    return rows.filter(pa.array(is_first)).combine_chunks()


def _place(figure: str) -> tuple[int, str]:
    """Return the sort key of a metric's column: metrics in tables come first."""
    known = list(MAIN)
    return (known.index(figure) if figure in known else len(known)), figure


def _plain(value: Any) -> float | None:
    """Return *value* with one bit pattern for NaN, as some CPUs set its sign."""
    return math.nan if value is not None and math.isnan(value) else value


def export(records: Sequence[Record], path: Path) -> None:
    """Write *records* to *path*, whole or not at all, in the format of its suffix.

    Raises
    ------
    UserError
        If the suffix is another, or the file cannot be written.
    """
    write = {".parquet": parquet_of, ".csv": _csv_of, ".json": _json_of}.get(path.suffix)
    if write is None:
        raise UserError(f"--export: must end in .parquet, .csv or .json, got {path}")
    content = write(table_of(records))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"{path}: cannot be written ({reason})") from None


def _csv_of(table: pa.Table) -> bytes:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(table.column_names)
    lines.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return text.getvalue().encode()


def _json_of(table: pa.Table) -> bytes:
    return (to_json(table.to_pylist()) + "\n").encode()
