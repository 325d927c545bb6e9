"""From the objects of a world to the words that C reads, and back.

Dataclasses become records of their own, named tuples lie inside the record that holds them, arrays
are seen where they are. The layout follows from the objects alone; nothing is listed twice.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import shapes
from .source import CannotTranslateError

Words = NDArray[np.int64]
_Known = dict[int, shapes.Record]
_NAMES = {
    np.dtype(name): name for name in shapes.INTEGERS
}  # a dtype works its own name out each time
_TRUTHS, _NUMBERS = (bool, np.bool_), (int, np.integer)


def record_type(root: Any) -> shapes.Record:
    """Return the type of the dataclass *root*.

    Raises
    ------
    CannotTranslateError
        If it holds what C has no use for.
    """
    found = _type_of(root, "", {})
    assert isinstance(found, shapes.Record)
    return found


def _type_of(  # noqa: PLR0911 (one case a kind)
    value: Any, place: str, known: _Known
) -> shapes.Shape:
    if isinstance(value, np.ndarray) and value.dtype in _NAMES:
        if value.ndim != 1 or not value.flags.c_contiguous:
            raise CannotTranslateError(
                f"{place}: must be an array of one dimension without gaps, got one of shape "
                f"{value.shape} and strides {value.strides}: flatten or copy it"
            )
        return shapes.Column(_NAMES[value.dtype], place)
    if isinstance(value, _TRUTHS):
        return shapes.BOOL
    if isinstance(value, _NUMBERS):
        return shapes.INT
    if is_dataclass(value):
        return _type_of_dataclass(value, known)
    if isinstance(value, list) and value and all(is_dataclass(item) for item in value):
        return _type_of_list(value, known)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        label = type(value).__name__
        members = tuple(_members(value, label, value._fields, known))
        return shapes.record_of(label, members, is_fixed=True)
    if isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        return shapes.Column("int64", place, is_fixed=True)
    raise CannotTranslateError(
        f"{place}: the C engine cannot hold a {type(value).__name__} ({value!r:.40})"
    )


def _type_of_dataclass(value: Any, known: _Known) -> shapes.Record:
    if id(value) not in known:
        label, names = type(value).__name__, _names_of(cast(Hashable, type(value)))
        known[id(value)] = shapes.record_of(label, ())  # a circle ends here, and finds no member
        members = tuple(_members(value, label, names, known))
        known[id(value)] = shapes.record_of(label, members, is_fixed=_is_frozen(value))
    return known[id(value)]


def _is_frozen(record: Any) -> bool:
    """Return whether the members of the dataclass *record* cannot be assigned to."""
    return bool(type(record).__dataclass_params__.frozen)


@functools.cache
def _names_of(kind: Hashable) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cast(type[Any], kind)))


def _type_of_list(items: list[Any], known: _Known) -> shapes.Records:
    kinds = [_type_of_dataclass(item, known) for item in items]
    if any(kind is not kinds[0] and kind != kinds[0] for kind in kinds):
        raise CannotTranslateError(f"the {kinds[0].label}s of a list must be of one layout")
    return shapes.Records(kinds[0])


def _members(record: Any, label: str, names: Any, known: _Known) -> list[tuple[str, shapes.Shape]]:
    members: list[tuple[str, shapes.Shape]] = []
    for name in names:
        value = getattr(record, name)
        if type(value) is int:  # most members
            members.append((name, shapes.INT))
            continue
        kind = _type_of(value, f"{label}.{name}", known)
        refers = isinstance(kind, shapes.Record) and is_dataclass(value)
        members.append(
            (name, shapes.Reference(kind) if refers and isinstance(kind, shapes.Record) else kind)
        )
    return members


class Memory:
    """The words of a record and of all that it refers to.

    Attributes
    ----------
    record:
        The type of the record.
    address:
        Where it is; valid as long as this object lives.
    """

    def __init__(self, root: Any) -> None:
        self.record = record_type(root)
        self._words: dict[int, tuple[Any, shapes.Record, Words]] = {}
        self._kept: dict[tuple[int, int], NDArray[Any]] = {}
        self.address = self._place(root, self.record)
        # What may change at a pause, found once: numbers, and arrays that are replaced.
        self._numbers: list[tuple[Any, str, bool, Words, int]] = []
        self._columns: list[tuple[Any, str, Words, int]] = []
        for record, kind, words in self._words.values():
            places = kind.places()
            for name, member in kind.members:
                if isinstance(member, shapes.Scalar) and not kind.is_fixed:
                    self._numbers.append((record, name, member == shapes.BOOL, words, places[name]))
                elif isinstance(member, shapes.Column):
                    self._columns.append((record, name, words, places[name]))

    def write(self) -> None:
        """Take over numbers and columns that Python has changed or replaced."""
        for record, name, _, words, at in self._numbers:
            words[at] = getattr(record, name)
        for record, name, words, at in self._columns:
            array = getattr(record, name)
            if array is not self._kept[id(words), at] and isinstance(array, np.ndarray):
                self._view(array, words, at)

    def read(self) -> None:
        """Set the numbers of every dataclass to what C left there."""
        for record, name, is_truth, words, at in self._numbers:
            setattr(record, name, bool(words[at]) if is_truth else int(words[at]))

    def _place(self, record: Any, kind: shapes.Record) -> int:
        if id(record) not in self._words:
            words = np.zeros(max(1, kind.words), np.int64)
            self._words[id(record)] = record, kind, words
            self._write_members(record, kind, words, 0)
        return self._words[id(record)][2].ctypes.data

    def _write_members(self, record: Any, kind: shapes.Record, words: Words, at: int) -> None:
        places = kind.places()
        for name, member in kind.members:
            if isinstance(member, shapes.Scalar):
                words[at + places[name]] = getattr(record, name)
            else:
                self._write(getattr(record, name), member, words, at + places[name])

    def _write(self, value: Any, kind: shapes.Shape, words: Words, at: int) -> None:
        if isinstance(kind, shapes.Record):
            self._write_members(value, kind, words, at)
        elif isinstance(kind, shapes.Reference):
            words[at] = self._place(value, kind.record)
        elif isinstance(kind, shapes.Records):
            if (id(words), at) not in self._kept:  # lists of records stay what they are
                addresses = [self._place(item, kind.record) for item in value]
                self._view(np.array(addresses, np.int64), words, at)
        elif isinstance(kind, shapes.Column):
            if isinstance(value, np.ndarray):
                self._view(value, words, at)
            elif (id(words), at) not in self._kept:  # tuples stay what they are, too
                self._view(np.array(value, np.int64), words, at)

    def _view(self, array: NDArray[Any], words: Words, at: int) -> None:
        assert array.flags.c_contiguous
        self._kept[id(words), at] = array
        words[at], words[at + 1] = array.ctypes.data, array.size
