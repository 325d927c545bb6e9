"""Rows for other programs: Parquet, CSV or JSON, equal bytes for equal rows.

    records ─► once each, sorted by address ─► FILE.parquet, FILE.csv or FILE.json

CSV leaves empty what a row does not have, and writes `nan` and `inf`; JSON, which has neither,
writes null. Numbers are written with all their digits.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from ..running.files import to_json
from ..scenario.errors import UserError
from ..sim.files.whole_files import write_whole
from .fragments import parquet_of, table_of
from .records import Record


def export(records: Sequence[Record], path: Path) -> None:
    """Write *records* to *path*, whole or not at all; its suffix says how.

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
