"""What the equations of hardware share: how medians are looked up, and what packets add."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .micro_medians import Medians, columns
from .micro_packets import ON_LOOPBACK
from .micro_solution import Fitted, Known, constant

BATCH, REPLY_BYTES = 64, 128
"""Of the server's calls: as at the fit point."""


def first(costs: Known, *names: str) -> float:
    """Return the sum of the first values of costs: what they are with few connections."""
    return sum(costs[name].value[0] for name in names)


def served(medians: Medians, call: str, mechanism: str, batch: int = BATCH) -> float:
    """Return what a call costs a server of *mechanism* without idle connections."""
    where: dict[str, int | str] = {"mechanism": mechanism, "n": 0}
    return medians.one(f"serve_{call}", {**where, "batch": batch, "reply": REPLY_BYTES})


def added_to_packets(medians: Medians, bench: str, where: Mapping[str, int | str] = {}) -> Fitted:
    """Price what is added to a packet, which is small beside it: the median over bursts."""
    points = columns(medians.points(bench, "burst", where))[1]
    if medians.loopback:
        return constant(0, 0, ON_LOOPBACK)
    added_ns = float(np.median(points))
    residual = float(np.std(points)) / added_ns if added_ns > 0 else 0.0
    return constant(added_ns, residual, bench)
