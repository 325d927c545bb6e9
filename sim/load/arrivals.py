"""Arrivals whose rate changes with time: bursts, a crowd, waves, a ramp; made before the run.

    bursts   ▁▁▁█▁▁███▁▁▁▁█▁▁     two phases of random lengths (MMPP; on-off where calm is silence)
    crowd    ▁▁▁▁▁▁████▁▁▁▁▁▁     a rate that is a multiple for a while
    wave     ▂▄▆█▆▄▂▁▂▄▆█▆▄▂▁     a sinusoid, as of a day
    ramp     ▁▁▂▃▄▅▆▇███▇▅▃▂▁     straight lines between given points, as of a measured day

A Poisson process at the highest rate is drawn, and each of its points is kept with the chance that
the rate at that time has of it: thinning gives a Poisson process of just that rate.

Sources: Lewis and Shedler 1979, "Simulation of nonhomogeneous Poisson processes by thinning", Naval
Research Logistics Quarterly 26(3); Fischer and Meier-Hellstern 1993, "The Markov-modulated Poisson
process (MMPP) cookbook", Performance Evaluation 18(2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..state.units import SECOND_NS
from .streams import generator

Floats = NDArray[np.float64]

_CHUNK = 4_096
"""Points drawn at once: the rows do not depend on how many are asked for."""
_SECONDS_MAX = 1e9


class Bursts(NamedTuple):
    """Exponential phases of mean *burst_s* and *calm_s*, the rate *factor* times as high in bursts.

    The mean rate is the given one. An infinite factor: no arrivals between bursts (on-off).
    """

    burst_s: float
    calm_s: float
    factor: float = math.inf


class Crowd(NamedTuple):
    """*factor* times the rate from *at_s* on, for *length_s*: a flash crowd."""

    at_s: float
    length_s: float
    factor: float


class Wave(NamedTuple):
    """A rate that rises and falls by the share *swing* of it with a period of *period_s*."""

    period_s: float
    swing: float


class Ramp(NamedTuple):
    """Multiples of the rate at given times, *points* of (s, multiple), straight lines between.

    Before the first point and after the last one the multiple is theirs.
    """

    points: tuple[tuple[float, float], ...]


Pattern = Bursts | Crowd | Wave | Ramp


def check_pattern(pattern: Pattern) -> None:
    """Refuse a pattern that is no rate.

    Raises
    ------
    ValueError
        With name, rule and value.
    """
    if isinstance(pattern, Ramp):
        _check_ramp(pattern)
        return
    durations = ("burst_s", "calm_s", "length_s", "period_s")
    for name, value in zip(pattern._fields, pattern, strict=True):
        if name in durations and not 0 < value < _SECONDS_MAX:
            raise ValueError(f"{name} must be above 0 and below {_SECONDS_MAX:g}, got {value}")
        if name == "at_s" and not 0 <= value < _SECONDS_MAX:
            raise ValueError(f"at_s must be at least 0 and below {_SECONDS_MAX:g}, got {value}")
        if name == "factor" and not value >= 1:
            raise ValueError(f"factor must be at least 1, got {value}")
        if name == "swing" and not 0 <= value <= 1:
            raise ValueError(f"swing must be within 0 and 1, got {value}")
    if isinstance(pattern, Crowd) and math.isinf(pattern.factor):
        raise ValueError("factor must be finite, got inf")


def _check_ramp(ramp: Ramp) -> None:
    if len(ramp.points) < 2:
        raise ValueError(f"points must be at least 2, got {len(ramp.points)}")
    before_s = -1.0
    for at_s, multiple in ramp.points:
        if not before_s < at_s < _SECONDS_MAX or at_s < 0:
            raise ValueError(
                f"points must be in order, from 0 and below {_SECONDS_MAX:g} s, got {at_s} s"
            )
        if not 0 <= multiple < math.inf:
            raise ValueError(f"a multiple must be at least 0 and finite, got {multiple}")
        before_s = at_s
    if not any(multiple for _, multiple in ramp.points):
        raise ValueError("points must have a multiple above 0, got none")


class PatternedArrivals:
    """Times of arrivals by *pattern* around *rate_per_s*, in ns, for as long as *seconds*.

    Raises
    ------
    ValueError
        If the pattern is no rate, or *seed* is negative.
    """

    def __init__(self, pattern: Pattern, *, rate_per_s: float, seconds: float, seed: int) -> None:
        check_pattern(pattern)
        self._rate = _RATES[type(pattern)](pattern, seed)
        self._gap_ns = SECOND_NS / (rate_per_s * self._rate.highest)
        self._horizon_ns = seconds * SECOND_NS
        self._rng = generator(seed, "arrivals")
        self._thinning = generator(seed, "thinning")
        self._last_ns = 0.0
        self._drawn: list[Floats] = []
        self._n_drawn = 0

    def take(self, n: int) -> Floats:
        """Return the next *n* times, rounded; fewer only where they are the last."""
        while self._n_drawn < n and self._last_ns < self._horizon_ns:
            points_ns = self._last_ns + np.cumsum(self._rng.exponential(self._gap_ns, _CHUNK))
            self._last_ns = float(points_ns[-1])
            chance = self._rate.at(points_ns / SECOND_NS) / self._rate.highest
            kept_ns = np.rint(points_ns[self._thinning.random(_CHUNK) < chance])
            kept_ns = kept_ns[kept_ns < self._horizon_ns]
            self._drawn.append(kept_ns)
            self._n_drawn += kept_ns.size
        times_ns = np.concatenate([np.zeros(0), *self._drawn])
        self._drawn = [times_ns[n:]]
        self._n_drawn = times_ns[n:].size
        return times_ns[:n]


class _Rate(ABC):
    """A rate over time as a multiple of the mean, never above `highest`."""

    highest: float

    @abstractmethod
    def at(self, times_s: Floats) -> Floats:
        """Return the multiple at each of *times_s*, which never go back from call to call."""


class _BurstRate(_Rate):
    def __init__(self, pattern: Bursts, seed: int) -> None:
        burst_s, calm_s, factor = pattern
        whole_s = burst_s + calm_s
        if math.isinf(factor):
            self.highest, self._calm = whole_s / burst_s, 0.0
        else:
            self._calm = whole_s / (factor * burst_s + calm_s)
            self.highest = factor * self._calm
        self._means_s = calm_s, burst_s
        self._rng = generator(seed, "bursts")
        # A run begins within a phase of either kind, by the share of time that each has.
        self._first = int(self._rng.random() < burst_s / whole_s)
        self._ends_s = np.zeros(0)

    def at(self, times_s: Floats) -> Floats:
        while self._ends_s.size == 0 or self._ends_s[-1] <= times_s[-1]:
            kinds = (self._first + self._ends_s.size + np.arange(64)) % 2
            lengths_s = self._rng.exponential(1.0, 64) * np.where(kinds, *self._means_s[::-1])
            before_s = self._ends_s[-1] if self._ends_s.size else 0.0
            self._ends_s = np.concatenate([self._ends_s, before_s + np.cumsum(lengths_s)])
        phase = np.searchsorted(self._ends_s, times_s, "right")
        in_burst = (self._first + phase) % 2 == 1
        return np.where(in_burst, self.highest, self._calm)


class _CrowdRate(_Rate):
    def __init__(self, pattern: Crowd, seed: int) -> None:
        del seed
        self.highest = pattern.factor
        self._from_s, self._until_s = pattern.at_s, pattern.at_s + pattern.length_s

    def at(self, times_s: Floats) -> Floats:
        crowded = (times_s >= self._from_s) & (times_s < self._until_s)
        return np.where(crowded, self.highest, 1.0)


class _WaveRate(_Rate):
    def __init__(self, pattern: Wave, seed: int) -> None:
        del seed
        self.highest = 1.0 + pattern.swing
        self._pattern = pattern

    def at(self, times_s: Floats) -> Floats:
        angles = 2 * math.pi * times_s / self._pattern.period_s
        return np.asarray(1.0 + self._pattern.swing * np.sin(angles), np.float64)


class _RampRate(_Rate):
    def __init__(self, pattern: Ramp, seed: int) -> None:
        del seed
        self._at_s, self._multiples = np.array(pattern.points, np.float64).T
        self.highest = float(self._multiples.max())

    def at(self, times_s: Floats) -> Floats:
        return np.asarray(np.interp(times_s, self._at_s, self._multiples), np.float64)


_RATES = {Bursts: _BurstRate, Crowd: _CrowdRate, Wave: _WaveRate, Ramp: _RampRate}
