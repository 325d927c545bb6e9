"""Storage of durations: every value, or a histogram with a bounded error.

    value   0 1 2 ... 4095 | 4096 4098 ... 8190 | 8192 8196 ... | ...
    width       1 ns       |        2 ns        |     4 ns      | ...

The histogram is log-linear: each power of two from 4096 ns on is cut into 2048 buckets of one
width, so the middle of a bucket is within 0.025% of all it holds, be it a microsecond or an hour.
Its size depends on the largest value and not on how many there are: 330 kB for values up to a
second, 870 kB for all of int64.

Source: the layout of Gil Tene's HdrHistogram, https://hdrhistogram.github.io/HdrHistogram/.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_SUB_BITS = 11
_SUB = 1 << _SUB_BITS
"""Buckets per power of two; below twice as many ns each value has a bucket of its own."""

_FLOAT_BITS = 53
"""Bits of a whole number that a float64 holds; its first one is not stored."""
_FLOAT_BIAS = 1023

RELATIVE_ERROR = 0.5 / _SUB
"""How far a quantile of a histogram may be from the exact one, relative to the exact one."""


class Distribution(Protocol):
    """Non-negative durations in ns; statistics are computed when all are added."""

    @property
    def n(self) -> int:
        """How many there are."""

    def add(self, values_ns: Integers) -> None:
        """Take *values_ns*, shape (n,)."""

    def merge(self, other: Self) -> None:
        """Take all that *other* holds."""

    def mean(self) -> float:
        """Return the exact sum over the number, NaN for none."""

    def max(self) -> float:
        """Return the largest, exactly; NaN for none."""

    def quantiles(self, qs: Sequence[float]) -> list[float]:
        """Return the quantiles *qs*, as `numpy.quantile` interpolates them; NaN for none."""

    def order_statistics(self, ranks: Sequence[int]) -> list[float]:
        """Return the values of these *ranks* (0: the smallest)."""


class Histogram:
    """Counts of values in log-linear buckets; number, sum, minimum and maximum are exact.

    Any int64 that is not negative has a bucket. See the module for layout, size and source.
    """

    def __init__(self) -> None:
        self.n = 0
        self.sum_ns = 0
        self._min_ns = 2**63 - 1
        self._max_ns = -1
        self._counts: Integers = np.zeros(2 * _SUB, np.int64)

    def add(self, values_ns: Integers) -> None:
        """Count *values_ns*, shape (n,).

        Raises
        ------
        ValueError
            If a value is negative.
        """
        if not values_ns.size:
            return
        least_ns = int(values_ns.min())
        if least_ns < 0:
            raise ValueError(f"a duration must be at least 0, got {least_ns} ns")
        self._add_counts(np.bincount(bucket_of(values_ns)))
        self.n += values_ns.size
        self.sum_ns += exact_sum(values_ns)
        self._min_ns = min(self._min_ns, least_ns)
        self._max_ns = max(self._max_ns, int(values_ns.max()))

    def merge(self, other: Self) -> None:
        """Count all that *other* has counted."""
        self._add_counts(other._counts)
        self.n += other.n
        self.sum_ns += other.sum_ns
        self._min_ns = min(self._min_ns, other._min_ns)
        self._max_ns = max(self._max_ns, other._max_ns)

    def mean(self) -> float:
        """Return the exact sum over the number, NaN for none."""
        return self.sum_ns / self.n if self.n else math.nan

    def max(self) -> float:
        """Return the largest, NaN for none."""
        return float(self._max_ns) if self.n else math.nan

    def quantiles(self, qs: Sequence[float]) -> list[float]:
        """Return the quantiles *qs*, NaN for none.

        Interpolated between the order statistics at the floor and the ceiling of q (n - 1), as
        `numpy.quantile` does: within `RELATIVE_ERROR` of it, and equal to it below 4096 ns.

        Raises
        ------
        ValueError
            If a quantile is not within 0 and 1.
        """
        if not all(0 <= q <= 1 for q in qs):
            raise ValueError(f"quantiles must be within 0 and 1, got {list(qs)}")
        if not self.n:
            return [math.nan] * len(qs)
        at = [(self.n - 1) * q for q in qs]
        ranks = [min(math.floor(x), self.n - 1) for x in at]
        found = self._of_ranks([*ranks, *(min(rank + 1, self.n - 1) for rank in ranks)])
        lower, upper = found[: len(ranks)], found[len(ranks) :]
        return [
            float(_between(low, high, x - rank))
            for low, high, x, rank in zip(lower, upper, at, ranks, strict=True)
        ]

    def order_statistics(self, ranks: Sequence[int]) -> list[float]:
        """Return the values of these *ranks* (0: the smallest), within `RELATIVE_ERROR`.

        Raises
        ------
        IndexError
            If a rank is not within 0 and n - 1.
        """
        wrong = [rank for rank in ranks if not 0 <= rank < self.n]
        if wrong:
            raise IndexError(f"ranks must be within 0 and {self.n - 1}, got {wrong[0]}")
        return [float(value_ns) for value_ns in self._of_ranks(ranks)]

    def _of_ranks(self, ranks: Sequence[int]) -> Sequence[float]:
        """Return the values of *ranks*, each within 0 and n - 1."""
        buckets = np.searchsorted(np.cumsum(self._counts), ranks, side="right").tolist()
        ends = {0: self._min_ns, self.n - 1: self._max_ns}
        # Both ends are known, and nothing lies beyond them.
        return [
            ends[rank]
            if rank in ends
            else min(max(_middle(bucket), float(self._min_ns)), float(self._max_ns))
            for rank, bucket in zip(ranks, buckets, strict=True)
        ]

    def _add_counts(self, counts: NDArray[np.int64]) -> None:
        if counts.size > self._counts.size:
            grown = np.zeros(counts.size, np.int64)
            grown[: self._counts.size] = self._counts
            self._counts = grown
        self._counts[: counts.size] += counts


class Values(Histogram):
    """Every value, as it came: quantiles are exact, for 8 bytes more a value.

    The histogram finds the bucket of a rank, so that only the values in it need sorting.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Integers] = []

    def add(self, values_ns: Integers) -> None:
        """Keep *values_ns*, shape (n,), which must not change from now on.

        Raises
        ------
        ValueError
            If a value is negative.
        """
        super().add(values_ns)
        self._parts.append(values_ns)

    def merge(self, other: Self) -> None:
        """Take all that *other* holds."""
        super().merge(other)
        self._parts.extend(list(other._parts))

    def _of_ranks(self, ranks: Sequence[int]) -> Sequence[float]:
        upto = np.cumsum(self._counts)
        buckets = np.searchsorted(upto, ranks, side="right")
        found = np.zeros(len(ranks), np.int64)
        for bucket in sorted(set(buckets.tolist())):  # np.unique would import np.ma
            wanted = buckets == bucket
            places = np.asarray(ranks)[wanted] - (upto[bucket] - self._counts[bucket])
            found[wanted] = np.partition(self._values_in(bucket), places)[places]
        # Python's integers: int64 would not hold every difference.
        return cast(list[float], found.tolist())

    def _values_in(self, bucket: int) -> Integers:
        first_ns, last_ns = _ends(bucket)
        return np.concatenate(
            [part[(part >= first_ns) & (part <= last_ns)] for part in self._parts]
        )


