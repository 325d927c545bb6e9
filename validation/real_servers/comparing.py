"""Forecasts beside what was measured of the same cases, and how often their order is right.

forecasts ──┐
            ├─► Compared ─► median, worst error; order wherever measured ranges separate
held-out ───┘
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ...calibration.observed.observed_run import ObservedRun
from ..forecast.forecast import Forecast
from .plan import Case


@dataclass(frozen=True)
class Compared:
    """One case: replies a second of its undisturbed runs, and its forecast."""

    case: Case
    rates_per_s: tuple[float, ...]
    n_disturbed: int
    forecast: Forecast

    @property
    def measured_per_s(self) -> float:
        """Return the median of the repeats."""
        return statistics.median(self.rates_per_s)

    @property
    def forecast_per_s(self) -> float:
        """Return what was forecast."""
        return self.forecast.central.throughput_per_s

    @property
    def spread(self) -> float:
        """Return half the range of the repeats, relative to their median; NaN of a single run."""
        if len(self.rates_per_s) == 1:
            return math.nan
        return (max(self.rates_per_s) - min(self.rates_per_s)) / 2 / self.measured_per_s

    @property
    def error(self) -> float:
        """Return the relative error of the forecast capacity, + where it is too high."""
        return self.forecast_per_s / self.measured_per_s - 1


@dataclass(frozen=True)
class Summary:
    """Of the held-out cases of one server, or of all.

    Attributes
    ----------
    n_cases:
        That were measured.
    median, worst:
        Absolute relative errors of capacity; None without a case.
    noise:
        The median half range of the repeats, of cases with several; None without such a case.
    pairs, ordered:
        Pairs of cases of several repeats whose measured ranges separate, and those of them that
        are forecast in their order.
    """

    n_cases: int
    median: float | None
    worst: float | None
    noise: float | None
    pairs: int
    ordered: int


def compared(
    forecasts: Mapping[Case, Forecast],
    runs: Iterable[ObservedRun],
    cases: Sequence[Case],
) -> list[Compared]:
    """Return each of *cases* that was measured without disturbance, beside its forecast."""
    found = []
    everything = list(runs)
    for case in cases:
        own = [run for run in everything if case.is_of(run)]
        rates = tuple(run.throughput_per_s for run in own if run.accepted)
        if rates:
            n_disturbed = len(own) - len(rates)
            found.append(Compared(case, rates, n_disturbed, forecasts[case]))
    return found


def summary(entries: Iterable[Compared]) -> Summary:
    """Return how well the held-out ones of *entries* were forecast."""
    held_out = [e for e in entries if not e.case.is_fitted]
    errors = [abs(e.error) for e in held_out]
    spreads = [e.spread for e in held_out if not math.isnan(e.spread)]
    pairs = [pair for pair in combinations(held_out, 2) if _separate(*pair)]
    return Summary(
        n_cases=len(held_out),
        median=statistics.median(errors) if errors else None,
        worst=max(errors, default=None),
        noise=statistics.median(spreads) if spreads else None,
        pairs=len(pairs),
        ordered=sum(_in_order(*pair) for pair in pairs),
    )


def _separate(one: Compared, other: Compared) -> bool:
    """Return whether two cases that are alike but for their variant or idle count separate.

    A single run has no range: it would separate from everything.
    """
    return (
        one.case.server is other.case.server
        and one.case.requests == other.case.requests
        and min(len(one.rates_per_s), len(other.rates_per_s)) > 1
        and (
            min(one.rates_per_s) > max(other.rates_per_s)
            or min(other.rates_per_s) > max(one.rates_per_s)
        )
    )


def _in_order(one: Compared, other: Compared) -> bool:
    measured = one.measured_per_s - other.measured_per_s
    forecast = one.forecast_per_s - other.forecast_per_s
    return measured * forecast > 0
