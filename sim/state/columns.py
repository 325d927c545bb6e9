"""How a run holds its state: lists for the interpreter, compact arrays for compiled code.

A column is declared by a field of the world and made before the run. The few operations that differ
between lists and arrays stand below: their Python bodies use the interpreter's own C, and in their
place the C engine has those of sim/engine/c/bodies.py and engine/calendar.h.
"""

from __future__ import annotations

import heapq
from dataclasses import field
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

I8, I16, I32, I64 = np.int8, np.int16, np.int32, np.int64


class Per(Enum):
    """What a column of the world has an entry for."""

    CONNECTION = auto()
    REQUEST = auto()
    DESCRIPTOR = auto()
    RING = auto()  # of at least as many as descriptors, a power of two
    LONG_RING = auto()  # of at least twice as many
    END = auto()  # of the descriptors below it: one more than there are
    TIMED_DESCRIPTOR = auto()  # one entry, if the server has no timeout of requests
    FREE_DESCRIPTOR = auto()  # a list has only those that are free
    WORKER = auto()
    IDLE = auto()  # connection of the idle population
    USER = auto()  # client of a kept connection
    ARRIVAL = auto()  # request on kept connections, as the trace has it
    PATH = auto()
    DIRECTION = auto()  # of the link
    BUSY_PERIOD = auto()  # of the link in either direction, if its bandwidth may be finite
    FAULT = auto()
    BACKEND = auto()  # connection that the server keeps open to its backend
    ASKING_DESCRIPTOR = auto()  # one entry, if the server has no backend
    DRAW = auto()  # from the distribution that the run was given
    COUNT = auto()
    SAMPLE = auto()  # of a queue's length


class DeclaredColumn(NamedTuple):
    """How a column is declared.

    Attributes
    ----------
    per:
        What has an entry.
    first:
        The value of each entry before the run, if the run is not given its values.
    dtype:
        The type of an array that holds it.
    of:
        The field of the trace, the path or the fault that the entries come from; "" if from none.
    """

    per: Per
    first: int = 0
    dtype: type[np.signedinteger[Any]] = I64
    of: str = ""


def per_run(
    per: Per, first: int = 0, dtype: type[np.signedinteger[Any]] = I64, of: str = ""
) -> Any:
    """Return a field of a record that is a column; parameters as in `DeclaredColumn`.

    `per_connection(NONE, I32)` is the same for columns with an entry for each connection.
    """
    return field(metadata={"column": DeclaredColumn(per, first, dtype, of)})


per_connection = partial(per_run, Per.CONNECTION)
per_request = partial(per_run, Per.REQUEST)
per_descriptor = partial(per_run, Per.DESCRIPTOR)
per_path = partial(per_run, Per.PATH)
per_fault = partial(per_run, Per.FAULT)


class MakeColumn(Protocol):
    """Makes a column of a run."""

    def __call__(
        self, n: int, values: ArrayLike, dtype: type[np.signedinteger[Any]], first: int = 0
    ) -> list[int]:
        """Return a column of *n* entries.

        Parameters
        ----------
        n:
            How many entries it has.
        values:
            One value for all of them, or those from *first* on. Entries without a value are 0.
        dtype:
            The type that holds them.
        first:
            The first entry that *values* are of.
        """


def as_lists(
    n: int, values: ArrayLike, dtype: type[np.signedinteger[Any]], first: int = 0
) -> list[int]:
    """Return a list; see `MakeColumn`."""
    del dtype
    if np.ndim(values) == 0:
        return [0] * first + [int(cast(int, values))] * (n - first)
    given: list[int] = np.asarray(values).tolist()
    return [0] * first + given + [0] * (n - first - len(given))


def as_arrays(
    n: int, values: ArrayLike, dtype: type[np.signedinteger[Any]], first: int = 0
) -> list[int]:
    """Return an array, see `MakeColumn`; what is 0 takes no memory until it is written.

    Raises
    ------
    OverflowError
        If a value does not fit *dtype*.
    """
    if isinstance(values, int | np.integer):  # most columns, and a run has a hundred
        column = np.zeros(n, dtype)
        if values:
            column[first:] = int(values)  # NumPy raises OverflowError
        return cast(list[int], column)
    given = np.asarray(values)
    bounds = np.iinfo(dtype)
    # Any int64 fits an int64: no need to look at millions.
    if given.size and given.dtype != dtype:
        least, most = given.min(), given.max()
        if not bounds.min <= least <= most <= bounds.max:
            raise OverflowError(f"a value of {least} to {most} does not fit {bounds.dtype}")
    if first == 0 and given.size == n:
        return cast(list[int], given.astype(dtype))
    column = np.zeros(n, dtype)
    column[first : first + given.size] = given
    return cast(list[int], column)


def power_of_two(n: int) -> int:
    """Return the least power of two that is at least *n*: a ring of it needs no division."""
    return 1 << (n - 1).bit_length()


def n_entries(per: Per, n_fds: int) -> int:
    """Return how many entries a column has of a record that is kept for *n_fds* descriptors."""
    return {
        Per.DESCRIPTOR: n_fds,
        Per.RING: power_of_two(n_fds),
        Per.LONG_RING: power_of_two(2 * n_fds),
        Per.END: n_fds + 1,
    }[per]


def heap_push(heap: list[int], n: int, value: int) -> None:
    """Push *value* on the min-heap in the first *n* entries of *heap*."""
    assert len(heap) == n
    heapq.heappush(heap, value)


def heap_pop(heap: list[int], n: int) -> int:
    """Remove and return the least of the first *n* entries of the min-heap *heap*."""
    assert len(heap) == n
    return heapq.heappop(heap)


def fill(column: list[int], begin: int, end: int, value: int) -> None:
    """Set the entries from *begin* up to *end*, exclusive, to *value*."""
    column[begin:end] = [value] * (end - begin)


def fill_range(column: list[int], begin: int, end: int, first: int) -> None:
    """Set the entries from *begin* up to *end*, exclusive, to *first* and its successors."""
    column[begin:end] = range(first, first + end - begin)


def sort_prefix(values: list[int], n: int) -> None:
    """Sort the first *n* entries of *values* in place, ascending."""
    values[:n] = sorted(values[:n])
