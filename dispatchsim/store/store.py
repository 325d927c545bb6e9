"""A folder of Parquet fragments that holds a set of rows, by address, in any order.

    FOLDER/
      3f9c...parquet      rows finished together; the name is the hash of its bytes
      a17b...parquet
      quarantine/         unreadable fragments, to inspect or delete

A fragment is written under another name, flushed to the disk and renamed, so it is there whole or
not at all, even if the process is killed. Fragments never change, so several processes may add to
one folder. An address determines its row, so duplicate rows are equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..scenario.errors import UserError
from ..sim.files.whole_files import write_whole
from .fragments import (
    SUFFIX,
    FragmentError,
    name_of,
    parquet_of,
    read_fragment,
    records_of,
    table_of,
    together,
)
from .records import Record

if TYPE_CHECKING:
    import pandas as pd

QUARANTINE = "quarantine"


class Quarantined(NamedTuple):
    """A fragment that could not be read: its place now, and the reason."""

    path: Path
    reason: str


class QuarantineWarning(UserWarning):
    """A fragment could not be read: its rows are missing, and simulated again when needed."""


class Store:
    """The rows in *folder*, which is made at the first addition.

    Attributes
    ----------
    folder:
        The folder of the fragments.
    quarantined:
        Fragments that this object could not read and has moved away.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.quarantined: list[Quarantined] = []
        self._tables: dict[str, pa.Table] = {}

    def get(self, addresses: Collection[str]) -> dict[str, Record]:
        """Return the rows with these *addresses* that the store holds.

        Raises
        ------
        UserError
            If the folder cannot be read.
        """
        wanted = pa.array(sorted(set(addresses)), type=pa.string())
        found: dict[str, Record] = {}
        for table in self._read():
            is_wanted = pc.is_in(table.column("address"), value_set=wanted)
            for row in records_of(table.filter(is_wanted)):
                known = found.get(row.address)
                if known is None or len(known.figures) < len(row.figures):
                    found[row.address] = row
        return found

    def add(self, records: Sequence[Record]) -> None:
        """Store *records* in one fragment; on return they are on the disk.

        Raises
        ------
        UserError
            If they cannot be written (such as on a full disk): then none of them is stored, and
            no partial file remains.
        """
        if not records:
            return
        table = table_of(records)
        content = parquet_of(table)
        name = name_of(content)
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                write_whole(path, content)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(
                f"{path}: cannot be written ({reason}): {len(table)} finished runs are lost. "
                f"Earlier runs are in {self.folder}, and the same command continues from there"
            ) from error
        self._tables[name] = table

    def frame(self) -> pd.DataFrame:
        """Return all rows, once each and sorted by address, with metrics as columns.

        Raises
        ------
        UserError
            If the folder cannot be read.
        """
        return frame_of(together(list(self._read())))

    def records(self) -> list[Record]:
        """Return all rows, once each and sorted by address.

        Raises
        ------
        UserError
            If the folder cannot be read.
        """
        return records_of(together(list(self._read())))

    def _read(self) -> Iterator[pa.Table]:
        """Yield the present fragments, each read from disk once."""
        try:
            names = sorted(path.name for path in self.folder.glob(f"*{SUFFIX}"))
        except OSError as error:
            raise _unreadable(self.folder, error) from None
        self._tables = {name: self._tables[name] for name in names if name in self._tables}
        for name in names:
            if name not in self._tables:
                self._load(name)
        yield from [self._tables[name] for name in names if name in self._tables]

    def _load(self, name: str) -> None:
        path = self.folder / name
        try:
            self._tables[name] = read_fragment(name, path.read_bytes())
        except FileNotFoundError:
            return  # another process has quarantined it
        except FragmentError as error:
            self._quarantine(path, str(error))
        except OSError as error:
            raise _unreadable(path, error) from None

    def _quarantine(self, path: Path, reason: str) -> None:
        """Move an unreadable fragment out of the way, with a warning."""
        place = path.parent / QUARANTINE / path.name
        where = place
        try:
            place.parent.mkdir(exist_ok=True)
            path.replace(place)
        except FileNotFoundError:
            return  # another process was first
        except OSError:
            where = path  # a read-only folder: the fragment is skipped in its place
        self.quarantined.append(Quarantined(where, reason))
        warnings.warn(
            f"{path}: is no whole fragment ({' '.join(reason.split())}); it is now {where}, and "
            "its runs are simulated again when needed",
            QuarantineWarning,
            stacklevel=2,
        )


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be read ({(error.strerror or str(error)).lower()})")


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return *table* for pandas: whole numbers stay whole even if some are missing."""
    import pandas as pd

    def whole_number(kind: pa.DataType) -> pd.Int64Dtype | None:
        return pd.Int64Dtype() if kind == pa.int64() else None

    return table.to_pandas(types_mapper=whole_number)
