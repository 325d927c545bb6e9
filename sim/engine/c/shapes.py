"""The types of the restricted Python: whole numbers, truth values, records, columns, lists.

    World ──► [ now_ns │ n_rows │ cpus ●──► [●, ●] │ at_ns ●──► array │ ... ]   8 bytes each
                                             └──► [ irq_free_ns │ ... ]

A record is an address. A column is the address and the length of a NumPy array, a list of records
the same of an array of addresses. A named tuple lies inside the record that holds it.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from dataclasses import dataclass, field

INTEGERS = {"int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t"}
"""The types of the entries of columns: NumPy's names and C's."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parts; *name* is for error messages, *c* is how C writes it."""

    name: str
    c: str


INT = Scalar("an int", "int64_t")
BOOL = Scalar("a bool", "bool")
NOTHING = Scalar("None", "void")
OBJECT = Scalar("a Python object", "")
"""What is known while translating, and is nothing in C: a function, a module, a tuple."""
UNKNOWN = Scalar("unknown", "")
"""The type of what has an error already."""


@dataclass(frozen=True, slots=True)
class Column:
    """An array of integers; *dtype* is NumPy's name, *place* is "Record.field".

    *is_fixed*: it is a tuple, whose entries cannot be assigned to.
    """

    dtype: str
    place: str
    is_fixed: bool = False

    words = 2

    @property
    def name(self) -> str:
        """The name in error messages."""
        return f"the column {self.place}"


@dataclass(frozen=True, slots=True)
class Record:
    """A record of named members; *hash* is of its layout.

    *is_fixed*: it is a named tuple or a frozen dataclass, whose members cannot be assigned to.
    Two records are of one type if label and layout are the same: worlds differ whose mechanisms
    keep different things.
    """

    label: str
    members: tuple[tuple[str, Shape], ...] = field(repr=False, compare=False)
    hash: str = ""
    is_fixed: bool = False

    @property
    def name(self) -> str:
        """The name in error messages."""
        return f"a {self.label}"

    @property
    def words(self) -> int:
        """How many words of 8 bytes its members take."""
        return _size_of(self)

    def member(self, name: str) -> Shape | None:
        """Return the type of the member *name*, if there is one."""
        return next((kind for own, kind in self.members if own == name), None)

    def places(self) -> dict[str, int]:
        """Return at which word each member begins."""
        return _places_of(self)


@dataclass(frozen=True, slots=True)
class Reference:
    """A member that holds the address of a record; reading it gives the record."""

    record: Record

    words = 1

    @property
    def name(self) -> str:
        """The name in error messages."""
        return self.record.name


@dataclass(frozen=True, slots=True)
class Records:
    """A list of records of one type."""

    record: Record

    words = 2

    @property
    def name(self) -> str:
        """The name in error messages."""
        return f"a list of {self.record.label}s"


Shape = Scalar | Column | Record | Reference | Records


@functools.lru_cache(maxsize=1024)  # a world has the same few hundred times, and each run a world
def record_of(
    label: str, members: tuple[tuple[str, Shape], ...], *, is_fixed: bool = False
) -> Record:
    """Return the record type of that *label* and those *members*, named by its layout."""
    layout = " ".join(f"{name}:{_layout(kind)}" for name, kind in members)
    layout += " fixed" if is_fixed else ""
    return Record(label, members, hashlib.sha256(layout.encode()).hexdigest()[:12], is_fixed)


@functools.lru_cache(maxsize=1024)
def _places_of(record: Record) -> dict[str, int]:
    ends = itertools.accumulate((words_of(kind) for _, kind in record.members), initial=0)
    return {name: at for (name, _), at in zip(record.members, ends, strict=False)}


@functools.lru_cache(maxsize=1024)
def _size_of(record: Record) -> int:
    return sum(words_of(kind) for _, kind in record.members)


def words_of(kind: Shape) -> int:
    """Return how many words a member of *kind* takes."""
    return 1 if isinstance(kind, Scalar) else kind.words


def _layout(kind: Shape) -> str:
    if isinstance(kind, Scalar):
        return kind.c
    if isinstance(kind, Column):
        return f"{kind.dtype}[]{' fixed' if kind.is_fixed else ''}"
    if isinstance(kind, Record):
        return f"({kind.label} {kind.hash})"
    inner = f"{kind.record.label} {kind.record.hash}"
    return f"*{inner}" if isinstance(kind, Reference) else f"*{inner}[]"
