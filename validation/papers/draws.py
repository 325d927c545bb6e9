"""Draws of everything that is free: the costs of a machine and what a paper does not state.

Latin hypercubes cover each constant's range evenly, however few the draws are.
Source: McKay, Beckman and Conover 1979; `scipy.stats.qmc.LatinHypercube`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import qmc

SEED = 20001

Drawn = Mapping[str, float]
"""By the name of a free constant, from -1 (the low end of its range) to 1 (the high end)."""


def draws(constants: Sequence[str], n: int) -> list[Drawn]:
    """Return *n* draws of *constants*; the same ones whenever it is asked.

    Raises
    ------
    ValueError
        If *n* is not positive.
    """
    if n < 1:
        raise ValueError(f"draws must be at least 1, got {n}")
    sampler = qmc.LatinHypercube(d=len(constants), rng=np.random.default_rng(SEED))
    cube = 2 * sampler.random(n) - 1
    return [dict(zip(constants, row.tolist(), strict=True)) for row in cube]
