"""Forecast errors made up by hand, of points and of loads at which p99 exceeds a bound."""

from __future__ import annotations

import math

from dispatchsim.validation.scoring.misses import KneeMiss, Miss


def misses(values: list[float], mechanism: str = "poll", utilisation: float = 0.5) -> list[Miss]:
    return [Miss(mechanism, utilisation, {"p50_answered_ns": value}) for value in values]


def knee(error: float, bound_ms: int = 20, mechanism: str = "poll") -> KneeMiss:
    return KneeMiss(mechanism, bound_ms * 1_000_000, 1_000 * math.exp(error), 1_000, is_end=False)
