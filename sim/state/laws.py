"""Distributions of a run's random values: pauses, application work, requests, sizes."""

from __future__ import annotations

from statistics import fmean
from typing import Literal, NamedTuple

P99_BY_MEAN_MAX = 8.0
"""Bound of a lognormal law. A table of values ends at a probability of 8 in a million. Up to this
ratio the cut takes less than 1.5% of the mean square, on which queues depend; at 12 it takes 9%."""


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


class Counts(NamedTuple):
    """A distribution of whole numbers from 1: how many requests a connection makes.

    Attributes
    ----------
    kind:
        "geometric" has each request be the last with the same probability, 1 / mean; "samples"
        takes each of `samples` with equal probability.
    of_each:
        The mean of all but samples.
    """

    kind: Literal["constant", "geometric", "samples"] = "constant"
    of_each: int = 1
    samples: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """The mean."""
        return fmean(self.samples) if self.kind == "samples" else float(self.of_each)

    @property
    def several(self) -> bool:
        """Whether a number above 1 may come."""
        return max(self.samples, default=1) > 1 or self.of_each > 1


class ReplyMix(NamedTuple):
    """Classes by their shares of all replies, each with sizes that are equally likely, in bytes."""

    shares: tuple[float, ...]
    sizes: tuple[tuple[int, ...], ...]


class Laws(NamedTuple):
    """Distributions of the random quantities of a run; None: constant."""

    request_cpu: Law | None = None
    pause: Law | None = None
    backend_delay: Law | None = None
