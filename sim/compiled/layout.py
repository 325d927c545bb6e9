"""From the objects of a world to the words that compiled code reads, and back.

Dataclasses become records of their own, named tuples lie inside the record that holds them, arrays
are seen where they are. The layout follows from the objects alone; nothing is listed twice.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np
from numba import from_dtype, types
from numpy.typing import NDArray

from .records import ColumnType, RecordsType, RecordType, ReferenceType


def type_of(  # noqa: PLR0911
    value: Any, label: str = "", field: str = "", known: dict[int, RecordType] | None = None
) -> types.Type:
    """Return the Numba type of a field that holds *value*; of a dataclass, its record type.

    A *label* sets the type of a record apart from that of another with the same layout; *field*
    is where a column is found. *known* are the types of records that were looked at before, by
    their identity: many workers refer to one listener.

    Raises
    ------
    TypeError
        If compiled code has no use for such a value.
    """
    if isinstance(value, bool | np.bool_):
        return types.boolean
    if isinstance(value, int | np.integer):
        return types.int64
    if isinstance(value, np.ndarray):
        return ColumnType(cast(types.Integer, from_dtype(value.dtype)), field)
    if is_dataclass(value):
        known = {} if known is None else known
        if id(value) not in known:
            members = tuple(_members(value, known))
            known[id(value)] = RecordType(type(value).__name__ + label, members)
        return known[id(value)]
    if isinstance(value, list) and value and all(is_dataclass(item) for item in value):
        return RecordsType(cast(RecordType, type_of(value[0])))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        name = type(value).__name__
        return RecordType(
            name, tuple((n, type_of(getattr(value, n), field=f"{name}.{n}")) for n in value._fields)
        )
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return ColumnType(types.int64, field)
    raise TypeError(f"compiled code cannot hold a {type(value).__name__} ({value!r:.40})")


def _members(record: Any, known: dict[int, RecordType]) -> list[tuple[str, types.Type]]:
    members = []
    for field in fields(record):
        try:
            kind = type_of(
                getattr(record, field.name),
                field=f"{type(record).__name__}.{field.name}",
                known=known,
            )
        except TypeError as error:
            raise TypeError(f"{type(record).__name__}.{field.name}: {error}") from None
        refers = isinstance(kind, RecordType) and is_dataclass(getattr(record, field.name))
        members.append((field.name, ReferenceType(cast(RecordType, kind)) if refers else kind))
    return members


class Memory:
    """The words of a record and of all that it refers to.

    Attributes
    ----------
    record:
        The Numba type of the record.
    address:
        Where it is; valid as long as this object lives.
    """

    def __init__(self, root: Any, label: str = "") -> None:
        self.record = cast(RecordType, type_of(root, label))
        self._words: dict[int, tuple[Any, RecordType, NDArray[np.int64]]] = {}
        self._kept: dict[tuple[int, int], NDArray[Any]] = {}
        self.address = self._place(root, self.record)

    def write(self) -> None:
        """Take over numbers and columns that Python has changed or replaced."""
        for record, kind, words in list(self._words.values()):
            self._write_fields(record, kind, words)

    def read(self) -> None:
        """Set the numbers of every dataclass to what compiled code left there."""
        for record, kind, words in self._words.values():
            for name, field in kind.members:
                if field == types.int64:
                    setattr(record, name, int(words[kind.at[name]]))
                elif field == types.boolean:
                    setattr(record, name, bool(words[kind.at[name]]))

    def _place(self, record: Any, kind: RecordType) -> int:
        if id(record) not in self._words:
            words = np.zeros(kind.words, np.int64)
            self._words[id(record)] = record, kind, words
            self._write_fields(record, kind, words)
        return self._words[id(record)][2].ctypes.data

    def _write_fields(
        self, record: Any, kind: RecordType, words: NDArray[np.int64], at: int = 0
    ) -> None:
        for name, field in kind.members:
            self._write(getattr(record, name), field, words, at + kind.at[name])

    def _write(self, value: Any, kind: types.Type, words: NDArray[np.int64], at: int) -> None:
        if isinstance(kind, RecordType):
            self._write_fields(value, kind, words, at)
        elif isinstance(kind, ReferenceType):
            words[at] = self._place(value, kind.record)
        elif isinstance(kind, RecordsType):
            if (id(words), at) in self._kept:
                return  # lists of records stay what they are
            known: dict[int, RecordType] = {}
            if any(type_of(item, known=known) != kind.record for item in value):
                raise TypeError(f"the {kind.record.label}s of a list must be of one layout")
            self._view([self._place(item, kind.record) for item in value], words, at)
        elif isinstance(kind, ColumnType):
            self._view(value, words, at)
        else:
            words[at] = value

    def _view(self, values: Any, words: NDArray[np.int64], at: int) -> None:
        if not isinstance(values, np.ndarray) and (id(words), at) in self._kept:
            return  # tuples stay what they are, too
        array = values if isinstance(values, np.ndarray) else np.array(values, np.int64)
        assert array.flags.c_contiguous
        self._kept[id(words), at] = array
        words[at], words[at + 1] = array.ctypes.data, array.size
