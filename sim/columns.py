"""How a run holds its state: lists for the interpreter, compact arrays for compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

MakeColumn = Callable[[int, ArrayLike, type[np.signedinteger[Any]]], list[int]]
"""(length, first values or one value for all, type that holds them) -> column."""


def as_lists(n: int, values: ArrayLike, dtype: type[np.signedinteger[Any]]) -> list[int]:
    """Return a list of *n* entries; entries behind the given values are 0."""
    del dtype
    if np.ndim(values) == 0:
        return [int(cast(int, values))] * n
    given: list[int] = np.asarray(values).tolist()
    return given + [0] * (n - len(given))


def as_arrays(n: int, values: ArrayLike, dtype: type[np.signedinteger[Any]]) -> list[int]:
    """Return an array of *n* entries; what is 0 takes no memory until it is written.

    Raises
    ------
    OverflowError
        If a value does not fit *dtype*.
    """
    given = np.asarray(values)
    bounds = np.iinfo(dtype)
    if given.size and not bounds.min <= given.min() <= given.max() <= bounds.max:
        raise OverflowError(
            f"a value of {given.min()} to {given.max()} does not fit {bounds.dtype}"
        )
    column = np.zeros(n, dtype)
    if given.ndim == 0:
        if given != 0:
            column[:] = given
    else:
        column[: given.size] = given
    return cast(list[int], column)