def bucket_of(values_ns: Integers) -> Integers:
    """Return the bucket of each value: its eleven bits after the first one, and how many follow.

    The bits of a float that holds a value are its exponent and, behind the first one, its bits:
    its bucket, but for where the count of buckets begins, and but for values of fewer bits.

    >>> bucket_of(np.array([0, 4095, 4096, 4097, 4098, 8191, 8192])).tolist()
    [0, 4095, 4096, 4096, 4097, 6143, 6144]
    """
    if values_ns.size and values_ns.max() >> _FLOAT_BITS:
        # A float would round these up, perhaps into the next bucket. All that it cannot hold is
        # far below the width of theirs.
        below_width = (1 << (63 - _FLOAT_BITS)) - 1
        values_ns = np.where(values_ns >> _FLOAT_BITS, values_ns & ~below_width, values_ns)
    buckets = values_ns.astype(np.float64).view(np.int64)
    buckets >>= _FLOAT_BITS - 1 - _SUB_BITS
    buckets -= (_FLOAT_BIAS + _SUB_BITS - 1) << _SUB_BITS
    np.copyto(buckets, values_ns, where=values_ns < _SUB)
    return buckets


def exact_sum(values_ns: Integers) -> int:
    """Return the sum of values from 0, which int64 may be too small for.

    >>> exact_sum(np.full(3, 2**62)) == 3 * 2**62
    True
    """
    if values_ns.size == 0 or int(values_ns.max()) <= (2**63 - 1) // values_ns.size:
        return int(values_ns.sum())
    # Two halves of 32 bits: either sum fits for up to 2**31 values.
    return (int(np.sum(values_ns >> 32)) << 32) + int(np.sum(values_ns & (2**32 - 1)))


def _middle(bucket: int) -> float:
    """Return the mean of the integers that fall into *bucket*."""
    first_ns, last_ns = _ends(bucket)
    return first_ns + (last_ns - first_ns) / 2


def _ends(bucket: int) -> tuple[int, int]:
    """Return the first and the last of the integers that fall into *bucket*."""
    shift = max(0, (bucket >> _SUB_BITS) - 1)
    first_ns = (bucket - (shift << _SUB_BITS)) << shift
    return first_ns, first_ns + (1 << shift) - 1


def _between(low: float, high: float, share: float) -> float:
    """Return what lies at *share* of the way from *low* to *high*, rounded as NumPy rounds it."""
    if share >= 0.5:
        return high - (high - low) * (1 - share)
    return low + (high - low) * share
