"""A cost as microbenchmarks give it, whatever the machine."""

from __future__ import annotations

from typing import NamedTuple


class Fitted(NamedTuple):
    """A cost as a curve (`at` of one entry: a constant), and where it comes from."""

    at: tuple[int, ...]
    value: tuple[float, ...]
    residual: float
    source: str


Known = dict[str, Fitted]
"""Costs that are solved already, by table and name: "poll.scan"."""


def constant(value: float, residual: float, source: str) -> Fitted:
    """Return a cost that is the same for any count; what is negative counts as 0."""
    return Fitted((0,), (max(0.0, value),), residual, source)
