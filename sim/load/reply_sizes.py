"""Random sizes of replies: a mixture of classes of files.

SPECweb99 has four classes of nine files each. Its choice among the nine is not uniform (the middle
ones are more frequent); here it is uniform.

Sources: SPECweb99 release 1.02, design document, "file access" (35, 50, 14 and 1 % of accesses, to
files of 0.1 to 0.9, 1 to 9, 10 to 90 and 100 to 900 KB).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..state.laws import ReplyMix
from .streams import generator

Sizes = NDArray[np.int64]
Floats = NDArray[np.float64]


def _files(step_bytes: float) -> tuple[int, ...]:
    return tuple(round(step_bytes * n) for n in range(1, 10))


SPECWEB99 = ReplyMix(
    (0.35, 0.50, 0.14, 0.01), tuple(_files(102.4 * 10**order) for order in range(4))
)
MIXES = {"specweb99": SPECWEB99}
"""The mixtures that a scenario may name."""


def mean_bytes(reply_bytes: int, mix: ReplyMix | None) -> float:
    """Return the mean size of replies of *mix*, or *reply_bytes* without a mix."""
    if mix is None:
        return float(reply_bytes)
    return sum(
        share * sum(files) / len(files) for share, files in zip(mix.shares, mix.sizes, strict=True)
    )


def draw_sizes(mix: ReplyMix, rng: np.random.Generator, n: int) -> Sizes:
    """Return the sizes of *n* replies: two random numbers each, so block lengths do not matter."""
    return sizes_at(mix, *rng.random((n, 2)).T)


def sizes_at(mix: ReplyMix, of_class: Floats, of_file: Floats) -> Sizes:
    """Return the sizes from two random numbers each, all from 0 and below 1, shape (n,)."""
    classes = np.zeros(of_class.size, np.int8)
    for upto in np.cumsum(mix.shares)[:-1]:
        classes += of_class >= upto
    n_files = np.array([len(files) for files in mix.sizes])
    first_file = np.cumsum(n_files) - n_files
    places = (of_file * n_files[classes]).astype(np.int64)
    places += first_file[classes]
    sizes = np.concatenate([np.asarray(files, np.int64) for files in mix.sizes])
    drawn: Sizes = sizes[places]
    return drawn


def size_drawer(mix: ReplyMix | None, seed: int) -> Callable[[Sizes], Sizes]:
    """Return the function that replaces a column of reply sizes by random sizes of *mix*, if given.

    It has its own stream: the arrivals do not depend on the sizes.
    """
    if mix is None:
        return lambda column: column
    rng = generator(seed, "reply sizes")
    return lambda column: draw_sizes(mix, rng, column.size)
