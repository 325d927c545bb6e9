"""Values that come in from outside, checked: every procedure here assumes they are numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def checked(name: str, values: ArrayLike, *, least: int, dimensions: int = 1) -> Floats:
    """Return *values* as an array of float, at least *least* along its first dimension.

    Raises
    ------
    ValueError
        If they have another shape, are fewer, or hold an infinity or NaN.

    >>> checked("values", [1, 2], least=2).tolist()
    [1.0, 2.0]
    """
    array = np.asarray(values, dtype=float)
    if array.ndim != dimensions:
        raise ValueError(f"{name}: must have {dimensions} dimensions, got {array.ndim}")
    if len(array) < least:
        raise ValueError(f"{name}: must be at least {least}, got {len(array)}")
    if not np.isfinite(array).all():
        wrong = array[~np.isfinite(array)]
        raise ValueError(f"{name}: must be finite, got {wrong[0]}")
    return array


def check_level(level: float) -> None:
    """Check that *level* is a confidence.

    Raises
    ------
    ValueError
        If it is not above 0 and below 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level: must be above 0 and below 1, got {level}")
