"""Distributions of what a run draws again and again: pauses of clients, work of the application."""

from __future__ import annotations

from statistics import fmean
from typing import Literal, NamedTuple

P99_BY_MEAN_MAX = 8.0
"""Of a lognormal law. A table of draws ends at a probability of 8 in a million: up to here that
takes less than 1.5% of the mean square, on which queues depend; at 12 it would take 9%."""


class Law(NamedTuple):
    """A distribution of times.

    Attributes
    ----------
    kind:
        "samples" takes each of `samples_ns` with equal probability.
    mean_ns:
        Of all but samples.
    p99_ns:
        The 99th percentile of a lognormal law: from its mean to `P99_BY_MEAN_MAX` times that.
    """

    kind: Literal["constant", "exponential", "lognormal", "samples"]
    mean_ns: float = 0
    p99_ns: float = 0
    samples_ns: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """The mean, in ns."""
        return fmean(self.samples_ns) if self.kind == "samples" else self.mean_ns


class Laws(NamedTuple):
    """How quantities are distributed that a run draws again and again; None: they are constant."""

    request_cpu: Law | None = None
    pause: Law | None = None
