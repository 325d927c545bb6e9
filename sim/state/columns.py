"""How a run holds its state: lists for the interpreter, compact arrays for compiled code."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike


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
